//! An event as the probes of `bpf/events/` wrote it: something that happened in a kernel.
//!
//! ```text
//! offset size
//!      0    8  time_ns   CLOCK_MONOTONIC of the domain
//!      8    4  tid       the thread that ran there
//!     12    2  cpu
//!     14    1  kind      Kind
//!     15    1  code      signed; 0 where the kind's fields have one
//!     16       the fields of the kind, a multiple of 8 bytes: Kind::fields
//! ```
//!
//! An event has no more bytes than its kind needs, and no name of the thread: those are told once, by events of
//! their own. All integers are little-endian (the machine's own: x86-64).

mod wake;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use wake::{Context, Quota};

/// Bytes of an event before its kind's fields.
pub const HEADER: usize = 16;

/// The most bytes that an event has.
pub const LONGEST: usize = 48;

/// What happened. The comments say what an event's members hold; one that is not named holds 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kind {
    /// A processor went from `tid` to `other`. `code`: the state that `tid` is left in (`State` of
    /// `xweave_trace::event`).
    Switch,
    /// `tid` (or an interrupt above it) made `other` able to run. `code`: [`Context`] of the one who did, and [`Quota`] of
    /// `other`; `object`: the CPU whose turn it has to wait for, and 1; 0 if that is not known.
    Wake,
    /// `tid` made the thread `other`, of process `object`, called `name`.
    Fork,
    /// The thread `other` of process `object` is called `name`: told when it is first seen and when it changes.
    Thread,
    /// `tid` ended.
    Exit,
    /// `tid` asked for an access to disk `object` at sector `position`, of `bytes`. `code`: `Access` of
    /// `xweave_trace::event`; `other`: what the kernel calls it by (the address of its `struct bio` in units of 64 bytes,
    /// the low half), which is unique among those under way; 0 if it is not known.
    DiskQueue,
    /// The same access was given to the disk. `other`: the first, if several were.
    DiskIssue,
    /// It was joined with one that waits already: `position` and `bytes` are what was added.
    DiskMerge,
    /// The disk has done it. `other`: the first, if it is several. A driver that takes accesses as they are (device
    /// mapper, md) ends one as a whole, by `other`, with 0 `bytes`.
    DiskComplete,
    /// `tid` sent `bytes` on the socket `object`. `position`: the connection (`Connection` of `xweave_trace::event`);
    /// `code`: `Sending` of `xweave_trace::event`; `other`: the number of the network namespace, 0 if it is not known.
    Send,
    /// `tid` received `bytes` on the socket `object`. `position` and `other` as of [`Kind::Send`]; `code`: how long ago
    /// the call began, in nanoseconds, at most what fits; 0 if that is not known.
    Receive,
    /// The socket `object` went into TCP's state `code`. `position`: the connection; `other`: the network namespace.
    Socket,
    /// `tid` was given the socket `object`, of a connection that it accepts. `position`: the connection; `other`: the
    /// network namespace.
    Accept,
    /// TCP has sent something again, in its state `code`. `position`: the connection; `other`: the network namespace; `bytes`:
    /// how long ago it began to, in nanoseconds, at most what fits; 0 if that is not known.
    Retransmit,
    /// TCP did not answer a request for a connection that came to the socket `object`. `code`: `Refusal` of
    /// `xweave_trace::event`.
    /// `position`: the connection. `bytes`: how many connections waited to be accepted; `other`: the network namespace.
    SynDrop,
    /// Interrupt `object` began above whatever ran.
    IrqEnter,
    /// It ended.
    IrqExit,
    /// Softirq `object` began. `code`: [`Context`] of what raised it.
    SoftirqEnter,
    /// It ended.
    SoftirqExit,
    /// `tid` waits for the lock at address `object`.
    LockWait,
    /// `tid` does not wait for it any more. `code`: 0 if it was woken.
    LockAcquired,
    /// `tid` gives the lock at address `object` to whoever waits.
    LockWake,
    /// `tid` began the system call `object`.
    SyscallEnter,
    /// It ended. `bytes`: what it returned, as 64 bits.
    SyscallExit,
    /// The vCPU `object` of thread `tid` goes on in the guest. `other`, of this and of what else happens to a vCPU: the
    /// process that runs it, which traces have where the thread's was told.
    VmEnter,
    /// It came out of the guest. `code`: why, as the hardware numbers it.
    VmExit,
    /// The vCPU `object` halted for `bytes` nanoseconds, polling (`code` 1) or asleep (0).
    VmHalt,
    /// Interrupt `position` was put into the vCPU `object`.
    VmInject,
    /// The thread `other`, which may be waiting for CPU `position`, has to wait for CPU `object` from now on.
    Migrate,
    /// The access to disk `other` that was asked for at sector `bytes`, or a part of it, is one to disk `object` at sector
    /// `position` from now on. `code`: how many sectors.
    DiskRemap,
    /// `tid` writes to the pipe or FIFO of inode number `object`, in the file system of device `position`. `bytes` and
    /// `code` as of [`Kind::Send`].
    PipeWrite,
    /// `tid` has read `bytes` from the pipe; 0 if nobody writes to it any more. `object` and `position` as of
    /// [`Kind::PipeWrite`]; `code`: how long ago the call began, as of [`Kind::Receive`].
    PipeRead,
    /// `tid` had to wait for room in the pipe, within a write that is over. `object` and `position` as of
    /// [`Kind::PipeWrite`]; `bytes`: how long ago the call began, in nanoseconds, at most what fits.
    PipeFull,
    /// `tid` has waited for a page of the file with inode number `object`, in the file system of device `position`, that it
    /// has mapped, called `name`. `bytes`: how long ago the fault began, in nanoseconds, at most what fits; `code`: 1 if
    /// the page had to be read (a major fault), 0 if it was there and another one had it.
    PageFault,
    /// The same of a page of its memory that was swapped out.
    SwapIn,
    /// `tid` sent (`code` 1), or received (0), a message of `bytes` with a key (`record --key`). `object`: a hash of the key
    /// (FNV-1a, 64 bits); `position`: its first bytes, in their order (little-endian), 0 where it ends; `other`: a hash of
    /// the message's first 64 bytes, by which one that is sent again is known.
    Key,
    /// The processor goes into the idle state `code` of its driver's; -1: it has come out of it.
    CpuIdle,
    /// The idle state `code` that it has been in was not the one that its time was for: too deep, or, where `object` is 1,
    /// too shallow.
    CpuIdleMiss,
    /// CPU `object` runs at `bytes` kHz from now on.
    CpuFrequency,
    /// `bytes` events of this processor were lost, or an unknown number (0): the first of them `position` nanoseconds
    /// before this one, the last `object` nanoseconds before it.
    Lost,
    /// An event of another kind, called `name`.
    Other,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 41] = [
        Self::Switch,
        Self::Wake,
        Self::Fork,
        Self::Thread,
        Self::Exit,
        Self::DiskQueue,
        Self::DiskIssue,
        Self::DiskMerge,
        Self::DiskComplete,
        Self::Send,
        Self::Receive,
        Self::Socket,
        Self::Accept,
        Self::Retransmit,
        Self::SynDrop,
        Self::IrqEnter,
        Self::IrqExit,
        Self::SoftirqEnter,
        Self::SoftirqExit,
        Self::LockWait,
        Self::LockAcquired,
        Self::LockWake,
        Self::SyscallEnter,
        Self::SyscallExit,
        Self::VmEnter,
        Self::VmExit,
        Self::VmHalt,
        Self::VmInject,
        Self::Migrate,
        Self::DiskRemap,
        Self::PipeWrite,
        Self::PipeRead,
        Self::PipeFull,
        Self::PageFault,
        Self::SwapIn,
        Self::Key,
        Self::CpuIdle,
        Self::CpuIdleMiss,
        Self::CpuFrequency,
        Self::Lost,
        Self::Other,
    ];

    /// The kind with this number; none if there is none.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its members, as bits of [`member`]: those in which 0 says something. Where it says that something is not known,
    /// the member is not among them.
    pub const fn members(self) -> u8 {
        use member::{BYTES, CODE, OBJECT, OTHER, POSITION};
        match self {
            Self::Switch => OTHER | CODE,
            Self::Wake => OTHER,
            Self::Fork | Self::Thread => OTHER | OBJECT,
            Self::DiskQueue | Self::DiskIssue | Self::DiskMerge | Self::DiskComplete => {
                OBJECT | POSITION | BYTES | CODE
            }
            Self::DiskRemap => OTHER | OBJECT | POSITION | BYTES | CODE,
            Self::Send => OBJECT | POSITION | BYTES | CODE,
            Self::Receive => OBJECT | POSITION | BYTES,
            Self::Socket | Self::SynDrop => OBJECT | POSITION | CODE,
            Self::Accept | Self::Retransmit => OBJECT | POSITION,
            Self::IrqEnter | Self::IrqExit | Self::SoftirqEnter | Self::SoftirqExit => OBJECT,
            Self::LockWait | Self::LockWake => OBJECT,
            Self::LockAcquired => OBJECT | CODE,
            Self::SyscallEnter => OBJECT,
            Self::SyscallExit => OBJECT | BYTES,
            Self::VmEnter => OBJECT,
            Self::VmExit => OBJECT | CODE,
            Self::VmHalt => OBJECT | BYTES | CODE,
            Self::VmInject => OBJECT | POSITION,
            Self::Migrate => OTHER | OBJECT,
            Self::PipeWrite => OBJECT | POSITION | BYTES | CODE,
            Self::PipeRead => OBJECT | POSITION | BYTES,
            Self::PipeFull => OBJECT | POSITION,
            Self::PageFault => OBJECT | POSITION | CODE,
            Self::SwapIn | Self::CpuIdle => CODE,
            Self::Key => OBJECT | POSITION | BYTES | CODE,
            Self::CpuIdleMiss => OBJECT | CODE,
            Self::CpuFrequency => OBJECT | BYTES,
            Self::Exit | Self::Lost | Self::Other => 0,
        }
    }

    /// The group of events (`record --events`) that it is recorded with; none if it comes with all of them, or with none.
    pub const fn group(self) -> Option<&'static str> {
        match self {
            Self::Switch | Self::Wake | Self::Migrate | Self::Fork | Self::Exit => Some("sched"),
            Self::IrqEnter | Self::IrqExit | Self::SoftirqEnter | Self::SoftirqExit => Some("sched"),
            Self::LockWait | Self::LockAcquired | Self::LockWake => Some("sched"),
            Self::DiskQueue | Self::DiskIssue | Self::DiskMerge | Self::DiskComplete | Self::DiskRemap => {
                Some("block")
            }
            Self::PageFault | Self::SwapIn => Some("block"),
            Self::Send | Self::Receive | Self::Socket | Self::Accept | Self::Retransmit | Self::SynDrop => {
                Some("net")
            }
            Self::PipeWrite | Self::PipeRead | Self::PipeFull | Self::Key => Some("net"),
            Self::VmEnter | Self::VmExit | Self::VmHalt | Self::VmInject => Some("vm"),
            Self::SyscallEnter | Self::SyscallExit => Some("syscalls"),
            Self::CpuIdle | Self::CpuIdleMiss | Self::CpuFrequency => Some("power"),
            Self::Thread | Self::Lost | Self::Other => None,
        }
    }

    /// As the table of a trace calls it.
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
            Self::DiskComplete => "disk_complete",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Socket => "socket",
            Self::Accept => "accept",
            Self::Retransmit => "retransmit",
            Self::SynDrop => "syn_drop",
            Self::IrqEnter => "irq_enter",
            Self::IrqExit => "irq_exit",
            Self::SoftirqEnter => "softirq_enter",
            Self::SoftirqExit => "softirq_exit",
            Self::LockWait => "lock_wait",
            Self::LockAcquired => "lock_acquired",
            Self::LockWake => "lock_wake",
            Self::SyscallEnter => "syscall_enter",
            Self::SyscallExit => "syscall_exit",
            Self::VmEnter => "vm_enter",
            Self::VmExit => "vm_exit",
            Self::VmHalt => "vm_halt",
            Self::VmInject => "vm_inject",
            Self::Migrate => "migrate",
            Self::DiskRemap => "disk_remap",
            Self::PipeWrite => "pipe_write",
            Self::PipeRead => "pipe_read",
            Self::PipeFull => "pipe_full",
            Self::PageFault => "page_fault",
            Self::SwapIn => "swap_in",
            Self::Key => "key",
            Self::CpuIdle => "cpu_idle",
            Self::CpuIdleMiss => "cpu_idle_miss",
            Self::CpuFrequency => "cpu_frequency",
            Self::Lost => "lost",
            Self::Other => "other",
        }
    }
}

