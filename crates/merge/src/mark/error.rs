//! Why memory of a process cannot be marked from outside.

use std::{fmt, io};

use super::ring;

/// Why memory of a process cannot be marked from outside.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// It is the process that asks.
    #[error("process {0} is this one: it marks its memory by madvise(2) itself")]
    Itself(u32),
    /// There is none, or it has ended.
    #[error("there is no process {0} (any more)")]
    Gone(u32),
    /// What has to be done with it is not permitted.
    #[error(
        "{what} of process {pid} is not permitted: {source}; run this as root, with the sysctl kernel.yama.ptrace_scope below 3"
    )]
    NotPermitted {
        /// The process.
        pid: u32,
        /// What is not permitted.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// Another process traces it: there can be one at a time.
    #[error("process {pid} is traced by process {by}: end the debugger there, and try again")]
    Traced {
        /// The process.
        pid: u32,
        /// Its tracer.
        by: u32,
    },
    /// It runs other code than that of x86-64.
    #[error("process {0} does not run 64-bit x86 code: its memory cannot be marked from outside")]
    Architecture(u32),
    /// The return of a signal handler cannot be imitated there.
    #[error(
        "process {0} has a shadow stack: start it without (GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK), or let it mark its \
         memory itself"
    )]
    ShadowStack(u32),
    /// The system's administrator has switched io_uring off.
    #[error("io_uring is not for process {pid}: the sysctl kernel.io_uring_disabled is {level}; set it to 0")]
    IoUringDisabled {
        /// The process.
        pid: u32,
        /// The setting: 1 or 2.
        level: u32,
    },
    /// Its seccomp filters are not known to let the system calls through.
    #[error("the seccomp filter of process {pid}: {why}; let it mark its memory itself, or start it without")]
    Seccomp {
        /// The process.
        pid: u32,
        /// What of it.
        why: Filtered,
    },
    /// It may not have a ring, nor make the system calls that would do without.
    #[error("neither by a ring nor by calls of its own. The ring: {ring}. Its calls: {calls}")]
    Neither {
        /// Why it may not have a ring.
        ring: Box<Self>,
        /// Why it cannot make calls.
        calls: Box<Self>,
    },
    /// It is stopped, by a signal or its user.
    #[error("process {0} is stopped: let it go on (kill -CONT {0}), and try again")]
    Stopped(u32),
    /// The instructions that are needed are not in its program or libraries.
    #[error(
        "process {0} has no code for {1} in its program and libraries: its memory cannot be marked from outside"
    )]
    NoCode(u32, &'static str),
    /// No thread of it can be borrowed for a system call.
    #[error(
        "none of {tried} threads of process {pid} can make a system call for us (the last: {last}); try again"
    )]
    NoThread {
        /// The process.
        pid: u32,
        /// How many were tried.
        tried: usize,
        /// Why the last one cannot.
        last: Unfit,
    },
    /// The system call that it made for us gave an error.
    #[error("{call} in process {pid} failed: {source}")]
    Refused {
        /// The process.
        pid: u32,
        /// Which system call.
        call: &'static str,
        /// What it gave.
        source: io::Error,
    },
    /// What became of the system call is not known. The process goes on, and makes it later if it has not yet.
    #[error(
        "{call} in process {pid} did not end in time: it is still made there, and what it opens or marks remains"
    )]
    Lost {
        /// The process.
        pid: u32,
        /// Which system call.
        call: &'static str,
    },
    /// The ring is not as the kernel leaves it: the process has changed it.
    #[error("the ring in process {pid} is unusable, {why}: the process meddles with it")]
    Ring {
        /// The process.
        pid: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// The kernel did not say in time that it has done what it was asked to.
    #[error(
        "the kernel left {left} ranges of process {pid} unanswered: see in /proc/{pid}/smaps which are marked (mg)"
    )]
    Unanswered {
        /// The process.
        pid: u32,
        /// How many of what it was asked for at once.
        left: usize,
    },
    /// Nobody waits for it any more.
    #[error("interrupted: not all of the memory of process {0} that was to be is marked or unmarked")]
    Ended(u32),
    /// A range does not begin and end between pages, is empty, or longer than all memory.
    #[error("the range of {length:#x} bytes at {start:#x} is not one of some whole pages of memory")]
    NotPages {
        /// Where it begins.
        start: u64,
        /// How long it is.
        length: u64,
    },
    /// The kernel refused something else.
    #[error("{what} of process {pid}: {source}")]
    System {
        /// The process.
        pid: u32,
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
}

impl MarkError {
    /// Whether it is the ring alone that is in the way.
    pub(super) fn is_of_ring(&self) -> bool {
        let call = match self {
            Self::IoUringDisabled { .. } => return true,
            Self::Seccomp { why: Filtered::Call(call), .. } | Self::Refused { call, .. } => call,
            _ => return false,
        };
        *call == ring::SETUP
    }

    /// What the kernel said of a process when this was tried.
    pub(super) fn of(pid: u32, what: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ESRCH) => Self::Gone(pid),
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { pid, what, source },
            _ if source.kind() == io::ErrorKind::NotFound => Self::Gone(pid),
            _ => Self::System { pid, what, source },
        }
    }
}

/// What of a seccomp filter is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtered {
    /// It is in strict mode.
    Strict,
    /// A filter does not simply allow this system call.
    Call(&'static str),
    /// The filters cannot be read.
    Unreadable,
}

impl fmt::Display for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("it may only read, write and exit"),
            Self::Call(call) => write!(f, "it does not allow {call}"),
            Self::Unreadable => f.write_str(
                "it cannot be read (that takes root outside of containers, and CONFIG_CHECKPOINT_RESTORE)",
            ),
        }
    }
}

/// Why a thread cannot be borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It may not be traced: a worker of the kernel's, or it has another tracer.
    NotTraceable,
    /// It did not stop in time: it waits for a device, or for a child of vfork.
    DoesNotStop,
    /// It has ended.
    Ended,
    /// It runs 32-bit code.
    Code32,
    /// It is in a restartable sequence (rseq), which must not be left in the middle.
    Rseq,
    /// It has no stack that is known to have room.
    Stack,
    /// Its wait would end early.
    Waits,
    /// It runs another program than before.
    Code,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTraceable => "may not be traced",
            Self::DoesNotStop => "does not stop",
            Self::Ended => "has ended",
            Self::Code32 => "runs 32-bit code",
            Self::Rseq => "is in a restartable sequence",
            Self::Stack => "has no stack that is known to have room",
            Self::Code => "runs another program now",
            Self::Waits => "waits for a time, which would end early",
        })
    }
}
