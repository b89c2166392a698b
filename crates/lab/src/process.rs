//! Other processes: running tools to their end, and knowing and ending a process safely by its identity.

use crate::error::{At, Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The Debian package of each program that the lab starts.
const PACKAGES: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mmdebstrap", "mmdebstrap"),
    ("mke2fs", "e2fsprogs"),
    ("busybox", "busybox-static"),
    ("depmod", "kmod"),
    ("fakeroot", "fakeroot"),
    ("apt-get", "apt"),
    ("apt-cache", "apt"),
    ("apt-config", "apt"),
    ("dpkg-deb", "dpkg"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("gzip", "gzip"),
    ("tar", "tar"),
];

/// Says which program could not be started, and where it comes from.
pub fn start_error(command: &Command, source: io::Error) -> Error {
    let program = command.get_program().to_string_lossy().into_owned();
    if source.kind() == io::ErrorKind::NotFound {
        let package = PACKAGES.iter().find(|(name, _)| *name == program).map_or("of that name", |(_, p)| p);
        return Error::MissingProgram { program, package };
    }
    Error::Io { what: "start", path: program.into(), source }
}

/// Runs a tool to its end and returns what it printed. Its last lines of stderr are in the error.
pub fn run(command: &mut Command, doing: &str) -> Result<Vec<u8>> {
    add_sbin(command);
    let output = command.stdin(Stdio::null()).output().map_err(|e| start_error(command, e))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::Command {
        program: command.get_program().to_string_lossy().into_owned(),
        status: output.status.to_string(),
        doing: doing.to_owned(),
        stderr: tail(&String::from_utf8_lossy(&output.stderr), 20),
    })
}

/// A user's PATH may lack the folders of `mke2fs` and `depmod`.
pub fn add_sbin(command: &mut Command) {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"));
}

/// The last `lines` lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Reads a file that may be large from its end: its last `lines` lines.
pub(crate) fn last_lines(path: &Path, lines: usize) -> String {
    let mut data = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        use std::io::Seek;
        let length = file.metadata()?.len();
        file.seek(io::SeekFrom::Start(length.saturating_sub(1 << 20)))?;
        file.take(1 << 20).read_to_end(&mut data)
    });
    match read {
        Ok(_) => tail(String::from_utf8_lossy(&data).replace('\r', "").trim_end(), lines),
        Err(e) => format!("(no console: {e})"),
    }
}

/// A process that cannot be mistaken for another: its number together with when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The process number.
    pub pid: i32,
    /// Clock ticks from the machine's start to the process's (`/proc/PID/stat`, field 22).
    pub start: u64,
}

impl Identity {
    /// Reads a file that [`start_daemon`] left. `None`: nothing was started.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(parse_stat(&text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).at("read", path),
        }
    }

    /// Whether this very process is still running (a zombie is not).
    pub fn alive(self) -> bool {
        let Ok(text) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        parse_stat(&text) == Some(self) && !matches!(state, Some('Z' | 'X'))
    }

    /// How long processors have worked for it; none once it is gone.
    pub fn worked(self) -> Option<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        if parse_stat(&text) != Some(self) {
            return None;
        }
        // Fields 14 and 15, utime and stime, in ticks of USER_HZ, which is 100 wherever x86-64 Linux runs.
        let mut fields = text.rsplit_once(") ")?.1.split(' ').skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(Duration::from_millis(10 * (ticks()? + ticks()?)))
    }

    /// Ends the process: SIGTERM, and SIGKILL after `patience`. Returns when it is gone.
    pub fn end(self, patience: Duration) -> Result<()> {
        let path = format!("/proc/{}", self.pid);
        // SAFETY: pidfd_open takes a number and flags and touches no memory.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) };
        let Ok(raw) = i32::try_from(raw) else { return Ok(()) };
        if raw < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ESRCH) {
                Ok(())
            } else {
                Err(error).at("open", path)
            };
        }
        // SAFETY: the kernel has just given this descriptor to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        // Checked after the descriptor is open: from here on it cannot become another process.
        if !self.alive() {
            return Ok(());
        }
        for (signal, patience) in [(libc::SIGTERM, patience), (libc::SIGKILL, Duration::from_secs(20))] {
            // SAFETY: pidfd_send_signal with a null siginfo reads no memory of ours.
            let sent = unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    fd.as_raw_fd(),
                    signal,
                    std::ptr::null::<libc::siginfo_t>(),
                    0,
                )
            };
            if sent < 0 {
                let error = io::Error::last_os_error();
                return if error.raw_os_error() == Some(libc::ESRCH) {
                    Ok(())
                } else {
                    Err(error).at("end", path)
                };
            }
            if readable(fd.as_raw_fd(), patience) {
                return Ok(());
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "still there after SIGKILL")).at("end", path)
    }
}