/// Members of an event that only some kinds have, as bits.
pub mod member {
    /// `other`
    pub const OTHER: u8 = 1;
    /// `object`
    pub const OBJECT: u8 = 1 << 1;
    /// `position`
    pub const POSITION: u8 = 1 << 2;
    /// `bytes`
    pub const BYTES: u8 = 1 << 3;
    /// `code`
    pub const CODE: u8 = 1 << 4;
}

impl Kind {
    /// The kind that a table calls so; none if there is none. Traces of schema 1 called three of them otherwise.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "disk_done" => Some(Self::DiskComplete),
            "lock_done" => Some(Self::LockAcquired),
            "refuse" => Some(Self::SynDrop),
            _ => Self::ALL.into_iter().find(|kind| kind.name() == name),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A part of an event behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Other,
    Code,
    /// Of which only the low half is kept.
    Object32,
    Object,
    Position32,
    Position,
    Bytes32,
    Bytes,
    Name,
    /// Four bytes that mean nothing, and are 0.
    Pad,
}

impl Field {
    fn size(self) -> usize {
        match self {
            Self::Other | Self::Code | Self::Object32 | Self::Position32 | Self::Bytes32 | Self::Pad => 4,
            Self::Object | Self::Position | Self::Bytes => 8,
            Self::Name => 16,
        }
    }
}

