//! Background scheduling: threads of this process run only where no other thread is runnable.

use std::{
    fs, io,
    os::unix::process::CommandExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Keeps all threads of this process in the background (SCHED_IDLE): threads of other processes and virtual machines run first.
/// Threads and processes that it starts inherit that. Threads leave the background when this is dropped.
///
/// The kernel ranks threads only within a group of processes (cgroup, autogroup), and groups among each other. So the autogroup
/// is lowered, too, if no other process is in it (see [`in_own_session`]).
#[derive(Debug)]
pub struct Background {
    lowered: Option<Autogroup>,
}

impl Background {
    /// Puts all threads into the background.
    ///
    /// # Errors
    /// The kernel refuses to change the scheduling of threads; nothing is changed then.
    pub fn enter() -> io::Result<Self> {
        let mut entered = Self { lowered: None };
        schedule(libc::SCHED_IDLE)?;
        entered.lowered = Autogroup::lower();
        Ok(entered)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(group) = &self.lowered {
            // Raising it to its previous rank is allowed to the process that lowered it, unless that rank was below zero.
            let _ = set_nice(group.nice);
        }
        // Threads that may not leave the background could not enter it (`RLIMIT_NICE`, sched(7)).
        let _ = schedule(libc::SCHED_OTHER);
    }
}

/// Makes a process begin in a separate session, which has a separate autogroup: entering the background then lowers no other
/// process.
pub fn in_own_session(command: &mut Command) -> &mut Command {
    let begin = || {
        // SAFETY: takes nothing; it fails only in leaders of process groups, and a process that was just forked leads none.
        if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec, that one system call is made.
    unsafe { command.pre_exec(begin) }
}

/// Autogroup of a process, and its rank among the groups of a CPU: sched(7).
#[derive(Debug, PartialEq, Eq)]
struct Autogroup {
    name: String,
    nice: i32,
}

/// The lowest rank.
const LOWEST: i32 = 19;

/// Maximum time to retry: the kernel accepts one change in a tenth of a second over all processes that are not root
/// (kernel/sched/autogroup.c).
const PATIENCE: Duration = Duration::from_secs(1);

impl Autogroup {
    /// Reads the autogroup of a process (a name in `/proc`); `None` if it has ended, is in none, or the kernel has none.
    fn read(process: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/autogroup")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, nice) = text.trim_end().split_once(" nice ")?;
        Some(Self { name: name.to_owned(), nice: nice.parse().ok()? })
    }

    /// Lowers the group of this process, if no other process is in it, and returns the group with its previous rank.
    fn lower() -> Option<Self> {
        let group =
            Self::read("self").filter(|group| group.nice < LOWEST && group.has_only_this_process())?;
        set_nice(LOWEST).ok().map(|()| group)
    }

    fn has_only_this_process(&self) -> bool {
        // SAFETY: only returns the session, which is 0 if its leader is outside of this PID namespace: other members may be, too.
        if unsafe { libc::getsid(0) } <= 0 {
            return false;
        }
        // The ID in /proc, which may be of another PID namespace.
        let (Ok(own), Ok(processes)) = (fs::read_link("/proc/self"), fs::read_dir("/proc")) else {
            return false;
        };
        let others = processes.filter_map(|process| process.ok()?.file_name().into_string().ok());
        let mut others =
            others.filter(|name| name.parse::<u32>().is_ok() && own.as_os_str() != name.as_str());
        others.all(|other| Self::read(&other).is_none_or(|of_other| of_other.name != self.name))
    }
}

fn set_nice(nice: i32) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match fs::write("/proc/self/autogroup", nice.to_string()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {
                thread::sleep(PATIENCE / 20);
            }
            done => return done,
        }
    }
}

/// Maximum number of times that threads are listed.
const LISTED: u32 = 100;

