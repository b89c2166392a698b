//! What a process that was taken over would try. Tests have it tried by confined ones, in the built program.

use std::{
    env, fs, io,
    net::{TcpListener, UdpSocket},
    os::{
        fd::AsRawFd,
        unix::{fs::MetadataExt, net::UnixDatagram},
    },
    path::{Path, PathBuf},
    process::{Command, id},
    thread,
    time::Duration,
};

use super::{Confinement, Error, Job, Layers, Limits, User, job::Failed, run_all};
use crate::broker;

/// What a confined process is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// It reads what it is given open: what a domain sent.
    Reader,
    /// It starts compilers.
    Compiler,
    /// It is a command, such as `explain`, that was given files by their paths.
    Command,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Compiler, Self::Command];

    /// Its name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The role of that name.
    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// Something that must not succeed.
pub struct Attempt {
    /// What it is called.
    pub name: &'static str,
    /// Whether it is refused too where programs are started: by clang.
    pub of_programs: bool,
    /// What the process that waits is to be told; empty where the attempt itself is told that it is refused.
    pub told: &'static str,
    run: fn() -> io::Result<()>,
}

const fn refused(name: &'static str, run: fn() -> io::Result<()>) -> Attempt {
    Attempt { name, of_programs: true, told: "", run }
}

const fn deadly(name: &'static str, run: fn() -> io::Result<()>) -> Attempt {
    Attempt { name, of_programs: true, told: "it was ended for a system call", run }
}

impl Attempt {
    /// One that only what starts no programs is kept from.
    const fn of_readers(mut self) -> Self {
        self.of_programs = false;
        self
    }

    const fn told(mut self, told: &'static str) -> Self {
        self.told = told;
        self
    }

    /// Tries it.
    ///
    /// # Errors
    ///
    /// How it was refused: the good outcome.
    pub fn run(&self) -> io::Result<()> {
        (self.run)()
    }
}

/// All of them.
pub const ATTEMPTS: &[Attempt] = &[
    refused("read-shadow", || fs::read("/etc/shadow").map(|_| ())),
    refused("read-process", || fs::read("/proc/1/environ").map(|_| ())),
    refused("write-tmp", || fs::write("/tmp/xweave-attempt", "x")),
    refused("write-run", || fs::write("/run/xweave-attempt", "x")),
    refused("remove", || fs::remove_file("/etc/hostname")),
    refused("change-mode", || {
        fs::set_permissions("/etc/hostname", fs::metadata("/etc/hostname")?.permissions())
    }),
    refused("change-mode-open", || {
        let file = fs::File::open("/etc/hostname")?;
        file.set_permissions(file.metadata()?.permissions())
    }),
    refused("truncate", || {
        let (name, size) = (c"/etc/hostname", fs::metadata("/etc/hostname")?.len());
        call(libc::SYS_truncate, [name.as_ptr() as i64, size.cast_signed(), 0])
    }),
    refused("link", || std::os::unix::fs::symlink("/etc/shadow", "attempt-link")),
    refused("set-user-id", set_user_id),
    refused("tcp", || TcpListener::bind("127.0.0.1:0").map(|_| ())),
    refused("udp", || UdpSocket::bind("127.0.0.1:0").map(|_| ())),
    refused("unix-socket", || UnixDatagram::unbound().map(|_| ())),
    refused("vsock", || call(libc::SYS_socket, [libc::AF_VSOCK.into(), 1, 0])),
    refused("netlink", || call(libc::SYS_socket, [libc::AF_NETLINK.into(), 3, 0])),
    deadly("bpf", || call(libc::SYS_bpf, [5, 0, 0])),
    deadly("perf", || call(libc::SYS_perf_event_open, [0, 0, -1])),
    deadly("ptrace", || call(libc::SYS_ptrace, [i64::from(libc::PTRACE_TRACEME), 0, 0])),
    deadly("mount", || call(libc::SYS_mount, [0, 0, 0])),
    deadly("namespace", || call(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0])),
    deadly("keyring", || call(libc::SYS_keyctl, [0, -4, 1])),
    deadly("io-uring", || call(libc::SYS_io_uring_setup, [8, 0, 0])),
    deadly("userfaultfd", || call(libc::SYS_userfaultfd, [1, 0, 0])),
    deadly("module", || call(libc::SYS_init_module, [0, 0, 0])),
    deadly("kexec", || call(libc::SYS_kexec_load, [0, 0, 0])),
    deadly("handle", || call(libc::SYS_open_by_handle_at, [0, 0, 0])),
    refused("become-root", || call(libc::SYS_setuid, [0, 0, 0])),
    refused("new-session", || call(libc::SYS_setsid, [0, 0, 0])),
    refused("memfd", || call(libc::SYS_memfd_create, [c"x".as_ptr() as i64, 0, 0])),
    refused("shared-memory", || map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, libc::PROT_WRITE)),
    refused("growing-stack", || {
        map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN, libc::PROT_WRITE)
    }),
    refused("new-code", || map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_EXEC)).of_readers(),
    refused("terminal-input", || {
        let byte = b'x';
        // SAFETY: reads one byte, which is there.
        check(unsafe { libc::ioctl(io::stdout().as_raw_fd(), libc::TIOCSTI, &raw const byte) }.into())
    }),
    refused("exec", || Command::new("/bin/true").status().map(|_| ())).of_readers(),
    refused("exec-own", execute_own),
    refused("fork", || {
        // SAFETY: the child ends at once.
        match unsafe { libc::syscall(libc::SYS_clone, i64::from(libc::SIGCHLD), 0, 0, 0, 0) } {
            // SAFETY: takes an integer.
            0 => unsafe { libc::_exit(0) },
            result => check(result),
        }
    })
    .of_readers(),
    refused("fork-bomb", fork_bomb),
    refused("threads", threads),
    refused("signal-parent", || {
        // SAFETY: takes integers.
        check(unsafe { libc::kill(parent(), 0) }.into())
    }),
    // Whoever owns a descriptor is sent signals about it: SIGKILL, if that is wanted.
    refused("own-signals", || signal_of_descriptor(libc::F_SETOWN, parent())),
    refused("choose-signal", || signal_of_descriptor(F_SETSIG, libc::SIGKILL)),
    refused("send-signals", || signal_of_descriptor(libc::F_SETFL, libc::O_ASYNC)),
    refused("memory", memory).told("ran out of its memory"),
    refused("time", time).told("of CPU time"),
    refused("deadline", || {
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    })
    .told("is not done after"),
    refused("answer", || {
        loop {
            io::Write::write_all(&mut io::stdout(), &[b'x'; 1 << 16])?;
        }
    })
    .told("answers with more than"),
];

