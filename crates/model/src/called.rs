//! What threads are called together with those like them, in breakdowns and in what is added up: in terms of users, not of
//! kernels; and who records.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use xweave_trace::Trace;

/// What the recorder's own processes are called, all as one.
pub const RECORDER: &str = "xweave itself";

/// What the recorder's processes call themselves.
const NAME: &str = "xweave";

/// Which processes recorded a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorders(FxHashMap<u8, Vec<u64>>);

impl Recorders {
    /// As the trace tells.
    pub(crate) fn of(trace: &Trace) -> Self {
        let domains = trace.manifest().domains.iter().filter(|domain| !domain.recorders.is_empty());
        let processes = |all: &[u32]| all.iter().copied().map(u64::from).collect();
        Self(domains.map(|domain| (domain.number, processes(&domain.recorders))).collect())
    }

    /// Whether a process of a domain, whose name it is, is one of them: where it is not told which are, all of their name.
    pub(crate) fn has(&self, domain: u8, process: u64, name: &str) -> bool {
        name == NAME && self.0.get(&domain).is_none_or(|known| known.contains(&process))
    }
}

/// What an object that takes time is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The vCPUs of a guest, by its name.
    Vcpus(String),
    /// The kernel's threads that serve a guest's rings, by its name.
    Vhost(String),
    /// The threads of QEMU that are no vCPUs, and have not taken other names.
    Qemu,
    /// KVM's timer threads.
    Pit,
    /// The recorder's own processes.
    Recorder,
    /// Any other.
    Other,
}

/// Threads that are alike.
pub(crate) struct Like<'a> {
    /// As their kernel calls them; empty if that is not known.
    pub(crate) name: &'a str,
    /// Whether they are vCPUs.
    pub(crate) vcpus: bool,
    /// The guest that they are for.
    pub(crate) guest: Option<&'a str>,
    /// What they do for it, where their name says.
    pub(crate) serve: Option<&'a str>,
}

impl<'a> Like<'a> {
    /// What they are for, unless they are the recorder's.
    pub(crate) fn role(&self) -> Role {
        let guest = || self.guest.map(str::to_owned);
        match (self.serve, guest()) {
            (_, Some(guest)) if self.vcpus => Role::Vcpus(guest),
            (Some(VHOST), Some(guest)) => Role::Vhost(guest),
            (Some(PIT), _) => Role::Pit,
            _ if self.name.starts_with(QEMU) => Role::Qemu,
            _ => Role::Other,
        }
    }

    /// `vCPUs of vm1`, `vhost of vm1`, `nginx`; empty if nothing is known of them.
    pub(crate) fn called(&self) -> Cow<'a, str> {
        match self.guest {
            Some(guest) if self.vcpus => format!("vCPUs of {guest}").into(),
            Some(guest) => format!("{} of {guest}", self.serve.unwrap_or(self.name)).into(),
            None => kind_of(self.name).into(),
        }
    }

    /// What one of them is called: by its whole name, if it is no guest's.
    pub(crate) fn one(&self) -> Cow<'a, str> {
        match self.guest {
            Some(_) => self.called(),
            None => link(self.name).unwrap_or(self.name).into(),
        }
    }
}

/// What threads of a name are: `kworker/0:1` and `ksoftirqd/1` on whatever processor, and whatever work the former does.
fn kind_of(name: &str) -> &str {
    link(name).unwrap_or_else(|| name.split('/').next().unwrap_or_default())
}

/// Who runs itself again by its link in /proc is called after the link, which says more by its whole path.
fn link(name: &str) -> Option<&'static str> {
    (name == "exe").then_some("/proc/self/exe")
}

/// What [`served`] calls threads that serve rings.
const VHOST: &str = "vhost";
/// What it calls those that are timers.
const PIT: &str = "kvm-pit";
/// How QEMU's programs are called first, and its threads if they are not named (`qemu-system-x86`).
const QEMU: &str = "qemu";

/// What a thread is that serves rings or is the timer, and the process that runs the guest: the kernel calls it by that
/// (`drivers/vhost/vhost.c`, `arch/x86/kvm/i8254.c`, Linux 6.1 to 6.12).
pub(crate) fn served(name: &str) -> Option<(&'static str, u64)> {
    let is = |(prefix, is)| Some((is, name.strip_prefix(prefix)?.parse().ok()?));
    [("vhost-", VHOST), ("kvm-pit/", PIT)].into_iter().find_map(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorder_is_known_by_its_process_where_that_is_told_and_else_by_its_name() {
        let recorders = Recorders([(1, vec![70, 71])].into_iter().collect());
        assert!(recorders.has(1, 71, "xweave") && recorders.has(2, 5, "xweave"));
        // A load that is called so; and who has its number where numbers are others.
        assert!(!recorders.has(1, 5, "xweave") && !recorders.has(1, 70, "nginx"));
    }

    #[test]
    fn threads_are_called_by_what_they_do_for_a_guest() {
        let guest = Some("vm1");
        let vcpu = Like { name: "CPU 0/KVM", vcpus: true, guest, serve: None };
        let vhost = Like { name: "vhost-70", vcpus: false, guest, serve: Some("vhost") };
        let worker = Like { name: "iothread", vcpus: false, guest, serve: None };
        let other = |name| Like { name, vcpus: false, guest: None, serve: None };
        let called = [&vcpu, &vhost, &worker, &other("nginx")].map(|like| like.called().into_owned());
        assert_eq!(called, ["vCPUs of vm1", "vhost of vm1", "iothread of vm1", "nginx"]);
        let roles =
            [vcpu, vhost, worker, other("vCPUs of vm1"), other("qemu-system-x86")].map(|like| like.role());
        let vm1 = || "vm1".to_owned();
        let known = [Role::Vcpus(vm1()), Role::Vhost(vm1()), Role::Other, Role::Other, Role::Qemu];
        assert_eq!(roles, known);
        let called = ["kworker/1:0-eve", "kworker/u8:1", "ksoftirqd/1", "exe"]
            .map(|name| other(name).called().into_owned());
        assert_eq!(called, ["kworker", "kworker", "ksoftirqd", "/proc/self/exe"]);
    }
}
