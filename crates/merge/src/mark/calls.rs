//! Marks memory by system calls that its process makes itself, one by one: where it may have no ring.
//!
//! A thread of it makes as many as there is time for while it is held, and goes on; then it is borrowed again.

use std::{io, thread, time::Duration};

use super::{
    Outcome, Range,
    error::MarkError,
    frame::{Argument, Call},
    inject::{self, HELD_FOR, Hook},
    process::Process,
};

/// The system call.
const NAME: &str = "madvise";

/// For how long a thread goes on before it is borrowed again: so that it stands for no more than about a fifth of the time,
/// and does in between what has come meanwhile.
const GOES_ON_FOR: Duration = HELD_FOR.saturating_mul(4);

/// How many system calls are prepared for a time: more than there is time for.
const AT_A_TIME: usize = 1024;

/// Sees whether the process may make them, by one that does nothing: the range is empty.
///
/// # Errors
/// What keeps it from that.
pub(super) fn try_one(process: &Process, hook: Hook<'_>) -> Result<(), MarkError> {
    let nothing = Range { start: 0, length: 0 };
    let made = inject::call(process, &call(nothing, libc::MADV_MERGEABLE), hook)?;
    super::result(process.pid, NAME, made.result).map(drop)
}

/// Has the process give that advice for its memory, in these pieces.
///
/// # Errors
/// No thread of it can be borrowed (any more), or `ended` says so: the pieces before are done. What the kernel refuses of one is told.
pub(super) fn advise(
    process: &Process,
    pieces: &[Range],
    advice: i32,
    ended: &dyn Fn() -> bool,
    hook: Hook<'_>,
) -> Result<Outcome, MarkError> {
    let mut outcome = Outcome::default();
    let mut left = pieces;
    while !left.is_empty() {
        if ended() {
            return Err(MarkError::Ended(process.pid));
        }
        let calls: Vec<Call> = left.iter().take(AT_A_TIME).map(|piece| call(*piece, advice)).collect();
        let made = inject::calls(process, &calls, hook)?;
        for (piece, made) in left.iter().zip(&made) {
            match i32::try_from(made.result) {
                Ok(0) => outcome.bytes += piece.length,
                result => {
                    let number = result.map_or(libc::EINVAL, i32::saturating_abs);
                    outcome.failed.push((*piece, io::Error::from_raw_os_error(number)));
                }
            }
        }
        left = left.get(made.len()..).unwrap_or_default();
        if !left.is_empty() {
            thread::sleep(GOES_ON_FOR);
        }
    }
    Ok(outcome)
}

fn call(Range { start, length }: Range, advice: i32) -> Call {
    let arguments = [start, length, advice.unsigned_abs().into()].map(Argument::Number);
    Call { name: NAME, number: super::number(libc::SYS_madvise), arguments, memory: Vec::new() }
}
