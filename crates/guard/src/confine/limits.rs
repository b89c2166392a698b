//! How much memory, time and room a process may take.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use super::Error;

/// Address space beyond the memory: files that are mapped, and what allocators reserve without using it.
const RESERVED: u64 = 64 << 30;

/// The least that a process is left, in bytes, however little there is: without it nothing can be read at all.
const LEAST: u64 = 256 << 20;

/// The limits of a process. Each holds for one process; a job that may start others has so many times as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of its own, in bytes.
    pub memory: u64,
    /// Processor time, in seconds.
    pub seconds: u64,
    /// The longest file that it may write, in bytes.
    pub file: u64,
}

impl Limits {
    /// For a command that a user started, on files that the user named: what the machine can bear.
    pub fn of_command() -> Self {
        Self { memory: share_of_memory(), seconds: u64::MAX, file: u64::MAX }
    }

    /// Sets them for this process and all that it starts.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set(&self) -> Result<(), Error> {
        self.set_all().map_err(|error| Error::new("limits", error))
    }

    /// The memory that this process may take, in bytes: what was set, or less, where less was allowed before.
    pub fn memory_now() -> u64 {
        let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: points to a structure of its own. If it fails, zeros stay.
        unsafe { libc::getrlimit(libc::RLIMIT_DATA, &raw mut now) };
        now.rlim_cur
    }

    /// The same, with no more memory than the machine can give now.
    #[must_use]
    pub fn within_available(self) -> Self {
        Self { memory: self.memory.min(share_of_memory()), ..self }
    }

    /// As [`Limits::set`]. Allocates nothing: it is called between fork and exec.
    pub(super) fn set_all(&self) -> io::Result<()> {
        // Where that cannot be, the limits still are.
        let _ = end_first();
        // RLIMIT_DATA counts private memory that can be written to, and no mapped files; what it does not count
        // (shared memory, stacks that grow) the filter of system calls does not let be made.
        limit(libc::RLIMIT_DATA, self.memory, self.memory)?;
        let space = self.memory.saturating_add(RESERVED);
        limit(libc::RLIMIT_AS, space, space)?;
        // The first ends it with SIGXCPU, which tells why.
        limit(libc::RLIMIT_CPU, self.seconds, self.seconds.saturating_add(1))?;
        limit(libc::RLIMIT_FSIZE, self.file, self.file)?;
        limit(libc::RLIMIT_CORE, 0, 0)?;
        limit(libc::RLIMIT_MEMLOCK, 0, 0)?;
        limit(libc::RLIMIT_MSGQUEUE, 0, 0)?;
        limit(libc::RLIMIT_NOFILE, 4096, 4096)
    }
}

/// The most processes and threads that there are of this process, and of what it starts. The kernel counts those of a
/// user, so what else the user runs now is added, unless it is a user of its own (`alone`). It never counts root's.
pub(super) fn processes(most: u64, alone: bool) -> Result<(), Error> {
    let most = if alone { most } else { most.saturating_add(of_this_user()) };
    limit(libc::RLIMIT_NPROC, most, most).map_err(|error| Error::new("limits", error))
}

/// Threads of all processes of this process's user.
fn of_this_user() -> u64 {
    // SAFETY: takes nothing.
    let user = unsafe { libc::getuid() };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let own = processes.filter(|process| fs::metadata(process).is_ok_and(|there| there.uid() == user));
    let threads =
        own.map(|process| fs::read_dir(process.join("task")).map_or(0, |tasks| tasks.count() as u64));
    threads.sum()
}

/// What a command may take of the memory that is available when it begins, in bytes: three quarters. Available is what the
/// machine can give without swapping, and no more than the control groups of this process leave it.
pub fn share_of_memory() -> u64 {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let of_groups = left_by_groups(Path::new("/sys/fs/cgroup"), &text("/proc/self/cgroup"));
    share_of(available_of(&text("/proc/meminfo")).into_iter().chain(of_groups).min())
}

/// That share of what is available, or of what nothing is known.
fn share_of(available: Option<u64>) -> u64 {
    available.map_or(LEAST, |available| available / 4 * 3).max(LEAST)
}

/// What `/proc/meminfo` says is available, in bytes.
fn available_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the control groups leave a process that it is in, as `/proc/PID/cgroup` says, in bytes: the least of them
/// (version 2, cgroup-v2.rst). None where they set no limit.
fn left_by_groups(mounted: &Path, groups: &str) -> Option<u64> {
    let own = mounted.join(groups.lines().find_map(|line| line.strip_prefix("0::/"))?);
    own.ancestors().take_while(|group| group.starts_with(mounted)).filter_map(left_by_group).min()
}

