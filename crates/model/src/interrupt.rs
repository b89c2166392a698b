//! Interrupts: those under way on a CPU, and their names.

use xweave_trace::event::VECTORS;

use crate::{machine::NESTED, thread::between};

/// An interrupt under way.
#[derive(Clone, Copy, Debug)]
struct Frame {
    soft: bool,
    /// Where its figures are.
    place: usize,
    since: i64,
    /// How long others interrupted it.
    above: u64,
}

/// The interrupts under way on a CPU, the innermost last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts(Vec<Frame>);

impl Interrupts {
    /// One begins, whose figures are at this place.
    pub(crate) fn begin(&mut self, soft: bool, place: usize, since: i64) {
        if self.0.len() >= NESTED {
            self.0.remove(0);
        }
        self.0.push(Frame { soft, place, since, above: 0 });
    }

    /// The innermost of a kind ends: the place of its figures, and its time without that of others above it. An end
    /// whose beginning was not seen ends nothing.
    pub(crate) fn end(&mut self, soft: bool, time: i64) -> Option<(usize, u64)> {
        let at = self.0.iter().rposition(|frame| frame.soft == soft)?;
        let Frame { place, since, above, .. } = self.0[at];
        self.0.truncate(at);
        let took = between(since, time);
        if let Some(below) = self.0.last_mut() {
            below.above += took;
        }
        Some((place, took.saturating_sub(above)))
    }

    /// Forgets them all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Interrupts that are told as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interrupt {
    /// A softirq, by its number (`include/linux/interrupt.h`).
    Softirq(u64),
    /// The local timer's.
    Timer,
    /// Calls of functions on other processors.
    FunctionCall,
    /// Asks another processor to reschedule.
    Rescheduling,
    /// Another vector, by its number.
    Vector(u64),
    /// A device's, by the number that the kernel gave it.
    Device(u64),
}

impl Interrupt {
    /// The one of an event's number (`arch/x86/include/asm/irq_vectors.h`, Linux 6.12).
    pub fn of(soft: bool, number: u64) -> Self {
        match (soft, number.wrapping_sub(VECTORS)) {
            (true, _) => Self::Softirq(number),
            (false, 236) => Self::Timer,
            (false, 251 | 252) => Self::FunctionCall,
            (false, 253) => Self::Rescheduling,
            (false, vector @ ..256) => Self::Vector(vector),
            (false, _) => Self::Device(number),
        }
    }
}