impl Kind {
    /// What follows the header, in order; none for what no probe writes.
    fn fields(self) -> Option<&'static [Field]> {
        use Field::{Bytes, Bytes32, Code, Name, Object, Object32, Other, Pad, Position, Position32};
        Some(match self {
            Self::Switch => &[Other, Pad],
            Self::Wake => &[Other, Object32],
            Self::Migrate => &[Other, Object32, Position32, Pad],
            Self::Fork | Self::Thread => &[Other, Object32, Name],
            Self::Exit | Self::CpuIdle => &[],
            Self::DiskQueue | Self::DiskIssue | Self::DiskMerge | Self::DiskComplete => {
                &[Position, Bytes32, Object32, Other, Pad]
            }
            Self::DiskRemap => &[Position, Bytes, Object32, Other, Code, Pad],
            Self::Send | Self::Receive | Self::Key => &[Object, Position, Bytes32, Code, Other, Pad],
            Self::SynDrop => &[Object, Position, Bytes32, Other],
            Self::Socket | Self::Accept => &[Object, Position, Other, Pad],
            Self::Retransmit => &[Object, Position, Other, Bytes32],
            Self::IrqEnter
            | Self::IrqExit
            | Self::SoftirqEnter
            | Self::SoftirqExit
            | Self::SyscallEnter
            | Self::VmEnter => &[Object32, Pad],
            Self::LockWait | Self::LockWake => &[Object],
            Self::LockAcquired => &[Object, Code, Pad],
            Self::SyscallExit | Self::VmHalt => &[Bytes, Object32, Pad],
            Self::VmExit => &[Object32, Code],
            Self::VmInject => &[Object32, Position32],
            Self::PipeWrite | Self::PipeRead => &[Object, Position32, Bytes32, Code, Pad],
            Self::PipeFull => &[Object, Position32, Bytes32],
            Self::PageFault => &[Object, Position32, Bytes32, Name],
            Self::SwapIn => &[Bytes32, Pad],
            Self::CpuIdleMiss => &[Object32, Pad],
            Self::CpuFrequency => &[Object32, Bytes32],
            Self::Lost => &[Object, Position, Bytes],
            Self::Other => return None,
        })
    }

    /// How many bytes an event of this kind has; none for what no probe writes.
    pub fn size(self) -> Option<usize> {
        self.fields().map(|fields| HEADER + fields.iter().map(|field| field.size()).sum::<usize>())
    }
}

