//! Another process's thread, stopped: ptrace(2), as far as it is needed here.
//!
//! Not the crate nix: it knows no real-time signals, so that a stop for one of them would be an error, and the signal lost.

use std::{
    io,
    mem::size_of,
    ptr,
    time::{Duration, Instant},
};

use libc::{c_int, c_void, user_regs_struct};

/// include/uapi/linux/ptrace.h, what the crate libc has not.
const GET_FILTER: u32 = 0x420c;
const GET_RSEQ: u32 = 0x420f;
const EVENT_STOP: i32 = 128;

/// include/uapi/linux/elf.h.
const NT_X86_XSTATE: u64 = 0x202;

/// XSAVE images are of a few kilobytes, of eleven with AMX.
const LARGEST_XSTATE: usize = 64 << 10;

/// How often it is looked whether a thread has stopped: all the time at first, as most system calls that are waited for take
/// a few microseconds, and a thread stands for as long as it takes to notice.
const LOOK_EVERY: Duration = Duration::from_micros(100);
const LOOK_CLOSELY_FOR: Duration = Duration::from_micros(50);

/// An instruction of a seccomp filter (include/uapi/linux/filter.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u16,
    pub(super) jt: u8,
    pub(super) jf: u8,
    pub(super) k: u32,
}

/// Instructions that a filter has at most (BPF_MAXINSNS).
pub(super) const LONGEST_FILTER: usize = 4096;

/// Filters of one process that are looked at.
const FILTERS: u64 = 256;

/// Why a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It was interrupted.
    Interrupted,
    /// Its process is stopped.
    Group,
    /// A signal is about to be delivered.
    Signal,
    /// It enters or leaves a system call.
    SystemCall,
    /// It has ended.
    Ended,
}

/// A system call's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) instruction: u64,
    pub(super) stack: u64,
    pub(super) result: i64,
}

/// A thread that the calling thread traces. When this is dropped it goes on by itself, at once if it stands; if it runs,
/// only when the calling thread ends, since the kernel detaches none that runs.
pub(super) struct Tracee {
    tid: i32,
    /// Whether its end is for its parent to learn, which is this process.
    is_child: bool,
    /// Whether it stands, and with what signal it is to go on.
    stands: Option<i32>,
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if let Some(signal) = self.stands {
            let _ = self.request(libc::PTRACE_DETACH, 0, signal_argument(signal));
        }
    }
}

/// A signal as ptrace takes it.
fn signal_argument(signal: i32) -> *mut c_void {
    ptr::without_provenance_mut(usize::try_from(signal).unwrap_or(0))
}

impl Tracee {
    /// Begins to trace a thread, which runs on.
    pub(super) fn seize(tid: i32, is_child: bool) -> io::Result<Self> {
        let tracee = Self { tid, is_child, stands: None };
        let options = usize::try_from(libc::PTRACE_O_TRACESYSGOOD).unwrap_or(0);
        tracee.request(libc::PTRACE_SEIZE, 0, ptr::without_provenance_mut(options))?;
        Ok(tracee)
    }

    /// Its number.
    pub(super) fn tid(&self) -> i32 {
        self.tid
    }

