//! Frames that are on their way, and what was recorded of those that were.

use std::collections::BTreeMap;

use xweave_wire::record::Record;

/// How far a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Stack,
    Ring,
    Socket,
}

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnWay {
    pub(super) client: usize,
    pub(super) to_server: bool,
    /// Its flow, in the domain where it is.
    pub(super) flow: u64,
    pub(super) number: u64,
    pub(super) reached: Reached,
}

/// The frames of a world.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    /// What was recorded of them, and in which domain.
    pub(super) records: Vec<(u8, Record)>,
    pub(super) on_way: Vec<OnWay>,
    /// How many bytes each client has sent, and was sent.
    pub(super) bytes: BTreeMap<(usize, bool), u64>,
    pub(super) made: u64,
}
