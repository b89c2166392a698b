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

/// What an interrupt is called.
pub fn name(soft: bool, number: u64) -> String {
    // include/linux/interrupt.h
    const SOFT: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let known = usize::try_from(number).ok().and_then(|number| SOFT.get(number));
    match (soft, known, number.wrapping_sub(VECTORS)) {
        (true, Some(name), _) => format!("softirq {name}"),
        (true, None, _) => format!("softirq {number}"),
        (false, _, 236) => "timer interrupt".to_owned(),
        (false, _, 251 | 252) => "function call interrupt".to_owned(),
        (false, _, 253) => "rescheduling interrupt".to_owned(),
        (false, _, vector @ ..256) => format!("interrupt vector {vector}"),
        (false, ..) => format!("interrupt {number}"),
    }
}
