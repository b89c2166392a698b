//! The document of `xweave export`.

use std::path::Path;

use xweave_document::export::{Export, ExportCounts};
use xweave_model::Spec;
use xweave_trace::Trace;

use crate::counts::{Counts, Written};

/// Builds the document of what was written to a file.
pub fn build<'a>(file: &'a Path, spec: Option<&Spec>, written: &'a Written) -> Export<'a> {
    Export {
        file: file.to_string_lossy(),
        transaction: spec.map(ToString::to_string),
        counts: build_counts(&written.counts),
        damage: &written.damaged,
    }
}

/// The same of views in SQL, which have a trace's domains and read the rest.
pub fn of_views<'a>(trace: &Trace, file: &'a Path, sql: &str) -> Export<'a> {
    Export {
        file: file.to_string_lossy(),
        transaction: None,
        counts: ExportCounts {
            domains: trace.manifest().domains.len() as u64,
            bytes: sql.len() as u64,
            ..ExportCounts::default()
        },
        damage: &[],
    }
}

fn build_counts(of: &Counts) -> ExportCounts {
    ExportCounts {
        domains: of.domains,
        flows: of.flows,
        hops: of.hops,
        arrows: of.arrows,
        transactions: of.transactions,
        steps: of.steps,
        switches: of.switches,
        wakeups: of.wakeups,
        interrupts: of.interrupts,
        in_guest: of.in_guest,
        exits: of.exits,
        losses: of.losses,
        clock_breaks: of.clock_breaks,
        left_out: of.left_out,
        tracks: of.tracks,
        slices: of.slices,
        instants: of.instants,
        packets: of.packets,
        bytes: of.bytes,
    }
}
