//! Interrupts by what they are for.

use xweave_trace::event::VECTORS;

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
