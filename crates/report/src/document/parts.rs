//! What time was spent on and who it was, as documents have them: words, and beside these what they are about.

use serde::Serialize;
use xweave_model::{
    ObjectGroup, Objects, Offender,
    objects::Reason,
    parts::{Kept, Part, Such, Total, Totals},
};

use crate::words::{Sentence, causes, objects};

/// What threads are for: beside their name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleFields {
    /// `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; not there of
    /// disks, interrupts and connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    /// The guest that they are for, if they are for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    guest: Option<String>,
}

impl RoleFields {
    pub(crate) fn new(group: &ObjectGroup) -> Self {
        Self { role: group.role(), guest: group.guest().map(str::to_owned) }
    }
}

/// Why: in words, and which reason that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReasonFields {
    /// In words; null if it is not known.
    why: Option<Sentence>,
    /// [`Reason::name`]; not there if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl ReasonFields {
    pub(crate) fn new(reason: Option<&Reason>) -> Self {
        Self { why: reason.map(causes::reason), reason: reason.map(Reason::name) }
    }
}

/// All time that one object took of a transaction in one way.
#[derive(Clone, Debug, Serialize)]
pub struct PartDocument<'a> {
    /// The domain whose time it was; of what lies between two, both.
    domain: Sentence,
    /// What took it.
    object: Sentence,
    /// What kind of object that is.
    kind: &'static str,
    /// As of [`RoleFields`].
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guest: Option<&'a str>,
    /// What it was spent on.
    state: &'static str,
    /// How much, in nanoseconds.
    ns: u64,
    /// How often.
    count: u64,
    /// As of [`ReasonFields`].
    why: Option<Sentence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl<'a> PartDocument<'a> {
    pub(crate) fn new(part: &Part, all: &'a Objects) -> Self {
        let object = all.get(part.object);
        Self {
            domain: objects::domain(&object.domain),
            object: objects::object(object),
            kind: object.kind.name(),
            role: object.group.role(),
            guest: object.group.guest(),
            state: part.spent.name(),
            ns: part.ns,
            count: part.count,
            why: part.cause.map(|cause| causes::cause(cause, all)),
            reason: part.cause.map(|cause| all.reason(cause).name()),
        }
    }
}

/// Whose time, and what it was spent on, of alike objects.
#[derive(Clone, Debug, Serialize)]
pub struct SuchFields {
    /// The domain whose time it was; of what lies between two, both.
    domain: Sentence,
    /// What took it: objects of a name.
    object: Sentence,
    /// What kind of objects these are.
    kind: &'static str,
    /// What it was spent on.
    state: &'static str,
    #[serde(flatten)]
    role: RoleFields,
    #[serde(flatten)]
    reason: ReasonFields,
}

impl SuchFields {
    pub(crate) fn new(such: &Such) -> Self {
        Self {
            domain: objects::domain(&such.domain),
            object: objects::group(&such.group),
            kind: such.kind.name(),
            state: such.spent.name(),
            role: RoleFields::new(&such.group),
            reason: ReasonFields::new(such.reason.as_ref()),
        }
    }
}

/// Time that all transactions spent in one way.
#[derive(Clone, Debug, Serialize)]
pub struct TotalDocument {
    #[serde(flatten)]
    such: SuchFields,
    /// How much, in nanoseconds.
    ns: u64,
    /// How many transactions had any of it.
    transactions: u64,
}

/// Who did something, and how much.
#[derive(Clone, Debug, Serialize)]
pub struct OffenderDocument {
    /// Threads of a name, the vCPUs of a guest, `xweave itself`.
    who: Sentence,
    /// How much, in nanoseconds.
    ns: u64,
    #[serde(flatten)]
    role: Option<RoleFields>,
}

impl OffenderDocument {
    pub(crate) fn new(who: &Offender, ns: u64) -> Self {
        Self { who: objects::offender(who), ns, role: who.objects().map(RoleFields::new) }
    }
}

/// What kept transactions, and who: all of it in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct KeptDocument {
    /// `vCPUs of vm1 waited for a CPU of host`, `running in vm1`, `on the network, host → vm1`.
    what: Sentence,
    /// [`DelayKind::name`](xweave_model::delay::DelayKind::name).
    kind: &'static str,
    /// How much.
    ns: u64,
    /// How many transactions it kept.
    transactions: u64,
    /// By whom, as far as that is known, the most first: who had the CPU, who ran, which disk.
    by: Vec<OffenderDocument>,
}

impl KeptDocument {
    fn new(kept: &Kept) -> Self {
        Self {
            what: causes::delay(&kept.delay),
            kind: kept.delay.kind.name(),
            ns: kept.ns,
            transactions: kept.transactions,
            by: kept.by.iter().map(|(who, ns)| OffenderDocument::new(who, *ns)).collect(),
        }
    }
}

/// What kept transactions, the most first.
pub fn kept(totals: &Totals) -> Vec<KeptDocument> {
    totals.causes().iter().map(KeptDocument::new).collect()
}

/// What the time of transactions was spent on, the most first.
pub fn totals(totals: &Totals) -> Vec<TotalDocument> {
    let total = |total: &Total| TotalDocument {
        such: SuchFields::new(&total.such),
        ns: total.ns,
        transactions: total.transactions,
    };
    totals.all().iter().map(total).collect()
}
