//! Marks memory of another process for KSM (`MADV_MERGEABLE`), from outside: QEMU's, which was not told to.
//!
//! There is no system call for it: process_madvise(2) refuses this advice for other processes, and prctl(2)'s
//! `PR_SET_MEMORY_MERGE` is for all of a process, which is to call it itself. But io_uring can do it
//! (`IORING_OP_MADVISE`), in the memory of the process whose ring it is. So one of the process's threads is borrowed to make
//! a ring, and to close it again as soon as we have it too ([`Marker::open`]): for two system calls, it is stopped for
//! about a millisecond each. What is marked is marked beside it, by a ring that ends with us.
//!
//! Where it may have no ring, borrowed threads call madvise(2) themselves (`calls`): again and again, for about a
//! millisecond each time.
//!
//! The process is not harmed if this one is killed at any time: the thread comes back by itself to what it did. If that is
//! between the two, a ring that nobody uses remains, a descriptor and a sleeping thread of the kernel's.
//!
//! What threads notice: a system call that waits for a time may end early with EINTR if all threads are in such, and one
//! that does not begin again after any signal does so here (`epoll_wait`: signal(7)).

mod calls;
mod error;
mod frame;
mod inject;
mod process;
mod ptrace;
mod ring;
mod seccomp;

use std::io;

pub use error::{Filtered, MarkError, Unfit};
use frame::{Argument, Call};
use inject::{Hook, Step};
use process::Process;
use ring::{Broken, Request, Ring};
use xweave_wire::pages::PAGE;

/// Bytes that the kernel is asked to mark at once: a ring's lengths are of 32 bits, and others wait meanwhile.
const PIECE: u64 = 1 << 30;

/// The same for marks that a thread of the process's own takes away: it copies each merged page, for a microsecond or two.
const PIECE_TO_COPY: u64 = 1 << 20;

/// The longest range: as much memory as Linux knows on x86-64. It bounds what is asked at once.
const LONGEST: u64 = 1 << 46;

/// A range of another process's memory, in bytes, of whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its first address.
    pub start: u64,
    /// How many bytes.
    pub length: u64,
}

/// What became of ranges.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Bytes for which the kernel has done it. It says so too for memory that KSM cannot merge, like shared memory: whether
    /// memory is marked is in `/proc/PID/smaps` (`VmFlags: mg`).
    pub bytes: u64,
    /// Those for which it has not, in pieces of at most a GiB, and what it says: `ENOMEM` where there is no memory (any
    /// more) in a part of it; the rest of the piece is done.
    pub failed: Vec<(Range, io::Error)>,
}

/// Marks memory of one process.
pub struct Marker {
    process: Process,
    /// None if the process makes the calls itself.
    ring: Option<Ring>,
    /// The ring's descriptor in the process; -1 once it is closed.
    descriptor: i32,
}

impl Marker {
    /// Finds a way to mark a process's memory. It makes a ring, which is ours alone then: a thread of it is stopped for that,
    /// for about a millisecond, twice. Where that is not possible, it is to make the calls itself, as often as is needed.
    ///
    /// # Errors
    /// The process is not one that this is possible with: [`MarkError`] has the reasons. It goes on as before.
    pub fn open(pid: u32) -> Result<Self, MarkError> {
        match Self::open_hooked(pid, &mut |_| {}) {
            Ok(mut marker) => {
                // Where that fails, it is tried again in the end.
                let _ = marker.close_hooked(&mut |_| {});
                Ok(marker)
            }
            Err(ring) if ring.is_of_ring() => Self::open_for_calls(pid, &mut |_| {})
                .map_err(|calls| MarkError::Neither { ring: Box::new(ring), calls: Box::new(calls) }),
            Err(error) => Err(error),
        }
    }

    /// Whether it is by a ring that memory is marked, and not by calls of the process's own.
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    fn open_for_calls(pid: u32, hook: Hook<'_>) -> Result<Self, MarkError> {
        let process = Process::open(pid)?;
        calls::try_one(&process, hook)?;
        Ok(Self { process, ring: None, descriptor: -1 })
    }

    fn open_hooked(pid: u32, hook: Hook<'_>) -> Result<Self, MarkError> {
        let process = Process::open(pid)?;
        process.may_use_io_uring()?;
        let call = Call {
            name: ring::SETUP,
            number: number(libc::SYS_io_uring_setup),
            arguments: [Argument::Number(ring::ENTRIES.into()), Argument::Memory, Argument::Number(0)],
            memory: ring::params(),
        };
        let made = inject::call(&process, &call, hook)?;
        let descriptor = result(pid, call.name, made.result)?;
        // What fails from here on closes it again.
        let mut marker = Self { process, ring: None, descriptor };
        let copy = marker.process.descriptor(descriptor);
        let copy = copy.map_err(|error| MarkError::of(pid, "taking the ring (pidfd_getfd)", error))?;
        marker.ring = Some(Ring::new(copy, &made.memory).map_err(|broken| marker.broken(broken))?);
        Ok(marker)
    }

    /// Marks ranges: KSM may merge their pages from now on. It stops when `ended` says so.
    ///
    /// # Errors
    /// A range is not one of whole pages (then none is marked); the process has ended; its ring cannot be used any more, or
    /// none of its threads borrowed; it was stopped.
    /// What the kernel refuses of a range is no error, but told.
    pub fn mark(&mut self, ranges: &[Range], ended: &dyn Fn() -> bool) -> Result<Outcome, MarkError> {
        self.advise(ranges, libc::MADV_MERGEABLE, ended, &mut |_| {})
    }

