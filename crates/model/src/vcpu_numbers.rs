//! Which logical CPUs of guests their vCPUs are.

use rustc_hash::{FxHashMap, FxHashSet};
use xweave_replay::CpuId;
use xweave_trace::Trace;

/// Which logical CPUs of guests their vCPUs are.
#[derive(Clone, Debug, Default)]
pub(crate) struct VcpuNumbers {
    /// By the vCPUs' numbers, which are APIC IDs, of guests that tell these.
    cpus: FxHashMap<CpuId, u32>,
    /// Which guests these are.
    told: FxHashSet<u8>,
}

impl VcpuNumbers {
    /// Those of a trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut numbers = Self::default();
        // Xen calls vCPUs by the numbers that their kernels have for them.
        for guest in trace.manifest().domains.iter().filter(|guest| guest.vm.is_some() && guest.xen.is_none())
        {
            for processor in &guest.processors {
                numbers.cpus.insert(CpuId { domain: guest.number, cpu: processor.apic_id }, processor.cpu);
                numbers.told.insert(guest.number);
            }
        }
        numbers
    }

    /// The logical CPU that a guest's vCPU of this number is. Without APIC IDs they have the same numbers, on x86 mostly.
    pub(crate) fn cpu(&self, guest: u8, vcpu: u64) -> Option<CpuId> {
        let id = CpuId { domain: guest, cpu: u32::try_from(vcpu).ok()? };
        match self.told.contains(&guest) {
            true => self.cpus.get(&id).map(|cpu| CpuId { domain: guest, cpu: *cpu }),
            false => Some(id),
        }
    }
}
