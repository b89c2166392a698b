//! Confined commands that are taken over while they run: a debugger, which is this process, has one of their threads make
//! system calls, as code would that came in with what they read. Everything that reaches beyond the files which the command
//! was given must be refused.

use std::{
    env,
    fs::{self, File},
    io, mem,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{fs::FileExt, process::CommandExt},
    },
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use xweave_trace::{Domain, Manifest, Site, Writer};
use xweave_wire::record::{Kind, Record};

/// What is taken over: its name, its arguments, and the system call in which it waits then.
pub struct Victim {
    name: &'static str,
    arguments: &'static str,
    waits: Waits,
    /// Whether it, or what it starts, opens files by their names: Landlock alone keeps it from those that its user may open.
    opens_by_name: bool,
    /// Whether it may start programs of the system, as the compiler.
    starts_programs: bool,
}

/// In which system call a command waits until nobody holds it up any more.
#[derive(Clone, Copy)]
enum Waits {
    /// It has read its files, and prints.
    Prints,
    /// It has given up its rights, and reads its standard input.
    Reads,
}

const fn prints(name: &'static str, arguments: &'static str) -> Victim {
    Victim { name, arguments, waits: Waits::Prints, opens_by_name: false, starts_programs: false }
}

const fn reads(name: &'static str, arguments: &'static str) -> Victim {
    Victim { name, arguments, waits: Waits::Reads, opens_by_name: false, starts_programs: false }
}

/// What starts babeltrace2.
const OF_CTF: &str = "import of CTF";

/// All that read what others made.
pub const VICTIMS: &[Victim] = &[
    prints("flows", "flows trace"),
    prints("records", "records trace"),
    prints("explain", "explain trace"),
    prints("compare", "compare trace trace"),
    prints("vary", "vary trace"),
    prints("report", "report trace -o page.html"),
    prints("export", "export trace --to perfetto -o trace.pftrace"),
    prints("import", "import garbage -o imported"),
    Victim { opens_by_name: true, ..prints("sites", "sites --program garbage access(sock.sk_state)") },
    Victim {
        starts_programs: true,
        opens_by_name: true,
        ..prints("check", "check --domain host=garbage -e access(sock.sk_state){STORE_DATA1($pc$);}")
    },
    Victim { starts_programs: true, opens_by_name: true, ..prints(OF_CTF, "import packets.ctf -o imported") },
    prints("record: index", "confined index garbage --to 1 --meter 1"),
    prints("record: place", "confined place garbage trace host"),
    reads("record: read", "confined read"),
    Victim { starts_programs: true, opens_by_name: true, ..reads("record: compile", "confined compile") },
];

