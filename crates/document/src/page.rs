//! The page's document: what commands print with `--json`, each list cut to what there is room for, with levels of detail
//! that are computed beforehand. The page's program only shows it.
//!
//! Modules: [`flows`], [`explained`], [`machines`], [`usage`], [`variation`], [`comparison`], and [`cost`], the page of what
//! instructions cost.

pub mod comparison;
pub mod cost;
pub mod explained;
pub mod flows;
pub mod machines;
pub mod usage;
pub mod variation;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

#[cfg(test)]
use crate::value::Id;
use crate::{
    SCHEMA,
    page::{
        comparison::Comparison, cost::PageCost, explained::Explained, flows::PageFlows,
        machines::PageMachines, usage::Usage, variation::PageVariation,
    },
    value::{Cut, Time},
};

/// Heading of a page.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageHeading {
    /// Version of the documents.
    pub schema: u32,
    /// Title.
    pub title: String,
    /// Version of xweave that wrote the page.
    pub xweave: &'static str,
}

impl PageHeading {
    /// Creates the heading of a page with a title.
    pub fn new(title: &str) -> Self {
        Self { schema: SCHEMA, title: title.to_owned(), xweave: env!("CARGO_PKG_VERSION") }
    }
}

/// The document of a trace's page.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct TracePage {
    /// Title and versions.
    #[serde(flatten)]
    pub heading: PageHeading,
    /// Recording.
    pub recording: Recording,
    /// Findings, the answer to the question that was recorded for first.
    pub findings: Vec<Finding>,
    /// Remarks on what is missing or inexact.
    pub remarks: Cut<String>,
    /// Flows; null if the trace has none.
    pub flows: Option<PageFlows>,
    /// Transactions, by kind.
    pub explained: Vec<Explained>,
    /// What the machines did; null without events.
    pub machines: Option<PageMachines>,
    /// Comparison with an earlier run; null if none was asked for.
    pub comparison: Option<Comparison>,
    /// Use of CPUs, disks, connections and queueing disciplines over time; null without events of these.
    pub usage: Option<Usage>,
    /// Why requests vary; null if there are too few, or none of a service.
    pub variation: Option<PageVariation>,
}

/// The document of the page of what instructions cost.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CostPage {
    /// Title and versions.
    #[serde(flatten)]
    pub heading: PageHeading,
    /// Costs.
    pub cost: PageCost,
}

/// A recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Recording {
    /// Time when it began, in nanoseconds since 1970, in decimal.
    pub created_ns: String,
    /// Whether it came to its end.
    pub complete: bool,
    /// Beginning on the time line, in nanoseconds. The page's times are relative to it.
    #[cfg_attr(test, schemars(with = "Id"))]
    pub start_ns: i64,
    /// End on the time line.
    pub end_ns: Time,
    /// Number of records.
    pub records: u64,
    /// Number of events.
    pub events: u64,
    /// Records and events that are missing.
    pub lost: u64,
    /// Largest error of a time, in nanoseconds; null if it is not known.
    pub clock_error_ns: Option<u64>,
    /// Command that recorded the trace; `…` stands for what may be secret.
    pub command: Cut<String>,
    /// Domains.
    pub domains: Cut<RecordedDomain>,
}

/// What a domain is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DomainRole {
    /// It runs the others.
    Host,
    /// It is run by a host.
    Guest,
}

/// A domain that was recorded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RecordedDomain {
    /// Name.
    pub name: String,
    /// Role.
    pub role: DomainRole,
    /// Domain that runs it; null if that is not known.
    pub host: Option<String>,
    /// Release of its kernel.
    pub kernel: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Largest error of its times, in nanoseconds; null if it is not known.
    pub clock_error_ns: Option<u64>,
    /// Way of its times onto the time line: `reference`, `tsc-offset`, `common-tsc` or `exchange`; null if it has no clock.
    pub clock: Option<&'static str>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Finding {
    /// Finding, in a sentence.
    pub title: String,
    /// Details, in a sentence; empty if there are none.
    pub text: String,
    /// Advice; null if there is none.
    pub advice: Option<String>,
    /// View that shows it, and what to show there.
    pub link: Vec<String>,
}