/// Waits until a descriptor is readable: a pidfd is when its process has ended.
fn readable(fd: i32, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let millis = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one valid pollfd, and the count says one.
        let ready = unsafe { libc::poll(&raw mut poll, 1, millis) };
        if ready > 0 {
            return true;
        }
        if left.is_zero() {
            return false;
        }
    }
}

/// `PID (NAME) STATE …`; the name may hold spaces and brackets, so fields count from the last bracket.
fn parse_stat(text: &str) -> Option<Identity> {
    let pid = text.split_once(' ')?.0.parse().ok()?;
    let start = text.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    Some(Identity { pid, start })
}

/// Starts a process that outlives this one, in its own session, with stderr and stdout in `log`.
///
/// Before the program itself begins, the child writes its identity to `pid_file`: whenever it runs,
/// the file says so, even if this process is killed at any moment.
pub fn start_daemon(command: &mut Command, log: &Path, pid_file: &Path) -> Result<Child> {
    let open = |path: &Path| {
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path).at("create", path)
    };
    let log_file = open(log)?;
    let pid_fd = open(pid_file)?;
    let second = log_file.try_clone().at("open", log)?;
    command.stdin(Stdio::null()).stdout(log_file).stderr(second);
    // SAFETY: between fork and exec only system calls on memory of the closure's own stack are made.
    unsafe {
        command.pre_exec(move || {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            let stat = libc::open(c"/proc/self/stat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            let mut text = [0_u8; 1024];
            let length = libc::read(stat, text.as_mut_ptr().cast(), text.len());
            let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
            let written = libc::write(pid_fd.as_raw_fd(), text.as_ptr().cast(), length);
            if usize::try_from(written) == Ok(length) { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
    }
    command.spawn().map_err(|e| start_error(command, e))
}

/// `length` bytes from the kernel's generator, as hexadecimal digits.
pub fn random_hex(length: usize) -> Result<String> {
    let path = "/dev/urandom";
    let mut bytes = vec![0; length];
    File::open(path).and_then(|mut f| f.read_exact(&mut bytes)).at("read", path)?;
    Ok(xweave_text::hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_confuse() {
        let text = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(parse_stat(text), Some(Identity { pid: 12, start: 4711 }));
        assert_eq!(parse_stat("12 (a"), None);
    }

    #[test]
    fn a_reused_number_is_another_process() {
        let own = Identity::read(Path::new("/proc/self/stat")).unwrap().unwrap();
        assert!(own.alive());
        assert!(own.worked().is_some());
        let other = Identity { start: own.start + 1, ..own };
        assert!(!other.alive());
        assert_eq!(other.worked(), None);
        other.end(Duration::from_secs(1)).unwrap();
        assert!(own.alive(), "a process of another start time must not be signalled");
    }

    #[test]
    fn a_daemon_leaves_its_identity_and_can_be_ended() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let mut child =
            start_daemon(Command::new("sleep").arg("1000"), &dir.path().join("log"), &pid_file).unwrap();
        let identity = Identity::read(&pid_file).unwrap().unwrap();
        assert_eq!(u32::try_from(identity.pid).unwrap(), child.id());
        assert!(identity.alive());
        identity.end(Duration::from_secs(5)).unwrap();
        child.wait().unwrap();
        assert!(!identity.alive());
        identity.end(Duration::from_secs(5)).unwrap();
    }

    #[test]
    fn a_failed_tool_says_what_it_printed() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"]), "testing").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("broken") && text.contains("testing"), "{text}");
        let error = run(&mut Command::new("no-such-program"), "testing").unwrap_err();
        assert!(matches!(error, Error::MissingProgram { .. }));
    }
}
