//! The use of CPUs, disks and connections over time, by who used them.

use std::cmp::Reverse;

use serde_json::{Value, json};
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

/// None, if nothing was added up over time.
pub(super) fn of(usage: &Usage) -> Option<Value> {
    let times = usage.over_time.as_ref().filter(|times| !times.series.is_empty())?;
    let domains: Vec<Value> = usage
        .spans
        .iter()
        .map(|(domain, span_ns)| {
            json!({
                "domain": domain,
                "span_ns": span_ns,
                "cpus": usage.cpus.get(domain),
                "processes": largest(times, domain, &[UsageKind::Process]),
                "disks": largest(times, domain, &[UsageKind::DiskUser]),
                "connections": largest(times, domain, &[UsageKind::Service, UsageKind::Peer]),
            })
        })
        .collect();
    Some(
        json!({ "start_ns": times.begin_ns, "bin_ns": times.bin_ns, "domains": cut(&domains, DOMAINS, LIST) }),
    )
}

/// The objects of some kinds that did most, and what the others did together.
fn largest(times: &OverTime, domain: &str, kinds: &[UsageKind]) -> Vec<Value> {
    let own = times.series.iter().filter(|(key, _)| key.domain == domain && kinds.contains(&key.kind()));
    let mut own: Vec<(&Key, &Vec<u64>)> = own.collect();
    own.sort_by_key(|(_, values)| Reverse(values.iter().sum::<u64>()));
    let (told, others) = own.split_at(own.len().min(OBJECTS));
    let mut told: Vec<Value> = told
        .iter()
        .map(|(key, values)| {
            let vcpus_of = match &key.object {
                UsageObject::Process(ObjectGroup::Vcpus { guest }) => Some(guest),
                _ => None,
            };
            json!({ "object": objects::usage(&key.object), "vcpus_of": vcpus_of, "values": values })
        })
        .collect();
    let mut rest: Vec<u64> = Vec::new();
    for (_, values) in others {
        rest.resize(values.len(), 0);
        rest.iter_mut().zip(*values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
    }
    if !others.is_empty() {
        told.push(json!({ "object": null, "vcpus_of": null, "values": rest, "others": others.len() }));
    }
    told
}
