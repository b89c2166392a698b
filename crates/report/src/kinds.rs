//! The kinds of flow: how many there are of each, and how long they take.

use xweave_flow::FlowKind;

use crate::{
    View,
    alike::{self, Alike},
};

/// The kinds, the commonest first; at most so many, and in a line how many more there are.
pub fn table(kinds: &[FlowKind], most: usize, view: View) -> String {
    let row = |kind: &FlowKind| Alike {
        name: kind.name.clone(),
        counts: [kind.flows, kind.complete],
        times: [kind.p50_ns, kind.p99_ns, kind.max_ns],
    };
    alike::table("Flows of this kind", kinds.iter().map(row), most, ("other kind", "other kinds"), view)
}