/// One decoded event. What its members mean depends on the [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC` of the domain, in nanoseconds.
    pub time_ns: u64,
    /// Disk, socket, pipe, file, interrupt, lock, vCPU or process.
    pub object: u64,
    /// The first sector, or as the kind says.
    pub position: u64,
    /// How much.
    pub bytes: u64,
    /// The thread that ran there.
    pub tid: u32,
    /// The other thread.
    pub other: u32,
    /// As the kind says.
    pub code: i32,
    /// Logical CPU.
    pub cpu: u16,
    /// What happened.
    pub kind: Kind,
    /// A thread's name, or a file's, NUL-padded.
    pub name: [u8; 16],
}

impl Event {
    /// An event with nothing in the other members.
    pub fn new(kind: Kind, time_ns: u64, cpu: u16, tid: u32) -> Self {
        Self { time_ns, object: 0, position: 0, bytes: 0, tid, other: 0, code: 0, cpu, kind, name: [0; 16] }
    }

    /// Decodes the event that `bytes` begins with, and tells how many bytes it has; none if the bytes are no event.
    pub fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let (header, mut rest) = bytes.split_at_checked(HEADER)?;
        let kind = Kind::of(header[14])?;
        let fields = kind.fields()?;
        let cpu = u16::from_le_bytes([header[12], header[13]]);
        let mut event = Self::new(kind, word(header)?, cpu, half(&header[8..])?);
        event.code = i32::from(header[15].cast_signed());
        for field in fields {
            let (of, behind) = rest.split_at_checked(field.size())?;
            match field {
                Field::Other => event.other = half(of)?,
                Field::Code => event.code = half(of)?.cast_signed(),
                Field::Object32 => event.object = half(of)?.into(),
                Field::Object => event.object = word(of)?,
                Field::Position32 => event.position = half(of)?.into(),
                Field::Position => event.position = word(of)?,
                Field::Bytes32 => event.bytes = half(of)?.into(),
                Field::Bytes => event.bytes = word(of)?,
                Field::Name => event.name = of.try_into().ok()?,
                Field::Pad => {}
            }
            rest = behind;
        }
        Some((event, bytes.len() - rest.len()))
    }

    /// The reverse of [`Event::decode`], appended to `out`: what the kind has no room for is left out. Nothing for
    /// a kind that no probe writes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Some(fields) = self.kind.fields() else { return };
        out.extend(self.time_ns.to_le_bytes());
        out.extend(self.tid.to_le_bytes());
        out.extend(self.cpu.to_le_bytes());
        out.push(self.kind as u8);
        let short = if fields.contains(&Field::Code) { 0 } else { self.code.to_le_bytes()[0] };
        out.push(short);
        // The first bytes of a little-endian number are its low half.
        let low = |value: u64| value.to_le_bytes().into_iter().take(4);
        for field in fields {
            match field {
                Field::Other => out.extend(self.other.to_le_bytes()),
                Field::Code => out.extend(self.code.to_le_bytes()),
                Field::Object32 => out.extend(low(self.object)),
                Field::Object => out.extend(self.object.to_le_bytes()),
                Field::Position32 => out.extend(low(self.position)),
                Field::Position => out.extend(self.position.to_le_bytes()),
                Field::Bytes32 => out.extend(low(self.bytes)),
                Field::Bytes => out.extend(self.bytes.to_le_bytes()),
                Field::Name => out.extend(self.name),
                Field::Pad => out.extend([0; 4]),
            }
        }
    }

    /// The name up to its first NUL.
    pub fn name(&self) -> String {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
}

