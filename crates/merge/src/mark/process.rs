//! A process as /proc shows it: whether it may be borrowed at all, its threads, its stacks, and code that is useful.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    ops::Range,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
    sync::{Mutex, OnceLock, PoisonError},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};

use super::error::{Filtered, MarkError};
use crate::maps::Line;

/// Threads that are looked at, of a process with more of them.
const THREADS: usize = 4096;

/// Mappings that are looked at.
const MAPPINGS: usize = 1 << 17;

/// Bytes of code that are searched: the largest programs have less than this.
const CODE: u64 = 512 << 20;
const CHUNK: usize = 256 << 10;

/// `syscall; ret`, as the C library's short wrappers end.
const SYSCALL_RET: &[u8] = &[0x0f, 0x05, 0xc3];

/// `mov $15, %rax; syscall`: what signal handlers return to (`__restore_rt`), in glibc and musl.
const SIGRETURN: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// CAP_SYS_ADMIN (include/uapi/linux/capability.h).
const SYS_ADMIN: u32 = 21;

/// Another process. Its number is its own as long as this lives, until it ends.
pub(super) struct Process {
    pub(super) pid: u32,
    descriptor: OwnedFd,
    /// Whether this process has to learn from the kernel that it ended, as its parent.
    pub(super) is_child: bool,
    /// Code that was found in it.
    code: OnceLock<Code>,
    /// The stack that was found last, and whose.
    stack: Mutex<Option<(i32, Range<u64>)>>,
}

/// A thread, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) tid: i32,
    pub(super) sleeps: bool,
}

/// Where instructions lie in a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    /// `syscall; ret`.
    pub(super) syscall: u64,
    /// The return of a signal handler.
    pub(super) sigreturn: u64,
}

impl Code {
    /// Whether it is there.
    pub(super) fn is_in(self, memory: &File) -> bool {
        [(self.syscall, SYSCALL_RET), (self.sigreturn, SIGRETURN)].iter().all(|&(place, pattern)| {
            let mut bytes = vec![0; pattern.len()];
            memory.read_exact_at(&mut bytes, place).is_ok() && bytes == pattern
        })
    }
}

/// What `/proc/PID/status` says.
struct Status(String);

impl Status {
    fn get(&self, key: &str) -> &str {
        let of = |line: &'_ str| line.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')).map(str::len);
        self.0
            .lines()
            .find_map(|line| of(line).map(|length| line[line.len() - length..].trim()))
            .unwrap_or("")
    }

    fn number(&self, key: &str) -> u32 {
        self.get(key).parse().unwrap_or(0)
    }

    /// Whether seccomp filters decide on a thread's system calls.
    ///
    /// # Errors
    /// It is one that cannot be borrowed, filters or not.
    fn is_filtered(&self, pid: u32) -> Result<bool, MarkError> {
        if self.get("x86_Thread_features").split_whitespace().any(|feature| feature == "shstk") {
            return Err(MarkError::ShadowStack(pid));
        }
        match self.number("Seccomp") {
            0 => Ok(false),
            1 => Err(MarkError::Seccomp { pid, why: Filtered::Strict }),
            _ => Ok(true),
        }
    }
}

