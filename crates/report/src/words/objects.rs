//! Names of objects.

use xweave_model::{
    DomainRef, Interrupt, ObjectGroup, ObjectRef, Offender, Tenant, UsageObject, objects::Member,
};
use xweave_trace::event::HoldReason;

use super::Sentence;

/// What the recorder's own processes are called, all as one.
const RECORDER: &str = "xweave itself";

/// The recorder's own processes: `xweave itself`.
pub fn recorder() -> Sentence {
    Sentence::new(RECORDER)
}

/// `host`; `vm1 → host` of what lies between two.
pub fn domain(of: &DomainRef) -> Sentence {
    Sentence::new(domain_text(of))
}

fn domain_text(of: &DomainRef) -> String {
    match of {
        DomainRef::One(name) => name.clone(),
        DomainRef::Between(from, to) => format!("{from} → {to}"),
    }
}

/// Objects that are told as one: `nginx`, `vCPUs of vm1`, `vhost of vm1`, `disk vda`.
pub fn group(of: &ObjectGroup) -> Sentence {
    Sentence::new(text(of))
}

fn text(of: &ObjectGroup) -> String {
    match of {
        ObjectGroup::Vcpus { guest } => format!("vCPUs of {guest}"),
        ObjectGroup::Vhost { guest } => format!("vhost of {guest}"),
        ObjectGroup::Pit { guest: Some(guest) } => format!("kvm-pit of {guest}"),
        ObjectGroup::Pit { guest: None } => "kvm-pit".to_owned(),
        ObjectGroup::Recorder => RECORDER.to_owned(),
        ObjectGroup::Threads { name, guest: Some(guest) } => format!("{name} of {guest}"),
        ObjectGroup::Threads { name, guest: None } => name.clone(),
        ObjectGroup::Nameless { guest } => nameless("threads", guest.as_deref()),
        ObjectGroup::Disk(name) => disk(name),
        ObjectGroup::Qdisc { kind, device } => qdisc(kind, device),
        ObjectGroup::Neigh { device } => format!("next hop at {device}"),
        ObjectGroup::SendQueue { reason } => format!("TCP's send queue ({})", hold_reason(*reason)),
        ObjectGroup::Locks(holder) => format!("locks of {}", text(holder)),
        ObjectGroup::Interrupts => "interrupts".to_owned(),
        ObjectGroup::Link { service } => format!("connection to :{service}"),
        ObjectGroup::Peer { service } => peer(*service),
        ObjectGroup::Others => "others".to_owned(),
    }
}

fn nameless(what: &str, guest: Option<&str>) -> String {
    let of = guest.map_or_else(String::new, |guest| format!(" of {guest}"));
    format!("{what}{of} without a name")
}

fn disk(name: &str) -> String {
    format!("disk {name}")
}

fn qdisc(kind: &str, device: &str) -> String {
    format!("{kind} of {device}")
}

fn hold_reason(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::CongestionWindow => "congestion window",
        HoldReason::ReceiveWindow => "receive window",
        HoldReason::Cork => "cork",
        HoldReason::Nagle => "Nagle",
        HoldReason::Other => "another reason",
    }
}

fn peer(port: u16) -> String {
    format!("peer at :{port}")
}

/// One object: `nginx/812`, `vCPU 0 of vm1`, `interrupts of CPU 3`.
pub fn object(of: &ObjectRef) -> Sentence {
    Sentence::new(member(&of.group, &of.member))
}

fn member(group: &ObjectGroup, member: &Member) -> String {
    match (group, member) {
        (ObjectGroup::Locks(holders), Member::Lock { address, holder }) => {
            format!("lock {address:#x} of {}", self::member(holders, holder))
        }
        (ObjectGroup::Vcpus { guest }, Member::Vcpu(number)) => vcpu(u64::from(*number), guest),
        (ObjectGroup::Nameless { .. }, Member::Thread { tid, .. }) => format!("thread {tid}"),
        (_, Member::Thread { tid, name: Some(name) }) => format!("{name}/{tid}"),
        (_, Member::Thread { tid, name: None }) => format!("{}/{tid}", text(group)),
        (_, Member::Cpu(cpu)) => format!("{} of CPU {cpu}", text(group)),
        _ => text(group),
    }
}

fn vcpu(number: u64, of: &str) -> String {
    format!("vCPU {number} of {of}")
}

/// Who kept transactions: `nginx`, `io exits`.
pub fn offender(of: &Offender) -> Sentence {
    match of {
        Offender::Objects(objects) => group(objects),
        Offender::Exits(reason) => Sentence::new(format!("{reason} exits")),
    }
}

/// Interrupts: `softirq NET_RX`, `timer interrupt`.
pub fn interrupt(of: Interrupt) -> Sentence {
    Sentence::new(interrupt_text(of))
}

fn interrupt_text(of: Interrupt) -> String {
    // include/linux/interrupt.h
    const SOFT: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    match of {
        Interrupt::Softirq(number) => {
            let known = usize::try_from(number).ok().and_then(|number| SOFT.get(number));
            known.map_or_else(|| format!("softirq {number}"), |name| format!("softirq {name}"))
        }
        Interrupt::Timer => "timer interrupt".to_owned(),
        Interrupt::FunctionCall => "function call interrupt".to_owned(),
        Interrupt::Rescheduling => "rescheduling interrupt".to_owned(),
        Interrupt::Vector(vector) => format!("interrupt vector {vector}"),
        Interrupt::Device(number) => format!("interrupt {number}"),
    }
}

/// Processes that are told as one: as [`group`].
pub fn processes(of: &ObjectGroup) -> Sentence {
    Sentence::new(processes_text(of))
}

fn processes_text(of: &ObjectGroup) -> String {
    match of {
        ObjectGroup::Nameless { guest } => nameless("processes", guest.as_deref()),
        _ => text(of),
    }
}

/// What uses CPUs as one: `vm1`, `nginx`.
pub fn tenant(of: &Tenant) -> Sentence {
    Sentence::new(match of {
        Tenant::Guest(name) => name.clone(),
        Tenant::Recorder => RECORDER.to_owned(),
        Tenant::Processes(group) => processes_text(group),
    })
}

/// An object that has figures: `vCPU 0 of vm1`, `exits io of vm1`, `nginx on disk vda`, `peer at :80`.
pub fn usage(of: &UsageObject) -> Sentence {
    Sentence::new(match of {
        UsageObject::Disk(name) => disk(name),
        UsageObject::DiskUser { user, disk: name } => format!("{} on {}", processes_text(user), disk(name)),
        UsageObject::Exits { reason, of } => format!("exits {reason} of {}", machine_text(of)),
        UsageObject::Interrupt(interrupt) => interrupt_text(*interrupt),
        UsageObject::Locks(holders) => format!("futexes and locks of {}", processes_text(holders)),
        UsageObject::Peer(Some(port)) => peer(*port),
        UsageObject::Service(Some(port)) => format!("service at :{port}"),
        UsageObject::Peer(None) | UsageObject::Service(None) => RECORDER.to_owned(),
        UsageObject::Process(group) => processes_text(group),
        UsageObject::Qdisc { kind, device } => qdisc(kind, device),
        UsageObject::Vcpu { number, of } => vcpu(*number, &machine_text(of)),
    })
}

/// The virtual machine whose vCPUs these are: by its guest, else by the processes that run it.
pub fn machine(of: &ObjectGroup) -> Sentence {
    Sentence::new(machine_text(of))
}

fn machine_text(of: &ObjectGroup) -> String {
    match of {
        ObjectGroup::Vcpus { guest } => guest.clone(),
        _ => processes_text(of),
    }
}
