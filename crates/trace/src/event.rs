//! One line of `events/*.parquet`: something that happened in a kernel, in a normal form.
//!
//! The kinds are those of Horikawa's framework (Application of Event Trace Framework for Performance Problem
//! Solutions): a process's changes of state, disk accesses, communication; and of virtual machines besides. What
//! communication means is not decided here: an event says what was sent, and the analysis what for.

use std::collections::HashMap;

pub use xweave_wire::event::{Context, Kind, Quota, member};

/// The state that a thread is left in, as an event's `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It could go on, but has to wait for a processor.
    Runnable,
    /// It waits for something, and signals wake it.
    Sleeping,
    /// It waits for something, mostly a disk, and no signal wakes it.
    Blocked,
    /// It is stopped, or traced.
    Stopped,
    /// It has ended.
    Dead,
    /// It could go on, but a quota of processor time (`cpu.max`) is used up.
    Throttled,
}

impl State {
    /// As an event's `code`.
    pub fn code(self) -> i32 {
        match self {
            Self::Runnable => 0,
            Self::Sleeping => 1,
            Self::Blocked => 2,
            Self::Stopped => 3,
            Self::Dead => 4,
            Self::Throttled => 5,
        }
    }

    /// Of an event's `code`; what is unknown sleeps.
    pub fn of(code: i32) -> Self {
        match code {
            0 => Self::Runnable,
            2 => Self::Blocked,
            3 => Self::Stopped,
            4 => Self::Dead,
            5 => Self::Throttled,
            _ => Self::Sleeping,
        }
    }

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

/// What an access to a disk does, as an event's `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It empties caches, or discards.
    Other,
}

impl Access {
    /// As an event's `code`.
    pub fn code(self) -> i32 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Other => 2,
        }
    }

    /// Of an event's `code`.
    pub fn of(code: i32) -> Self {
        match code {
            0 => Self::Read,
            1 => Self::Write,
            _ => Self::Other,
        }
    }
}

/// Interrupts from here on are vectors that no device's handler is called for: a vector's number behind this one is the
/// `object` of its events (arch/x86/include/asm/irq_vectors.h; `XW_VECTOR` of bpf/events/sched.h).
pub const VECTORS: u64 = 1 << 16;

/// When it is told that something is sent, as an event's `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sending {
    /// When the call is over, and with what was sent.
    Over,
    /// When it begins, and with all that is to be sent.
    Begins,
    /// When it is over: so much was not sent of what it was told to begin with.
    Shortens,
    /// When it is over: nothing was sent of that.
    Cancels,
}

impl Sending {
    /// As an event's `code`.
    pub fn code(self) -> i32 {
        match self {
            Self::Over => 0,
            Self::Begins => 1,
            Self::Shortens => 2,
            Self::Cancels => 3,
        }
    }

    /// Of an event's `code`.
    pub fn of(code: i32) -> Self {
        match code {
            1 => Self::Begins,
            2 => Self::Shortens,
            3 => Self::Cancels,
            _ => Self::Over,
        }
    }

    /// Whether what was told to be sent when the call began is corrected: nothing is sent then.
    pub fn corrects(self) -> bool {
        matches!(self, Self::Shortens | Self::Cancels)
    }
}

/// Why TCP did not answer a request for a connection, as an event's `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// As many connections as the listener asked for wait to be accepted.
    AcceptQueue,
    /// The connection's last one is in TIME_WAIT here, and the request looks like an old one of it.
    TimeWait,
    /// Something else.
    Other,
}

impl Refusal {
    /// As an event's `code`.
    pub fn code(self) -> i32 {
        match self {
            Self::AcceptQueue => 1,
            Self::TimeWait => 2,
            Self::Other => 0,
        }
    }

    /// Of an event's `code`.
    pub fn of(code: i32) -> Self {
        match code {
            1 => Self::AcceptQueue,
            2 => Self::TimeWait,
            _ => Self::Other,
        }
    }
}

