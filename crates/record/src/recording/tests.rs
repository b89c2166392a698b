//! Recordings of a host and a guest whose agents are scripts: what becomes of what they send, and of those that go, refuse
//! or err.

mod beforehand;
mod interrupted;
mod left_out;
mod losses;
mod refusals;
mod settings;
mod sharing;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use xweave_synthetic::agent::{Done, Honest, Moment, Script, Voice, answering, by, clock};
use xweave_trace::{EventLoss, Exit, FlowLoss, Late, Manifest, Row, SiteLoss, Trace, Unloaded};
use xweave_wire::{
    VERSION, event,
    message::{self, Event, Failure, FailureKind, FunctionClone, Loss, Reply, Request, Symbol, Woven},
    record::{Kind, Record},
};

use crate::{
    Budget, Error, Options, Outcome, Phase, Transport, Until,
    pace::Pace,
    scripted::{self, Agent},
};

/// Long deadlines, as other work on the machine must end nobody's part; and rounds soon after each other.
const PACE: Pace = Pace {
    hello: Duration::from_secs(60),
    answer: Duration::from_secs(60),
    answers: Duration::from_secs(60),
    hook: Duration::from_secs(1),
    round: Duration::from_millis(20),
    grace: Duration::from_millis(2),
    identity: Duration::from_millis(200),
    farewell: Duration::from_secs(60),
};

/// For recordings that end as soon as they have begun: agents send what they have when they are told to stop.
const AT_ONCE: Until = Until::Elapsed(Duration::ZERO);

/// A recording's folder.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn trace(&self) -> PathBuf {
        self.0.path().join("trace")
    }

    /// What ends a recording: see [`Stage::until_over`].
    fn over(&self) -> PathBuf {
        self.0.path().join("over")
    }

    /// Until that file is there, a minute at most.
    fn until_over(&self) -> Until {
        let script = r#"for i in $(seq 6000); do [ -e "$0" ] && exit 0; sleep 0.01; done; exit 1"#;
        let file = self.over().to_str().unwrap().to_owned();
        let words = ["sh", "-c", script].map(str::to_owned).into_iter().chain([file]).collect();
        Until::CommandEnds { words, within: None }
    }

    fn record(&self, until: Until, host: Agent, guest: Agent) -> Result<Outcome, Error> {
        self.record_telling(until, host, guest, &mut |_| {})
    }

    fn options(&self, until: Until) -> Options {
        let budget = Budget { rate: None, ..Budget::default() };
        scripted::options(self.0.path(), &["host", "vm1"], until, budget)
    }

    fn record_telling(
        &self,
        until: Until,
        host: Agent,
        guest: Agent,
        progress: &mut dyn FnMut(Phase<'_>),
    ) -> Result<Outcome, Error> {
        let options = self.options(until);
        scripted::record(&options, PACE, vec![host, guest], progress)
    }

    /// The trace, which nothing of is damaged, and whose manifest is the one that was returned.
    fn read(&self, outcome: &Outcome) -> (Manifest, Vec<Row>) {
        let trace = Trace::open(&self.trace()).unwrap();
        let (rows, damaged) = trace.rows();
        assert!(damaged.is_empty(), "{damaged:?}");
        assert!(trace.sites_damaged().is_none());
        assert_eq!(trace.manifest(), &outcome.manifest);
        assert!(outcome.manifest.complete);
        assert_eq!(outcome.manifest.records, rows.len() as u64);
        (outcome.manifest.clone(), rows)
    }
}

fn honest(name: &'static str, records: u64) -> Agent {
    Agent::new(name, records, Honest)
}

fn scripted(name: &'static str, script: impl Script + Send + 'static) -> Agent {
    Agent::new(name, 0, script)
}

/// Notes what it is asked, and is honest otherwise.
fn noting(asked: &Arc<Mutex<Vec<String>>>) -> impl Script + Send + 'static {
    let asked = asked.clone();
    answering(move |request, _| {
        let name = format!("{request:?}");
        let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        asked.lock().unwrap().push(name.to_owned());
        None
    })
}

/// Records that an agent has made.
type Sent = Arc<Mutex<Vec<Record>>>;

/// Sends so many records, each that much earlier than now, and notes them.
fn send(voice: &mut Voice, sent: &Sent, count: u64, earlier: Duration) -> io::Result<()> {
    let mut sent = sent.lock().unwrap();
    let mut bytes = Vec::new();
    for _ in 0..count {
        let mut record = voice.record(sent.len() as u64);
        record.time_ns -= u64::try_from(earlier.as_nanos()).unwrap();
        record.encode(&mut bytes);
        sent.push(record);
    }
    voice.event(Event::Records(bytes))
}

