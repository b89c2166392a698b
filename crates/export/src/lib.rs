//! Traces for the viewers and engines that people already have.
//!
//! [`perfetto`] writes a trace as [Perfetto](https://perfetto.dev) reads it: a machine for each domain with its
//! scheduling, tracks for the steps of flows with arrows from step to step, for flows and transactions as a whole, for
//! vCPUs below the threads of the host that run them, and for what is uncertain.
//!
//! Packets are written as they are made: memory is for what is under way.
//!
//! Modules: `counts` is what was written, `packets` encodes it with Perfetto's own schema, `interned` names what is
//! said often, `lanes` gives what overlaps tracks of its own; `domains` is what the trace was recorded of; `scheduling`,
//! `vcpus` and `losses` are of its events, `threads` knows what threads are called; `flows` and `transactions` are what
//! was found in it. [`views`] are for SQL. [`mod@file`] is the file that all that goes to. [`summary`] and [`document`] say what was written.

mod counts;
pub mod document;
mod domains;
pub mod file;
mod flows;
mod interned;
mod lanes;
mod losses;
mod packets;
mod scheduling;
pub mod summary;
mod threads;
mod transactions;
mod vcpus;
pub mod views;

use std::{
    collections::HashSet,
    io::{self, Write},
};

use xweave_flow::Join;
use xweave_model::Spec;
use xweave_trace::Trace;

pub use counts::{Counts, Written};
use domains::Domains;
use packets::Packets;

/// So many of what a phase goes through are gone through before it is told again.
const ROUND: u64 = 1 << 14;

/// What is being written, and how much of it has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Flows.
    Flows(u64),
    /// Events.
    Events(u64),
    /// Transactions.
    Transactions(u64),
}

/// Writes a trace as Perfetto reads it: its flows, which `join` goes through, its events, and the transactions of a kind.
///
/// # Errors
/// Those of `out`.
pub fn perfetto<'t>(
    trace: &'t Trace,
    join: impl FnOnce() -> Join<'t>,
    spec: Option<&Spec>,
    out: &mut dyn Write,
    tell: &mut dyn FnMut(Phase),
) -> io::Result<Written> {
    let mut packets = Packets::new(out);
    let domains = Domains::begin(trace, &mut packets)?;
    let mut damaged: Vec<String> = Vec::new();
    if trace.has_flows() {
        damaged.extend(flows::write(trace, join(), &domains, &mut packets, tell)?);
    }
    if trace.has_events() {
        damaged.extend(scheduling::write(trace, &domains, &mut packets, tell)?);
        if let Some(spec) = spec {
            damaged.extend(transactions::write(trace, spec, &mut packets, tell)?);
        }
    }
    losses::write(trace, &domains, &mut packets)?;
    let counts = packets.finish()?;
    let mut met = HashSet::new();
    damaged.retain(|damaged| met.insert(damaged.clone()));
    Ok(Written { counts, damaged })
}

/// Tells of a phase now and then.
fn each_round(count: u64, phase: impl Fn(u64) -> Phase, tell: &mut dyn FnMut(Phase)) {
    if count % ROUND == 1 {
        tell(phase(count));
    }
}

#[cfg(test)]
mod tests;
