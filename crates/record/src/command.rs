//! The command that is recorded.

use std::{
    os::unix::process::CommandExt,
    process::{self, Child, ExitStatus},
    time::{Duration, Instant},
};

use crate::Error;

/// How long it may take to end when it was asked to.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A command that runs. It does not outlive this: however a recording ends, its command does.
pub(crate) struct Command {
    child: Child,
    status: Option<ExitStatus>,
    /// When it is made to end, once it was asked to.
    deadline: Option<Instant>,
}

impl Command {
    /// In a process group of its own, so that Ctrl-C reaches it by way of us, once.
    pub(crate) fn start(words: &[String]) -> Result<Self, Error> {
        let (program, arguments) = words.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
        let child = process::Command::new(program)
            .args(arguments)
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Command { command: program.to_owned(), error })?;
        Ok(Self { child, status: None, deadline: None })
    }

    /// How it ended, if it has. One that was asked to end, and does not, is made to.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        if self.status.is_none() && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.kill();
        }
        self.status
    }

    /// Asks it to end.
    pub(crate) fn end(&mut self) {
        if self.deadline.is_none() {
            self.deadline = Some(Instant::now() + TIMEOUT);
            self.signal(libc::SIGTERM);
        }
    }

    /// Makes it end, and what it started.
    pub(crate) fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        self.status = self.status.or_else(|| self.child.wait().ok());
    }

    fn signal(&mut self, signal: libc::c_int) {
        if let (None, Ok(group)) = (self.status, libc::pid_t::try_from(self.child.id())) {
            // SAFETY: takes integers; the child has not been waited for, so the group is still its.
            unsafe { libc::kill(-group, signal) };
        }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.end();
            while self.status().is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_with_what_it_recorded_for() {
        let words = ["sh", "-c", "sleep 1000 & echo $!; wait"].map(str::to_owned);
        let command = Command::start(&words).unwrap();
        let group = command.child.id();
        let begun = Instant::now();
        drop(command);
        assert!(begun.elapsed() < TIMEOUT, "SIGTERM suffices");
        let alive = |process: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            !matches!(fields.first(), None | Some(&"Z")) && fields.get(2) == Some(&group.to_string().as_str())
        };
        let left = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(alive).count()
        };
        // It was sent the signal, and may have to wait for a CPU until it ends.
        while left() > 0 {
            assert!(begun.elapsed() < 12 * TIMEOUT, "what it had started has not ended");
            std::thread::yield_now();
        }
    }
}