fn left_by_group(group: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // What it has cached is given back where it is needed.
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let given_back = statistics.lines().filter_map(|line| match line.split_once(' ')? {
        ("active_file" | "inactive_file" | "slab_reclaimable", bytes) => bytes.parse::<u64>().ok(),
        _ => None,
    });
    let used = number("memory.current")?.saturating_sub(given_back.sum());
    Some(number("memory.max")?.saturating_sub(used))
}

/// Has the kernel end this process before any other where there is no memory left (proc_pid_oom_score_adj(5)). Allocates
/// nothing: it is called between fork and exec.
fn end_first() -> io::Result<()> {
    // SAFETY: the path ends with a zero byte, and the text is as long as is said.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let written = libc::write(file, c"1000".as_ptr().cast(), 4);
        let error = io::Error::last_os_error();
        libc::close(file);
        if written == 4 { Ok(()) } else { Err(error) }
    }
}

/// Never more than what holds already: raising is for root.
fn limit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: points to a structure of its own.
    if unsafe { libc::getrlimit(resource, &raw mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let hard = hard.min(now.rlim_max);
    let wanted = libc::rlimit { rlim_cur: soft.min(now.rlim_cur).min(hard), rlim_max: hard };
    // SAFETY: points to a structure of its own.
    match unsafe { libc::setrlimit(resource, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read_and_what_groups_leave() {
        let meminfo = "MemTotal:       24689764 kB\nMemFree:  1 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available_of(meminfo), Some(2 << 20));
        assert_eq!(available_of("MemTotal: 5 kB\n"), None);
        let group = tempfile::tempdir().unwrap();
        let set = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        set("memory.current", "3000\n");
        assert_eq!(left_by_group(group.path()), None);
        set("memory.max", "max\n");
        assert_eq!(left_by_group(group.path()), None);
        set("memory.max", "4000\n");
        assert_eq!(left_by_group(group.path()), Some(1000));
        set("memory.stat", "anon 1\ninactive_file 300\nactive_file 200\n");
        assert_eq!(left_by_group(group.path()), Some(1500));
        set("memory.max", "100\n");
        assert_eq!(left_by_group(group.path()), Some(0));
    }

    #[test]
    fn of_all_groups_that_hold_a_process_the_tightest_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mounted = folder.path().join("cgroup");
        fs::create_dir_all(mounted.join("a/b")).unwrap();
        fs::create_dir(mounted.join("c")).unwrap();
        let set = |group: &Path, most: &str, used: &str| {
            fs::write(group.join("memory.max"), most).unwrap();
            fs::write(group.join("memory.current"), used).unwrap();
        };
        // What is no control group is none of them, nor are others than the process's.
        set(folder.path(), "1", "0");
        set(&mounted.join("c"), "1", "0");
        let left = |groups: &str| left_by_groups(&mounted, groups);
        let own = "12:memory:/c\n0::/a/b\n";
        assert_eq!(left(own), None);
        set(&mounted.join("a/b"), "5000\n", "100\n");
        assert_eq!(left(own), Some(4900));
        set(&mounted.join("a"), "1000\n", "400\n");
        assert_eq!(left(own), Some(600));
        set(&mounted.join("a/b"), "500\n", "100\n");
        assert_eq!(left(own), Some(400));
        // In a container, the uppermost has a limit, too.
        set(&mounted, "300\n", "0\n");
        assert_eq!((left(own), left("0::/a\n"), left("0::/\n")), (Some(300), Some(300), Some(300)));
        assert_eq!((left("0::/gone\n"), left("12:memory:/c\n"), left("")), (Some(300), None, None));
    }

    #[test]
    fn three_quarters_are_taken_and_never_less_than_the_least() {
        assert_eq!(share_of(Some(8 << 30)), 6 << 30);
        assert_eq!(LEAST, 256 << 20);
        for little in [None, Some(0), Some(LEAST), Some(LEAST / 3 * 4)] {
            assert_eq!(share_of(little), LEAST, "{little:?}");
        }
        assert!(share_of(Some(LEAST * 2)) > LEAST);
    }

    #[test]
    fn a_command_takes_no_more_than_is_available_and_never_nothing() {
        let text = fs::read_to_string("/proc/meminfo").unwrap();
        let share = share_of_memory();
        assert!(share >= LEAST && share <= available_of(&text).unwrap().max(LEAST) / 8 * 7, "{share}");
        let much = Limits { memory: u64::MAX, seconds: 1, file: 1 };
        assert!(much.within_available().memory < u64::MAX);
        let little = Limits { memory: 1, ..much };
        assert_eq!(little.within_available(), little);
    }
}