/// An argument of a system call.
#[derive(Clone, Copy)]
enum Argument {
    Number(i64),
    Text(&'static str),
    /// The process that started the victim.
    Parent,
}

use Argument::{Number as N, Parent, Text as T};

/// A system call that must not succeed.
pub struct Call {
    name: &'static str,
    number: i64,
    arguments: &'static [Argument],
}

const fn call(name: &'static str, number: i64, arguments: &'static [Argument]) -> Call {
    Call { name, number, arguments }
}

const AT_FDCWD: i64 = libc::AT_FDCWD as i64;
/// A file of whoever takes over, and one that is not there.
pub const TARGET: &str = "/tmp/xweave-taken-over";
pub const MADE: &str = "/tmp/xweave-taken-over.made";

const CREATE: i64 = (libc::O_CREAT | libc::O_WRONLY) as i64;

/// What an attacker would go on with. Files that the victims were given are not among them.
pub const CALLS: &[Call] = &[
    call("openat(/etc/shadow)", libc::SYS_openat, &[N(AT_FDCWD), T("/etc/shadow"), N(0)]),
    call("open(/etc/shadow)", libc::SYS_open, &[T("/etc/shadow"), N(0)]),
    call("openat(another file, O_WRONLY)", libc::SYS_openat, &[N(AT_FDCWD), T(TARGET), N(1)]),
    call("openat(/proc/1/environ)", libc::SYS_openat, &[N(AT_FDCWD), T("/proc/1/environ"), N(0)]),
    call("openat(/proc/1/mem)", libc::SYS_openat, &[N(AT_FDCWD), T("/proc/1/mem"), N(2)]),
    call("openat(/tmp/…, O_CREAT)", libc::SYS_openat, &[N(AT_FDCWD), T(MADE), N(CREATE), N(0o600)]),
    call(
        "openat(/run/…, O_CREAT)",
        libc::SYS_openat,
        &[N(AT_FDCWD), T("/run/xweave-taken"), N(CREATE), N(0o600)],
    ),
    call("openat2(/etc/shadow)", libc::SYS_openat2, &[N(AT_FDCWD), T("/etc/shadow"), T(""), N(24)]),
    call("name_to_handle_at", libc::SYS_name_to_handle_at, &[N(AT_FDCWD), T("/etc"), N(0), N(0), N(0)]),
    call("open_by_handle_at", libc::SYS_open_by_handle_at, &[N(AT_FDCWD), N(0), N(0)]),
    call("chmod", libc::SYS_chmod, &[T(TARGET), N(0o777)]),
    call("fchmodat", libc::SYS_fchmodat, &[N(AT_FDCWD), T(TARGET), N(0o777)]),
    call("fchmodat2", 452, &[N(AT_FDCWD), T(TARGET), N(0o777), N(0)]),
    call("chown", libc::SYS_chown, &[T(TARGET), N(65534), N(65534)]),
    call("fchownat", libc::SYS_fchownat, &[N(AT_FDCWD), T(TARGET), N(65534), N(65534), N(0)]),
    call("truncate", libc::SYS_truncate, &[T(TARGET), N(0)]),
    call("utimensat", libc::SYS_utimensat, &[N(AT_FDCWD), T(TARGET), N(0), N(0)]),
    call("setxattr", libc::SYS_setxattr, &[T(TARGET), T("user.x"), T("x"), N(1), N(0)]),
    call("unlink", libc::SYS_unlink, &[T(TARGET)]),
    call("rename", libc::SYS_rename, &[T(TARGET), T(MADE)]),
    call("renameat2", libc::SYS_renameat2, &[N(AT_FDCWD), T(TARGET), N(AT_FDCWD), T(MADE), N(0)]),
    call("link", libc::SYS_link, &[T(TARGET), T(MADE)]),
    call("symlink", libc::SYS_symlink, &[T("/etc/shadow"), T(MADE)]),
    call("mkdir", libc::SYS_mkdir, &[T(MADE), N(0o700)]),
    call("mknod", libc::SYS_mknod, &[T(MADE), N(0o010_600), N(0)]),
    call("chroot(/)", libc::SYS_chroot, &[T("/")]),
    call("kill(its parent)", libc::SYS_kill, &[Parent, N(0)]),
    call("kill(1, 0)", libc::SYS_kill, &[N(1), N(0)]),
    call("tgkill(its parent)", libc::SYS_tgkill, &[Parent, Parent, N(0)]),
    call("tkill(its parent)", libc::SYS_tkill, &[Parent, N(0)]),
    call("rt_sigqueueinfo(its parent)", libc::SYS_rt_sigqueueinfo, &[Parent, N(libc::SIGKILL as i64), N(0)]),
    call("pidfd_open(1)", libc::SYS_pidfd_open, &[N(1), N(0)]),
    call("pidfd_send_signal", libc::SYS_pidfd_send_signal, &[N(0), N(libc::SIGKILL as i64), N(0), N(0)]),
    call("pidfd_getfd", libc::SYS_pidfd_getfd, &[N(0), N(0), N(0)]),
    call("fcntl(F_SETOWN)", libc::SYS_fcntl, &[N(0), N(libc::F_SETOWN as i64), Parent]),
    call("fcntl(F_SETSIG)", libc::SYS_fcntl, &[N(0), N(10), N(libc::SIGKILL as i64)]),
    call(
        "fcntl(F_SETFL, O_ASYNC)",
        libc::SYS_fcntl,
        &[N(0), N(libc::F_SETFL as i64), N(libc::O_ASYNC as i64)],
    ),
    call("ptrace(its parent)", libc::SYS_ptrace, &[N(16), Parent, N(0), N(0)]),
    call("process_vm_readv(its parent)", libc::SYS_process_vm_readv, &[Parent, N(0), N(0), N(0), N(0), N(0)]),
    call(
        "process_vm_writev(its parent)",
        libc::SYS_process_vm_writev,
        &[Parent, N(0), N(0), N(0), N(0), N(0)],
    ),
    call("process_madvise", libc::SYS_process_madvise, &[N(0), N(0), N(0), N(0), N(0)]),
    call("kcmp(its parent)", libc::SYS_kcmp, &[Parent, Parent, N(0), N(0), N(0)]),
    call("prlimit64(its parent)", libc::SYS_prlimit64, &[Parent, N(0), N(0), N(0)]),
    call(
        "sched_setaffinity(its parent)",
        libc::SYS_sched_setaffinity,
        &[Parent, N(8), T("\x01\0\0\0\0\0\0")],
    ),
    call("setpriority(its parent)", libc::SYS_setpriority, &[N(0), Parent, N(19)]),
    call("execve(/bin/true)", libc::SYS_execve, &[T("/bin/true"), N(0), N(0)]),
    call("execveat(/bin/true)", libc::SYS_execveat, &[N(AT_FDCWD), T("/bin/true"), N(0), N(0), N(0)]),
    call("fork", libc::SYS_fork, &[]),
    call("vfork", libc::SYS_vfork, &[]),
    call("clone", libc::SYS_clone, &[N(libc::SIGCHLD as i64), N(0), N(0), N(0), N(0)]),
    call("clone3", libc::SYS_clone3, &[N(0), N(64)]),
    call("socket(AF_INET)", libc::SYS_socket, &[N(libc::AF_INET as i64), N(1), N(0)]),
    call("socket(AF_UNIX)", libc::SYS_socket, &[N(libc::AF_UNIX as i64), N(1), N(0)]),
    call("socket(AF_VSOCK)", libc::SYS_socket, &[N(libc::AF_VSOCK as i64), N(1), N(0)]),
    call("socket(AF_NETLINK)", libc::SYS_socket, &[N(libc::AF_NETLINK as i64), N(3), N(0)]),
    call("socket(AF_PACKET)", libc::SYS_socket, &[N(libc::AF_PACKET as i64), N(3), N(0)]),
    call("setuid(0)", libc::SYS_setuid, &[N(0)]),
    call("setresuid(0)", libc::SYS_setresuid, &[N(0), N(0), N(0)]),
    call("setgid(0)", libc::SYS_setgid, &[N(0)]),
    call("setgroups(0)", libc::SYS_setgroups, &[N(0), N(0)]),
    call("capset", libc::SYS_capset, &[N(0), N(0)]),
    call("setsid", libc::SYS_setsid, &[]),
    call("prctl(PR_SET_DUMPABLE, 1)", libc::SYS_prctl, &[N(4), N(1), N(0), N(0), N(0)]),
    call("prctl(PR_SET_PTRACER)", libc::SYS_prctl, &[N(0x5961_6d61), N(-1), N(0), N(0), N(0)]),
    call("personality", libc::SYS_personality, &[N(0x0004_0000)]),
    call("mmap(PROT_EXEC)", libc::SYS_mmap, &[N(0), N(4096), N(5), N(0x22), N(-1), N(0)]),
    call("mmap(MAP_SHARED)", libc::SYS_mmap, &[N(0), N(4096), N(3), N(0x21), N(-1), N(0)]),
    call("memfd_create", libc::SYS_memfd_create, &[T("x"), N(0)]),
    call("memfd_secret", libc::SYS_memfd_secret, &[N(0)]),
    call("shmget", libc::SYS_shmget, &[N(0), N(4096), N(0o1600)]),
    call("msgget", libc::SYS_msgget, &[N(0), N(0o1600)]),
    call("semget", libc::SYS_semget, &[N(0), N(1), N(0o1600)]),
    call("mq_open", libc::SYS_mq_open, &[T("x"), N(0o100), N(0o600), N(0)]),
    call("inotify_init1", libc::SYS_inotify_init1, &[N(0)]),
    call("fanotify_init", libc::SYS_fanotify_init, &[N(0), N(0)]),
    call("bpf", libc::SYS_bpf, &[N(5), N(0), N(0)]),
    call("perf_event_open", libc::SYS_perf_event_open, &[N(0), N(0), N(-1), N(-1), N(0)]),
    call("io_uring_setup", libc::SYS_io_uring_setup, &[N(8), N(0)]),
    call("userfaultfd", libc::SYS_userfaultfd, &[N(1)]),
    call("unshare(CLONE_NEWUSER)", libc::SYS_unshare, &[N(libc::CLONE_NEWUSER as i64)]),
    call("setns", libc::SYS_setns, &[N(0), N(0)]),
    call("mount", libc::SYS_mount, &[N(0), N(0), N(0), N(0), N(0)]),
    call("umount2(/)", libc::SYS_umount2, &[T("/"), N(2)]),
    call("open_tree(/)", libc::SYS_open_tree, &[N(AT_FDCWD), T("/"), N(0)]),
    call("fsopen(tmpfs)", libc::SYS_fsopen, &[T("tmpfs"), N(0)]),
    call("pivot_root", libc::SYS_pivot_root, &[T("/"), T("/")]),
    call("keyctl", libc::SYS_keyctl, &[N(0), N(-4), N(1)]),
    call("add_key", libc::SYS_add_key, &[T("user"), T("x"), T("x"), N(1), N(-4)]),
    call("init_module", libc::SYS_init_module, &[N(0), N(0), N(0)]),
    call("finit_module", libc::SYS_finit_module, &[N(0), N(0), N(0)]),
    call("kexec_load", libc::SYS_kexec_load, &[N(0), N(0), N(0), N(0)]),
    call(
        "reboot(LINUX_REBOOT_CMD_CAD_ON)",
        libc::SYS_reboot,
        &[N(0xfee1_dead), N(0x2812_1969), N(0x89ab_cdef), N(0)],
    ),
    call("sethostname", libc::SYS_sethostname, &[T("x"), N(1)]),
    call("settimeofday", libc::SYS_settimeofday, &[N(0), N(0)]),
    call("swapoff(/)", libc::SYS_swapoff, &[T("/")]),
    call("syslog(10)", libc::SYS_syslog, &[N(10), N(0), N(0)]),
    call("iopl(3)", libc::SYS_iopl, &[N(3)]),
    call("ioperm", libc::SYS_ioperm, &[N(0x80), N(1), N(1)]),
    call("ioctl(TIOCSTI)", libc::SYS_ioctl, &[N(1), N(libc::TIOCSTI.cast_signed()), T("x")]),
    call("vmsplice", libc::SYS_vmsplice, &[N(1), N(0), N(0), N(0)]),
];

/// Whether the kernel has Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// As it is.
    AsItIs,
    /// It says that it has none.
    Without,
}