/// Asserts that a domain's rows are those records, each at its own time: that of the reference, or as near to it as the
/// manifest says.
fn assert_kept(manifest: &Manifest, rows: &[Row], domain: u8, sent: &Sent) {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.domain == domain).collect();
    rows.sort_by_key(|row| row.flow);
    let mut sent = sent.lock().unwrap().clone();
    sent.sort_by_key(|record| record.flow);
    assert_eq!(rows.len(), sent.len(), "of domain {domain}");
    let error = manifest.clocks[usize::from(domain) - 1].error_ns;
    for (row, record) in rows.into_iter().zip(&sent) {
        let same_but_time = Row::new(domain, row.time_ns, record);
        assert_eq!(*row, same_but_time);
        // Both agents read one clock.
        let off = i128::from(row.time_ns).abs_diff(i128::from(record.time_ns));
        assert!(off <= u128::from(error), "{off} ns off, and {error} are stated: {row:?}");
    }
}

fn lost(manifest: &Manifest, domain: usize) -> &str {
    match &manifest.domains[domain].exit {
        Some(Exit::Lost { reason }) => reason,
        other => panic!("domain {domain}: {other:?}"),
    }
}

fn exits(manifest: &Manifest) -> Vec<Option<Exit>> {
    manifest.domains.iter().map(|domain| domain.exit.clone()).collect()
}

/// Whether that is the recording's first tick.
fn first_tick(moment: Moment<'_>, voice: &Voice, sent: &Sent) -> bool {
    voice.recording && matches!(moment, Moment::Tick) && sent.lock().unwrap().is_empty()
}

#[test]
fn an_agent_that_hangs_up_loses_nothing_that_it_has_sent_and_nothing_of_the_other_domain() {
    // Between two messages, and within one.
    for (rest, reason) in [
        (&[][..], "the other end closed the connection"),
        (&[9, 0, 0], "the connection failed: unexpected end"),
    ] {
        let stage = Stage::new();
        let (of_host, of_guest) = (Sent::default(), Sent::default());
        let known = Arc::new(AtomicBool::new(false));
        let guest = {
            let sent = of_guest.clone();
            by(move |moment, voice| {
                if !first_tick(moment, voice, &sent) {
                    return Ok(Done::Nothing);
                }
                send(voice, &sent, 300, Duration::ZERO)?;
                voice.raw(rest)?;
                Ok(Done::Leave)
            })
        };
        // Goes on when the loss is known.
        let host = {
            let (sent, known, over) = (of_host.clone(), known.clone(), stage.over());
            by(move |moment, voice| {
                if first_tick(moment, voice, &sent) && known.load(Ordering::SeqCst) {
                    send(voice, &sent, 200, Duration::ZERO)?;
                    fs::write(&over, "")?;
                }
                Ok(Done::Nothing)
            })
        };
        let trace = stage.trace();
        let mut look = |phase: Phase<'_>| {
            if let Phase::Recording { .. } = phase {
                // The trace can be read while it is made, and tells of the loss.
                let exits = exits(Trace::open(&trace).unwrap().manifest());
                known.store(matches!(exits[1], Some(Exit::Lost { .. })), Ordering::SeqCst);
                assert_eq!(exits[0], None);
            }
        };
        let (host, guest) = (scripted("host", host), scripted("vm1", guest));
        let outcome = stage.record_telling(stage.until_over(), host, guest, &mut look).unwrap();
        assert!(outcome.command.unwrap().success(), "it was ended by the host");
        let (manifest, rows) = stage.read(&outcome);
        assert!(lost(&manifest, 1).starts_with(reason), "{}", lost(&manifest, 1));
        assert_eq!(manifest.domains[0].exit, Some(Exit::Stopped));
        assert_kept(&manifest, &rows, 1, &of_host);
        assert_kept(&manifest, &rows, 2, &of_guest);
        assert_eq!((manifest.lost, rows.len()), (0, 500));
    }
}

#[test]
fn a_recording_whose_domains_are_all_lost_ends_by_itself() {
    let stage = Stage::new();
    let leaving = || {
        let sent = Sent::default();
        let script = {
            let sent = sent.clone();
            by(move |moment, voice| {
                if first_tick(moment, voice, &sent) {
                    send(voice, &sent, 10, Duration::ZERO)?;
                    return Ok(Done::Leave);
                }
                Ok(Done::Nothing)
            })
        };
        (sent, script)
    };
    let ((of_host, host), (of_guest, guest)) = (leaving(), leaving());
    let outcome = stage.record(Until::Interrupted, scripted("host", host), scripted("vm1", guest)).unwrap();
    let (manifest, rows) = stage.read(&outcome);
    assert_kept(&manifest, &rows, 1, &of_host);
    assert_kept(&manifest, &rows, 2, &of_guest);
    assert!(!lost(&manifest, 0).is_empty() && !lost(&manifest, 1).is_empty());
}

