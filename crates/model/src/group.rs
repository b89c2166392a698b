//! Objects that are told as one: threads by what they do for users, not by what kernels call them; and who records.

use rustc_hash::FxHashMap;
use xweave_trace::{Trace, event::HoldReason};

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

    /// Whether a process of a domain is one that the trace names as its recorder's.
    pub(crate) fn have(&self, domain: u8, process: impl FnOnce() -> u64) -> bool {
        self.0.get(&domain).is_some_and(|known| known.contains(&process()))
    }

    /// Whether a process of a domain, whose name it is, is one of them: where it is not told which are, all of their name.
    pub(crate) fn has(&self, domain: u8, process: u64, name: &str) -> bool {
        name == NAME && self.0.get(&domain).is_none_or(|known| known.contains(&process))
    }
}

/// Objects that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectGroup {
    /// A guest's vCPUs.
    Vcpus {
        /// The guest's name.
        guest: String,
    },
    /// The kernel's threads that serve a guest's rings: vhost.
    Vhost {
        /// The guest's name.
        guest: String,
    },
    /// KVM's timer threads.
    Pit {
        /// The guest's name, if it is known.
        guest: Option<String>,
    },
    /// The recorder's own processes.
    Recorder,
    /// Threads, or processes, of a name.
    Threads {
        /// Without a worker's number, or what it works at: `nginx`, `kworker`.
        name: String,
        /// The guest that their process runs.
        guest: Option<String>,
    },
    /// Threads, or processes, whose names are not known.
    Nameless {
        /// The guest that their process runs.
        guest: Option<String>,
    },
    /// A disk, by its name.
    Disk(String),
    /// Queueing disciplines of a kind, at a network device.
    Qdisc {
        /// The kind: `tbf`.
        kind: String,
        /// The device's name.
        device: String,
    },
    /// Next hops at a network device whose link-layer addresses were asked for (ARP, NDP).
    Neigh {
        /// The device's name.
        device: String,
    },
    /// What TCP was given to send, and held back.
    SendQueue {
        /// Why.
        reason: HoldReason,
    },
    /// Locks that such threads held.
    Locks(Box<ObjectGroup>),
    /// Interrupts of all processors.
    Interrupts,
    /// What lies between the two ends of connections to a port.
    Link {
        /// The port.
        service: u16,
    },
    /// The other ends of connections to a port, of which there are no events.
    Peer {
        /// The port.
        service: u16,
    },
    /// What is too many to be told apart.
    Others,
}

impl ObjectGroup {
    /// What threads are for, as documents call it: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; of
    /// locks, those who hold them. None of disks, queueing disciplines, interrupts and connections.
    pub fn role(&self) -> Option<&'static str> {
        Some(match self {
            Self::Vcpus { .. } => "vcpu",
            Self::Vhost { .. } => "vhost",
            Self::Pit { .. } => "kvm_pit",
            Self::Recorder => "recorder",
            Self::Threads { .. } if self.is_qemu() => "qemu",
            Self::Threads { .. } => "program",
            Self::Nameless { .. } => "unnamed",
            Self::Locks(holder) => return holder.role(),
            Self::Disk(_)
            | Self::Qdisc { .. }
            | Self::Neigh { .. }
            | Self::SendQueue { .. }
            | Self::Interrupts
            | Self::Link { .. }
            | Self::Peer { .. }
            | Self::Others => {
                return None;
            }
        })
    }

    /// The guest that threads are for, if they are for one and it is known.
    pub fn guest(&self) -> Option<&str> {
        match self {
            Self::Vcpus { guest } | Self::Vhost { guest } => Some(guest),
            Self::Pit { guest } | Self::Threads { guest, .. } | Self::Nameless { guest } => guest.as_deref(),
            Self::Locks(holder) => holder.guest(),
            _ => None,
        }
    }

    /// Whether these are threads of QEMU that are no vCPUs, and have not taken other names.
    pub fn is_qemu(&self) -> bool {
        matches!(self, Self::Threads { name, .. } if name.starts_with(QEMU))
    }

    /// Whether these are threads of the kernel that look for work in a ring of io_uring without ever waiting for it: that they ran
    /// says nothing of what was done.
    pub fn polls(&self) -> bool {
        matches!(self, Self::Threads { name, .. } if name.starts_with(POLLER))
    }

    /// Whether these are the recorder's own, or its locks.
    pub fn is_recorders(&self) -> bool {
        match self {
            Self::Locks(holder) => holder.is_recorders(),
            _ => *self == Self::Recorder,
        }
    }

    /// Whether these are threads that their kernel calls so, of no guest's process.
    pub fn is_named(&self, thread: &str) -> bool {
        matches!(self, Self::Threads { name, guest: None } if name == thread)
    }
}

