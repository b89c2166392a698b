//! What people look at: tables for a terminal, and a page for a browser; and JSON documents, which programs look at.
//!
//! Everything here is a pure function from what another crate has found out to text; how wide that may be and whether
//! in colour is said by a [`View`].
//!
//! Modules: [`hops`] is one flow step by step, [`ancestry`] what it is a part of; [`kinds`] is which kinds of flow there are, [`places`] where their time
//! goes, [`segments`] between which steps; [`by_value`] is where the flows with each stored value were, [`exchanges`] where the time of requests and their answers went; [`closing`] is what was followed and what is missing;
//! [`page`] is the page for a browser; [`transactions`] is where the time of transactions goes, [`intervals`] between which places it goes, [`sizes`] how it depends on how much data they carry, [`lives`] how long processes of each program took, [`steps`] is one of them, [`losses`] what is not known of it, and
//! [`mermaid`] one as a sequence diagram; [`machines`] is what the machines did in all, `writers` who used their disks; [`comparison`] is two traces side by side, [`contrast`] slow beside typical transactions, or those of two traces; [`variation`] is why requests vary; [`records`] is what advice stored, [`recording`] how a recording
//! went, [`mod@import`] what came of an import, [`check`] what would be woven where, [`sites`] which instructions a
//! pointcut selects, [`doctor`] what a machine can do, [`experiment`] what settings changed, [`mod@merge`] what memory guests hold twice; [`next`] says which commands fit a trace, [`absent`] what it has instead of what it lacks, [`number`] writes times and counts, [`table`] is the look of tables, [`folded`] those that never break, and [`alike`] the one of what is told together; [`document`] has the JSON
//! documents; [`words`] is where what the crates below have found is put into English.
//!
//! ```
//! # use xweave_trace::{Manifest, Trace, Writer};
//! # let parent = tempfile::tempdir()?;
//! # Writer::create(parent.path(), Manifest::default())?.finish()?;
//! # let flows = xweave_flow::Flows::of(&Trace::open(parent.path())?);
//! use xweave_report::{View, closing, hops, segments};
//!
//! let view = View { width: 100, color: false };
//! if let Some(flow) = flows.typical() {
//!     print!("{}", hops::table(&flows, flow, hops::Steps::OfPath, view));
//! }
//! print!("{}", segments::table(flows.segments(), view));
//! print!("{}", closing::line(flows.summary(), view));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod absent;
pub mod alike;
pub mod ancestry;
pub mod by_value;
pub mod check;
pub mod closing;
pub mod comparison;
pub mod contrast;
pub mod doctor;
pub mod document;
pub mod exchanges;
pub mod experiment;
pub mod folded;
pub mod histogram;
pub mod hops;
pub mod import;
pub mod intervals;
pub mod kinds;
pub mod latency;
pub mod lives;
pub mod losses;
pub mod machines;
pub mod merge;
pub mod mermaid;
pub mod message;
pub mod next;
pub mod number;
pub mod page;
pub mod places;
pub mod recording;
pub mod records;
pub mod segments;
pub mod sites;
pub mod sizes;
pub mod steps;
pub mod table;
pub mod transactions;
pub mod variation;
pub mod words;
mod writers;

/// What the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Columns that there are.
    pub width: u16,
    /// Whether it may have colours.
    pub color: bool,
}

impl View {
    /// For standard output: a terminal's own width, and `wide` columns elsewhere. In colour on a
    /// terminal, unless `NO_COLOR` is set.
    pub fn of_stdout(wide: u16) -> Self {
        use std::io::IsTerminal;
        let terminal = std::io::stdout().is_terminal();
        let width = comfy_table::Table::new().width().filter(|_| terminal).unwrap_or(wide);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { width: width.max(40), color: terminal && !plain }
    }

    /// The columns of the terminal that standard error is; none elsewhere.
    pub fn columns_of_stderr() -> Option<u16> {
        let mut table = comfy_table::Table::new();
        table.use_stderr().width().map(|width| width.max(40))
    }
}