#[test]
fn records_that_come_late_are_in_the_trace_at_their_own_times() {
    let stage = Stage::new();
    let (of_host, of_guest) = (Sent::default(), Sent::default());
    // Whenever it may, and each time of a time before the last.
    let late = |sent: &Sent| {
        let sent = sent.clone();
        by(move |moment, voice| {
            let ago = match moment {
                Moment::Asked(Request::Start { .. }) => 1,
                Moment::Asked(Request::Drain) => 40,
                Moment::Asked(Request::Stop) => 300,
                _ => return Ok(Done::Nothing),
            };
            send(voice, &sent, 100, Duration::from_millis(ago))?;
            send(voice, &sent, 100, Duration::from_millis(ago / 2))?;
            Ok(Done::Nothing)
        })
    };
    let (host, guest) = (late(&of_host), late(&of_guest));
    let outcome = stage.record(AT_ONCE, scripted("host", host), scripted("vm1", guest)).unwrap();
    let (manifest, rows) = stage.read(&outcome);
    assert_eq!(exits(&manifest), [Some(Exit::Stopped), Some(Exit::Stopped)]);
    assert_kept(&manifest, &rows, 1, &of_host);
    assert_kept(&manifest, &rows, 2, &of_guest);
    assert_eq!((rows.len(), manifest.lost), (1200, 0));
}

#[test]
fn what_comes_after_the_last_answer_is_not_in_the_trace_and_keeps_nobody_waiting() {
    let stage = Stage::new();
    let of_guest = Sent::default();
    let guest = {
        let sent = of_guest.clone();
        by(move |moment, voice| {
            if !matches!(moment, Moment::Asked(Request::Stop)) {
                return Ok(Done::Nothing);
            }
            send(voice, &sent, 100, Duration::ZERO)?;
            voice.honest(moment)?;
            // Until the connection ends.
            loop {
                send(voice, &Sent::default(), 1000, Duration::ZERO)?;
            }
        })
    };
    let outcome = stage.record(AT_ONCE, honest("host", 2000), scripted("vm1", guest)).unwrap();
    let (manifest, rows) = stage.read(&outcome);
    assert_eq!(exits(&manifest), [Some(Exit::Stopped), Some(Exit::Stopped)]);
    assert_kept(&manifest, &rows, 2, &of_guest);
    assert_eq!(rows.iter().filter(|row| row.domain == 1).count(), 2000);
}

/// What a guest does can be told only as long as its host is recorded; and what its host does for it, only as long as it is.
#[test]
fn guests_end_just_before_their_host_however_long_they_unweave() {
    let stage = Stage::new();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let ends = |name: &'static str| {
        let ended = Arc::clone(&ended);
        by(move |moment, _: &mut Voice| {
            let guest = name == "vm1";
            match moment {
                // The host would be there first, if it was asked at the same time.
                Moment::Asked(Request::Off) if guest => std::thread::sleep(Duration::from_millis(50)),
                // The host would wait for that, if it was asked afterwards.
                Moment::Asked(Request::Stop) if guest => std::thread::sleep(Duration::from_millis(500)),
                Moment::Asked(Request::Off | Request::Stop) => {}
                _ => return Ok(Done::Nothing),
            }
            let stop = matches!(moment, Moment::Asked(Request::Stop));
            ended.lock().unwrap().push(format!("{name} {}", if stop { "unweaves" } else { "is off" }));
            Ok(Done::Nothing)
        })
    };
    let agents = vec![scripted("host", ends("host")), scripted("vm1", ends("vm1"))];
    let options = scripted::options(stage.0.path(), &["host", "vm1"], AT_ONCE, Budget::default());
    let pace = Pace { grace: Duration::from_secs(2), ..PACE };
    scripted::record(&options, pace, agents, &mut |_| {}).unwrap();
    assert_eq!(*ended.lock().unwrap(), ["vm1 is off", "host is off", "host unweaves", "vm1 unweaves"]);
}

