//! Numbers of threads and CPUs, which are unique within their domains.

use xweave_trace::TimeSpan;

/// A thread of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId {
    /// The domain's number.
    pub domain: u8,
    /// The thread's number there (`tid`); 0 is the idle thread of each CPU.
    pub tid: u32,
}

/// A logical CPU of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuId {
    /// The domain's number.
    pub domain: u8,
    /// Logical CPU.
    pub cpu: u32,
}

/// Nanoseconds from one time to another; 0 where clocks say that the later one came first.
#[inline]
pub fn between(from: i64, to: i64) -> u64 {
    TimeSpan { from, to }.duration_ns()
}
