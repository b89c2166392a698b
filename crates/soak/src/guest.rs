//! The machine that is soaked: an emulated host with several processors, under load, and watched.

use crate::error::Error;
use crate::signs;
use crate::stack::{Registers, Symbols};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use xweave_interrupt as interrupt;
use xweave_lab::{Command, Description, Event, ExecChild, Kind, Options, World};

/// The load, and what makes it.
const LOAD: &str = include_str!("../guest/load.sh");
/// Prints the functions that run under it.
const RUNNING: &str = include_str!("../guest/running.sh");
/// Where the load lies in the guest.
const LOAD_PATH: &str = "/run/soak-load.sh";
/// Says something twice a second, by way of a new process, a timer, and the network.
const HEARTBEAT: &str = "while echo; do sleep 0.5; done";
/// As many as a lock needs to be fought for.
const PROCESSORS: u32 = 2;
/// What the kernel says as a warning and above goes to the console, from which it is read when nothing else works.
const KERNEL_ARGUMENTS: &str = "loglevel=5";
/// For so long a guest may be silent while this machine works for it: stalls are told by the kernel after 21 s.
const SILENT_AT_WORK: Duration = Duration::from_secs(30);
/// And so long where this machine does not: all its processors may have gone to sleep for good.
const SILENT: Duration = Duration::from_secs(300);
/// How long it may take to say more about what it has begun to complain about.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often what is waited for is looked at.
const POLL: Duration = Duration::from_millis(100);
/// A machine that emulates others at the same time may need minutes to boot one.
const BOOT: Duration = Duration::from_secs(600);

/// What a guest is made of.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The xweave program: it weaves, and is the agent.
    pub xweave: PathBuf,
    /// The kernel series.
    pub kernel: String,
    /// The world's name.
    pub world: String,
}

/// What is wrong with a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sick {
    /// `hung`, `died`, `warned`, `left hooks behind`, `stuck`.
    pub kind: &'static str,
    /// What was seen first.
    pub evidence: String,
}

/// A guest at work.
pub struct Guest {
    world: World,
    heartbeat: Heartbeat,
    symbols: Symbols,
    /// How much of the console is known.
    seen: usize,
}

/// Why something in a guest has no result.
pub enum Stop {
    /// The guest is ill.
    Sick(Sick),
    /// The soak cannot go on.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<xweave_lab::Error> for Stop {
    fn from(error: xweave_lab::Error) -> Self {
        Self::Error(error.into())
    }
}

impl Guest {
    /// Boots one, in place of what an earlier soak may have left. It is under the light load then.
    pub fn boot(setup: &Setup) -> Result<Self, Error> {
        down(&setup.world)?;
        let options = Options {
            name: setup.world.clone(),
            guests: 0,
            kernel: setup.kernel.clone(),
            xweave: setup.xweave.clone(),
            timeout: BOOT,
            append: KERNEL_ARGUMENTS.into(),
            processors: Some(PROCESSORS),
            ..Options::new(Kind::Kvm)?
        };
        let world = World::up(&options, &|_| {})?;
        let write = world.exec(world.host(), &Command::new(["sh", "-c", &format!("cat >{LOAD_PATH}")]))?;
        write.output(LOAD.as_bytes())?;
        let load = world.exec(world.host(), &Command::new(["nice", "bash", LOAD_PATH, "background"]))?;
        let beats = world.exec(world.host(), &Command::new(["sh", "-c", HEARTBEAT]))?;
        let heartbeat = Heartbeat::listen(load, beats);
        let mut guest = Self { world, heartbeat, symbols: Symbols::default(), seen: 0 };
        // What it said as it booted is nothing that weaving did.
        guest.seen = guest.console().len();
        let symbols = guest.shell("dmesg -C; cat /proc/kallsyms").map_err(|stop| match stop {
            Stop::Error(error) => error,
            Stop::Sick(sick) => Error::Failed { doing: "booting a guest".into(), said: sick.evidence },
        })?;
        guest.symbols = Symbols::parse(&String::from_utf8_lossy(&symbols));
        Ok(guest)
    }

    /// The release of its kernel.
    pub fn release(&self) -> &str {
        &self.description().kernel
    }

    /// Description of its world.
    pub fn description(&self) -> &Description {
        self.world.description()
    }

    /// How long this machine has worked for it.
    pub fn worked(&self) -> Duration {
        self.world.worked().unwrap_or_default()
    }