fn schedule(policy: i32) -> io::Result<()> {
    // A list ends early if a thread ends while it is being listed (fs/proc/base.c, `next_tid`).
    for _ in 0..LISTED {
        let mut all = true;
        for thread in fs::read_dir("/proc/self/task")? {
            let name = thread?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse::<libc::pid_t>().ok()) else { continue };
            // SAFETY: only returns how a thread is scheduled.
            if unsafe { libc::sched_getscheduler(id) } == policy {
                continue;
            }
            all = false;
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: the kernel reads the parameters, which live as long as the call.
            if unsafe { libc::sched_setscheduler(id, policy, &raw const parameters) } != 0 {
                let error = io::Error::last_os_error();
                // The thread has ended since it was listed.
                if error.raw_os_error() != Some(libc::ESRCH) {
                    return Err(error);
                }
            }
        }
        if all {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        process::Stdio,
        sync::{Mutex, mpsc},
    };

    use super::*;

    const ROUNDS: u64 = 300;

    /// Tests that change all threads of this process run one at a time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Scheduling policy: 5 is `SCHED_IDLE`, 0 the default (proc(5), field 41).
    fn policy(stat: &str) -> i32 {
        let stat = fs::read_to_string(stat).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn all_threads_enter_and_leave_while_others_end() {
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        for round in 0..ROUNDS {
            thread::scope(|scope| {
                for number in 0..16 {
                    scope.spawn(move || thread::sleep(Duration::from_micros(20 * ((number + round) % 16))));
                }
                let (tell, told) = mpsc::channel();
                let (end, ended) = mpsc::channel::<()>();
                scope.spawn(move || {
                    // SAFETY: only returns the caller's ID.
                    tell.send(unsafe { libc::gettid() }).unwrap();
                    let _ = ended.recv();
                });
                let last = format!("/proc/self/task/{}/stat", told.recv().unwrap());
                let policies = || ["/proc/thread-self/stat", &last].map(policy);
                let background = Background::enter().unwrap();
                assert_eq!(policies(), [libc::SCHED_IDLE; 2]);
                drop(background);
                assert_eq!(policies(), [libc::SCHED_OTHER; 2]);
                drop(end);
            });
        }
    }

    #[test]
    fn autogroup_and_rank_are_parsed() {
        let group = |name: &str, nice| Some(Autogroup { name: name.to_owned(), nice });
        assert_eq!(Autogroup::parse("/autogroup-705 nice 0\n"), group("/autogroup-705", 0));
        assert_eq!(Autogroup::parse("/autogroup-1 nice -20\n"), group("/autogroup-1", -20));
        // The file is empty for a process in no autogroup.
        for text in ["", "\n", "/autogroup-1", "/autogroup-1 nice x"] {
            assert_eq!(Autogroup::parse(text), None, "{text}");
        }
        assert_eq!(Autogroup::read("0"), None);
    }

    /// Environment variable of the process of this test that is in a separate session.
    const ALONE: &str = "XWEAVE_TEST_ALONE";

    #[test]
    fn autogroup_is_lowered_and_restored_unless_it_is_shared() {
        let Some(before) = Autogroup::read("self") else {
            return println!("SKIPPED: this process is in no autogroup (CONFIG_SCHED_AUTOGROUP)");
        };
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        let nice = || Autogroup::read("self").unwrap().nice;
        if env::var_os(ALONE).is_none() {
            // The process that runs this test is in the same session.
            let background = Background::enter().unwrap();
            assert_eq!(nice(), before.nice);
            drop(background);
            let name = "background::tests::autogroup_is_lowered_and_restored_unless_it_is_shared";
            let mut again = Command::new(env::current_exe().unwrap());
            again.args(["--exact", name, "--nocapture"]).env(ALONE, "1");
            let told = in_own_session(&mut again).output().unwrap();
            let text = String::from_utf8_lossy(&told.stdout);
            assert!(
                told.status.success() && text.contains("1 passed"),
                "{text}{}",
                String::from_utf8_lossy(&told.stderr)
            );
            return;
        }
        for _ in 0..2 {
            let background = Background::enter().unwrap();
            assert_eq!(nice(), LOWEST);
            drop(background);
            assert_eq!(nice(), before.nice);
        }
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let background = Background::enter().unwrap();
        let shared = nice();
        drop(background);
        let after = nice();
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((shared, after), (before.nice, before.nice));
        // Alone again, it is lowered again.
        let background = Background::enter().unwrap();
        assert_eq!(nice(), LOWEST);
        drop(background);
    }
}