/// What starting programs takes.
const OF_PROGRAMS: [&str; 7] =
    ["execve(/bin/true)", "execveat(/bin/true)", "fork", "vfork", "clone", "clone3", "mmap(PROT_EXEC)"];

/// What came of a call.
pub struct Row {
    pub victim: &'static str,
    pub call: &'static str,
    /// Refused: with which error, or by the process's end. None where it succeeded.
    pub refused: Option<String>,
}

/// Takes all of them over, and has them make all calls: with Landlock, or as if the kernel had none.
pub fn table(xweave: &Path, landlock: Landlock) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    write_trace(&folder.path().join("trace"));
    fs::write(folder.path().join("garbage"), "nothing that is understood").unwrap();
    fs::create_dir(folder.path().join("packets.ctf")).unwrap();
    fs::write(folder.path().join("packets.ctf/metadata"), "nothing that is understood").unwrap();
    fs::write(TARGET, "as it was").unwrap();
    let mut rows = Vec::new();
    for victim in victims(landlock) {
        let mut taken: Option<Taken> = None;
        for call in calls(victim) {
            let held = taken.take().unwrap_or_else(|| Taken::of((xweave, landlock), victim, folder.path()));
            let refused = match held.make(call) {
                Made::Ended(signal) => Some(format!("ended by {signal}")),
                Made::Other => None,
                Made::Gave(result, held) => {
                    taken = Some(held);
                    (-4095..0).contains(&result).then(|| error(result))
                }
            };
            rows.push(Row { victim: victim.name, call: call.name, refused });
        }
    }
    // What was not refused is a row. That nothing came of what was, is seen.
    assert_eq!(fs::read_to_string(TARGET).unwrap(), "as it was");
    assert!(!Path::new(MADE).exists() && !Path::new("/run/xweave-taken").exists());
    fs::remove_file(TARGET).unwrap();
    rows
}