    /// Takes the marks away again. Pages that are merged are copied, which takes memory and time.
    ///
    /// # Errors
    /// As for [`Self::mark`].
    pub fn unmark(&mut self, ranges: &[Range], ended: &dyn Fn() -> bool) -> Result<Outcome, MarkError> {
        self.advise(ranges, libc::MADV_UNMERGEABLE, ended, &mut |_| {})
    }

    fn advise(
        &mut self,
        ranges: &[Range],
        advice: i32,
        ended: &dyn Fn() -> bool,
        hook: Hook<'_>,
    ) -> Result<Outcome, MarkError> {
        let copies = self.ring.is_none() && advice == libc::MADV_UNMERGEABLE;
        let pieces = pieces(ranges, if copies { PIECE_TO_COPY } else { PIECE })?;
        if self.process.has_ended() {
            return Err(MarkError::Gone(self.process.pid));
        }
        let Some(ring) = &mut self.ring else {
            return calls::advise(&self.process, &pieces, advice, ended, hook);
        };
        let advice = advice.unsigned_abs();
        // A piece is no longer than 32 bits can say.
        let request = |Range { start, length }: Range| Request {
            address: start,
            length: u32::try_from(length).unwrap_or(0),
            advice,
        };
        let requests: Vec<Request> = pieces.into_iter().map(request).collect();
        let results = ring.run(&requests, ended).map_err(|broken| self.broken(broken))?;
        let mut outcome = Outcome::default();
        for (request, result) in requests.iter().zip(results) {
            match result {
                Ok(()) => outcome.bytes += u64::from(request.length),
                Err(number) => {
                    let range = Range { start: request.address, length: request.length.into() };
                    outcome.failed.push((range, io::Error::from_raw_os_error(number)));
                }
            }
        }
        Ok(outcome)
    }

    fn broken(&self, broken: Broken) -> MarkError {
        let pid = self.process.pid;
        match broken {
            _ if self.process.has_ended() => MarkError::Gone(pid),
            Broken::Changed(why) => MarkError::Ring { pid, why },
            Broken::Unanswered(left) => MarkError::Unanswered { pid, left },
            Broken::Ended => MarkError::Ended(pid),
            Broken::System(error) => MarkError::of(pid, "using the ring", error),
        }
    }

    /// Leaves nothing in the process, and ends the ring. What is marked stays so. A process that has ended is none to care for.
    ///
    /// # Errors
    /// The process cannot be had close it: the ring remains.
    pub fn close(mut self) -> Result<(), MarkError> {
        self.close_hooked(&mut |_| {})
    }

    fn close_hooked(&mut self, hook: Hook<'_>) -> Result<(), MarkError> {
        let descriptor = std::mem::replace(&mut self.descriptor, -1);
        if self.process.has_ended() || !self.has(descriptor) {
            return Ok(());
        }
        let call = Call {
            name: "close",
            number: number(libc::SYS_close),
            arguments: [descriptor.unsigned_abs().into(), 0, 0].map(Argument::Number),
            memory: Vec::new(),
        };
        match inject::call(&self.process, &call, hook) {
            Err(MarkError::Gone(_)) => Ok(()),
            Err(error) => {
                // One that was begun may still be made: that is seen when it is tried again.
                self.descriptor = descriptor;
                Err(error)
            }
            Ok(made) => result(self.process.pid, call.name, made.result).map(drop),
        }
    }

    /// Whether a descriptor of the process is still the ring: it may have closed it, and opened something else.
    fn has(&self, descriptor: i32) -> bool {
        let pid = self.process.pid;
        if descriptor < 0 || !ring::is_ring(&format!("/proc/{pid}/fd/{descriptor}")) {
            return false;
        }
        let Some(ring) = &self.ring else { return true };
        // KCMP_FILE is 0 (include/uapi/linux/kcmp.h).
        // SAFETY: takes and gives numbers.
        let compared = unsafe {
            libc::syscall(libc::SYS_kcmp, std::process::id(), pid, 0, ring.descriptor(), descriptor)
        };
        // Below 0: the kernel cannot compare (CONFIG_KCMP), but it is a ring.
        compared <= 0
    }
}

impl Drop for Marker {
    /// As [`Self::close`], if it was not called.
    fn drop(&mut self) {
        let _ = self.close_hooked(&mut |_: Step| {});
    }
}

fn number(call: libc::c_long) -> u64 {
    call.unsigned_abs()
}

/// What a system call gave: a number, or an error's.
fn result(pid: u32, call: &'static str, result: i64) -> Result<i32, MarkError> {
    i32::try_from(result).ok().filter(|number| *number >= 0).ok_or_else(|| {
        let error = i32::try_from(result.unsigned_abs()).unwrap_or(libc::EINVAL);
        MarkError::Refused { pid, call, source: io::Error::from_raw_os_error(error) }
    })
}

/// Ranges in pieces of at most so many bytes.
fn pieces(ranges: &[Range], most: u64) -> Result<Vec<Range>, MarkError> {
    let mut pieces = Vec::new();
    for &Range { start, length } in ranges {
        let is_whole = (1..=LONGEST).contains(&length) && start % PAGE == 0 && length % PAGE == 0;
        let end = start.checked_add(length).filter(|_| is_whole);
        let end = end.ok_or(MarkError::NotPages { start, length })?;
        let mut at = start;
        while at < end {
            let length = (end - at).min(most);
            pieces.push(Range { start: at, length });
            at += length;
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests;
