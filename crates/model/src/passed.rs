//! The segments of a transaction's way.

use std::sync::Arc;

/// Where a transaction was, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// What that is called: `answer, ring vm1→host`, `disk_queue → disk_issue`.
    pub segment: Arc<str>,
    /// In nanoseconds.
    pub until_ns: i64,
    /// How many others were there when it came, if that is known.
    pub others: Option<u32>,
}
