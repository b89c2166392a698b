//! What was written for another viewer.

use std::path::Path;

use xweave_model::Spec;
use xweave_report::number::{count, counted};

use crate::counts::Counts;

/// Where it is, what it has, and what to do with it.
pub fn text(file: &Path, spec: Option<&Spec>, counts: &Counts) -> String {
    let mut told = Vec::new();
    let mut tell = |n: u64, one: &str, many: &str| {
        if n > 0 {
            told.push(counted(n, one, many));
        }
    };
    tell(counts.domains, "machine", "machines");
    tell(counts.flows, "flow", "flows");
    tell(counts.arrows, "arrow", "arrows");
    if let Some(spec) = spec {
        tell(counts.transactions, &format!("transaction ({spec})"), &format!("transactions ({spec})"));
    }
    tell(counts.switches, "context switch", "context switches");
    tell(counts.exits, "vCPU exit", "vCPU exits");
    tell(counts.losses, "loss of events", "losses of events");
    tell(counts.clock_breaks, "clock break", "clock breaks");
    let (file, kilobytes) = (file.display(), count(counts.bytes.div_ceil(1000)));
    let left_out = match counts.left_out {
        0 => String::new(),
        n => format!("{} of CPUs beyond 4096 left out\n", counted(n, "event", "events")),
    };
    format!(
        "{file}: {kilobytes} KB: {}\n{left_out}Open it at https://ui.perfetto.dev (it stays in your browser)\n",
        told.join(", ")
    )
}

/// The same of views in SQL.
pub fn of_views(file: &Path) -> String {
    let file = file.display();
    format!(
        "{file}: views of the trace\nduckdb -init {file}, then for example: show tables; from waits limit 10;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_what_there_is_and_nothing_else() {
        let flows = Counts { domains: 3, flows: 1, arrows: 1_234, bytes: 45_001, ..Counts::default() };
        assert_eq!(
            text(Path::new("t.pftrace"), None, &flows),
            "t.pftrace: 46 KB: 3 machines, 1 flow, 1 234 arrows\n\
             Open it at https://ui.perfetto.dev (it stays in your browser)\n"
        );
        let events =
            Counts { domains: 1, transactions: 2, switches: 7, exits: 1, left_out: 9, ..Counts::default() };
        let spec = "request:80".parse().unwrap();
        assert_eq!(
            text(Path::new("t.pftrace"), Some(&spec), &events),
            "t.pftrace: 0 KB: 1 machine, 2 transactions (request:80), 7 context switches, 1 vCPU exit\n\
             9 events of CPUs beyond 4096 left out\n\
             Open it at https://ui.perfetto.dev (it stays in your browser)\n"
        );
    }
}
