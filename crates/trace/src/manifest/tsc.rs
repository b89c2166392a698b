//! A TSC on a trace's time line.

use serde::{Deserialize, Serialize};
use xweave_wire::bounded::list;

use super::bounds;

/// What a TSC was when: what others recorded who read the same one gets its times by that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TscLine {
    /// No time that lies between two points is farther than this from the truth, in nanoseconds.
    pub error_ns: u64,
    /// Ticks, and nanoseconds of the time line: both become more from one to the next, and between two the TSC counts evenly.
    #[serde(deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub points: Vec<(u64, i64)>,
}
