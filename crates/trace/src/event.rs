//! One line of `events/*.parquet`: something that happened in a kernel, in a normal form.
//!
//! The kinds are those of Horikawa's framework (Application of Event Trace Framework for Performance Problem
//! Solutions): a process's changes of state, disk accesses, communication; and of virtual machines besides. What
//! communication means is not decided here: an event says what was sent, and the analysis what for.

use std::{collections::HashMap, fmt};

/// What happened. The comments say what an event's columns hold; a column that is not named holds 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A processor went from `tid` to `other`. `code`: the state that `tid` is left in ([`State`]).
    Switch,
    /// `tid` (or an interrupt above it) made `other` able to run.
    Wake,
    /// `tid` made the thread `other`, of process `object`, called `name`.
    Fork,
    /// The thread `other` of process `object` is called `name`: told when it is first seen and when it changes.
    Thread,
    /// `tid` ended.
    Exit,
    /// `tid` asked for an access to disk `object` at sector `position`, of `bytes`. `code`: [`Access`].
    DiskQueue,
    /// The same access was given to the disk.
    DiskIssue,
    /// It was joined with one that waits already: `position` and `bytes` are what was added.
    DiskMerge,
    /// The disk has done it.
    DiskDone,
    /// `tid` sent `bytes` on the socket `object`. `position`: the connection ([`Connection`]).
    Send,
    /// `tid` received `bytes` on the socket `object`. `position`: the connection.
    Receive,
    /// The socket `object` went into TCP's state `code`. `position`: the connection.
    Socket,
    /// `tid` was given the socket `object`, of a connection that it accepts. `position`: the connection.
    Accept,
    /// TCP sent something again, in its state `code`. `position`: the connection.
    Retransmit,
    /// TCP did not answer a request for a connection that came to the socket `object`. `code`: [`Refusal`].
    /// `position`: the connection. `bytes`: how many connections waited to be accepted.
    Refuse,
    /// Interrupt `object` began above whatever ran.
    IrqEnter,
    /// It ended.
    IrqExit,
    /// Soft interrupt `object` began.
    SoftirqEnter,
    /// It ended.
    SoftirqExit,
    /// `tid` waits for the lock at address `object`.
    LockWait,
    /// `tid` does not wait for it any more. `code`: 0 if it was woken.
    LockDone,
    /// `tid` gives the lock at address `object` to whoever waits.
    LockWake,
    /// `tid` began the system call `object`.
    SyscallEnter,
    /// It ended. `bytes`: what it returned, as 64 bits.
    SyscallExit,
    /// The virtual processor `object` of thread `tid` goes on in the guest.
    VmEnter,
    /// It came out of the guest. `code`: why, as the hardware numbers it.
    VmExit,
    /// The virtual processor `object` halted for `bytes` nanoseconds, polling (`code` 1) or asleep (0).
    VmHalt,
    /// Interrupt `position` was put into the virtual processor `object`.
    VmInject,
    /// An event of another kind, called `name`.
    Other,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 29] = [
        Self::Switch,
        Self::Wake,
        Self::Fork,
        Self::Thread,
        Self::Exit,
        Self::DiskQueue,
        Self::DiskIssue,
        Self::DiskMerge,
        Self::DiskDone,
        Self::Send,
        Self::Receive,
        Self::Socket,
        Self::Accept,
        Self::Retransmit,
        Self::Refuse,
        Self::IrqEnter,
        Self::IrqExit,
        Self::SoftirqEnter,
        Self::SoftirqExit,
        Self::LockWait,
        Self::LockDone,
        Self::LockWake,
        Self::SyscallEnter,
        Self::SyscallExit,
        Self::VmEnter,
        Self::VmExit,
        Self::VmHalt,
        Self::VmInject,
        Self::Other,
    ];

    /// As the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Wake => "wake",
            Self::Fork => "fork",
            Self::Thread => "thread",
            Self::Exit => "exit",
            Self::DiskQueue => "disk_queue",
            Self::DiskIssue => "disk_issue",
            Self::DiskMerge => "disk_merge",
            Self::DiskDone => "disk_done",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Socket => "socket",
            Self::Accept => "accept",
            Self::Retransmit => "retransmit",
            Self::Refuse => "refuse",
            Self::IrqEnter => "irq_enter",
            Self::IrqExit => "irq_exit",
            Self::SoftirqEnter => "softirq_enter",
            Self::SoftirqExit => "softirq_exit",
            Self::LockWait => "lock_wait",
            Self::LockDone => "lock_done",
            Self::LockWake => "lock_wake",
            Self::SyscallEnter => "syscall_enter",
            Self::SyscallExit => "syscall_exit",
            Self::VmEnter => "vm_enter",
            Self::VmExit => "vm_exit",
            Self::VmHalt => "vm_halt",
            Self::VmInject => "vm_inject",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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
        }
    }

    /// Of an event's `code`; what is unknown sleeps.
    pub fn of(code: i32) -> Self {
        match code {
            0 => Self::Runnable,
            2 => Self::Blocked,
            3 => Self::Stopped,
            4 => Self::Dead,
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

/// Why TCP did not answer a request for a connection, as an event's `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

    /// The port at this end.
    pub fn local_port(self) -> u16 {
        (self.0 >> 16 & 0xffff) as u16
    }

    /// The port at the other end; 0 if it has none.
    pub fn remote_port(self) -> u16 {
        (self.0 & 0xffff) as u16
    }
}

/// Something that happened. Plain data without allocations: a trace has many millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of the trace's time line.
    pub time_ns: i64,
    /// Disk (device number: major << 20 | minor), socket, interrupt, lock, virtual processor or process.
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
        if let Some(&known) = self.numbers.get(text) {
            return known;
        }
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(0));
        self.texts.push(text.into());
        self.numbers.insert(text.into(), name);
        name
    }

    /// The text.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.index()).map_or("", |text| text)
    }

    /// All of them, in the order of their places.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_numbers_and_names_of_their_own() {
        let mut names = std::collections::HashSet::new();
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert!(names.insert(kind.name()), "{kind}");
        }
    }

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
}
