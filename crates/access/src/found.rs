//! What the analysis of a function has found.

use crate::access_path::Key;
use crate::classify::Reason;
use crate::location::Run;

/// What was found out about a function.
pub(crate) struct Analysed {
    /// How many it has.
    pub(crate) instructions: u64,
    /// Of those that touch memory, in the order of addresses.
    pub(crate) found: Vec<Found>,
    /// Where variables are at these.
    pub(crate) runs: Vec<Run>,
}

/// What was found out about one instruction.
pub(crate) struct Found {
    pub(crate) address: u64,
    /// Its number in its function.
    pub(crate) instruction: u32,
    pub(crate) what: Result<Option<Key>, Reason>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) certain: bool,
    pub(crate) base: Option<(u8, i32)>,
    /// The number among what was found in the function of what always comes before it with the same target.
    pub(crate) earlier: Option<u32>,
    pub(crate) parameter: Option<u8>,
    pub(crate) length: Option<u8>,
}