impl Process {
    /// Takes hold of a process, if it is one that may be borrowed.
    ///
    /// # Errors
    /// What keeps it from that.
    pub(super) fn open(pid: u32) -> Result<Self, MarkError> {
        if pid == std::process::id() {
            return Err(MarkError::Itself(pid));
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(MarkError::Gone(pid))?;
        let descriptor = pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
            // A thread that is not its process's first.
            rustix::io::Errno::INVAL | rustix::io::Errno::NOENT => MarkError::Gone(pid),
            error => MarkError::of(pid, "opening (pidfd_open)", error.into()),
        })?;
        let (code, stack) = (OnceLock::new(), Mutex::default());
        let mut process = Self { pid, descriptor, is_child: false, code, stack };
        process.check()?;
        // Only now it is known that all of this was said of the process of that descriptor.
        if process.has_ended() { Err(MarkError::Gone(pid)) } else { Ok(process) }
    }

    fn check(&mut self) -> Result<(), MarkError> {
        let pid = self.pid;
        let status = self.status("")?;
        if status.number("Tgid") != pid || status.get("State").starts_with(['Z', 'X']) {
            return Err(MarkError::Gone(pid));
        }
        match status.number("TracerPid") {
            0 => {}
            by => return Err(MarkError::Traced { pid, by }),
        }
        if status.get("State").starts_with('T') {
            return Err(MarkError::Stopped(pid));
        }
        let mut header = [0; 20];
        File::open(format!("/proc/{pid}/exe"))
            .and_then(|exe| exe.read_exact_at(&mut header, 0))
            .map_err(|error| MarkError::of(pid, "reading the program", error))?;
        // ELFCLASS64 and EM_X86_64.
        if header[..5] != *b"\x7fELF\x02" || header[18..] != [62, 0] {
            return Err(MarkError::Architecture(pid));
        }
        status.is_filtered(pid)?;
        self.is_child = status.number("PPid") == std::process::id();
        Ok(())
    }

    /// Whether it may have a ring, as far as the system's administrator is concerned.
    ///
    /// # Errors
    /// [`MarkError::IoUringDisabled`], or its status cannot be read.
    pub(super) fn may_use_io_uring(&self) -> Result<(), MarkError> {
        let setting = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let level = setting("io_uring_disabled").trim().parse().unwrap_or(0);
        match may_use(level, setting("io_uring_group").trim(), &self.status("")?) {
            true => Ok(()),
            false => Err(MarkError::IoUringDisabled { pid: self.pid, level }),
        }
    }

    /// What is said of it, or of a thread of it: `/task/TID`.
    fn status(&self, of: &str) -> Result<Status, MarkError> {
        let text = fs::read_to_string(format!("/proc/{}{of}/status", self.pid));
        text.map(Status).map_err(|error| MarkError::of(self.pid, "reading the status", error))
    }

    /// Whether it has ended: then its number may be another's soon.
    pub(super) fn has_ended(&self) -> bool {
        // A pidfd is readable as soon as its process has ended (pidfd_open(2)).
        let mut of = [PollFd::new(&self.descriptor, PollFlags::IN)];
        !matches!(poll(&mut of, Some(&Timespec::default())), Ok(0))
    }

    /// A copy of a descriptor of its.
    pub(super) fn descriptor(&self, number: i32) -> io::Result<OwnedFd> {
        Ok(pidfd_getfd(self.descriptor.as_fd(), number, PidfdGetfdFlags::empty())?)
    }

    /// Its memory, to be read and written.
    pub(super) fn memory(&self) -> Result<File, MarkError> {
        let open = File::options().read(true).write(true).open(format!("/proc/{}/mem", self.pid));
        open.map_err(|error| MarkError::of(self.pid, "opening the memory", error))
    }

    /// Its threads, the best to borrow first: a sleeping one that was its first, since that has the largest stack.
    pub(super) fn threads(&self) -> Result<Vec<Thread>, MarkError> {
        let folder = fs::read_dir(format!("/proc/{}/task", self.pid))
            .map_err(|error| MarkError::of(self.pid, "reading the threads", error))?;
        let mut threads = Vec::new();
        for entry in folder.take(THREADS).flatten() {
            let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(text) = fs::read_to_string(entry.path().join("status")) else { continue };
            let status = Status(text);
            // The kernel's workers for io_uring have no code of their own.
            if !status.get("Name").starts_with("iou-") {
                threads.push(Thread { tid, sleeps: status.get("State").starts_with('S') });
            }
        }
        let first = i32::try_from(self.pid).unwrap_or(0);
        threads.sort_by_key(|thread| (!thread.sleeps, thread.tid != first, thread.tid));
        Ok(threads)
    }

    /// Whether seccomp filters decide on a thread's system calls: each may have its own.
    ///
    /// # Errors
    /// It is one that cannot be borrowed, filters or not.
    pub(super) fn is_filtered(&self, tid: i32) -> Result<bool, MarkError> {
        self.status(&format!("/task/{tid}"))?.is_filtered(self.pid)
    }

    fn mappings(&self) -> Result<impl Iterator<Item = Mapping>, MarkError> {
        let maps = File::open(format!("/proc/{}/maps", self.pid))
            .map_err(|error| MarkError::of(self.pid, "reading the mappings", error))?;
        let lines = BufReader::new(maps).lines().take(MAPPINGS).map_while(Result::ok);
        Ok(lines.filter_map(|line| Mapping::parse(&line)))
    }

    /// Whether a thread's stack has room for that many bytes below its pointer.
    ///
    /// It is known only of the process's first stack, and of those with a guard below them: what grows down in one piece
    /// of memory with others (a stack of Go's) would be written over.
    ///
    /// A stack is looked for once, as long as the same thread is on it: each time that memory is marked, there are more
    /// mappings to look through, and the thread stands meanwhile.
    pub(super) fn has_room(&self, tid: i32, pointer: u64, bytes: u64) -> Result<bool, MarkError> {
        let mut known = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |stack: &Range<u64>| stack.contains(&pointer) && pointer - stack.start >= bytes;
        if !known.as_ref().is_some_and(|(of, stack)| *of == tid && has_room(stack)) {
            *known = self.stack(pointer)?.map(|stack| (tid, stack));
        }
        Ok(known.as_ref().is_some_and(|(_, stack)| has_room(stack)))
    }

    /// The stack that this is in.
    fn stack(&self, pointer: u64) -> Result<Option<Range<u64>>, MarkError> {
        let mut below = None;
        for mapping in self.mappings()? {
            if (mapping.start..mapping.end).contains(&pointer) {
                let is_guarded = mapping.is_stack || below == Some(mapping.start);
                return Ok((mapping.is_writable && is_guarded).then_some(mapping.start..mapping.end));
            }
            below = (!mapping.is_readable && !mapping.is_writable).then_some(mapping.end);
        }
        Ok(None)
    }

    /// Code that makes a system call and returns, and code that returns from a signal handler: looked for once.
    pub(super) fn code(&self, memory: &File) -> Result<Code, MarkError> {
        if let Some(code) = self.code.get() {
            return Ok(*code);
        }
        let mut found = Code::default();
        let mut left = CODE;
        let mut mappings: Vec<Mapping> = self.mappings()?.filter(|mapping| mapping.is_code).collect();
        // It is there, if there is such a library, and that is small.
        mappings.sort_by_key(|mapping| !mapping.is_libc);
        for mapping in mappings {
            let end = mapping.end.min(mapping.start.saturating_add(left));
            left -= end.saturating_sub(mapping.start);
            search(memory, mapping.start, end, &mut found);
            if found.syscall != 0 && found.sigreturn != 0 {
                return Ok(*self.code.get_or_init(|| found));
            }
        }
        let missing = if found.syscall == 0 { "a system call" } else { "the return of signal handlers" };
        Err(MarkError::NoCode(self.pid, missing))
    }
}