#[test]
fn events_and_records_of_two_domains_are_on_one_time_line() {
    let stage = Stage::new();
    let turn = Arc::new(Mutex::new((0u32, Vec::new())));
    // The domains take turns: so the events alternate, whatever came first.
    let taking_turns = |own: u32| {
        let (turn, over) = (turn.clone(), stage.over());
        by(move |moment, voice: &mut Voice| {
            let mut turn = turn.lock().unwrap();
            if voice.recording && matches!(moment, Moment::Tick) && turn.0 < 40 && turn.0 % 2 == own {
                let event = event::Event::new(event::Kind::Switch, clock().mono_ns, 0, turn.0);
                turn.0 += 1;
                turn.1.push(event.time_ns);
                let mut bytes = Vec::new();
                event.encode(&mut bytes);
                voice.event(Event::Events(bytes))?;
                if turn.0 == 40 {
                    fs::write(&over, "")?;
                }
            }
            Ok(Done::Nothing)
        })
    };
    let (host, guest) = (scripted("host", taking_turns(0)), scripted("vm1", taking_turns(1)));
    let outcome = stage.record(stage.until_over(), host, guest).unwrap();
    assert!(outcome.command.unwrap().success());
    let (manifest, _) = stage.read(&outcome);
    let trace = Trace::open(&stage.trace()).unwrap();
    let mut events = trace.events();
    let told: Vec<_> = events.by_ref().map(|event| (event.tid, event.domain, event.time_ns)).collect();
    assert!(events.damaged().is_empty());
    assert_eq!(manifest.events, 40);
    let error = manifest.clocks[1].error_ns;
    let times = &turn.lock().unwrap().1;
    let mut seen: Vec<u32> = told.iter().map(|(nth, ..)| *nth).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
    for (nth, domain, time_ns) in told {
        assert_eq!(domain, if nth % 2 == 0 { 1 } else { 2 });
        let off = time_ns.abs_diff(i64::try_from(times[nth as usize]).unwrap());
        assert!(
            off <= if domain == 1 { 0 } else { error },
            "event {nth} is {off} ns off, {error} are stated"
        );
    }
}

#[test]
fn where_packets_were_dropped_is_asked_of_the_kernel_that_did_and_is_in_the_manifest() {
    let stage = Stage::new();
    let guest = by(move |moment, voice: &mut Voice| {
        match moment {
            Moment::Asked(Request::Drain) => {
                let mut bytes = Vec::new();
                for address in [0xa, 0xb] {
                    let drop =
                        Record { kind: Kind::Quit, values: vec![1, 2, address], ..voice.record(address) };
                    drop.encode(&mut bytes);
                }
                voice.event(Event::Records(bytes))?;
            }
            Moment::Asked(Request::Symbols(addresses)) => {
                assert_eq!(addresses, &[0xa, 0xb]);
                // The other is not known, and nobody has asked for the third.
                let symbols = [0xb, 0xc].map(|address| Symbol { address, ..Symbol::default() });
                return voice.reply(Reply::Symbols(symbols.to_vec())).map(|()| Done::All);
            }
            _ => {}
        }
        Ok(Done::Nothing)
    });
    let agents = vec![honest("host", 10), scripted("vm1", guest)];
    let options = scripted::options(stage.0.path(), &["host", "vm1"], AT_ONCE, Budget::default());
    // It is asked for what has come by then.
    let pace = Pace { grace: Duration::from_secs(1), ..PACE };
    let outcome = scripted::record(&options, pace, agents, &mut |_| {}).unwrap();
    let (manifest, _) = stage.read(&outcome);
    assert_eq!(exits(&manifest), [Some(Exit::Stopped), Some(Exit::Stopped)]);
    assert_eq!(manifest.domains[1].symbols, [Symbol { address: 0xb, ..Symbol::default() }]);
    assert!(manifest.domains[0].symbols.is_empty());
}

#[test]
fn functions_that_do_not_take_all_their_calls_are_told() {
    let stage = Stage::new();
    let guest = answering(|request, voice| {
        let Request::Weave(plan) = request else { return None };
        voice.plan = Some((**plan).clone());
        let clone = |site, name: &str| FunctionClone { site, name: name.to_owned() };
        // Its sites 3 and 4 are at f3 and f4; what is no clone of these is none of ours.
        let clones =
            vec![clone(3, "f3.part.0"), clone(3, "f3.isra.0"), clone(4, "f3.part.0"), clone(4, "\u{1b}[2J")];
        Some(Reply::Woven(Woven { clones, ..Woven::default() }))
    });
    let outcome = stage.record(AT_ONCE, honest("host", 0), scripted("vm1", guest)).unwrap();
    let message = "vm1: not all calls of f3 are seen: the compiler has some go to f3.isra.0; of some only \
                   the beginning may be inlined, which calls f3.part.0";
    assert_eq!(stage.read(&outcome).0.warnings, [message]);
}