/// What is known of a thread that says which it is like.
pub(crate) struct ThreadFacts<'a> {
    /// As its kernel calls it; empty if that is not known.
    pub(crate) name: &'a str,
    /// Whether it is a vCPU.
    pub(crate) is_vcpu: bool,
    /// The guest that it is for.
    pub(crate) guest: Option<&'a str>,
    /// What it does for it, where its name says.
    pub(crate) serves: Option<Service>,
}

impl ThreadFacts<'_> {
    /// Those that it is like, unless they are the recorder's.
    pub(crate) fn group(&self) -> ObjectGroup {
        let threads = |name: &str, guest| ObjectGroup::Threads { name: name.to_owned(), guest };
        match (self.guest.map(str::to_owned), self.serves) {
            (Some(guest), _) if self.is_vcpu => ObjectGroup::Vcpus { guest },
            (Some(guest), Some(Service::Vhost)) => ObjectGroup::Vhost { guest },
            (guest, Some(Service::Pit)) => ObjectGroup::Pit { guest },
            (guest, _) if self.name.is_empty() => ObjectGroup::Nameless { guest },
            (Some(guest), None) => threads(self.name, Some(guest)),
            (None, _) => threads(kind_of(self.name), None),
        }
    }

    /// Its whole name, unless it is a guest's: then its group says more.
    pub(crate) fn whole_name(&self) -> Option<&str> {
        (self.guest.is_none() && !self.name.is_empty()).then(|| link(self.name).unwrap_or(self.name))
    }
}

/// What threads of a name are: `kworker/0:1` and `ksoftirqd/1` on whatever processor, and whatever work the former does. Who is
/// called by a path is called by all of it.
fn kind_of(name: &str) -> &str {
    let kind = || name.split('/').next().filter(|kind| !kind.is_empty());
    link(name).or_else(kind).unwrap_or(name)
}

/// Who runs itself again by its link in /proc is called after the link, which says more by its whole path.
fn link(name: &str) -> Option<&'static str> {
    (name == "exe").then_some("/proc/self/exe")
}

/// How QEMU's programs are called first, and its threads if they are not named (`qemu-system-x86`).
const QEMU: &str = "qemu";

/// How the kernel calls threads that poll a process's ring (`io_uring/sqpoll.c`).
const POLLER: &str = "iou-sqp-";

/// What a kernel's thread does for a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// It serves rings.
    Vhost,
    /// It is the timer.
    Pit,
}

/// What a thread is that serves rings or is the timer, and the process that runs the guest: the kernel calls it by that
/// (`drivers/vhost/vhost.c`, `arch/x86/kvm/i8254.c`, Linux 6.1 to 6.12).
pub(crate) fn service(name: &str) -> Option<(Service, u64)> {
    let is = |(prefix, is)| Some((is, name.strip_prefix(prefix)?.parse().ok()?));
    [("vhost-", Service::Vhost), ("kvm-pit/", Service::Pit)].into_iter().find_map(is)
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
    fn threads_are_grouped_by_what_they_do_for_a_guest() {
        let guest = Some("vm1");
        let vcpu = ThreadFacts { name: "CPU 0/KVM", is_vcpu: true, guest, serves: None };
        let vhost = ThreadFacts { name: "vhost-70", is_vcpu: false, guest, serves: Some(Service::Vhost) };
        let worker = ThreadFacts { name: "iothread", is_vcpu: false, guest, serves: None };
        let other = |name| ThreadFacts { name, is_vcpu: false, guest: None, serves: None };
        let qemu = other("qemu-system-x86");
        let roles =
            [&vcpu, &vhost, &worker, &other("vCPUs of vm1"), &qemu].map(|of| of.group().role().unwrap());
        assert_eq!(roles, ["vcpu", "vhost", "program", "program", "qemu"]);
        let of_vm1 = || "vm1".to_owned();
        assert_eq!(vcpu.group(), ObjectGroup::Vcpus { guest: of_vm1() });
        assert_eq!(worker.group(), ObjectGroup::Threads { name: "iothread".into(), guest: Some(of_vm1()) });
        let named = ["kworker/1:0-eve", "kworker/u8:1", "ksoftirqd/1", "exe", "vhost-70"];
        let groups = ["kworker", "kworker", "ksoftirqd", "/proc/self/exe", "vhost-70"];
        for (name, group) in named.into_iter().zip(groups) {
            assert!(other(name).group().is_named(group), "{name}");
        }
        assert_eq!(other("").group(), ObjectGroup::Nameless { guest: None });
        assert!(other("/usr/bin/munin").group().is_named("/usr/bin/munin"));
        let of_guest = ThreadFacts { guest, ..other("") };
        assert_eq!(of_guest.group(), ObjectGroup::Nameless { guest: Some(of_vm1()) });
    }
}
