//! Threads of this process that run only where no other thread wants the CPU.

use std::{
    fs, io,
    os::unix::process::CommandExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// All threads of this process in the background: what other processes and virtual machines run comes first. What it
/// starts meanwhile is there as well, and threads come out again with the end of this.
///
/// The kernel ranks threads within a group of processes only (cgroup, autogroup), and then the groups: so the autogroup
/// goes down as well where this process is alone in it ([`in_own_session`]), and with it nobody else.
#[derive(Debug)]
pub struct Background {
    lowered: Option<Autogroup>,
}

impl Background {
    /// # Errors
    /// When the kernel does not let this process change how its threads are scheduled; then nothing is changed.
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
            // Upwards to where it was: allowed to whoever lowered it, unless that was below zero.
            let _ = set_nice(group.nice);
        }
        // The same threads: where they may not come out, they could not go in (`RLIMIT_NICE`, sched(7)).
        let _ = schedule(libc::SCHED_OTHER);
    }
}

/// Has a process begin in a session of its own, which is an autogroup of its own: only then does going into the
/// background lower nobody else.
pub fn in_own_session(command: &mut Command) -> &mut Command {
    let begin = || {
        // SAFETY: takes nothing; a process that was just forked leads no group, which is all that could hinder it.
        if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec, that one system call is made.
    unsafe { command.pre_exec(begin) }
}

/// How a group of processes is ranked among the others of a CPU: sched(7).
#[derive(Debug, PartialEq, Eq)]
struct Autogroup {
    name: String,
    nice: i32,
}

/// The lowest rank there is.
const LOWEST: i32 = 19;

/// For how long the kernel may keep those waiting who are not root: it takes one new rank in a tenth of a second, of all
/// processes (kernel/sched/autogroup.c).
const PATIENCE: Duration = Duration::from_secs(1);

impl Autogroup {
    /// That of a process (a name in `/proc`); none if it has ended, is in none, or the kernel has none.
    fn of(process: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/autogroup")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, nice) = text.trim_end().split_once(" nice ")?;
        Some(Self { name: name.to_owned(), nice: nice.parse().ok()? })
    }

    /// Lowers the group of this process, if nobody else is in it, and says how it was.
    fn lower() -> Option<Self> {
        let group = Self::of("self").filter(|group| group.nice < LOWEST && group.has_only_this_process())?;
        set_nice(LOWEST).ok().map(|()| group)
    }

    fn has_only_this_process(&self) -> bool {
        // SAFETY: only tells the session, which is 0 where its leader is outside of this PID namespace: others may be, too.
        if unsafe { libc::getsid(0) } <= 0 {
            return false;
        }
        // As /proc has it, which may be that of another PID namespace.
        let (Ok(own), Ok(processes)) = (fs::read_link("/proc/self"), fs::read_dir("/proc")) else {
            return false;
        };
        let others = processes.filter_map(|process| process.ok()?.file_name().into_string().ok());
        let mut others =
            others.filter(|name| name.parse::<u32>().is_ok() && own.as_os_str() != name.as_str());
        others.all(|other| Self::of(&other).is_none_or(|of_other| of_other.name != self.name))
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

/// How often threads are listed.
const LISTED: u32 = 100;

fn schedule(policy: i32) -> io::Result<()> {
    // A list ends early where a thread ends that is just being listed (fs/proc/base.c, `next_tid`).
    for _ in 0..LISTED {
        let mut all = true;
        for thread in fs::read_dir("/proc/self/task")? {
            let name = thread?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse::<libc::pid_t>().ok()) else { continue };
            // SAFETY: only tells how a thread is scheduled.
            if unsafe { libc::sched_getscheduler(id) } == policy {
                continue;
            }
            all = false;
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: the kernel reads the parameters, which live as long as the call.
            if unsafe { libc::sched_setscheduler(id, policy, &raw const parameters) } != 0 {
                let error = io::Error::last_os_error();
                // It ended since its name was read.
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

    /// What a test does to all threads of this process is not another's at once.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// `SCHED_IDLE` is 5 there, and what is not said otherwise 0 (proc(5), field 41).
    fn policy(stat: &str) -> i32 {
        let stat = fs::read_to_string(stat).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn all_threads_go_there_and_come_back_and_those_that_end_meanwhile_hide_none() {
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        for round in 0..ROUNDS {
            thread::scope(|scope| {
                for number in 0..16 {
                    scope.spawn(move || thread::sleep(Duration::from_micros(20 * ((number + round) % 16))));
                }
                let (tell, told) = mpsc::channel();
                let (end, ended) = mpsc::channel::<()>();
                scope.spawn(move || {
                    // SAFETY: only tells who asks.
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
    fn a_group_and_its_rank_are_read_as_the_kernel_writes_them() {
        let group = |name: &str, nice| Some(Autogroup { name: name.to_owned(), nice });
        assert_eq!(Autogroup::parse("/autogroup-705 nice 0\n"), group("/autogroup-705", 0));
        assert_eq!(Autogroup::parse("/autogroup-1 nice -20\n"), group("/autogroup-1", -20));
        // Of a process in none, it is empty.
        for text in ["", "\n", "/autogroup-1", "/autogroup-1 nice x"] {
            assert_eq!(Autogroup::parse(text), None, "{text}");
        }
        assert_eq!(Autogroup::of("0"), None);
    }

    /// Says to a process of this test that it is the one that is in a session of its own.
    const ALONE: &str = "XWEAVE_TEST_ALONE";

    #[test]
    fn an_autogroup_goes_down_and_comes_back_where_nobody_else_is_in_it_and_stays_where_somebody_is() {
        let Some(before) = Autogroup::of("self") else {
            return println!("SKIPPED: this process is in no autogroup (CONFIG_SCHED_AUTOGROUP)");
        };
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        let nice = || Autogroup::of("self").unwrap().nice;
        if env::var_os(ALONE).is_none() {
            // Whoever runs this test is in its session.
            let background = Background::enter().unwrap();
            assert_eq!(nice(), before.nice);
            drop(background);
            let name = "background::tests::an_autogroup_goes_down_and_comes_back_where_nobody_else_is_in_it_and_stays_where_somebody_is";
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
        // What it began with, it also ends with.
        let background = Background::enter().unwrap();
        assert_eq!(nice(), LOWEST);
        drop(background);
    }
}