/// Searches code. What cannot be read of it is left out.
fn search(memory: &File, start: u64, end: u64, found: &mut Code) {
    let mut chunk = vec![0; CHUNK];
    let mut at = start;
    while at < end && (found.syscall == 0 || found.sigreturn == 0) {
        let most = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let Ok(read @ 1..) = memory.read_at(&mut chunk[..most], at) else { return };
        for (place, pattern) in [(&mut found.syscall, SYSCALL_RET), (&mut found.sigreturn, SIGRETURN)]
            .into_iter()
            .filter(|of| *of.0 == 0)
        {
            let first = chunk[..read].windows(pattern.len()).position(|bytes| bytes == pattern);
            *place = first.map_or(0, |offset| at + offset as u64);
        }
        // What a chunk's end cuts is whole in the next.
        at += if read > SIGRETURN.len() { read - SIGRETURN.len() + 1 } else { read } as u64;
    }
}

/// Whether a process may use io_uring (io_uring/io_uring.c, `io_uring_allowed`, Linux 6.6 and newer).
fn may_use(level: u32, group: &str, status: &Status) -> bool {
    let mut groups =
        status.get("Groups").split_whitespace().chain(status.get("Gid").split_whitespace().nth(3));
    match level {
        0 => true,
        1 => {
            let rights = u64::from_str_radix(status.get("CapEff"), 16).unwrap_or(0);
            rights >> SYS_ADMIN & 1 == 1 || groups.any(|of| of == group)
        }
        _ => false,
    }
}

/// A mapping of a process.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    is_readable: bool,
    is_writable: bool,
    /// Whether it is code of a file.
    is_code: bool,
    /// Whether it is of a C library: glibc's or musl's.
    is_libc: bool,
    /// Whether it is the stack of the process's first thread.
    is_stack: bool,
}