/// One end of a connection, as an event's `position`: what both ends know of it, so that they can be told to be
/// one. Both ends have the same 32 bits on top, the exclusive or of all 32-bit words of both IP addresses as the
/// kernel has them; then come the local port and the remote one, 16 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection(pub u64);

impl Connection {
    /// The same connection, as its other end calls it.
    pub fn peer(self) -> Self {
        let (addresses, local, remote) = (self.0 >> 32, self.local_port(), self.remote_port());
        Self(addresses << 32 | u64::from(remote) << 16 | u64::from(local))
    }

    /// Whether both ends have the same address, as over the loopback device.
    pub fn is_loopback(self) -> bool {
        self.0 >> 32 == 0
    }

    /// The port at this end.
    pub fn local_port(self) -> u16 {
        u16::try_from(self.0 >> 16 & 0xffff).unwrap_or(0)
    }

    /// The port at the other end; 0 if it has none.
    pub fn remote_port(self) -> u16 {
        u16::try_from(self.0 & 0xffff).unwrap_or(0)
    }
}

/// Something that happened. Plain data without allocations: a trace has many millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of the trace's time line.
    pub time_ns: i64,
    /// Disk (device number: major << 20 | minor), socket, interrupt, lock, vCPU or process.
    pub object: u64,
    /// The first sector, of 512 bytes; or as the kind says.
    pub position: u64,
    /// How much.
    pub bytes: u64,
    /// The thread that ran there; 0 is the idle one.
    pub tid: u32,
    /// The other thread.
    pub other: u32,
    /// Logical CPU.
    pub cpu: u32,
    /// As the kind says.
    pub code: i32,
    /// A text of [`Names`].
    pub name: Name,
    /// What happened.
    pub kind: Kind,
    /// Number of the domain in which.
    pub domain: u8,
}

impl Event {
    /// An event without anything in the other columns.
    pub fn new(kind: Kind, domain: u8, time_ns: i64, cpu: u32, tid: u32) -> Self {
        Self {
            time_ns,
            object: 0,
            position: 0,
            bytes: 0,
            tid,
            other: 0,
            cpu,
            code: 0,
            name: Name::default(),
            kind,
            domain,
        }
    }
}

/// A text that many events have: a thread's name, the name of an event of another kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

impl Name {
    /// Its place among the [`Names`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The texts that events have. The first is empty.
#[derive(Clone, Debug)]
pub struct Names {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, Name>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { texts: Vec::new(), numbers: HashMap::new() };
        names.give("");
        names
    }
}

impl Names {
    /// The name for a text.
    pub fn give(&mut self, text: &str) -> Name {
        self.give_within(text, &mut usize::MAX.clone()).unwrap_or_default()
    }

    /// The name for a text. One that is new takes a place of `room`; none, if no place is left for it.
    pub(crate) fn give_within(&mut self, text: &str, room: &mut usize) -> Option<Name> {
        if let Some(&known) = self.numbers.get(text) {
            return Some(known);
        }
        *room = room.checked_sub(1)?;
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(0));
        self.texts.push(text.into());
        self.numbers.insert(text.into(), name);
        Some(name)
    }

    /// The text.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.index()).map_or("", |text| text)
    }

    /// All of them, in the order of their places.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
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
        for state in states {
            assert_eq!(State::of(state.code()), state);
        }
    }

    #[test]
    fn equal_texts_have_one_name() {
        let mut names = Names::default();
        let (one, other) = (names.give("nginx"), names.give("kworker/0:1"));
        assert_eq!((names.give("nginx"), names.give("")), (one, Name::default()));
        assert_eq!((names.text(one), names.text(other)), ("nginx", "kworker/0:1"));
    }

    #[test]
    fn new_names_take_room_and_known_ones_none() {
        let (mut names, mut room) = (Names::default(), 2);
        let mut give = |text| names.give_within(text, &mut room).map(Name::index);
        let given = ["a", "b", "c", "a", "", "c"].map(&mut give);
        assert_eq!(given, [Some(1), Some(2), None, Some(1), Some(0), None]);
        assert_eq!(names.all().len(), 3);
    }
}