/// Those that are kept from everything.
pub fn victims(landlock: Landlock) -> impl Iterator<Item = &'static Victim> {
    let is_there = |victim: &&Victim| victim.name != OF_CTF || has_babeltrace();
    let those = VICTIMS.iter().filter(move |victim| landlock == Landlock::AsItIs || !victim.opens_by_name);
    those.filter(is_there)
}

/// Whether there is the program that decodes CTF. Where there is none, nothing is read.
fn has_babeltrace() -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    let there = env::split_paths(&folders).any(|folder| folder.join("babeltrace2").exists());
    if !there {
        println!("SKIPPED: taking over the import of CTF: there is no babeltrace2");
    }
    there
}

/// What such a one must not do.
pub fn calls(victim: &Victim) -> impl Iterator<Item = &'static Call> {
    let may = if victim.starts_programs { &OF_PROGRAMS[..] } else { &[] };
    CALLS.iter().filter(move |call| !may.contains(&call.name))
}

/// The table as text: a line of each call, with what came of it in each command.
pub fn shown(rows: &[Row]) -> String {
    let mut text = String::new();
    for call in CALLS {
        let of_call: Vec<&Row> = rows.iter().filter(|row| row.call == call.name).collect();
        let mut by_result: Vec<(String, Vec<&str>)> = Vec::new();
        for row in of_call {
            let result = row.refused.clone().unwrap_or_else(|| "NOT REFUSED".to_owned());
            match by_result.iter_mut().find(|(known, _)| *known == result) {
                Some((_, victims)) => victims.push(row.victim),
                None => by_result.push((result, vec![row.victim])),
            }
        }
        let all = by_result.len() == 1;
        let told = by_result.iter().map(|(result, victims)| match all {
            true => result.clone(),
            false => format!("{result} ({})", victims.join(", ")),
        });
        text += &format!("{:<32} {}\n", call.name, told.collect::<Vec<_>>().join("; "));
    }
    text
}