/// The attempt of that name.
pub fn named(name: &str) -> Option<&'static Attempt> {
    ATTEMPTS.iter().find(|attempt| attempt.name == name)
}

/// Limits that are soon reached.
const LIMITS: Limits = Limits { memory: 256 << 20, seconds: 60, file: 16 << 20 };

/// Where that is what is tried.
const SHORT: Limits = Limits { seconds: 2, ..LIMITS };

/// More than what is confined has at once; fewer than an attempt wants.
const PROCESSES: u64 = 64;

/// Confines this process for its role, in the folder where it is.
///
/// # Errors
///
/// What cannot be taken from it.
pub fn confine(role: Role) -> Result<Layers, Error> {
    let nothing = Confinement::new(User::Nobody).processes(PROCESSES);
    match role {
        Role::Reader => nothing.apply(),
        Role::Compiler => nothing.write(".").programs(None).apply(),
        Role::Command if broker::is_needed() => {
            let descriptor = broker::divide(Vec::new()).map_err(|error| Error::new("broker", error))?;
            nothing.broker(descriptor).apply()
        }
        Role::Command => Confinement::new(User::Same).processes(PROCESSES).apply(),
    }
}

/// What came of an attempt.
pub struct Outcome {
    /// The attempt's.
    pub name: &'static str,
    /// Whose it was.
    pub role: Role,
    /// Whether it was refused.
    pub refused: bool,
    /// How; else what happened instead.
    pub told: String,
}

/// Has confined processes of this program (`xweave confined attempt NAME ROLE`) try everything.
///
/// # Errors
///
/// When there is no folder for them to work in.
pub fn probe(keep_going: &mut dyn FnMut() -> bool) -> io::Result<Vec<Outcome>> {
    let folder = Folder::new(&env::temp_dir())?;
    let mut asked = Vec::new();
    let mut jobs = Vec::new();
    for role in Role::ALL {
        for attempt in ATTEMPTS.iter().filter(|attempt| attempt.of_programs || role != Role::Compiler) {
            let own = folder.0.join(jobs.len().to_string());
            fs::create_dir(&own)?;
            // An emulated machine is slow; of the one that waits, it is known what will come of it.
            let seconds = if attempt.name == "deadline" { 3 } else { 60 };
            let limits = if attempt.name == "time" { SHORT } else { LIMITS };
            let arguments = ["confined", "attempt", attempt.name, role.name()];
            let mut job = Job::new("an attempt", &arguments, limits, Duration::from_secs(seconds));
            job.folder = own;
            job.most = 1 << 20;
            jobs.push(job);
            asked.push((attempt, role));
        }
    }
    let judged = run_all(jobs, keep_going).into_iter().zip(asked).map(|(result, (attempt, role))| {
        let (refused, told) = match result {
            Ok(answer) => {
                let answer = String::from_utf8_lossy(&answer).into_owned();
                match answer.strip_prefix(REFUSED) {
                    Some(how) if attempt.told.is_empty() => (true, how.to_owned()),
                    _ => (false, answer),
                }
            }
            Err(Failed::Ended { how, .. }) if !attempt.told.is_empty() && how.contains(attempt.told) => {
                (true, how)
            }
            Err(error) => (false, error.to_string()),
        };
        Outcome { name: attempt.name, role, refused, told }
    });
    Ok(judged.collect())
}

