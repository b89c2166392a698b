//! One time line for all domains, and how far from the truth each time on it may be.
//!
//! The time line is the `CLOCK_MONOTONIC` of the *reference* domain, normally the host. A guest's
//! times get there by one of three ways:
//!
//! ```text
//! tsc-offset   guest ns ─► guest TSC ─► host TSC ─► host ns     exact but for the two readings
//! common-tsc   guest ns ─► the TSC of both ───────► host ns     the same
//! exchange     guest ns ─► controller's TSC ─────► host ns     as exact as a message's round trip
//! ```
//!
//! Each arrow that is not arithmetic is a [`map::Map`]: a piecewise linear function through
//! readings of one clock between two readings of the other. [`vm`] finds which virtual machine,
//! and so which offset, belongs to a guest. (Xen's paravirtual domains read the machine's own TSC.) [`timeline`] puts them together.
//!
//! Bounds hold under one assumption: between a domain's samples its clock changes its rate at most
//! once, and not in two neighbouring gaps. (The kernel changes it once a second, at most by
//! 500 ppm; samples come several times a second.)
//!
//! Clocks that jump are noticed: every reading has to fit what was known before it. One that does not ends an
//! *epoch* of its domain, and of no other; the offsets are read anew, the way is decided anew, and the time
//! between the last reading that fitted and the first of the new epoch is a *break*, where no bound is stated. A step
//! that is too small to be told from the readings' own width adds at most itself to the error.

mod epoch;
mod identify;
pub mod map;
pub mod timeline;
pub mod vm;

use xweave_wire::message::ClockSample;

use map::Bracket;
pub use timeline::Timeline;

/// A reading of a domain's clocks that the controller asked for, between two readings of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The controller's TSC before it sent the request. A controller without a usable TSC may put
    /// any clock of its own that never steps here, in any unit, the same throughout.
    pub sent_tsc: u64,
    /// What the domain's agent answered.
    pub sample: ClockSample,
    /// The controller's TSC after the answer came.
    pub received_tsc: u64,
}

impl Exchange {
    /// The domain's clock by its TSC.
    fn own(&self) -> Bracket {
        Bracket::of(&self.sample)
    }

    /// The domain's clock by the controller's TSC.
    fn hub(&self) -> Bracket {
        Bracket { before: self.sent_tsc, mono_ns: self.sample.mono_ns, after: self.received_tsc }
    }
}

/// A time on the common time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds of the reference domain's `CLOCK_MONOTONIC`.
    pub ns: i64,
    /// The true time is at most this far away, in nanoseconds; `u64::MAX` within a break, where that is not known.
    pub error_ns: u64,
}
