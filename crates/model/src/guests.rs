//! The guests of a trace's hosts: those that were recorded, and those that only their host tells of.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use xweave_replay::CpuId;
use xweave_trace::{Domain, Trace};

use crate::vcpu::Guest;

/// What the domains of a trace are to each other.
#[derive(Clone, Debug, Default)]
pub struct Guests {
    /// All guests whose host is in the trace. Those that were not recorded have numbers that no domain of it has.
    pub all: Vec<Guest>,
    /// What domains and guests are called, by their numbers.
    pub names: FxHashMap<u8, String>,
    /// By guests' numbers, what their hosts are called.
    pub hosts: FxHashMap<u8, String>,
}

impl Guests {
    /// Those of a trace.
    pub fn of(trace: &Trace) -> Self {
        let domains = &trace.manifest().domains;
        let mut guests = Self::default();
        for domain in domains {
            guests.names.insert(domain.number, domain.name.clone());
        }
        for domain in domains {
            let Some(vm) = &domain.vm else { continue };
            guests.hosts.insert(domain.number, vm.host.clone());
            if let Some(host) = domains.iter().find(|host| host.name == vm.host) {
                let process = u64::from(vm.pid);
                guests.all.push(Guest { domain: domain.number, host: host.number, process });
            }
        }
        domains.iter().for_each(|host| guests.add_unrecorded(host));
        guests
    }

    /// A host with few enough domains has numbers left for its other virtual machines.
    fn add_unrecorded(&mut self, host: &Domain) {
        let mut called: BTreeMap<&str, usize> = BTreeMap::new();
        host.vms.iter().for_each(|vm| *called.entry(&vm.name).or_default() += 1);
        for vm in &host.vms {
            let process = u64::from(vm.pid);
            if Guest::of_process(&self.all, host.number, process).is_some() {
                continue;
            }
            let Some(domain) = (1..=u8::MAX).rev().find(|number| !self.names.contains_key(number)) else {
                return;
            };
            let taken = called.get(&*vm.name) != Some(&1) || self.names.values().any(|name| *name == vm.name);
            let name = match &*vm.name {
                "" => format!("VM {process}"),
                name if taken => format!("{name}/{process}"),
                name => name.to_owned(),
            };
            self.all.push(Guest { domain, host: host.number, process });
            self.names.insert(domain, name);
            self.hosts.insert(domain, host.name.clone());
        }
    }
}

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
        for guest in trace.manifest().domains.iter().filter(|guest| guest.vm.is_some() && guest.xen.is_none()) {
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