/// Asserts that each call was refused, and for what it is: not since its arguments are wrong.
pub fn assert_refused(rows: &[Row]) {
    let is_refused = |row: &&Row| match row.refused.as_deref() {
        // The last: the kernel has no such call.
        Some(how) => matches!(how, "EPERM" | "EACCES" | "ended by SIGSYS" | "ENOSYS"),
        None => false,
    };
    let told = |row: &Row| format!("{}: {}: {:?}", row.victim, row.call, row.refused);
    let not: Vec<String> = rows.iter().filter(|row| !is_refused(row)).map(told).collect();
    assert!(not.is_empty(), "{}", not.join("\n"));
}

fn error(result: i64) -> String {
    match i32::try_from(-result).unwrap_or(0) {
        libc::EPERM => "EPERM".to_owned(),
        libc::EACCES => "EACCES".to_owned(),
        libc::ENOSYS => "ENOSYS".to_owned(),
        libc::ENOENT => "ENOENT".to_owned(),
        libc::EBADF => "EBADF".to_owned(),
        libc::EINVAL => "EINVAL".to_owned(),
        libc::EFAULT => "EFAULT".to_owned(),
        libc::ESRCH => "ESRCH".to_owned(),
        other => format!("error {other}"),
    }
}

/// A trace with a flow and an event: for each command something to read.
fn write_trace(dir: &Path) {
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir, Manifest { domains, ..Manifest::default() }).unwrap();
    let site = |site, function: &str| Site {
        site,
        domain: "host".into(),
        function: function.into(),
        xflow: Some("packet".into()),
        ..Site::default()
    };
    writer.sites(&[site(1, "tun_net_xmit"), site(2, "tun_do_read")]).unwrap();
    for (time_ns, site, kind) in [(0, 1, Kind::Start), (1_000, 2, Kind::Quit)] {
        let (flow, comm, values) = (1 << 56 | 4, [0; 16], vec![7]);
        let record = Record { time_ns, flow, site, pid: 7, tid: 7, cpu: 0, kind, comm, values };
        writer.append(1, time_ns.cast_signed(), &record).unwrap();
    }
    writer.finish().unwrap();
}

