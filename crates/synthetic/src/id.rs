//! Numbers of things.

/// Place of a thread among all of all domains.
pub(crate) type Thread = usize;
/// Place of a processor among all of all domains.
pub(crate) type Cpu = usize;
