//! Values of an event's `code`, for kinds whose code is an enumeration.

/// Defines enumerations of codes: each with its number, and what documents call it.
macro_rules! enumerations {
    ($($(#[$about:meta])* $type:ident { $($(#[$of:meta])* $number:literal $name:ident $word:literal)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type { $($(#[$of])* $name,)* }

        impl $type {
            /// All values.
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            /// Number in an event's `code`.
            pub const fn code(self) -> i32 {
                match self { $(Self::$name => $number,)* }
            }

            /// Name in documents.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    )*};
}

/// Defines [`enumerations`] with a value that stands for all unlisted numbers.
macro_rules! codes {
    ($($(#[$about:meta])* $type:ident { $($(#[$of:meta])* $number:literal $name:ident $word:literal)* } else $rest:ident;)*) => {$(
        enumerations! { $(#[$about])* $type { $($(#[$of])* $number $name $word)* } }

        impl $type {
            /// Value of an event's `code`.
            pub const fn of(code: i32) -> Self {
                match code { $($number => Self::$name,)* _ => Self::$rest }
            }
        }
    )*};
}

codes! {
    /// State of a thread after a context switch. Unknown numbers mean sleeping.
    State {
        /// Runnable, waiting for a CPU.
        0 Runnable "runnable"
        /// Interruptible sleep.
        1 Sleeping "sleeping"
        /// Uninterruptible sleep, mostly for a disk.
        2 Blocked "blocked (uninterruptible)"
        /// Stopped, or traced.
        3 Stopped "stopped"
        /// Exited.
        4 Dead "dead"
        /// Runnable, but its CPU quota (`cpu.max`) is used up.
        5 Throttled "throttled by a CPU quota"
    } else Sleeping;

    /// Operation of a disk request.
    Access {
        /// Read.
        0 Read "read"
        /// Write.
        1 Write "write"
        /// Flush, discard or another one.
        2 Other "other"
    } else Other;

    /// Moment in a sending call at which its event is recorded.
    Sending {
        /// End of the call, with the bytes sent.
        0 Over "at the end of the call, with what was sent (other tools)"
        /// Beginning of the call, with all bytes to be sent.
        1 Begins "at its beginning, with all it was given"
        /// End of the call: these bytes of those at the beginning were not sent.
        2 Shortens "at its end, if `bytes` of that were not sent"
        /// End of the call: none of the bytes at the beginning were sent.
        3 Cancels "at its end, if none were"
    } else Over;

    /// Reason for which TCP holds back what it was given to send (`tcp_write_xmit`, net/ipv4/tcp_output.c, 6.12).
    HoldReason {
        /// The congestion window is full.
        1 CongestionWindow "the congestion window is full"
        /// The receiver's window is full.
        2 ReceiveWindow "the receiver's window is full"
        /// The program asked to wait for more (`MSG_MORE`, `TCP_CORK`).
        3 Cork "the program asked to wait for more (`MSG_MORE`, `TCP_CORK`)"
        /// Nagle's algorithm: it is less than a segment, and an earlier one is not acknowledged.
        4 Nagle "it is less than a segment, and an earlier one is not acknowledged (Nagle's algorithm)"
        /// Another reason.
        0 Other "another reason"
    } else Other;

    /// Reason for which TCP dropped a SYN.
    Refusal {
        /// The accept queue is full.
        1 AcceptQueue "the accept queue is full"
        /// The previous connection of these ports is in TIME_WAIT, and the SYN looks like one of its segments.
        2 TimeWait "the connection's previous incarnation is in TIME_WAIT and the SYN looks as if it belonged to it"
        /// Another reason.
        0 Other "another reason"
    } else Other;
}

impl State {
    /// State of a `prev_state` of the tracepoint sched:sched_switch: include/linux/sched.h, `TASK_REPORT`; a bit above
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
    /// Reports whether the event corrects the one at the beginning of the call; it sends nothing itself.
    pub fn corrects(self) -> bool {
        matches!(self, Self::Shortens | Self::Cancels)
    }
}

enumerations! {
    /// Context in which a CPU ran.
    Context {
        /// The thread's.
        1 Task "the thread's"
        /// A softirq.
        2 Softirq "a softirq"
        /// A hard interrupt or an NMI.
        3 Hard "a hard interrupt"
    }

    /// State of a woken thread's CPU quota (`cpu.max`) on the CPU where it ran last. It is in the `code` of
    /// [`Kind::Wake`](crate::Kind::Wake), added to the [`Context`].
    Quota {
        /// No quota, or some of it left.
        8 Left "no CPU quota keeps `other` from running"
        /// Used up.
        16 UsedUp "one does"
    }
}

impl Context {
    /// Context in an event's `code`; none if it was not recorded.
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
    /// Quota in an event's `code`; none if it was not recorded.
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
