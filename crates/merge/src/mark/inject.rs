//! System calls made by another process, for which one of its threads is borrowed.
//!
//! Its registers are set for each. From the first time on it comes back to what it did by itself ([`super::frame`]), whether
//! this process is still there or not: after the system call that it was to make, or has made.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    thread,
    time::{Duration, Instant},
};

use libc::user_regs_struct;

use super::{
    error::{Filtered, MarkError, Unfit},
    frame::{Call, Frame, Interrupted, State},
    process::{Code, Process, Thread},
    ptrace::{Instruction, Stop, Tracee},
    seccomp::{self, Question},
};

/// How long a thread may take to stop: more than a turn on a busy CPU.
const STOP_WITHIN: Duration = Duration::from_millis(300);

/// How long a system call may take, signals of the process's own included.
const CALL_WITHIN: Duration = Duration::from_secs(5);

/// For how long a thread is held, about: no further system call is begun later. It is less than a thread waits where another
/// one has its turn on the CPU (2.8 ms with eight CPUs or more: kernel/sched/fair.c, `sysctl_sched_base_slice`), and enough
/// for dozens of short ones.
pub(super) const HELD_FOR: Duration = Duration::from_millis(1);

/// Threads that are tried.
const TRIED: usize = 8;

/// How often they are, and for how long: one that is in a signal's handler now is not, soon.
const ROUNDS: u32 = 20;
const TRY_WITHIN: Duration = Duration::from_secs(1);
const TRY_EVERY: Duration = Duration::from_millis(1);

/// Below what is written there is to be room for a signal's handler.
const MARGIN: u64 = 16 << 10;

/// The segment of 64-bit code (arch/x86/include/asm/segment.h, `__USER_CS`).
const CODE64: u64 = 0x33;

/// rt_sigreturn and the number of the system call that it follows.
const SIGRETURN: u64 = 15;

/// How far a system call has got. Tests end the process at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The thread is traced, and runs.
    Seized,
    /// It has stopped.
    Stopped,
    /// All that there is to know of it is known.
    Read,
    /// Its stack has been written to.
    Written,
    /// Its registers have been set.
    Set,
    /// It blocks signals.
    Masked,
    /// It runs, to make the system call.
    Running,
    /// It enters the system call.
    Entered,
    /// It has made it.
    Made,
    /// It is not traced any more.
    Left,
}

/// What is told how far it has got.
pub(super) type Hook<'h> = &'h mut (dyn FnMut(Step) + Send);

/// What a system call gave, and its memory after it.
pub(super) struct Made {
    pub(super) result: i64,
    pub(super) memory: Vec<u8>,
}

/// A thread was no use, or nothing is.
enum Failed {
    Unfit(Unfit),
    All(MarkError),
}

impl From<MarkError> for Failed {
    fn from(error: MarkError) -> Self {
        Self::All(error)
    }
}

/// Has a process make a system call.
///
/// # Errors
/// It cannot be made, or what became of it is not known. That it gives an error is none.
pub(super) fn call(process: &Process, call: &Call, hook: Hook<'_>) -> Result<Made, MarkError> {
    let made = calls(process, std::slice::from_ref(call), hook)?.into_iter().next();
    made.ok_or(MarkError::Lost { pid: process.pid, call: call.name })
}

