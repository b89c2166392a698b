//! Rows that transactions' times are divided into: in words, and with the fields that programs compare.

use xweave_document::{
    parts::{
        Cause, Offender, Part, ReasonFields, RoleFields, ServiceRequests, StateFields, Total, UnusedRequests,
    },
    value::Bin,
};
use xweave_flow::histogram;
use xweave_model::{
    DefaultSpec, ObjectGroup, Objects, Unused,
    objects::Reason,
    parts::{Kept, Such, Totals},
};

use crate::words::{causes, objects};

/// Builds the services that were not chosen.
pub fn build_other_services(of: &DefaultSpec) -> Vec<ServiceRequests> {
    let service = |(spec, requests): &(_, u64)| ServiceRequests {
        transaction: ToString::to_string(spec),
        requests: *requests,
    };
    of.others.iter().map(service).collect()
}

pub(crate) fn build_role(group: &ObjectGroup) -> RoleFields {
    RoleFields { role: group.role(), guest: group.guest().map(str::to_owned) }
}

fn build_reason(reason: Option<&Reason>) -> ReasonFields {
    ReasonFields { why: reason.map(|reason| causes::reason(reason).into()), reason: reason.map(Reason::name) }
}

pub(crate) fn build_part(part: &xweave_model::parts::Part, all: &Objects) -> Part {
    let object = all.get(part.object);
    let why = part.cause.map(|cause| causes::cause(cause, all).into());
    let reason = part.cause.map(|cause| all.reason(cause).name());
    let state = StateFields {
        domain: objects::domain(&object.domain).into(),
        object: objects::object(object).into(),
        kind: object.kind.name(),
        state: part.spent.name(),
        role: build_role(&object.group),
        reason: ReasonFields { why, reason },
    };
    Part { state, ns: part.ns, count: part.count }
}

pub(crate) fn build_state(such: &Such) -> StateFields {
    StateFields {
        domain: objects::domain(&such.domain).into(),
        object: objects::group(&such.group).into(),
        kind: such.kind.name(),
        state: such.spent.name(),
        role: build_role(&such.group),
        reason: build_reason(such.reason.as_ref()),
    }
}

pub(crate) fn build_offender(who: &xweave_model::Offender, ns: u64) -> Offender {
    Offender { who: objects::offender(who).into(), ns, role: who.objects().map(build_role) }
}

fn build_cause(kept: &Kept) -> Cause {
    Cause {
        what: causes::delay(&kept.delay).into(),
        kind: kept.delay.kind.name(),
        ns: kept.ns,
        transactions: kept.transactions,
        by: kept.by.iter().map(|(who, ns)| build_offender(who, *ns)).collect(),
    }
}

/// Builds the rows of the delays of transactions, the longest first.
pub fn build_causes(totals: &Totals) -> Vec<Cause> {
    totals.causes().iter().map(build_cause).collect()
}

/// Builds the rows of the states that the time of transactions was spent in, the longest first.
pub fn build_totals(totals: &Totals) -> Vec<Total> {
    let total = |total: &xweave_model::parts::Total| Total {
        state: build_state(&total.such),
        ns: total.ns,
        transactions: total.transactions,
    };
    totals.all().iter().map(total).collect()
}

/// Builds the numbers of requests that are no transactions.
pub fn build_unused(of: Unused) -> UnusedRequests {
    let Unused { dropped, lost, unseen, unanswered, open } = of;
    UnusedRequests { dropped, lost, unseen, unanswered, open }
}

/// Builds the distribution of times.
pub fn build_bins(of: &[histogram::Bin]) -> Vec<Bin> {
    let bin = |&histogram::Bin { from_ns, to_ns, count }: &histogram::Bin| Bin { from_ns, to_ns, count };
    of.iter().map(bin).collect()
}
