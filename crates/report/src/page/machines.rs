//! What the machines did, for a page: what `xweave explain --machines --json` prints, the largest of it.

use std::cmp::Reverse;

use xweave_document::page::machines::PageMachines;
use xweave_model::{
    Usage,
    blame::blames,
    usage::{Figures, Key, Waited},
};

use super::bounded::cut;
use crate::document::machines::{build_blame, build_domains, build_object, build_waited};

/// What there is at most of each, and in how many bytes.
const OBJECTS: usize = 1_500;
const WAITED: usize = 2_000;
const BLAMES: usize = 500;
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
        blame: cut(blames(usage).iter().map(|blame| build_blame(blame, usage.span_ns)), BLAMES, LIST),
    }
}
