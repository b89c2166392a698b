//! What `xweave explain --machines --json` prints: `domains`, what their `objects` did, and who `waited` for whom; and what
//! the document of a trace without flows and requests has as `machines`.

use std::io::{self, Write};

use serde::Serialize;
use xweave_model::{
    Usage,
    usage::{Figures, Key, States, Waited},
};

use super::parts::RoleFields;
use crate::words::{Sentence, objects};

/// What machines did.
#[derive(Serialize)]
pub struct Machines<'a> {
    span_ns: u64,
    events: u64,
    domains: Vec<Domain<'a>>,
    objects: Vec<Object<'a>>,
    waited: Vec<WaitedDocument<'a>>,
}

/// A domain with events.
#[derive(Serialize)]
pub struct Domain<'a> {
    domain: &'a str,
    /// Processors that were seen.
    cpus: u32,
    /// How long threads ran on each of them.
    busy: Vec<Busy>,
    /// How long its threads were in which state, and how often they went from one to another.
    states: States,
    span_ns: u64,
}

/// What a processor did.
#[derive(Serialize)]
pub struct Busy {
    cpu: u32,
    ns: u64,
}

/// An object of a domain: see [`xweave_model::usage::Figures`].
#[derive(Serialize)]
pub struct Object<'a> {
    kind: &'static str,
    domain: &'a str,
    object: Sentence,
    time_ns: u64,
    count: u64,
    bytes: u64,
    written_bytes: u64,
    wait_ns: u64,
    device_ns: u64,
    #[serde(flatten)]
    role: Option<RoleFields>,
}

impl<'a> Object<'a> {
    /// As the document has it.
    pub fn new(key: &'a Key, figures: &Figures) -> Self {
        Self {
            kind: key.kind().name(),
            domain: &key.domain,
            object: objects::usage(&key.object),
            time_ns: figures.time_ns,
            count: figures.count,
            bytes: figures.bytes,
            written_bytes: figures.written,
            wait_ns: figures.wait_ns,
            device_ns: figures.device_ns,
            role: key.object.group().map(RoleFields::new),
        }
    }
}

/// How long some processes were ready for a processor that others had.
#[derive(Serialize)]
pub struct WaitedDocument<'a> {
    domain: &'a str,
    /// Who waited.
    object: Sentence,
    /// Who had the processor: other processes, or the same; `others`, where there are too many to tell apart.
    by: Sentence,
    /// The guest that those are for who had it, if they are for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_guest: Option<&'a str>,
    ns: u64,
}

impl<'a> WaitedDocument<'a> {
    /// As the document has it.
    pub fn new(waited: &'a Waited) -> Self {
        Self {
            domain: &waited.domain,
            object: objects::processes(&waited.who),
            by: objects::processes(&waited.by),
            by_guest: waited.by.guest(),
            ns: waited.ns,
        }
    }
}

/// The domains, as the document has them.
pub fn domains(usage: &Usage) -> impl Iterator<Item = Domain<'_>> {
    let cpus = |domain: &str| usage.cpus.get(domain).copied().unwrap_or(0);
    let busy = |domain: &str| {
        let cpus = usage.busy.get(domain).into_iter().flatten();
        cpus.map(|(cpu, ns)| Busy { cpu: *cpu, ns: *ns }).collect()
    };
    usage.spans.iter().map(move |(domain, span_ns)| Domain {
        domain,
        cpus: cpus(domain),
        busy: busy(domain),
        states: usage.states.get(domain).copied().unwrap_or_default(),
        span_ns: *span_ns,
    })
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, usage: &Usage) -> io::Result<()> {
    super::stream(out, &Machines::new(usage))
}

impl<'a> Machines<'a> {
    /// As the events of a trace tell.
    pub fn new(usage: &'a Usage) -> Self {
        Self {
            span_ns: usage.span_ns,
            events: usage.events,
            domains: domains(usage).collect(),
            objects: usage.objects.iter().map(|(key, figures)| Object::new(key, figures)).collect(),
            waited: usage.waited.iter().map(WaitedDocument::new).collect(),
        }
    }
}
