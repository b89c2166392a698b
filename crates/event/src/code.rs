//! What an event's `code` says, where that is one of a few things.

/// Defines enumerations of codes: each with its number, and what documents call it.
macro_rules! enumerations {
    ($($(#[$about:meta])* $type:ident { $($(#[$of:meta])* $number:literal $name:ident $word:literal)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type { $($(#[$of])* $name,)* }

        impl $type {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            /// As an event's `code`, or a part of it.
            pub const fn code(self) -> i32 {
                match self { $(Self::$name => $number,)* }
            }

            /// As documents call it.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    )*};
}

/// As [`enumerations`], where one of them stands for all other numbers.
macro_rules! codes {
    ($($(#[$about:meta])* $type:ident { $($(#[$of:meta])* $number:literal $name:ident $word:literal)* } else $rest:ident;)*) => {$(
        enumerations! { $(#[$about])* $type { $($(#[$of])* $number $name $word)* } }

        impl $type {
            /// Of an event's `code`.
            pub const fn of(code: i32) -> Self {
                match code { $($number => Self::$name,)* _ => Self::$rest }
            }
        }
    )*};
}

codes! {
    /// State that a thread is left in. What is unknown sleeps.
    State {
        /// It could go on, but has to wait for a processor.
        0 Runnable "runnable"
        /// It waits for something, and signals wake it.
        1 Sleeping "sleeping"
        /// It waits for something, mostly a disk, and no signal wakes it.
        2 Blocked "blocked (uninterruptible)"
        /// It is stopped, or traced.
        3 Stopped "stopped"
        /// It has ended.
        4 Dead "dead"
        /// It could go on, but a quota of processor time (`cpu.max`) is used up.
        5 Throttled "throttled by a CPU quota"
    } else Sleeping;

    /// What an access to a disk does.
    Access {
        /// It reads.
        0 Read "read"
        /// It writes.
        1 Write "write"
        /// It empties caches, or discards.
        2 Other "other"
    } else Other;

    /// When it is told that something is sent.
    Sending {
        /// When the call is over, and with what was sent.
        0 Over "at the end of the call, with what was sent (other tools)"
        /// When it begins, and with all that is to be sent.
        1 Begins "at its beginning, with all it was given"
        /// When it is over: so much was not sent of what it was told to begin with.
        2 Shortens "at its end, if `bytes` of that were not sent"
        /// When it is over: nothing was sent of that.
        3 Cancels "at its end, if none were"
    } else Over;

    /// Why TCP did not answer a request for a connection.
    Refusal {
        /// As many connections as the listener asked for wait to be accepted.
        1 AcceptQueue "the accept queue is full"
        /// The connection's last one is in TIME_WAIT here, and the request looks like an old one of it.
        2 TimeWait "the connection's previous incarnation is in TIME_WAIT and the SYN looks as if it belonged to it"
        /// Something else.
        0 Other "another reason"
    } else Other;
}

impl State {
    /// Of `prev_state` of the tracepoint sched:sched_switch: include/linux/sched.h, `TASK_REPORT`; a bit above
    /// those that are told is preemption. The same from 4.14 to 6.12.
    pub fn of_kernel(state: u64) -> Self {
        // TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE, __TASK_STOPPED, __TASK_TRACED, EXIT_DEAD, EXIT_ZOMBIE,
        // TASK_PARKED; TASK_IDLE is told as 0x80.
        match state & 0xff {
            0 => Self::Runnable,
            bits if bits & 0x02 != 0 => Self::Blocked,
            bits if bits & 0x30 != 0 => Self::Dead,
            bits if bits & 0x0c != 0 => Self::Stopped,
            _ => Self::Sleeping,
        }
    }
}

impl Sending {
    /// Whether what was told to be sent when the call began is corrected: nothing is sent then.
    pub fn corrects(self) -> bool {
        matches!(self, Self::Shortens | Self::Cancels)
    }
}

enumerations! {
    /// What a CPU was doing when it did something else.
    Context {
        /// It ran the thread.
        1 Task "the thread's"
        /// It served a softirq.
        2 Softirq "a softirq"
        /// It served a hard interrupt or an NMI.
        3 Hard "a hard interrupt"
    }

    /// Whether a quota of processor time (`cpu.max`) keeps a thread that is woken from the CPU where it ran last: in the
    /// `code` of [`Kind::Wake`](crate::Kind::Wake), beside the [`Context`].
    Quota {
        /// It has none, or some is left.
        8 Left "no CPU quota keeps `other` from running"
        /// It is used up.
        16 UsedUp "one does"
    }
}

impl Context {
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

impl Quota {
    /// Of a `code`; none where that was not recorded.
    pub fn of(code: i32) -> Option<Self> {
        match code & 24 {
            8 => Some(Self::Left),
            16 => Some(Self::UsedUp),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_kernel() {
        // R, S, D, T, t, X, Z, P, I, and R+ of a preempted thread.
        let kernel = [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100];
        let states = kernel.map(State::of_kernel);
        use State::{Blocked, Dead, Runnable, Sleeping, Stopped};
        assert_eq!(
            states,
            [Runnable, Sleeping, Blocked, Stopped, Stopped, Dead, Dead, Sleeping, Sleeping, Runnable]
        );
    }

    #[test]
    fn codes_are_what_they_are_of() {
        for &state in State::ALL {
            assert_eq!(State::of(state.code()), state);
        }
        for &context in Context::ALL {
            for &quota in Quota::ALL {
                let code = context.code() | quota.code();
                assert_eq!((Context::of(code), Quota::of(code)), (Some(context), Some(quota)));
            }
        }
        assert_eq!((Context::of(8), Quota::of(3)), (None, None));
        assert_eq!(
            (State::of(77), Access::of(-1), Sending::of(9)),
            (State::Sleeping, Access::Other, Sending::Over)
        );
    }
}