    /// What a shell on this machine runs a command in it with.
    pub fn exec(&self, xweave: &Path) -> String {
        format!("{} lab exec {} {} --", quoted(xweave), self.world.name(), self.world.host())
    }

    /// The command of the load that a recording records.
    pub fn burst(&self, xweave: &Path) -> Vec<String> {
        let words = ["lab", "exec", self.world.name(), self.world.host(), "--", "bash", LOAD_PATH, "burst"];
        let program = xweave.display().to_string();
        std::iter::once(program).chain(words.map(str::to_owned)).collect()
    }

    /// The functions that were seen to run under the load.
    pub fn running(&mut self) -> Result<BTreeSet<String>, Stop> {
        let seen = self.shell(RUNNING)?;
        Ok(String::from_utf8_lossy(&seen).lines().map(str::to_owned).collect())
    }

    /// What it has written to its console.
    pub fn console(&self) -> String {
        let mut text = Vec::new();
        // The file is there as long as the folder of the world is.
        let _ = xweave_lab::console(self.world.name(), self.world.host(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Where its processors are, as QEMU sees it.
    pub fn processors(&self) -> String {
        let one = |cpu| {
            let registers = Registers::parse(&self.world.monitor(&Registers::question(cpu)).ok()?)?;
            let stack = self.world.monitor(&registers.stack(cpu)).ok()?;
            Some(format!("cpu {cpu} at {}\n", registers.told(&stack, &self.symbols)))
        };
        // A machine that has ended has none; one that QEMU has stopped, for want of disk space, says so here.
        let status = self.world.monitor(&["info status".into()]).unwrap_or_default();
        let status =
            status.lines().find(|line| line.starts_with("VM status")).unwrap_or("VM status: ended").trim();
        std::iter::once(format!("{status}\n")).chain((0..PROCESSORS).filter_map(one)).collect()
    }

    /// Looks at it: console, heartbeat, and whether the machine runs.
    pub fn look(&mut self) -> Result<(), Stop> {
        let Some(worked) = self.world.worked() else {
            let evidence = last_line(&self.console());
            return Err(Stop::Sick(Sick { kind: "died", evidence }));
        };
        let silence = self.heartbeat.silence(worked);
        if let Some(sign) = self.sign() {
            self.listen();
            return Err(Stop::Sick(Sick { kind: "warned", evidence: sign }));
        }
        if silence.worked >= SILENT_AT_WORK || silence.passed >= SILENT {
            let evidence = format!(
                "nothing was heard for {} s, {} s of them at work",
                silence.passed.as_secs(),
                silence.worked.as_secs()
            );
            return Err(Stop::Sick(Sick { kind: "hung", evidence }));
        }
        Ok(())
    }

    /// The first sign of harm on what the console says since it was last looked at.
    fn sign(&mut self) -> Option<String> {
        let console = self.console();
        let new = console.get(self.seen..).unwrap_or_default();
        let sign = signs::first(new).map(str::to_owned);
        // A line that is not whole yet is read again.
        self.seen += new.rfind('\n').map_or(0, |end| end + 1);
        sign
    }

    /// Waits until the console has been silent for a while: what follows the first line tells where it was.
    fn listen(&self) {
        let (mut length, mut since) = (0, Instant::now());
        let begun = Instant::now();
        while since.elapsed() < LAST_WORDS && begun.elapsed() < 6 * LAST_WORDS {
            let now = self.console().len();
            if now != length {
                (length, since) = (now, Instant::now());
            }
            thread::sleep(POLL);
        }
    }

    /// Runs a shell's command in it, as long as it is well, and gives what was printed.
    pub fn shell(&mut self, script: &str) -> Result<Vec<u8>, Stop> {
        let mut child = self.world.exec(self.world.host(), &Command::new(["bash", "-c", script]))?;
        drop(child.stdin());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match child.next(POLL) {
                Some(Event::Stdout(data)) => out.extend(data),
                Some(Event::Stderr(data)) => err.extend(data),
                Some(Event::Exit(status)) if status.success() => return Ok(out),
                Some(Event::Exit(_)) => {
                    let said = String::from_utf8_lossy(&err).into_owned();
                    return Err(failed(script, said));
                }
                Some(Event::Broken(said)) => {
                    self.look()?;
                    return Err(failed(script, said));
                }
                None => self.look()?,
            }
            if interrupt::pending() {
                return Err(Error::Interrupted.into());
            }
        }
    }

    /// Waits until `done` breaks with something, as long as the guest is well. Until then it goes on with what stays;
    /// once this machine has worked for the guest for `limit` and that is still the same, the guest is `stuck`.
    pub fn wait<T>(
        &mut self,
        limit: Duration,
        stuck: &'static str,
        mut done: impl FnMut(&mut Self) -> Result<ControlFlow<T, String>, Stop>,
    ) -> Result<T, Stop> {
        let (mut known, mut worked, mut since) = (String::new(), Duration::ZERO, Instant::now());
        loop {
            let stays = match done(self)? {
                ControlFlow::Break(done) => return Ok(done),
                ControlFlow::Continue(stays) => stays,
            };
            self.look()?;
            if stays != known {
                (known, worked, since) = (stays, self.worked(), Instant::now());
            }
            // A guest that waits is not at work: the wall clock ends it, far later.
            if self.worked().saturating_sub(worked) > limit || since.elapsed() > 4 * limit {
                // Where its tasks wait is on the console then.
                let _ = self.shell("dmesg -n 8; echo w >/proc/sysrq-trigger");
                return Err(Stop::Sick(Sick { kind: stuck, evidence: known }));
            }
            thread::sleep(POLL);
        }
    }

    /// Ends it.
    pub fn end(self) -> Result<(), Error> {
        Ok(self.world.down()?)
    }
}

/// Ends a world, if there is one.
pub fn down(world: &str) -> Result<(), Error> {
    match xweave_lab::down(world) {
        Ok(()) | Err(xweave_lab::Error::NoWorld { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn failed(script: &str, said: String) -> Stop {
    let first = script.lines().next().unwrap_or_default();
    Error::Failed { doing: format!("`{first}` in the guest"), said }.into()
}

/// For the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn last_line(text: &str) -> String {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_owned()
}

/// How long nothing was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Silence {
    /// Of this machine's clock.
    passed: Duration,
    /// Of the time that it worked for the guest.
    worked: Duration,
}

/// A guest's heartbeat: a command in it that says something all the time.
struct Heartbeat {
    /// Counted by a thread that listens.
    beats: Arc<AtomicU64>,
    /// As many as there were when it was last looked at and there were more.
    last: u64,
    since: Instant,
    worked: Duration,
    /// The load goes on as long as somebody holds it.
    _load: Option<ExecChild>,
}

impl Heartbeat {
    fn listen(load: ExecChild, mut beating: ExecChild) -> Self {
        drop(beating.stdin());
        let heartbeat = Self::new(Some(load));
        let beats = Arc::downgrade(&heartbeat.beats);
        thread::spawn(move || {
            while let Some(beats) = beats.upgrade() {
                match beating.next(Duration::from_secs(1)) {
                    Some(Event::Stdout(_)) => {
                        beats.fetch_add(1, Ordering::Relaxed);
                    }
                    Some(Event::Exit(_) | Event::Broken(_)) => return,
                    Some(Event::Stderr(_)) | None => {}
                }
            }
        });
        heartbeat
    }

    fn new(load: Option<ExecChild>) -> Self {
        Self { beats: Arc::default(), last: 0, since: Instant::now(), worked: Duration::ZERO, _load: load }
    }

    fn silence(&mut self, worked: Duration) -> Silence {
        let beats = self.beats.load(Ordering::Relaxed);
        if beats != self.last || self.worked.is_zero() {
            (self.last, self.since, self.worked) = (beats, Instant::now(), worked);
        }
        Silence { passed: self.since.elapsed(), worked: worked.saturating_sub(self.worked) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_counted_in_work_since_the_last_beat() {
        let mut heart = Heartbeat::new(None);
        let seconds = Duration::from_secs;
        assert_eq!(heart.silence(seconds(100)).worked, seconds(0), "what booting took is not silence");
        assert_eq!(heart.silence(seconds(130)).worked, seconds(30));
        heart.beats.fetch_add(1, Ordering::Relaxed);
        assert_eq!(heart.silence(seconds(150)).worked, seconds(0));
        assert_eq!(heart.silence(seconds(155)).worked, seconds(5));
    }

    #[test]
    fn programs_with_any_name_reach_the_shell_whole() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }

    #[test]
    fn the_last_line_with_something_in_it_is_the_last_word() {
        assert_eq!(last_line("one\n two \n\n"), "two");
        assert_eq!(last_line(""), "");
    }
}
