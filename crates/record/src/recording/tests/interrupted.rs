//! Ctrl-C before anything is recorded: nobody waits for agents that are in a call of their kernel.

use std::{
    env,
    io::Write,
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use super::*;
use crate::transport::{End, Stream};

/// Until the terminal is told, and the program on its way out.
const AT_ONCE: Duration = Duration::from_millis(300);

/// How long an agent's kernel takes for what it was asked.
const BUSY: Duration = Duration::from_secs(2);

/// Of a test in which signals are raised: they are the process's, which other tests run in, so it has one of its own.
fn in_its_own_process(name: &str) -> bool {
    const OWN: &str = "XWEAVE_TEST_OWN_PROCESS";
    if env::var_os(OWN).is_some() {
        return true;
    }
    let test = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
    let mut command = Command::new(env::current_exe().unwrap());
    let output = command.args(["--exact", &test, "--nocapture"]).env(OWN, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    false
}

/// What is sent there; that there will be no more is seen at the other end.
struct Requests(UnixStream);

impl Write for Requests {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

/// A process that does not end when it is asked to, as one that is in the kernel.
fn stubborn() -> Child {
    let script = "trap '' TERM; sleep 2; exit 7";
    Command::new("sh").args(["-c", script]).process_group(0).stdin(Stdio::null()).spawn().unwrap()
}

/// Records, and raises SIGINT when `at` says so. Gives what came of it, how long after, and what was told last.
fn interrupted(
    stage: &Stage,
    host: Agent,
    at: impl Fn(&Phase<'_>) -> bool,
) -> (Result<Outcome, Error>, Duration, Vec<String>) {
    let connect = |ours: UnixStream| {
        let of_socket = Stream::of_socket(OwnedFd::from(ours.try_clone()?))?;
        Ok(Stream { output: Box::new(Requests(ours)), end: End::Child(stubborn()), ..of_socket })
    };
    let (mut raised, mut told) = (None, Vec::new());
    let mut look = |phase: Phase<'_>| {
        if raised.is_none() && at(&phase) {
            raised = Some(Instant::now());
            // SAFETY: takes an integer; the signal is noted, as a recording has it.
            unsafe { libc::raise(libc::SIGINT) };
        }
        if let (Some(_), Phase::Note { line }) = (raised, phase) {
            told.push(line.to_owned());
        }
    };
    let options = scripted::options(stage.0.path(), &["host"], Until::Interrupted, Budget::default());
    let (outcome, over) = scripted::record_over(&options, PACE, vec![host], &connect, &mut look);
    let took = over.duration_since(raised.expect("that phase was never told"));
    xweave_interrupt::take();
    (outcome, took, told)
}

/// Does nothing for a while when it is asked that.
fn busy_with(asked: fn(&Request) -> bool) -> Agent {
    let script = move |moment: Moment<'_>, _: &mut Voice| {
        if let Moment::Asked(request) = moment
            && asked(request)
        {
            thread::sleep(BUSY);
        }
        Ok(Done::Nothing)
    };
    scripted("host", by(script))
}

#[test]
fn ctrl_c_ends_each_phase_before_the_recording_at_once_whatever_its_agents_are_busy_with() {
    if !in_its_own_process(
        "ctrl_c_ends_each_phase_before_the_recording_at_once_whatever_its_agents_are_busy_with",
    ) {
        return;
    }
    type Case = (&'static str, fn(&Request) -> bool, fn(&Phase<'_>) -> bool, &'static [&'static str]);
    let still = &["host: its agent is taking out what it had woven, and ends then"];
    let phases: [Case; 3] = [
        ("reading facts", |of| matches!(of, Request::DomainInfo), |of| matches!(of, Phase::Waiting), &[]),
        ("reading types", |of| matches!(of, Request::Btf(_)), |of| matches!(of, Phase::Found { .. }), &[]),
        ("weaving", |of| matches!(of, Request::Weave(_)), |of| matches!(of, Phase::Weaving { .. }), still),
    ];
    for (phase, asked, at, expected) in phases {
        let stage = Stage::new();
        let (outcome, took, told) = interrupted(&stage, busy_with(asked), at);
        let woven = phase == "weaving";
        assert!(
            matches!(outcome, Err(Error::Interrupted { woven: told }) if told == woven),
            "{phase}: {outcome:?}"
        );
        assert!(took <= AT_ONCE, "{phase}: {took:?}");
        assert_eq!(told, expected, "{phase}");
        assert!(!stage.trace().exists(), "{phase}");
    }
}

#[test]
fn ctrl_c_while_hooks_are_attached_ends_that_at_once() {
    if !in_its_own_process("ctrl_c_while_hooks_are_attached_ends_that_at_once") {
        return;
    }
    let host = by(|moment, voice: &mut Voice| {
        if let Moment::Asked(Request::Weave(_)) = moment {
            voice.event(Event::Weaving { done: 1, total: 4 })?;
            thread::sleep(BUSY);
        }
        Ok(Done::Nothing)
    });
    let stage = Stage::new();
    let at = |phase: &Phase<'_>| matches!(phase, Phase::Attaching { done: 1, .. });
    let (outcome, took, told) = interrupted(&stage, scripted("host", host), at);
    assert!(matches!(outcome, Err(Error::Interrupted { woven: true })), "{outcome:?}");
    assert!(took <= AT_ONCE, "{took:?}");
    assert_eq!(told, ["host: its agent is taking out what it had woven, and ends then"]);
    assert!(!stage.trace().exists());
}

/// A recording that has begun has something to lose: its agents are waited for.
#[test]
fn ctrl_c_while_recording_waits_for_what_was_recorded() {
    if !in_its_own_process("ctrl_c_while_recording_waits_for_what_was_recorded") {
        return;
    }
    let host = by(|moment, _: &mut Voice| {
        if let Moment::Asked(Request::Stop) = moment {
            thread::sleep(2 * AT_ONCE);
        }
        Ok(Done::Nothing)
    });
    let stage = Stage::new();
    let at = |phase: &Phase<'_>| matches!(phase, Phase::Recording { .. });
    let (outcome, took, _) = interrupted(&stage, Agent::new("host", 500, host), at);
    assert!(took >= 2 * AT_ONCE, "{took:?}");
    let (manifest, rows) = stage.read(&outcome.unwrap());
    assert_eq!((manifest.complete, rows.len()), (true, 500));
}