/// Has a process make some of these system calls: the first, and those after it for which there is time while a thread of it
/// is held. All but the first have no memory.
///
/// # Errors
/// The first cannot be made, or what became of one is not known. That they give an error is none.
pub(super) fn calls(process: &Process, calls: &[Call], hook: Hook<'_>) -> Result<Vec<Made>, MarkError> {
    let Some((call, more)) = calls.split_first() else { return Ok(Vec::new()) };
    let code = process.code(&process.memory()?)?;
    let threads = process.threads()?;
    let tried = threads.len().min(TRIED);
    let mut last = Unfit::Ended;
    let deadline = Instant::now() + TRY_WITHIN;
    for round in 0..ROUNDS {
        for thread in &threads[..tried] {
            // Waits for a time end early by this. So it is a thread that does not wait for a time, if there is one.
            let borrowed = Borrowed { process, call, more, code, ends_waits: round > 0 };
            // A thread of our own for it: what that still traces at its end goes on, even if it never stopped.
            let attempt = thread::scope(|scope| scope.spawn(|| borrowed.borrow(*thread, hook)).join());
            match attempt {
                Ok(Ok(made)) => return Ok(made),
                Ok(Err(Failed::Unfit(unfit))) => last = unfit,
                Ok(Err(Failed::All(error))) => return Err(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            if process.has_ended() {
                return Err(MarkError::Gone(process.pid));
            }
        }
        if Instant::now() > deadline {
            break;
        }
        thread::sleep(TRY_EVERY);
    }
    Err(MarkError::NoThread { pid: process.pid, tried, last })
}

struct Borrowed<'b> {
    process: &'b Process,
    call: &'b Call,
    /// Those to be made after it, if there is time.
    more: &'b [Call],
    code: Code,
    /// Whether a wait may end early.
    ends_waits: bool,
}

impl Borrowed<'_> {
    fn borrow(&self, thread: Thread, hook: Hook<'_>) -> Result<Vec<Made>, Failed> {
        let is_child = self.process.is_child && u32::try_from(thread.tid) == Ok(self.process.pid);
        let mut tracee = Tracee::seize(thread.tid, is_child).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => Failed::Unfit(Unfit::Ended),
            _ => Failed::Unfit(Unfit::NotTraceable),
        })?;
        hook(Step::Seized);
        self.stop(&mut tracee)?;
        let until = Instant::now() + HELD_FOR;
        // It cannot end now but by SIGKILL: its number is that of the right process's thread if that lives.
        if self.process.has_ended() {
            return Err(MarkError::Gone(self.process.pid).into());
        }
        hook(Step::Stopped);
        // It may run another program by now, in other memory.
        let memory = self.process.memory()?;
        if !self.code.is_in(&memory) {
            return Err(Failed::Unfit(Unfit::Code));
        }
        let filters = self.filters(&tracee)?;
        let frame = self.prepare(&tracee, &memory, &filters)?;
        hook(Step::Read);
        memory
            .write_all_at(&frame.bytes, frame.address)
            .map_err(|error| self.failed("writing the stack", error))?;
        hook(Step::Written);
        tracee
            .set_registers(&frame.registers)
            .map_err(|error| self.failed("setting the registers", error))?;
        hook(Step::Set);
        // Signals wait until it is back where it was, and find it there: handlers would run before the system call, again
        // and again where many arrive, and a wait that they are to end (sigsuspend) would begin again after them. The mask
        // is put back with the registers: so they come first. If this process dies in between, handlers do run before.
        tracee.block_signals().map_err(|error| self.failed("blocking signals", error))?;
        hook(Step::Masked);
        let mut made = vec![self.make(self.call, &mut tracee, &memory, &frame, hook)?];
        for call in self.more {
            let registers = frame.registers_for(call);
            // What a filter does not allow is the first of the next time, and told then.
            if Instant::now() >= until || self.refused(call, &registers, &filters).is_some() {
                break;
            }
            // It stands behind a system call, and makes the next if it goes on, or returns.
            tracee.set_registers(&registers).map_err(|error| self.failed("setting the registers", error))?;
            hook(Step::Set);
            made.push(self.make(call, &mut tracee, &memory, &frame, hook)?);
        }
        drop(tracee);
        hook(Step::Left);
        Ok(made)
    }

    fn failed(&self, what: &'static str, error: io::Error) -> Failed {
        MarkError::of(self.process.pid, what, error).into()
    }

    fn stop(&self, tracee: &mut Tracee) -> Result<(), Failed> {
        let deadline = Instant::now() + STOP_WITHIN;
        let failed = |error| self.failed("stopping a thread", error);
        tracee.interrupt().map_err(failed)?;
        loop {
            match tracee.wait(deadline).map_err(failed)? {
                Some(Stop::Interrupted) => return Ok(()),
                Some(Stop::Group) => return Err(MarkError::Stopped(self.process.pid).into()),
                Some(Stop::Signal | Stop::SystemCall) => tracee.resume(false).map_err(failed)?,
                Some(Stop::Ended) => return Err(Failed::Unfit(Unfit::Ended)),
                None => return Err(Failed::Unfit(Unfit::DoesNotStop)),
            }
        }
    }

    /// What is to be written, if the thread can be borrowed where it stands.
    fn prepare(&self, tracee: &Tracee, memory: &File, filters: &[Vec<Instruction>]) -> Result<Frame, Failed> {
        let failed = |error| self.failed("reading the registers", error);
        let registers = tracee.registers().map_err(failed)?;
        if registers.cs != CODE64 {
            return Err(Failed::Unfit(Unfit::Code32));
        }
        let mask = tracee.signal_mask().map_err(failed)?;
        let state = State { registers, mask, xstate: tracee.xstate().map_err(failed)? };
        if state.interrupted() == Interrupted::Ends && !self.ends_waits {
            return Err(Failed::Unfit(Unfit::Waits));
        }
        if is_in_rseq(tracee, memory, registers.rip).map_err(failed)? {
            return Err(Failed::Unfit(Unfit::Rseq));
        }
        if !self.process.has_room(tracee.tid(), registers.rsp, state.needs(self.call) + MARGIN)? {
            return Err(Failed::Unfit(Unfit::Stack));
        }
        let frame = state.frame(self.call, self.code).ok_or(Failed::Unfit(Unfit::Stack))?;
        match self.refused(self.call, &frame.registers, filters) {
            Some(name) => Err(self.filtered(Filtered::Call(name))),
            None => Ok(frame),
        }
    }

    /// The seccomp filters that decide on its system calls.
    fn filters(&self, tracee: &Tracee) -> Result<Vec<Vec<Instruction>>, Failed> {
        match self.process.is_filtered(tracee.tid())? {
            true => tracee.filters().map_err(|_| self.filtered(Filtered::Unreadable)),
            false => Ok(Vec::new()),
        }
    }

    fn filtered(&self, why: Filtered) -> Failed {
        MarkError::Seccomp { pid: self.process.pid, why }.into()
    }

    /// Which system call a seccomp filter would not simply allow: it might kill the process.
    fn refused(
        &self,
        call: &Call,
        of: &user_regs_struct,
        filters: &[Vec<Instruction>],
    ) -> Option<&'static str> {
        // Both instructions are `syscall`, of two bytes; before rt_sigreturn's there are the seven of `mov`.
        let arguments = [of.rdi, of.rsi, of.rdx, of.r10, of.r8, of.r9];
        let calls = [
            (call.name, Question::new(call.number, self.code.syscall + 2, arguments)),
            ("rt_sigreturn", Question::new(SIGRETURN, self.code.sigreturn + 9, arguments)),
        ];
        let is_refused =
            |question: &Question| !filters.iter().all(|filter| seccomp::allows(filter, question));
        calls.into_iter().find(|(_, question)| is_refused(question)).map(|(name, _)| name)
    }

    /// Lets it make the system call that its registers are set for.
    fn make(
        &self,
        call: &Call,
        tracee: &mut Tracee,
        memory: &File,
        frame: &Frame,
        hook: Hook<'_>,
    ) -> Result<Made, Failed> {
        let lost = || MarkError::Lost { pid: self.process.pid, call: call.name };
        let failed = |error| self.failed("waiting for a system call", error);
        let deadline = Instant::now() + CALL_WITHIN;
        tracee.resume(true).map_err(failed)?;
        hook(Step::Running);
        loop {
            match tracee.wait(deadline).map_err(failed)? {
                None => return Err(lost().into()),
                Some(Stop::Ended) => return Err(MarkError::Gone(self.process.pid).into()),
                // It may stay so for as long as its user likes.
                Some(Stop::Group) => tracee.listen().map_err(failed)?,
                // Of signals, only those that cannot be blocked.
                Some(Stop::Interrupted | Stop::Signal) => tracee.resume(true).map_err(failed)?,
                Some(Stop::SystemCall) => {
                    let exit = tracee.exit().map_err(failed)?;
                    // Its beginning; or another's, of a signal's handler, with the stack further down.
                    if let Some(exit) = exit.filter(|exit| {
                        exit.stack == frame.registers.rsp && exit.instruction == self.code.syscall + 2
                    }) {
                        let mut filled = vec![0; call.memory.len()];
                        memory.read_exact_at(&mut filled, frame.memory()).map_err(failed)?;
                        hook(Step::Made);
                        return Ok(Made { result: exit.result, memory: filled });
                    }
                    hook(Step::Entered);
                    tracee.resume(true).map_err(failed)?;
                }
            }
        }
    }
}

/// Whether a thread is in a restartable sequence. The kernel aborts these where it calls a signal handler
/// (arch/x86/kernel/signal.c, `rseq_signal_deliver`), but it does not know of ours.
fn is_in_rseq(tracee: &Tracee, memory: &File, instruction: u64) -> io::Result<bool> {
    let area = tracee.rseq()?;
    if area == 0 {
        return Ok(false);
    }
    // include/uapi/linux/rseq.h: the sequence's description in `struct rseq`; in that its version and flags, where it
    // starts, how long it is.
    let sequence = word(memory, area.wrapping_add(8))?;
    if sequence == 0 {
        return Ok(false);
    }
    let (start, length) = (word(memory, sequence.wrapping_add(8))?, word(memory, sequence.wrapping_add(16))?);
    Ok(instruction.wrapping_sub(start) < length)
}

fn word(memory: &File, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, address)?;
    Ok(u64::from_le_bytes(bytes))
}
