//! What was written.

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// What was written.
    pub counts: Counts,
    /// Files of the trace that could not be read, or not to their ends.
    pub damaged: Vec<String>,
}

/// How many of what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Domains, each a machine of the viewer's.
    pub domains: u64,
    /// Flows.
    pub flows: u64,
    /// Their records: those of their paths, and those beside these.
    pub hops: u64,
    /// Arrows: from each record of a path to the next.
    pub arrows: u64,
    /// Transactions.
    pub transactions: u64,
    /// The parts of their time.
    pub steps: u64,
    /// Switches of CPUs from thread to thread.
    pub switches: u64,
    /// Threads that were woken.
    pub wakeups: u64,
    /// Interrupts, hard and soft.
    pub interrupts: u64,
    /// Times in which vCPUs were in their guests.
    pub in_guest: u64,
    /// Exits of vCPUs, up to where they went on.
    pub exits: u64,
    /// Times in which events were lost.
    pub losses: u64,
    /// Discontinuities of clocks.
    pub clock_breaks: u64,
    /// Events of CPUs with numbers that the viewer has no place for.
    pub left_out: u64,
    /// Tracks.
    pub tracks: u64,
    /// Slices: what has a beginning and an end.
    pub slices: u64,
    /// What has a time only.
    pub instants: u64,
    /// Packets that all of that is written in.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
}
