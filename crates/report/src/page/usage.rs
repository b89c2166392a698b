//! The use of CPUs, disks, connections and queueing disciplines over time, by who used them.

use std::cmp::Reverse;

use xweave_document::{
    page::usage::{self, DomainUsage, Series},
    value::Time,
};
use xweave_model::{
    ObjectGroup, Usage, UsageKind, UsageObject,
    usage::{Key, OverTime},
};

use super::bounded::cut;
use crate::words::objects;

/// So many objects of a sort are told apart in each domain; the others are summed up.
const OBJECTS: usize = 6;

/// What there is at most.
const DOMAINS: usize = 64;
const LIST: usize = 512 << 10;

/// Builds the use over time; none, if nothing was added up over time.
pub(super) fn build(usage: &Usage) -> Option<usage::Usage> {
    let times = usage.over_time.as_ref().filter(|times| !times.series.is_empty())?;
    let domain = |(domain, span_ns): (&String, &u64)| DomainUsage {
        domain: domain.clone(),
        span_ns: *span_ns,
        cpus: usage.cpus.get(domain).copied(),
        processes: largest(times, domain, &[UsageKind::Process]),
        disks: largest(times, domain, &[UsageKind::DiskUser]),
        connections: largest(times, domain, &[UsageKind::Service, UsageKind::Peer]),
        qdiscs: largest(times, domain, &[UsageKind::Qdisc]),
    };
    Some(usage::Usage {
        start_ns: Time(times.begin_ns),
        bin_ns: times.bin_ns,
        domains: cut(usage.spans.iter().map(domain), DOMAINS, LIST),
    })
}

/// The objects of some kinds that did most, and what the others did together.
fn largest(times: &OverTime, domain: &str, kinds: &[UsageKind]) -> Vec<Series> {
    let own = times.series.iter().filter(|(key, _)| key.domain == domain && kinds.contains(&key.kind()));
    let mut own: Vec<(&Key, &Vec<u64>)> = own.collect();
    own.sort_by_key(|(_, values)| Reverse(values.iter().sum::<u64>()));
    let (told, others) = own.split_at(own.len().min(OBJECTS));
    let mut told: Vec<Series> = told
        .iter()
        .map(|(key, values)| {
            let vcpus_of = match &key.object {
                UsageObject::Process(ObjectGroup::Vcpus { guest }) => Some(guest.clone()),
                _ => None,
            };
            let object = Some(objects::usage(&key.object).into());
            Series { object, vcpus_of, values: (*values).clone(), others: None }
        })
        .collect();
    let mut rest: Vec<u64> = Vec::new();
    for (_, values) in others {
        rest.resize(values.len(), 0);
        rest.iter_mut().zip(*values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
    }
    if !others.is_empty() {
        told.push(Series { object: None, vcpus_of: None, values: rest, others: Some(others.len()) });
    }
    told
}
