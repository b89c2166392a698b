//! Threads of this process that run only where no other thread wants the CPU.

use std::{fs, io};

/// All threads of this process in the background: what other processes and virtual machines run comes first. What it
/// starts meanwhile is there as well, and threads come out again with the end of this.
///
/// The kernel ranks threads within a group of processes only (cgroup, autogroup), and then the groups.
#[derive(Debug)]
pub struct Background(());

impl Background {
    /// # Errors
    /// When the kernel does not let this process change how its threads are scheduled; then nothing is changed.
    pub fn enter() -> io::Result<Self> {
        let entered = Self(());
        schedule(libc::SCHED_IDLE)?;
        Ok(entered)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The same threads: where they may not come out, they could not go in (`RLIMIT_NICE`, sched(7)).
        let _ = schedule(libc::SCHED_OTHER);
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
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    const ROUNDS: u64 = 300;

    /// `SCHED_IDLE` is 5 there, and what is not said otherwise 0 (proc(5), field 41).
    fn policy(stat: &str) -> i32 {
        let stat = fs::read_to_string(stat).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).unwrap().parse().unwrap()
    }

    #[test]
    fn all_threads_go_there_and_come_back_and_those_that_end_meanwhile_hide_none() {
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
}