    fn request(&self, request: u32, address: u64, data: *mut c_void) -> io::Result<i64> {
        let address: *mut c_void = ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0));
        // SAFETY: requests here read and write no memory of ours but what `data` points to, which the callers have
        // borrowed or made for it; the kernel writes to `address` for none of them.
        let done = unsafe { libc::ptrace(request, self.tid, address, data) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
    }

    /// Asks it to stop, without a signal.
    pub(super) fn interrupt(&self) -> io::Result<()> {
        self.request(libc::PTRACE_INTERRUPT, 0, ptr::null_mut()).map(drop)
    }

    /// Lets it go on as it was going to, with the signal if it stands for one, up to a system call's beginning or end if
    /// that is wanted.
    pub(super) fn resume(&mut self, to_system_call: bool) -> io::Result<()> {
        let request = if to_system_call { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
        let signal = self.stands.take().unwrap_or(0);
        self.request(request, 0, signal_argument(signal)).map(drop)
    }

    /// Leaves it stopped with its process, to go on with that.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        self.stands = None;
        self.request(libc::PTRACE_LISTEN, 0, ptr::null_mut()).map(drop)
    }

    /// Waits until it stands; none if it does not in time.
    pub(super) fn wait(&mut self, deadline: Instant) -> io::Result<Option<Stop>> {
        let closely = Instant::now() + LOOK_CLOSELY_FOR;
        loop {
            match self.look()? {
                None if Instant::now() < closely => std::thread::yield_now(),
                None if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
                stop => return Ok(stop),
            }
        }
    }

    fn look(&mut self) -> io::Result<Option<Stop>> {
        let Some((code, status)) = self.wait_for(libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT)? else {
            return Ok(None);
        };
        if code != libc::CLD_TRAPPED && code != libc::CLD_STOPPED {
            // A tracer takes note before the parent can. Where it is the parent, its program waits for the child itself.
            if !self.is_child {
                self.wait_for(libc::WEXITED)?;
            }
            return Ok(Some(Stop::Ended));
        }
        self.wait_for(libc::WSTOPPED)?;
        let signal = status & 0xff;
        let stop = match (status >> 8, signal) {
            (EVENT_STOP, libc::SIGTRAP) => Stop::Interrupted,
            (EVENT_STOP, _) => Stop::Group,
            // PTRACE_O_TRACESYSGOOD.
            (0, _) if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
            (0, _) => Stop::Signal,
            // No other events were asked for.
            _ => Stop::Interrupted,
        };
        self.stands = Some(if stop == Stop::Signal { signal } else { 0 });
        Ok(Some(stop))
    }

    fn wait_for(&self, options: c_int) -> io::Result<Option<(c_int, c_int)>> {
        // SAFETY: all bytes of it may be zero.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = libc::id_t::try_from(self.tid).unwrap_or(0);
        // SAFETY: the kernel writes into `info` only.
        let done =
            unsafe { libc::waitid(libc::P_PID, id, &raw mut info, options | libc::WNOHANG | libc::__WALL) };
        if done < 0 {
            let error = io::Error::last_os_error();
            // It ended, and another has taken note.
            return if error.raw_os_error() == Some(libc::ECHILD) {
                Ok(Some((libc::CLD_EXITED, 0)))
            } else {
                Err(error)
            };
        }
        // SAFETY: waitid fills these fields, or leaves the zeros.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        Ok((pid != 0).then_some((info.si_code, status)))
    }

    /// Its general registers.
    pub(super) fn registers(&self) -> io::Result<user_regs_struct> {
        // SAFETY: a structure of numbers.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        self.request(libc::PTRACE_GETREGS, 0, (&raw mut registers).cast())?;
        Ok(registers)
    }

    /// Sets its general registers.
    pub(super) fn set_registers(&self, registers: &user_regs_struct) -> io::Result<()> {
        let mut registers = *registers;
        self.request(libc::PTRACE_SETREGS, 0, (&raw mut registers).cast()).map(drop)
    }

    /// Its floating point and vector registers, as XSAVE has them.
    pub(super) fn xstate(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0u8; LARGEST_XSTATE];
        let mut filled = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.request(libc::PTRACE_GETREGSET, NT_X86_XSTATE, (&raw mut filled).cast())?;
        bytes.truncate(filled.iov_len);
        Ok(bytes)
    }

    /// The signals that it blocks: where a system call has others for its duration, those after it
    /// (kernel/ptrace.c, `PTRACE_GETSIGMASK`).
    pub(super) fn signal_mask(&self) -> io::Result<u64> {
        let mut mask = 0u64;
        self.request(libc::PTRACE_GETSIGMASK, size_of::<u64>() as u64, (&raw mut mask).cast())?;
        Ok(mask)
    }

    /// Has it block all signals that can be blocked, and forget which it was going to block after a system call.
    pub(super) fn block_signals(&self) -> io::Result<()> {
        let mut mask = u64::MAX;
        self.request(libc::PTRACE_SETSIGMASK, size_of::<u64>() as u64, (&raw mut mask).cast()).map(drop)
    }

    /// Where it tells the kernel of its restartable sequences (rseq(2)); 0 if nowhere.
    pub(super) fn rseq(&self) -> io::Result<u64> {
        // struct ptrace_rseq_configuration: the address comes first.
        let mut configuration = [0u64; 3];
        let size = size_of_val(&configuration) as u64;
        match self.request(GET_RSEQ, size, configuration.as_mut_ptr().cast()) {
            Ok(_) => Ok(configuration[0]),
            // A kernel without them.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Where it is, if it leaves a system call.
    pub(super) fn exit(&self) -> io::Result<Option<Exit>> {
        // struct ptrace_syscall_info: what it is, its architecture; where; the result.
        let mut info = [0u64; 11];
        self.request(libc::PTRACE_GET_SYSCALL_INFO, size_of_val(&info) as u64, info.as_mut_ptr().cast())?;
        let is_exit = info[0] & 0xff == u64::from(libc::PTRACE_SYSCALL_INFO_EXIT);
        let [_, instruction, stack, result, ..] = info;
        Ok(is_exit.then_some(Exit { instruction, stack, result: result.cast_signed() }))
    }

    /// The seccomp filters that decide on its system calls.
    pub(super) fn filters(&self) -> io::Result<Vec<Vec<Instruction>>> {
        let mut filters = Vec::new();
        for index in 0..FILTERS {
            let mut filter = vec![Instruction::default(); LONGEST_FILTER];
            match self.request(GET_FILTER, index, filter.as_mut_ptr().cast()) {
                Ok(length) => filter.truncate(usize::try_from(length).unwrap_or(0)),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(filters),
                Err(error) => return Err(error),
            }
            filters.push(filter);
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}
