//! A job that a confined process does: what it is given, how long it may take, what came of it.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use xweave_text as text;

use super::Limits;

/// How soon it is seen that nobody wants to go on.
const SOON: Duration = Duration::from_millis(20);

/// What is kept of what a process says on standard error, in bytes: the end, where the reason is.
const SAID: usize = 4 << 10;

/// What is to be done, by a process that confines itself before it reads its input.
pub struct Job {
    /// What it does, for messages: `reading what domain vm1 sent`.
    pub what: String,
    /// The program: by default the one that runs.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its environment: nothing else is passed on.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads from standard input: see [`in_memory`].
    pub input: Option<File>,
    /// What it has open besides, under the numbers that these have here.
    pub handed: Vec<OwnedFd>,
    /// Where it works.
    pub folder: PathBuf,
    /// Limits of the process, and of each that it starts.
    pub limits: Limits,
    /// How long it may take.
    pub deadline: Duration,
    /// The longest answer that is taken, in bytes.
    pub most: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Nobody waits for it any more.
    #[error("interrupted")]
    Interrupted,
    /// It could not be started.
    #[error("{what}: the process for it cannot be started: {source}")]
    Start {
        /// The job.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// It was ended, or ended without an answer.
    #[error("{what}: {how}")]
    Ended {
        /// The job.
        what: String,
        /// What became of the process, with its last words.
        how: String,
        /// What failed here, if that is why.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl Job {
    /// For this program, with these arguments, in the root folder.
    pub fn new(what: impl Into<String>, arguments: &[&str], limits: Limits, deadline: Duration) -> Self {
        Self {
            what: what.into(),
            program: "/proc/self/exe".into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: Vec::new(),
            input: None,
            handed: Vec::new(),
            folder: "/".into(),
            limits,
            deadline,
            most: 64 << 20,
        }
    }

    fn start(self) -> Result<Running, Failed> {
        let what = self.what.clone();
        self.spawn().map_err(|source| Failed::Start { what, source })
    }

    fn spawn(mut self) -> io::Result<Running> {
        let input = self.input.take().map_or_else(Stdio::null, Stdio::from);
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(self.environment.iter().cloned());
        command.current_dir(&self.folder).stdin(input);
        // A group of its own: Ctrl-C is for us to pass on, and what it starts can be ended with it.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let handed: Vec<RawFd> = self.handed.iter().map(AsRawFd::as_raw_fd).collect();
        self.limits = self.limits.within_available();
        let limits = self.limits;
        let parent = std::process::id();
        // SAFETY: between fork and exec nothing but system calls, on integers and what was allocated before.
        unsafe {
            command.pre_exec(move || {
                // Whatever else is open here is none of its business.
                if libc::close_range(3, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) != 0 {
                    return Err(io::Error::last_os_error());
                }
                for descriptor in &handed {
                    if libc::fcntl(*descriptor, libc::F_SETFD, 0) != 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                end_with(parent)?;
                limits.set_all()
            });
        }
        let mut child = command.spawn()?;
        let streams = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let [Some(answer), Some(said)] = streams else {
            return Err(io::Error::other("it has no output"));
        };
        // Made before anything can fail: whatever happens from here on, the process is ended.
        let running = Running {
            until: Instant::now() + self.deadline,
            child,
            answer: Stream::new(answer),
            said: Stream::new(said),
            job: self,
        };
        set_nonblocking(&running.answer.file)?;
        set_nonblocking(&running.said.file)?;
        Ok(running)
    }
}

/// Does these jobs, as many at once as there are processors, and gives what they answered, in their order.
///
/// `keep_going` is called every few milliseconds; once it says no, all processes are ended.
pub fn run_all(jobs: Vec<Job>, keep_going: &mut dyn FnMut() -> bool) -> Vec<Result<Vec<u8>, Failed>> {
    run_counting(jobs, &mut |_| keep_going())
}

/// The same: `keep_going` is told how many jobs are over.
pub fn run_counting(
    jobs: Vec<Job>,
    keep_going: &mut dyn FnMut(usize) -> bool,
) -> Vec<Result<Vec<u8>, Failed>> {
    let at_once = thread::available_parallelism().map_or(2, |n| n.get().max(2));
    let mut results: Vec<Option<Result<Vec<u8>, Failed>>> = Vec::new();
    results.resize_with(jobs.len(), || None);
    let mut left: VecDeque<(usize, Job)> = jobs.into_iter().enumerate().collect();
    let mut running: Vec<(usize, Running)> = Vec::new();
    while !(left.is_empty() && running.is_empty()) {
        if !keep_going(results.iter().flatten().count()) {
            // Dropped, they end.
            break;
        }
        while running.len() < at_once
            && let Some((nth, job)) = left.pop_front()
        {
            match job.start() {
                Ok(started) => running.push((nth, started)),
                Err(error) => results[nth] = Some(Err(error)),
            }
        }
        wait(&running);
        let (mut still, now) = (Vec::new(), Instant::now());
        for (nth, mut one) in running {
            match one.step(now) {
                None => still.push((nth, one)),
                Some(result) => results[nth] = Some(result),
            }
        }
        running = still;
    }
    results.into_iter().map(|result| result.unwrap_or(Err(Failed::Interrupted))).collect()
}

/// Until one of them says something, or it is time to look around.
fn wait(running: &[(usize, Running)]) {
    let streams = running.iter().flat_map(|(_, one)| [&one.answer, &one.said]).filter(|stream| !stream.ended);
    let mut polled: Vec<libc::pollfd> = streams
        .map(|stream| libc::pollfd { fd: stream.file.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // Whoever has closed its streams ends in a moment.
    let soon = if polled.len() < 2 * running.len() { Duration::from_millis(1) } else { SOON };
    let timeout = i32::try_from(soon.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the list is as long as is said. What came of it is seen by reading.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
}

/// A process at work. Dropping it ends it, and what it has started.
struct Running {
    job: Job,
    child: Child,
    until: Instant,
    answer: Stream,
    said: Stream,
}

impl Running {
    /// Takes in what there is. Gives what came of the job, once it is over.
    fn step(&mut self, now: Instant) -> Option<Result<Vec<u8>, Failed>> {
        let most = self.job.most;
        self.answer.read(most.saturating_add(1));
        self.said.read_end(SAID);
        if self.answer.bytes.len() > most {
            return Some(Err(self.ended(format!("it answers with more than {} MiB", mib(most as u64)))));
        }
        if now >= self.until {
            let seconds = self.job.deadline.as_secs();
            return Some(Err(self.ended(format!("it is not done after {seconds} s, and was ended"))));
        }
        if !self.is_over() {
            return None;
        }
        // What it left behind must not go on, and may hold its streams open.
        self.kill();
        let status = self.child.wait();
        self.answer.read(most.saturating_add(1));
        self.said.read_end(SAID);
        Some(match status {
            Ok(status) if status.success() => Ok(std::mem::take(&mut self.answer.bytes)),
            Ok(status) => Err(self.ended(self.how(status))),
            Err(error) => Err(Failed::Ended {
                what: self.job.what.clone(),
                how: error.to_string(),
                source: Some(error.into()),
            }),
        })
    }

    /// Looks without reaping: until then its group's number is nobody else's.
    fn is_over(&self) -> bool {
        // SAFETY: zeros are a value of this structure of integers, which the call may write to.
        unsafe {
            let mut about: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, self.child.id(), &raw mut about, options) != 0 || about.si_pid() != 0
        }
    }

    fn kill(&self) {
        if let Ok(group) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: takes integers; the child has not been reaped, so the group is still its.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }

    fn ended(&self, how: String) -> Failed {
        Failed::Ended { what: self.job.what.clone(), how, source: None }
    }

    /// What became of the process, as people put it.
    fn how(&self, status: ExitStatus) -> String {
        let said = String::from_utf8_lossy(&self.said.bytes);
        let said = text::lines_cut(said.trim(), SAID);
        let Limits { memory, seconds, file } = self.job.limits;
        let starved =
            ["memory allocation of", "out of memory", "bad_alloc"].iter().any(|word| said.contains(word));
        match status.signal() {
            Some(libc::SIGSYS) => {
                "it was ended for a system call that such work never makes: what it reads may have been made to \
                 take over who reads it"
                    .to_owned()
            }
            Some(libc::SIGXCPU) => format!("it used more than {seconds} s of CPU time"),
            Some(libc::SIGXFSZ) => format!("it wrote more than {} MiB", mib(file)),
            _ if starved => format!("it ran out of its memory of {} MiB", mib(memory)),
            Some(libc::SIGKILL) => {
                "it was killed: by the kernel, out of memory, or by another process".to_owned()
            }
            Some(signal) => format!("it died by signal {signal}{}", after(": ", &said)),
            None => format!("it failed{}", after(": ", &said)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Where it has ended and was reaped, its number may be another's.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

fn after(mark: &str, said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("{mark}{said}") }
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// A pipe from the process.
struct Stream {
    file: File,
    bytes: Vec<u8>,
    ended: bool,
}

impl Stream {
    fn new(descriptor: OwnedFd) -> Self {
        Self { file: descriptor.into(), bytes: Vec::new(), ended: false }
    }

    /// Takes what there is, up to so many bytes in all.
    fn read(&mut self, most: usize) {
        while !self.ended && self.bytes.len() < most {
            let mut piece = [0; 1 << 16];
            let room = piece.len().min(most - self.bytes.len());
            match self.file.read(&mut piece[..room]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.bytes.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = error.kind() != io::ErrorKind::WouldBlock;
                    break;
                }
            }
        }
    }

    /// Takes what there is, up to a pipe's contents at a time, and keeps the last so many bytes.
    fn read_end(&mut self, most: usize) {
        self.read(most.saturating_add(1 << 20));
        let over = self.bytes.len().saturating_sub(most);
        self.bytes.drain(..over);
    }
}

/// A file that is nowhere but in memory, with these pieces one after the other, to be read from its beginning.
///
/// # Errors
///
/// When there is no memory for it.
pub fn in_memory(pieces: &[&[u8]]) -> io::Result<File> {
    // SAFETY: the name ends with a zero byte.
    let descriptor = unsafe { libc::memfd_create(c"job".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just made, and is nobody else's.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    pieces.iter().try_for_each(|piece| file.write_all(piece))?;
    file.rewind()?;
    Ok(file)
}

fn set_nonblocking(file: &File) -> io::Result<()> {
    // SAFETY: takes integers.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Since 5.11 (include/uapi/linux/close_range.h).
const CLOSE_RANGE_CLOEXEC: libc::c_int = 4;

/// Has the kernel end this process when its parent ends. To be called again after the user was changed, which undoes
/// it (kernel/cred.c, `commit_creds`).
///
/// # Errors
///
/// When the kernel refuses, or the parent has gone already.
pub(super) fn end_with(parent: u32) -> io::Result<()> {
    // SAFETY: takes integers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes nothing.
    if unsafe { libc::getppid() }.cast_unsigned() != parent {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Has what a command starts end with this process.
pub fn end_with_this_process(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: system calls on integers.
    unsafe { command.pre_exec(move || end_with(parent)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str, deadline: Duration) -> Job {
        let limits = Limits { memory: 256 << 20, seconds: 10, file: 1 << 20 };
        let mut job = Job::new("a test", &["-c", script], limits, deadline);
        job.program = "/bin/sh".into();
        job.environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        job.most = 1 << 20;
        job
    }

    fn one(script: &str) -> Result<Vec<u8>, Failed> {
        run_all(vec![job(script, Duration::from_secs(20))], &mut || true).remove(0)
    }

    #[test]
    fn jobs_are_given_their_input_and_nothing_else() {
        let mut first = job("cat; env | sort; pwd", Duration::from_secs(20));
        first.input = Some(in_memory(&[b"in", b"put\n"]).unwrap());
        let second = job("ls /proc/self/fd | wc -l", Duration::from_secs(20));
        let _open = File::open("/dev/null").unwrap();
        let mut results = run_all(vec![first, second], &mut || true).into_iter();
        assert_eq!(results.next().unwrap().unwrap(), b"input\nPATH=/usr/bin:/bin\nPWD=/\n/\n");
        // Standard streams, and the folder that ls reads.
        assert_eq!(results.next().unwrap().unwrap(), b"4\n");
    }

    #[test]
    fn what_was_handed_over_is_open() {
        let mut job = job("", Duration::from_secs(20));
        let file = in_memory(&[b"handed"]).unwrap();
        job.arguments = vec!["-c".into(), format!("cat /proc/self/fd/{}", file.as_raw_fd()).into()];
        job.handed = vec![file.into()];
        assert_eq!(run_all(vec![job], &mut || true).remove(0).unwrap(), b"handed");
    }

    #[test]
    fn what_became_of_a_process_is_told() {
        for (script, told) in [
            ("echo the reason >&2; exit 3", "a test: it failed: the reason"),
            ("printf '\\033[2Jx' >&2; exit 3", "a test: it failed: \\u{1b}[2Jx"),
            ("kill -SYS $$", "a test: it was ended for a system call"),
            ("kill -XCPU $$", "a test: it used more than 10 s of CPU time"),
            (
                "echo memory allocation of 9 bytes failed >&2; kill -ABRT $$",
                "ran out of its memory of 256 MiB",
            ),
            ("kill -KILL $$", "a test: it was killed"),
            (
                "head -c 2000000 /dev/zero > /tmp/xweave-test-$$; s=$?; rm /tmp/xweave-test-$$; exit $s",
                "it failed",
            ),
            ("head -c 2000000 /dev/zero", "a test: it answers with more than 1 MiB"),
            ("yes | head -c 3000000 >&2; echo last >&2; exit 1", "last"),
        ] {
            let error = one(script).unwrap_err().to_string();
            assert!(error.contains(told), "{script}: {error}");
            assert!(error.len() < SAID + 100, "{script}");
        }
    }

    #[test]
    fn a_job_ends_at_its_deadline_with_all_that_it_started() {
        let begun = Instant::now();
        let job = job("sleep 600 & echo $!; sleep 600", Duration::from_millis(300));
        let error = run_all(vec![job], &mut || true).remove(0).unwrap_err();
        assert!(error.to_string().contains("is not done after 0 s"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn whoever_waits_can_stop_waiting() {
        let begun = Instant::now();
        let jobs = (0..5).map(|_| job("sleep 600", Duration::from_secs(600))).collect();
        let mut looks = 0;
        let results = run_all(jobs, &mut || {
            looks += 1;
            looks < 5
        });
        assert!(results.iter().all(|result| matches!(result, Err(Failed::Interrupted))));
        assert_eq!(results.len(), 5);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn what_a_process_leaves_behind_ends_with_it() {
        let left = String::from_utf8(one("sleep 600 >/dev/null 2>&1 & echo $!").unwrap()).unwrap();
        let gone = |pid: &str| match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        let until = Instant::now() + Duration::from_secs(5);
        while !gone(left.trim()) {
            assert!(Instant::now() < until, "process {left} goes on");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
