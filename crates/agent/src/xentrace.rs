//! What Xen itself records, as its own program xentrace takes it out of Xen's trace buffers (`tools/xentrace/xentrace.c` of
//! Xen 4.17): these are of Xen's domains, and which library reads them goes with the version of Xen.

use std::{
    fs,
    io::{self, Read},
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use xweave_wire::{
    frame::Error,
    message::{Event, FromAgent},
};

use crate::output::Output;

/// The program, and how it is asked: to begin with what happens from now on, of all that Xen tells; to look fifty times a
/// second, into buffers of a MiB for each CPU, if Xen has not made any since it was booted. It wants the name of a file, and
/// not every /dev has that of its standard output.
const PROGRAM: &str = "xentrace";
const ARGUMENTS: [&str; 8] = ["-D", "-e", "all", "-s", "20", "-S", "256", "/proc/self/fd/1"];

/// How long it may take until Xen has recorded something.
const BEGINS: Duration = Duration::from_secs(10);

/// How long it may take to end, since something came of it the last time.
const ENDS: Duration = Duration::from_secs(5);

/// Bytes that the pipe from it holds.
const ROOM: libc::c_int = 1 << 20;

/// Bytes of a message at most.
const BATCH: usize = 256 << 10;

/// Bytes that are told of what it says.
const SAID: usize = 1024;

/// The program, and who passes on what it writes.
pub(crate) struct Xentrace {
    child: Child,
    reader: Option<JoinHandle<Result<(), Error>>>,
    /// What it says.
    said: Option<JoinHandle<String>>,
    /// How often something came of it.
    came: Arc<AtomicU64>,
    /// It was asked to end.
    stopped: bool,
}

impl Xentrace {
    /// Has Xen record. What it records is sent from now on.
    ///
    /// # Errors
    /// Why it does not, for people.
    pub(crate) fn start(output: Arc<Output>) -> Result<Self, String> {
        if let Some(pid) = running(Path::new("/proc")) {
            return Err(format!(
                "process {pid} is {PROGRAM}, and takes what Xen records: there is one for all, so end it, or give its file to \
                 `xweave import FILE --into TRACE`"
            ));
        }
        Self::start_program(PROGRAM, &ARGUMENTS, output)
    }

    fn start_program(program: &str, arguments: &[&str], output: Arc<Output>) -> Result<Self, String> {
        let (from, to) = io::pipe().map_err(|error| format!("no pipe can be made: {error}"))?;
        let read_end = from.as_raw_fd();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(to).stderr(Stdio::piped());
        let with_parent = move || {
            // Whatever becomes of the agent, Xen has to be told that nothing is to be recorded any more. It is not if the
            // program is killed with the agent's group, or if writing fails: so it is in none, and the pipe has somebody
            // who could read, and room.
            let done =
                |result: libc::c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
            // SAFETY: system calls on numbers.
            unsafe {
                done(libc::setsid())?;
                done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0))?;
                done(libc::fcntl(read_end, libc::F_SETFD, 0))?;
                // A user may have as much as is allowed of such room already.
                let _ = libc::fcntl(read_end, libc::F_SETPIPE_SZ, ROOM);
            }
            Ok(())
        };
        // SAFETY: system calls, and nothing else, between fork and exec.
        unsafe { command.pre_exec(with_parent) };
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("there is no program {program} (Debian: xen-utils), which reads what Xen records")
            }
            _ => format!("{program}: {error}"),
        })?;
        // Its end of the pipe for writing goes with it.
        drop(command);
        let said = child.stderr.take();
        let said = thread::spawn(move || said.map(told).unwrap_or_default());
        let (begins, begun) = mpsc::channel();
        let came = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&came);
        let reader = thread::spawn(move || {
            pass_on(from, &output, || {
                counted.fetch_add(1, Ordering::Relaxed);
                // Only for the first does anybody wait.
                let _ = begins.send(());
            })
        });
        let mut started = Self { child, reader: Some(reader), said: Some(said), came, stopped: false };
        match begun.recv_timeout(BEGINS) {
            Ok(()) => Ok(started),
            Err(why) => {
                started.stop();
                let _ = started.wait();
                let said = started.said();
                let what = match why {
                    mpsc::RecvTimeoutError::Timeout => {
                        format!("nothing came of it in {} s", BEGINS.as_secs())
                    }
                    mpsc::RecvTimeoutError::Disconnected => "it ended".to_owned(),
                };
                Err(format!("Xen does not record: {program} was started, {what}{said}"))
            }
        }
    }

    /// Has Xen record nothing more. What it has recorded is still sent.
    pub(crate) fn stop(&mut self) {
        // Once: a signal during what it writes last would have it give up. One that has ended has no number that could be
        // another's, for it has not been waited for.
        if !std::mem::replace(&mut self.stopped, true)
            && let (Ok(pid), Ok(None)) = (libc::pid_t::try_from(self.child.id()), self.child.try_wait())
        {
            // SAFETY: a signal to a child of ours.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
    }

    /// The same, and waits until all is sent. Gives what is amiss with what was recorded, if anything is, for people.
    ///
    /// # Errors
    /// Nobody can be sent anything any more.
    pub(crate) fn finish(mut self) -> Result<Option<String>, Error> {
        self.stop();
        let ended = self.wait();
        let sent = self.reader.take().map_or(Ok(()), |reader| reader.join().unwrap_or(Err(Error::Closed)));
        let said = self.said();
        sent.map(|()| {
            ended.err().map(|why| format!("{PROGRAM} {why}{said}: what Xen recorded may lack its end"))
        })
    }

    /// What it has said, to be added to a sentence.
    fn said(&mut self) -> String {
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        if said.is_empty() { said } else { format!(", and said: {said}") }
    }

    /// Waits until it has ended. One from which nothing comes any more for a while is killed.
    ///
    /// # Errors
    /// It did not end well, in words; then Xen may not have been told to record nothing more, and is told by another one.
    fn wait(&mut self) -> Result<(), String> {
        let (mut came, mut until) = (self.came.load(Ordering::Relaxed), Instant::now() + ENDS);
        let ended = loop {
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => break format!("ended ({status})"),
                Err(error) => break format!("cannot be waited for ({error})"),
            }
            let now = self.came.load(Ordering::Relaxed);
            if std::mem::replace(&mut came, now) != now {
                until = Instant::now() + ENDS;
            } else if Instant::now() > until {
                let _ = self.child.kill();
            }
            thread::sleep(Duration::from_millis(5));
        };
        turn_off();
        Err(ended)
    }
}

