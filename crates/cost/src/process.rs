//! Other processes: the measuring one, which is run from memory, and tools whose output is wanted, each with a
//! limit of time.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xweave_interrupt as interrupt;

use crate::error::{Error, Result};

/// How often a process is looked at that cannot be waited for with a limit.
const POLL: Duration = Duration::from_millis(5);

/// A file that is nowhere but in memory; whoever inherits its descriptor finds it under `/proc/self/fd`.
pub fn in_memory(bytes: &[u8]) -> Result<File> {
    let io = |source| Error::Io { what: "make", path: "a file in memory (memfd_create)".into(), source };
    // SAFETY: the name is a C string, and the flags are none; a new descriptor comes back, or -1.
    let raw = unsafe { libc::memfd_create(c"xweave-cost".as_ptr(), 0) };
    if raw < 0 {
        return Err(io(std::io::Error::last_os_error()));
    }
    // SAFETY: the kernel has just given this descriptor to us alone.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(raw) });
    file.write_all(bytes).map_err(io)?;
    Ok(file)
}

/// Runs a program that lies in memory, as the measuring process is called: the processor, then options.
pub fn run(program: &[u8], cpu: usize, words: &[String], timeout: Duration) -> Result<Vec<u8>> {
    let file = in_memory(program)?;
    let mut command = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    command.arg(cpu.to_string()).args(words);
    output(&mut command, b"", timeout, "the kernel must allow programs to be run from memory, by /proc")
}

/// Runs a command with an input, and returns what it printed, whatever its status; where it printed nothing,
/// its errors. After `timeout` it is ended, and what it had printed by then counts.
pub fn output(
    command: &mut Command,
    input: &[u8],
    timeout: Duration,
    remedy: &'static str,
) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| Error::Start { program: program.clone(), source, remedy };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        // One that does not want its input may close it.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        let said = scope.spawn(move || read(stdout));
        let errors = scope.spawn(move || read(stderr));
        let deadline = Instant::now() + timeout;
        while child.try_wait().map_err(failed)?.is_none() {
            let stop = interrupt::pending();
            if stop || Instant::now() >= deadline {
                child.kill().map_err(failed)?;
                child.wait().map_err(failed)?;
                if stop {
                    return Err(xweave_lab::Error::Interrupted.into());
                }
                break;
            }
            std::thread::sleep(POLL);
        }
        let said = said.join().unwrap_or_default();
        Ok(if said.is_empty() { errors.join().unwrap_or_default() } else { said })
    })
}

fn read(from: Option<impl Read>) -> Vec<u8> {
    let mut all = Vec::new();
    if let Some(mut from) = from {
        // What came before it broke is what there is.
        let _ = from.read_to_end(&mut all);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_limit_counts() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; exec sleep 60"]);
        let begun = Instant::now();
        let said = output(&mut command, b"heard", Duration::from_millis(300), "").unwrap();
        assert_eq!(said, b"heard");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = output(&mut Command::new("/no/such"), b"", POLL, "install it").unwrap_err();
        assert!(error.to_string().starts_with("cannot start /no/such: "), "{error}");
        assert!(error.to_string().ends_with("install it"), "{error}");
    }
}
