//! The document of `xweave explain --machines`, which is also the member `machines` of the document of a trace without flows
//! and requests.

use std::io::{self, Write};

use xweave_document::machines::{BlamePair, BusyCpu, MachineDomain, MachineObject, Machines, States, Waited};
use xweave_model::{
    Blame, Tenant, Usage,
    blame::blames,
    usage::{self, Figures, Key},
};

use super::parts::build_role;
use crate::words::objects;

/// Builds the row of an object.
pub fn build_object(key: &Key, figures: &Figures) -> MachineObject {
    MachineObject {
        kind: key.kind().name(),
        domain: key.domain.clone(),
        object: objects::usage(&key.object).into(),
        time_ns: figures.time_ns,
        count: figures.count,
        bytes: figures.bytes,
        written_bytes: figures.written,
        wait_ns: figures.wait_ns,
        device_ns: figures.device_ns,
        role: key.object.group().map(build_role),
    }
}

/// Builds the row of a time that threads waited for a CPU.
pub fn build_waited(waited: &usage::Waited) -> Waited {
    Waited {
        domain: waited.domain.clone(),
        object: objects::processes(&waited.who).into(),
        by: objects::processes(&waited.by).into(),
        by_guest: waited.by.guest().map(str::to_owned),
        ns: waited.ns,
    }
}

/// Builds the row of a time that one kept another waiting, of a trace that is that long.
pub fn build_blame(blame: &Blame, span_ns: u64) -> BlamePair {
    let guest = |of: &Tenant| match of {
        Tenant::Guest(name) => Some(name.clone()),
        Tenant::Recorder | Tenant::Processes(_) => None,
    };
    BlamePair {
        domain: blame.domain.clone(),
        victim: objects::tenant(&blame.victim).into(),
        victim_guest: guest(&blame.victim),
        culprit: objects::tenant(&blame.culprit).into(),
        culprit_guest: guest(&blame.culprit),
        telling: blame.is_telling(span_ns),
        relation: blame.relation.name(),
        ns: blame.ns,
        waited_ns: blame.waited_ns,
        ran_ns: blame.ran_ns,
    }
}

/// Builds the rows of the domains.
pub fn build_domains(usage: &Usage) -> impl ExactSizeIterator<Item = MachineDomain> {
    let busy = |domain: &str| {
        let cpus = usage.busy.get(domain).into_iter().flatten();
        cpus.map(|(cpu, ns)| BusyCpu { cpu: *cpu, ns: *ns }).collect()
    };
    usage.spans.iter().map(move |(domain, span_ns)| MachineDomain {
        domain: domain.clone(),
        cpus: usage.cpus.get(domain).copied().unwrap_or(0),
        busy: busy(domain),
        states: build_states(usage.states.get(domain).copied().unwrap_or_default()),
        span_ns: *span_ns,
    })
}

fn build_states(of: usage::States) -> States {
    States {
        running_ns: of.running_ns,
        ready_ns: of.ready_ns,
        waiting_ns: of.waiting_ns,
        dispatched: of.dispatched,
        preempted: of.preempted,
        blocked: of.blocked,
        woken: of.woken,
        began: of.began,
        ended: of.ended,
    }
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, usage: &Usage) -> io::Result<()> {
    super::stream(out, &build(usage))
}

/// Builds the document.
pub fn build(usage: &Usage) -> Machines {
    Machines {
        span_ns: usage.span_ns,
        events: usage.events,
        domains: build_domains(usage).collect(),
        objects: usage.objects.iter().map(|(key, figures)| build_object(key, figures)).collect(),
        waited: usage.waited.iter().map(build_waited).collect(),
        blame: blames(usage).iter().map(|blame| build_blame(blame, usage.span_ns)).collect(),
    }
}
