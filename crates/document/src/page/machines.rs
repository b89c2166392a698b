//! What the machines did: what `xweave explain --machines` prints with `--json`, the largest entries first.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    machines::{BlamePair, MachineDomain, MachineObject, Waited},
    value::Cut,
};

/// What machines did.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageMachines {
    /// Time from the first event to the last, in nanoseconds.
    pub span_ns: u64,
    /// Number of events.
    pub events: u64,
    /// Domains with events.
    pub domains: Cut<MachineDomain>,
    /// Objects of the domains.
    pub objects: Cut<MachineObject>,
    /// Times that threads were ready for a CPU that others had.
    pub waited: Cut<Waited>,
    /// Times that virtual machines and programs were kept waiting for CPUs, and by whom: what is telling first.
    pub blame: Cut<BlamePair>,
}
