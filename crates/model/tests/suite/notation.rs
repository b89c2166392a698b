//! Objects in a few signs, for what tests compare.

use xweave_model::{
    DomainRef, ObjectGroup, ObjectRef, Objects,
    objects::Member,
    parts::{Part, parts},
};

/// `nginx/9`, `disk vda`, `link :80`, `vCPU 1 of vm1`.
pub fn object(of: &ObjectRef) -> String {
    match (&of.group, &of.member) {
        (ObjectGroup::Nameless { .. }, Member::Thread { tid, .. }) => format!("thread {tid}"),
        (_, Member::Thread { tid, name: Some(name) }) => format!("{name}/{tid}"),
        (_, Member::Thread { tid, .. }) => format!("{}/{tid}", group(&of.group)),
        (ObjectGroup::Vcpus { guest }, Member::Vcpu(number)) => format!("vCPU {number} of {guest}"),
        (_, Member::Cpu(cpu)) => format!("{} of CPU {cpu}", group(&of.group)),
        _ => group(&of.group),
    }
}

/// The same of all that it is told as one with: `nginx`.
pub fn group(of: &ObjectGroup) -> String {
    match of {
        ObjectGroup::Threads { name, guest: None } => name.clone(),
        ObjectGroup::Vhost { guest } => format!("vhost of {guest}"),
        ObjectGroup::Vcpus { guest } => format!("vCPUs of {guest}"),
        ObjectGroup::Disk(name) => format!("disk {name}"),
        ObjectGroup::Link { service } => format!("link :{service}"),
        ObjectGroup::Interrupts => "interrupts".to_owned(),
        other => format!("{other:?}"),
    }
}

/// `vm1`, `vm1 → vm2`.
pub fn domain(of: &DomainRef) -> String {
    match of {
        DomainRef::One(name) => name.clone(),
        DomainRef::Between(from, to) => format!("{from} → {to}"),
    }
}

/// The parts of a transaction, whose time they sum to.
pub fn parts_of(transaction: &xweave_model::Explained) -> Vec<Part> {
    let parts = parts(transaction);
    let sum: u64 = parts.iter().map(|part| part.ns).sum();
    assert_eq!(i64::try_from(sum), Ok(transaction.total_ns));
    parts
}

/// `25 network link :80`.
pub fn part(of: &Part, objects: &Objects) -> String {
    format!("{} {} {}", of.ns, of.spent, object(objects.get(of.object)))
}