impl Mapping {
    /// Of its line: `7f..-7f.. r-xp 00000000 fe:00 17   /usr/lib/libc.so.6`.
    fn parse(line: &str) -> Option<Self> {
        let Line { start, end, rights, name } = Line::parse(line)?;
        Some(Self {
            start,
            end,
            is_readable: rights.starts_with('r'),
            is_writable: rights.as_bytes().get(1) == Some(&b'w'),
            is_code: rights.starts_with("r-x") && name.starts_with('/'),
            is_libc: name.contains("/libc.") || name.contains("/libc-") || name.contains("/ld-musl-"),
            is_stack: name == "[stack]",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_and_what_is_none_is_not() {
        let of = |line| Mapping::parse(line);
        let code = of("7f00-7f80 r-xp 00000000 fe:00 17    /usr/lib/libc.so.6").unwrap();
        assert!(
            code.is_code && !code.is_writable && !code.is_stack && (code.start, code.end) == (0x7f00, 0x7f80)
        );
        assert!(of("7ff0-7fff rw-p 00000000 00:00 0    [stack]").unwrap().is_stack);
        // The kernel's own code in it, memory that is code, and code that can be written.
        for line in ["1-2 r-xp 0 0:0 0 [vdso]", "1-2 r-xp 0 0:0 0", "1-2 rwxp 0 0:0 7 /bin/x"] {
            assert!(!of(line).unwrap().is_code, "{line}");
        }
        for line in ["", "1-2", "x-2 r-xp 0 0:0 0", "12 r-xp 0 0:0 0"] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn io_uring_is_for_those_whom_the_administrator_lets() {
        let status = |text: &str| Status(text.to_owned());
        let root = status("CapEff:\t000001ffffffffff\nGid:\t0\t0\t0\t0\nGroups:\t\n");
        let user = status("CapEff:\t0000000000000000\nGid:\t1\t1\t1\t5\nGroups:\t7 8 \n");
        assert!(may_use(0, "-1", &user) && may_use(1, "-1", &root) && !may_use(1, "-1", &user));
        assert!(may_use(1, "8", &user) && may_use(1, "5", &user) && !may_use(1, "1", &user));
        assert!(!may_use(2, "8", &root) && !may_use(3, "8", &user));
    }

    #[test]
    fn threads_with_a_shadow_stack_or_in_strict_mode_are_refused() {
        let of = |text: &str| Status(text.to_owned()).is_filtered(7);
        assert!(!of("Seccomp:\t0\nx86_Thread_features:\t\n").unwrap() && of("Seccomp:\t2\n").unwrap());
        let strict = of("Seccomp:\t1\nSeccomp_filters:\t0\n");
        assert!(matches!(strict, Err(MarkError::Seccomp { why: Filtered::Strict, .. })));
        let shadowed = of("Seccomp:\t0\nx86_Thread_features:\tshstk wrss \n");
        assert!(matches!(shadowed, Err(MarkError::ShadowStack(7))));
    }

    #[test]
    fn code_is_found_where_chunks_are_cut() {
        let mut file = tempfile();
        let mut bytes = vec![0x90; CHUNK + 100];
        bytes[CHUNK - 4..CHUNK + 5].copy_from_slice(SIGRETURN);
        bytes[CHUNK + 90..CHUNK + 93].copy_from_slice(SYSCALL_RET);
        io::Write::write_all(&mut file, &bytes).unwrap();
        let mut found = Code::default();
        search(&file, 0, bytes.len() as u64, &mut found);
        assert_eq!(found, Code { syscall: CHUNK as u64 + 90, sigreturn: CHUNK as u64 - 4 });
        assert!(found.is_in(&file) && !Code { syscall: 0, ..found }.is_in(&file));
        assert!(!Code { sigreturn: u64::MAX, ..found }.is_in(&file));
        // It ends earlier than it should.
        let mut found = Code::default();
        search(&file, 5, u64::MAX, &mut found);
        search(&file, 1 << 40, 2 << 40, &mut found);
        assert_eq!(found.sigreturn, CHUNK as u64 - 4);
    }

    fn tempfile() -> File {
        let path = std::env::temp_dir().join(format!("xweave-mark-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn a_stack_has_room_down_to_its_guard_and_other_memory_is_none() {
        let pid = std::process::id();
        let number = Pid::from_raw(pid.cast_signed()).unwrap();
        let descriptor = pidfd_open(number, PidfdFlags::empty()).unwrap();
        let (code, stack) = (OnceLock::new(), Mutex::default());
        let process = Process { pid, descriptor, is_child: false, code, stack };
        let memory = memmap2::MmapMut::map_anon(4 * 4096).unwrap();
        let start = memory.as_ptr() as u64;
        let protect = |rights| {
            // SAFETY: the first page, which nothing is in.
            let done = unsafe { libc::mprotect(memory.as_ptr().cast_mut().cast(), 4096, rights) };
            assert_eq!(done, 0);
        };
        let has_room = |at, bytes| process.has_room(1, start + at, bytes).unwrap();
        protect(libc::PROT_NONE);
        assert!(
            has_room(3 * 4096, 2 * 4096) && has_room(2 * 4096 + 8, 4096) && !has_room(3 * 4096, 2 * 4096 + 1)
        );
        assert!(!has_room(0, 0) && !has_room(4095, 0));
        protect(libc::PROT_READ);
        assert!(!process.has_room(2, start + 3 * 4096, 4096).unwrap());
        assert!(!process.has_room(1, 0, 0).unwrap() && !process.has_room(1, u64::MAX, 0).unwrap());
    }

    #[test]
    fn what_is_no_process_of_others_is_refused() {
        let refused = |pid| Process::open(pid).err().expect("refused");
        assert!(matches!(refused(std::process::id()), MarkError::Itself(_)));
        assert!(matches!(refused(0), MarkError::Gone(0)) && matches!(refused(u32::MAX), MarkError::Gone(_)));
        assert!(matches!(refused(i32::MAX.unsigned_abs()), MarkError::Gone(_)));
    }
}