fn half(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Splits a batch of events that were written one after the other (an agent's [`Events`] message).
///
/// Ends early, with what was decoded so far, at the first byte that is no event: the second part is how many bytes
/// were left over.
///
/// [`Events`]: crate::message::Event::Events
pub fn decode_events(mut bytes: &[u8]) -> (Vec<Event>, usize) {
    let mut events = Vec::with_capacity(bytes.len() / LONGEST);
    while let Some((event, length)) = Event::decode(bytes) {
        events.push(event);
        bytes = &bytes[length..];
    }
    (events, bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name_and_by_its_older_one() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
        assert_eq!(Kind::named("disk_done"), Some(Kind::DiskComplete));
        assert_eq!(Kind::named("disk"), None);
    }

    #[test]
    fn kinds_have_their_numbers_and_names_of_their_own() {
        let mut names = std::collections::HashSet::new();
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert!(names.insert(kind.name()), "{kind}");
        }
    }

    #[test]
    fn events_are_whole_words_and_none_is_longer_than_told() {
        for size in Kind::ALL.into_iter().filter_map(Kind::size) {
            assert!(size % 8 == 0 && size <= LONGEST, "{size}");
        }
        assert_eq!((Kind::Switch.size(), Kind::Other.size()), (Some(24), None));
    }

    #[test]
    fn a_damaged_batch_keeps_what_came_before() {
        let mut bytes = Vec::new();
        let event = Event { other: 7, code: 2, ..Event::new(Kind::Switch, 1 << 40, 3, 4242) };
        event.encode(&mut bytes);
        let good = bytes.len();
        event.encode(&mut bytes);
        bytes[good + 14] = 0xff;
        assert_eq!(decode_events(&bytes), (vec![event], good));
        assert_eq!(decode_events(&bytes[..good - 1]), (Vec::new(), good - 1));
    }

    proptest! {
        #[test]
        fn what_is_decoded_encodes_to_the_same_bytes(
            kinds in prop::collection::vec((0..Kind::Other as u8, any::<[u8; LONGEST]>()), 0..20),
        ) {
            let (mut bytes, mut again) = (Vec::new(), Vec::new());
            for (kind, mut event) in kinds {
                let kind = Kind::of(kind).unwrap();
                event[14] = kind as u8;
                // What a kind has no use for is 0.
                let fields = kind.fields().unwrap();
                if fields.contains(&Field::Code) {
                    event[15] = 0;
                }
                let mut at = HEADER;
                for field in fields {
                    if *field == Field::Pad {
                        event[at..at + 4].fill(0);
                    }
                    at += field.size();
                }
                bytes.extend(&event[..at]);
            }
            let (events, left) = decode_events(&bytes);
            events.iter().for_each(|event| event.encode(&mut again));
            prop_assert_eq!((again, left), (bytes, 0));
        }

        #[test]
        fn any_bytes_are_events_or_are_left(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (events, left) = decode_events(&bytes);
            let sizes: usize = events.iter().filter_map(|event| event.kind.size()).sum();
            prop_assert_eq!(sizes + left, bytes.len());
        }
    }
}
