//! What the machines did, for a page: what `xweave explain --machines --json` prints, the largest of it.

use std::cmp::Reverse;

use xweave_document::page::machines::PageMachines;
use xweave_model::{
    ObjectGroup, Usage, UsageObject,
    usage::{Figures, Key, Waited},
};

use super::bounded::cut;
use crate::{
    document::machines::{build_domains, build_object, build_waited},
    number,
    words::objects,
};

/// What there is at most of each, and in how many bytes.
const OBJECTS: usize = 1_500;
const WAITED: usize = 2_000;
const DOMAINS: usize = 256;
const LIST: usize = 256 << 10;

/// Builds what the machines did.
pub(super) fn build(usage: &Usage) -> PageMachines {
    let mut objects: Vec<(&Key, &Figures)> = usage.objects.iter().collect();
    objects.sort_by_key(|(_, of)| Reverse(of.time_ns.max(of.wait_ns)));
    let mut waited: Vec<&Waited> = usage.waited.iter().collect();
    waited.sort_by_key(|waited| Reverse(waited.ns));
    PageMachines {
        span_ns: usage.span_ns,
        events: usage.events,
        domains: cut(build_domains(usage), DOMAINS, LIST),
        objects: cut(objects.into_iter().map(|(key, of)| build_object(key, of)), OBJECTS, LIST),
        waited: cut(waited.into_iter().map(build_waited), WAITED, LIST),
    }
}

/// From this share of a domain's CPUs on, what the recorder took is told before all that it may have changed.
const TELLING: f64 = 0.05;

/// What recording itself took, a line for each domain where that is much.
pub(super) fn recorder(usage: &Usage) -> Vec<String> {
    let recorder = UsageObject::Process(ObjectGroup::Recorder);
    let own = usage.objects.iter().filter(|(key, _)| key.object == recorder);
    let told = own.filter_map(|(key, figures)| {
        let cpus = usage.cpus.get(&key.domain).copied().unwrap_or(0).max(1);
        let span = usage.spans.get(&key.domain).copied().unwrap_or(usage.span_ns).max(1);
        let share = figures.time_ns as f64 / (f64::from(cpus) * span as f64);
        let percent = number::percent(share);
        (share >= TELLING).then(|| {
            format!(
                "{} took {percent} of the CPUs of {}: times include that",
                objects::recorder(),
                key.domain
            )
        })
    });
    told.collect()
}