/// A command that waits, and one of whose threads is held.
struct Taken {
    started: Child,
    /// The process that gave up its rights: the command itself, or root's the one of another user.
    thread: i32,
    parent: i32,
    /// Nobody reads what it prints; nobody writes what it reads.
    _held: [OwnedFd; 2],
}

enum Made {
    Gave(i64, Taken),
    Other,
    Ended(String),
}

/// How long a command may take until it waits.
const WAITS_WITHIN: Duration = Duration::from_secs(120);

impl Taken {
    fn of((xweave, landlock): (&Path, Landlock), victim: &Victim, folder: &Path) -> Self {
        let (read, write) = full_pipe();
        let (input, never) = pipe();
        let mut command = Command::new(xweave);
        command.args(victim.arguments.split_whitespace()).current_dir(folder);
        command.env("XWEAVE_CACHE", folder.join("cache"));
        let said = write.try_clone().unwrap();
        command.stdin(input).stdout(write).stderr(said);
        for made in ["page.html", "trace.pftrace"] {
            let _ = fs::remove_file(folder.join(made));
        }
        if landlock == Landlock::Without {
            // SAFETY: system calls on what is there.
            unsafe { command.pre_exec(refuse_landlock) };
        }
        let started = command.spawn().unwrap();
        let waits: &[&str] = match victim.waits {
            // write and writev, to standard output or standard error.
            Waits::Prints => &["1 0x1 ", "1 0x2 ", "20 0x1 ", "20 0x2 "],
            Waits::Reads => &["0 0x0 "],
        };
        let own = i32::try_from(started.id()).unwrap();
        let until = Instant::now() + WAITS_WITHIN;
        let (process, thread) = loop {
            let waiting = std::iter::once(own).chain(children(own)).find_map(|process| {
                is_confined(process, landlock)
                    .then(|| waiting(process, waits))
                    .flatten()
                    .map(|thread| (process, thread))
            });
            match waiting {
                Some(found) => break found,
                None if Instant::now() > until => panic!("xweave {} does not wait", victim.arguments),
                None => thread::sleep(Duration::from_millis(2)),
            }
        };
        let parent = parent_of(process);
        // SAFETY: takes integers; the thread is of a process that this one started.
        unsafe {
            ptrace(libc::PTRACE_SEIZE, thread, 0, 0).unwrap();
            ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0).unwrap();
        }
        assert!(libc::WIFSTOPPED(wait(thread)));
        Self { started, thread, parent, _held: [read, never] }
    }

    /// Has it make a system call, and gives what that gave.
    fn make(self, call: &Call) -> Made {
        let saved = registers(self.thread);
        // In its own frames, which are put back: below them there may be no memory.
        let (start, mut kept) = (saved.rsp & !15, [0; 256]);
        let mut at = start;
        let memory =
            File::options().read(true).write(true).open(format!("/proc/{}/mem", self.thread)).unwrap();
        memory.read_exact_at(&mut kept, start).unwrap();
        let mut arguments = [0u64; 6];
        for (place, argument) in arguments.iter_mut().zip(call.arguments) {
            *place = match argument {
                N(number) => number.cast_unsigned(),
                Parent => u64::try_from(self.parent).unwrap(),
                T(text) => {
                    let mut bytes = [text.as_bytes(), &[0; 32]].concat();
                    bytes.truncate(bytes.len() / 8 * 8);
                    memory.write_all_at(&bytes, at).unwrap();
                    let next = at + bytes.len() as u64;
                    mem::replace(&mut at, next)
                }
            };
        }
        let mut made = saved;
        // It stands behind the instruction of the call in which it waits.
        (made.rip, made.orig_rax) = (saved.rip - 2, u64::MAX);
        made.rax = call.number.cast_unsigned();
        [made.rdi, made.rsi, made.rdx, made.r10, made.r8, made.r9] = arguments;
        set_registers(self.thread, &made);
        // SAFETY: takes integers; the thread is held.
        unsafe { ptrace(libc::PTRACE_SINGLESTEP, self.thread, 0, 0).unwrap() };
        let mut status = wait(self.thread);
        // A child that it made would be held, too; it would only be so where that succeeded.
        while libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) != libc::SIGTRAP {
            // SAFETY: as above.
            unsafe { ptrace(libc::PTRACE_SINGLESTEP, self.thread, 0, 0).unwrap() };
            status = wait(self.thread);
        }
        if libc::WIFSIGNALED(status) {
            return Made::Ended(match libc::WTERMSIG(status) {
                libc::SIGSYS => "SIGSYS".to_owned(),
                other => format!("signal {other}"),
            });
        }
        assert!(libc::WIFSTOPPED(status), "{}: {status:x}", call.name);
        let result = registers(self.thread).rax.cast_signed();
        set_registers(self.thread, &saved);
        match memory.write_all_at(&kept, start) {
            Ok(()) => Made::Gave(result, self),
            // Its memory is another's: it has become another program.
            Err(_) => Made::Other,
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Its child ends with it, and with what holds it.
        let _ = self.started.kill();
        // SAFETY: takes integers; it was held by this process, and is not reaped before.
        let _ = unsafe { ptrace(libc::PTRACE_CONT, self.thread, 0, libc::SIGKILL.into()) };
        let _ = self.started.wait();
    }
}

