//! Made-up objects, for tests of what sums them up and compares them.

use crate::{exit::ExitReason, objects::ObjectGroup, usage::UsageObject};

pub(crate) fn threads(name: &str) -> ObjectGroup {
    ObjectGroup::Threads { name: name.into(), guest: None }
}

pub(crate) fn process(name: &str) -> UsageObject {
    UsageObject::Process(threads(name))
}

/// Those of `vm1`.
pub(crate) fn vcpus() -> ObjectGroup {
    ObjectGroup::Vcpus { guest: "vm1".into() }
}

/// Those of `vm1`.
pub(crate) fn exits(reason: ExitReason) -> UsageObject {
    UsageObject::Exits { reason, of: vcpus() }
}