impl Drop for Xentrace {
    fn drop(&mut self) {
        if self.reader.is_some() {
            self.stop();
            let _ = self.wait();
        }
    }
}

/// Has Xen record nothing more, where who had it record did not: by recording for a moment.
fn turn_off() {
    let mut command = Command::new(PROGRAM);
    command.args(["-D", "-e", "all", "-T", "1", "/dev/null"]);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = quiet.spawn() else { return };
    let until = Instant::now() + ENDS;
    while let Ok(None) = child.try_wait() {
        if Instant::now() > until {
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process that runs the program. By its file: anybody may call his own so.
fn running(proc: &Path) -> Option<u32> {
    let all = fs::read_dir(proc).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let runs = |dir: &PathBuf| fs::read_link(dir.join("exe")).is_ok_and(|exe| exe.ends_with(PROGRAM));
    all.filter(runs).find_map(|dir| dir.file_name()?.to_str()?.parse().ok())
}

/// Sends what is read, until there is no more; tells whenever some has come.
fn pass_on(mut from: impl Read, output: &Output, comes: impl Fn()) -> Result<(), Error> {
    let (mut batch, mut whole) = (vec![0; BATCH], Ok(()));
    loop {
        let len = from.read(&mut batch)?;
        if len == 0 {
            return whole;
        }
        comes();
        // It could not end if nobody read on.
        if whole.is_ok() {
            whole = output.send(&FromAgent::Event(Event::Xentrace(batch[..len].to_vec())));
        }
    }
}

/// The last that a program says, in a line.
fn told(mut said: impl Read) -> String {
    let (mut last, mut piece) = (Vec::new(), [0; SAID]);
    while let Ok(len @ 1..) = said.read(&mut piece) {
        last.extend_from_slice(&piece[..len]);
        last.drain(..last.len().saturating_sub(SAID));
    }
    String::from_utf8_lossy(&last).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream};

    use xweave_wire::frame;

    use super::*;

    /// What a program writes, as it was sent.
    fn sent(script: &str, finish: impl FnOnce(Xentrace)) -> Result<Vec<u8>, String> {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let output = Arc::new(Output::new(theirs.into()));
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            while let Ok(FromAgent::Event(Event::Xentrace(bytes))) = frame::read_message(&mut ours) {
                all.write_all(&bytes).unwrap();
            }
            all
        });
        let started = Xentrace::start_program("sh", &["-c", script], output);
        started.map(|started| {
            finish(started);
            reader.join().unwrap()
        })
    }

    #[test]
    fn all_that_the_program_writes_until_it_has_ended_is_sent() {
        let script = "trap 'seq 100000; exit' TERM; echo begun; while :; do sleep 0.01; done";
        let all = sent(script, |xentrace| assert_eq!(xentrace.finish().unwrap(), None)).unwrap();
        let seq: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(String::from_utf8(all).unwrap(), format!("begun\n{seq}"));
    }

    #[test]
    fn a_program_that_does_not_listen_is_ended_all_the_same() {
        let begun = Instant::now();
        let script = "trap '' TERM; echo begun; while :; do sleep 0.01; done";
        let all = sent(script, |xentrace| {
            let amiss = xentrace.finish().unwrap().unwrap();
            assert!(amiss.contains("signal: 9") && amiss.contains("may lack its end"), "{amiss}");
        });
        assert_eq!(all.unwrap(), b"begun\n");
        assert!(begun.elapsed() >= ENDS);
    }

    #[test]
    fn who_takes_what_xen_records_is_found_by_his_program() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: &str, exe: &str| {
            fs::create_dir(proc.path().join(pid)).unwrap();
            std::os::unix::fs::symlink(exe, proc.path().join(pid).join("exe")).unwrap();
        };
        process("7", "/usr/lib/xen-4.17/bin/xenstored");
        process("self", "/usr/lib/xen-4.17/bin/xentrace");
        assert_eq!(running(proc.path()), None);
        process("12", "/usr/lib/xen-4.17/bin/xentrace");
        assert_eq!(running(proc.path()), Some(12));
    }

    #[test]
    fn why_nothing_is_recorded_is_told() {
        let said = sent("echo 'PRIV: no' >&2; echo 'xen?' >&2; exit 1", drop).unwrap_err();
        assert_eq!(said, "Xen does not record: sh was started, it ended, and said: PRIV: no xen?");
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let missing = Xentrace::start_program("no-such-program", &[], Arc::new(Output::new(theirs.into())));
        let said = missing.err().unwrap();
        assert!(said.starts_with("there is no program no-such-program"), "{said}");
    }
}