/// Whether a process has a filter of system calls: its own, besides that which it was started with.
fn is_confined(process: i32, landlock: Landlock) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let filters =
        status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:")?.trim().parse::<u32>().ok());
    filters.is_some_and(|filters| filters > u32::from(landlock == Landlock::Without))
}

/// Has the kernel answer as one without Landlock does.
fn refuse_landlock() -> io::Result<()> {
    // linux/filter.h, linux/seccomp.h: load the call's number; is it landlock_create_ruleset? then EOPNOTSUPP, else it is allowed.
    let statement = |code: u16, k: u32| libc::sock_filter { code, jt: 0, jf: 0, k };
    let mut filter = [
        statement(0x20, 0),
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: 444 },
        statement(0x06, 0x0005_0000 | libc::EOPNOTSUPP.unsigned_abs()),
        statement(0x06, 0x7fff_0000),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel reads the program, which is there.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A thread of a process that waits in one of these calls.
fn waiting(process: i32, calls: &[&str]) -> Option<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse::<i32>().ok());
    let waits = |thread: &i32| {
        let call = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).unwrap_or_default();
        calls.iter().any(|wanted| call.starts_with(wanted))
    };
    threads.into_iter().find(waits)
}

fn stat(process: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn parent_of(process: i32) -> i32 {
    stat(process).and_then(|fields| fields.get(1)?.parse().ok()).unwrap_or(1)
}

fn children(of: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    all.filter(|process| parent_of(*process) == of).collect()
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: two numbers are written, which are nobody else's then.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// A pipe that takes nothing more.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = pipe();
    // SAFETY: takes integers, and a page that is there.
    unsafe {
        assert!(libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) >= 0);
        assert_eq!(libc::write(write.as_raw_fd(), [0u8; 4096].as_ptr().cast(), 4096), 4096);
    }
    (read, write)
}

/// # Safety
/// The arguments must be such that this process's memory is only changed where that is meant.
unsafe fn ptrace(request: libc::c_uint, thread: i32, address: usize, data: i64) -> io::Result<()> {
    // SAFETY: the caller's.
    match unsafe { libc::ptrace(request, thread, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn wait(thread: i32) -> i32 {
    let mut status = 0;
    // SAFETY: an integer is written.
    let waited = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    assert_eq!(waited, thread, "{}", io::Error::last_os_error());
    status
}

fn registers(thread: i32) -> libc::user_regs_struct {
    // SAFETY: zeros are a value of this structure of integers, which the kernel fills.
    unsafe {
        let mut registers: libc::user_regs_struct = mem::zeroed();
        ptrace(
            libc::PTRACE_GETREGS,
            thread,
            0,
            (&raw mut registers).expose_provenance().cast_signed() as i64,
        )
        .unwrap();
        registers
    }
}

fn set_registers(thread: i32, registers: &libc::user_regs_struct) {
    // SAFETY: the kernel reads the structure.
    unsafe {
        let at = std::ptr::from_ref(registers).expose_provenance().cast_signed() as i64;
        ptrace(libc::PTRACE_SETREGS, thread, 0, at).unwrap();
    }
}