/// How an attempt begins to say that it was refused.
const REFUSED: &str = "refused: ";

/// What a confined process says of its attempt.
pub fn tell(name: &str) -> String {
    match named(name).map(Attempt::run) {
        None => format!("there is no attempt {name}"),
        Some(Ok(())) => "it succeeded".to_owned(),
        Some(Err(error)) => format!("{REFUSED}{error}"),
    }
}

/// How the folders of probes are called.
const FOLDER: &str = "xweave-probe-";

/// Far longer than a probe takes, also where machines are emulated.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder for those that try, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(within: &Path) -> io::Result<Self> {
        remove_abandoned(within);
        let folder = within.join(format!("{FOLDER}{}", id()));
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // With what was written there by those that were killed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of probes that were killed themselves.
fn remove_abandoned(within: &Path) {
    // SAFETY: takes nothing.
    let own = unsafe { libc::geteuid() };
    for entry in fs::read_dir(within).into_iter().flatten().flatten() {
        // Of the entry itself: a link that others made leads to what is none of ours.
        let Ok(about) = entry.metadata() else { continue };
        let ours = about.is_dir() && about.uid() == own;
        let old =
            about.modified().ok().and_then(|then| then.elapsed().ok()).is_some_and(|age| age > ABANDONED);
        if ours && old && entry.file_name().to_string_lossy().starts_with(FOLDER) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn check(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn call(number: i64, [a, b, c]: [i64; 3]) -> io::Result<()> {
    // SAFETY: all pointers among the arguments are null or to texts that end; what the kernel makes of it is to be seen.
    check(unsafe { libc::syscall(number, a, b, c, 0, 0) })
}

fn map(flags: i32, protection: i32) -> io::Result<()> {
    // SAFETY: a new mapping, which nobody uses.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 1 << 20, protection | libc::PROT_READ, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Of Linux: include/uapi/asm-generic/fcntl.h.
const F_SETSIG: i32 = 10;

fn parent() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::getppid() }
}

/// Says of standard output to whom which signals about it are sent.
fn signal_of_descriptor(command: i32, value: i32) -> io::Result<()> {
    // SAFETY: takes integers.
    check(unsafe { libc::fcntl(io::stdout().as_raw_fd(), command, value) }.into())
}

/// A program that runs as whoever owns it: in the folder where writing is allowed.
fn set_user_id() -> io::Result<()> {
    let name = c"set-user-id".as_ptr();
    let flags = libc::O_CREAT | libc::O_WRONLY;
    // SAFETY: the name ends.
    let made = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name, flags, 0o4755) };
    check(made)
}

/// What it wrote itself must not become a program.
fn execute_own() -> io::Result<()> {
    let own = Path::new("own-program");
    let _ = fs::copy("/bin/true", own);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let _ = fs::set_permissions(own, mode);
    Command::new("./own-program").status().map(|_| ())
}

/// Processes that stay, until there are no more.
fn fork_bomb() -> io::Result<()> {
    for _ in 0..2000 {
        // SAFETY: the child waits for its end, which comes with its parent's.
        match unsafe { libc::syscall(libc::SYS_clone, i64::from(libc::SIGCHLD), 0, 0, 0, 0) } {
            0 => loop {
                thread::sleep(Duration::from_secs(1));
            },
            result => check(result)?,
        }
    }
    Ok(())
}

fn threads() -> io::Result<()> {
    for _ in 0..2000 {
        thread::Builder::new().stack_size(64 << 10).spawn(|| {
            loop {
                thread::sleep(Duration::from_secs(1));
            }
        })?;
    }
    Ok(())
}

/// Page by page, since only what is used counts.
fn memory() -> io::Result<()> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for _ in 0..1 << 14 {
        all.push(vec![1; 1 << 20]);
    }
    std::hint::black_box(&all);
    Ok(())
}

fn time() -> io::Result<()> {
    let mut number = 0u64;
    loop {
        number = std::hint::black_box(number.wrapping_add(1));
    }
}
