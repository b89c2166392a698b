//! In which states the vCPUs of a guest were: these divide their time.

use std::collections::BTreeSet;

use crate::{
    objects::ObjectGroup,
    usage::{Key, Usage, UsageKind},
};

/// How long the vCPUs of a guest were in each state, in nanoseconds, all together. A vCPU is in one at a time, or sleeps for
/// another reason, as for QEMU's lock; so together they are no longer than the recording, once for each vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpuStates {
    /// vCPUs that were seen.
    pub vcpus: u64,
    /// In the guest.
    pub inside_ns: u64,
    /// Out of the guest, their threads running for an exit.
    pub exits_ns: u64,
    /// Halted, polling included.
    pub halted_ns: u64,
    /// Their threads were ready, and others had the CPU. Zero where the guest is not known: then QEMU's other threads are
    /// counted with those of vCPUs.
    pub waited_ns: u64,
    /// Exits.
    pub exits: u64,
}

impl VcpuStates {
    /// All states together, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        [self.inside_ns, self.exits_ns, self.halted_ns, self.waited_ns]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl Usage {
    /// The states of those vCPUs that a domain ran.
    pub fn vcpu_states(&self, domain: &str, of: &ObjectGroup) -> VcpuStates {
        let mut states = VcpuStates::default();
        let own = |key: &Key| key.domain == domain && key.object.group() == Some(of);
        for (key, figures) in self.objects.iter().filter(|(key, _)| own(key)) {
            match key.kind() {
                UsageKind::Vcpu => {
                    states.vcpus += 1;
                    states.inside_ns = states.inside_ns.saturating_add(figures.time_ns);
                    states.halted_ns = states.halted_ns.saturating_add(figures.wait_ns);
                    states.exits = states.exits.saturating_add(figures.count);
                }
                UsageKind::Exit => states.exits_ns = states.exits_ns.saturating_add(figures.time_ns),
                UsageKind::Process if matches!(of, ObjectGroup::Vcpus { .. }) => {
                    states.waited_ns = states.waited_ns.saturating_add(figures.wait_ns);
                }
                _ => {}
            }
        }
        states
    }

    /// Whose vCPUs were seen, each with the domain that ran them.
    pub fn vms(&self) -> BTreeSet<(&str, &ObjectGroup)> {
        let vcpus = self.objects.keys().filter(|key| key.kind() == UsageKind::Vcpu);
        vcpus.filter_map(|key| Some((&*key.domain, key.object.group()?))).collect()
    }
}
