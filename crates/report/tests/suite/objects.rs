//! Objects that tests are about.

use xweave_model::{ExitReason, ObjectGroup, UsageObject, usage::Key};

pub fn threads(name: &str) -> ObjectGroup {
    ObjectGroup::Threads { name: name.into(), guest: None }
}

pub fn vcpus(guest: &str) -> ObjectGroup {
    ObjectGroup::Vcpus { guest: guest.into() }
}

/// A thread of QEMU that is no vCPU.
pub fn qemu(guest: &str) -> ObjectGroup {
    ObjectGroup::Threads { name: "qemu-system-x86".into(), guest: Some(guest.into()) }
}

pub fn process(name: &str) -> UsageObject {
    UsageObject::Process(threads(name))
}

pub fn disk(name: &str) -> UsageObject {
    UsageObject::Disk(name.into())
}

pub fn disk_user(user: ObjectGroup, disk: &str) -> UsageObject {
    UsageObject::DiskUser { user, disk: disk.into() }
}

pub fn vcpu(number: u64, guest: &str) -> UsageObject {
    UsageObject::Vcpu { number, of: vcpus(guest) }
}

pub fn exits(reason: ExitReason, guest: &str) -> UsageObject {
    UsageObject::Exits { reason, of: vcpus(guest) }
}

pub fn key(domain: &str, object: UsageObject) -> Key {
    Key { domain: domain.into(), object }
}
