//! What an event says of a wake-up besides the two threads, in its `code`.

/// What a CPU was doing when it did something else: as the `code` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// It ran the thread.
    Task,
    /// It served a softirq.
    Softirq,
    /// It served a hard interrupt or an NMI.
    Hard,
}

impl Context {
    /// As an event's `code`.
    pub fn code(self) -> i32 {
        match self {
            Self::Task => 1,
            Self::Softirq => 2,
            Self::Hard => 3,
        }
    }

    /// Of an event's `code`; none where that was not recorded.
    pub fn of(code: i32) -> Option<Self> {
        match code & 7 {
            1 => Some(Self::Task),
            2 => Some(Self::Softirq),
            // An NMI's handler wakes nobody itself.
            3 | 4 => Some(Self::Hard),
            _ => None,
        }
    }
}

/// Whether a quota of processor time (`cpu.max`) keeps a thread that is woken from the CPU where it ran last: in the
/// `code` of [`Kind::Wake`](super::Kind::Wake), beside the [`Context`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quota {
    /// It has none, or some is left.
    Left,
    /// It is used up.
    UsedUp,
}

impl Quota {
    /// What it adds to the `code`.
    pub fn code(self) -> i32 {
        match self {
            Self::Left => 8,
            Self::UsedUp => 16,
        }
    }

    /// Of a `code`; none where that was not recorded.
    pub fn of(code: i32) -> Option<Self> {
        match code & 24 {
            8 => Some(Self::Left),
            16 => Some(Self::UsedUp),
            _ => None,
        }
    }
}
