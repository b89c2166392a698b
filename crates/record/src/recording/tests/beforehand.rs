//! What is told before anything is recorded, and what limits a recording of a command.

use super::*;

/// Replies with what it is, but as another machine.
fn machine(boot_id: &'static str, hostname: &'static str) -> impl Script + Send + 'static {
    answering(move |request, _| match request {
        Request::DomainInfo => {
            let honest = xweave_synthetic::agent::facts("6.12.0");
            let (boot_id, hostname) = (boot_id.to_owned(), hostname.to_owned());
            let facts = message::DomainInfo { boot_id, hostname, ..honest };
            Some(Reply::DomainInfo(Box::new(facts)))
        }
        _ => None,
    })
}

/// A recording of this machine and a guest.
fn record_here(stage: &Stage, guest: Agent, progress: &mut dyn FnMut(Phase<'_>)) -> Result<Outcome, Error> {
    let mut options = scripted::options(stage.0.path(), &["host", "vm1"], AT_ONCE, Budget::default());
    options.domains[0].transport = Transport::Local;
    let host = scripted("host", machine("0f-1", "lab"));
    scripted::record(&options, PACE, vec![host, guest], progress)
}

#[test]
fn two_names_for_one_kernel_are_refused_before_anything_is_woven() {
    let stage = Stage::new();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let mut told = Vec::new();
    let mut look = |phase: Phase<'_>| {
        noted.lock().unwrap().push(matches!(phase, Phase::Weaving { .. }));
        if let Phase::Found { line } | Phase::Note { line } = phase {
            told.push(line.to_owned());
        }
    };
    let guest = scripted("vm1", machine("0f-1", "lab"));
    let error = record_here(&stage, guest, &mut look).unwrap_err();
    assert_eq!(
        error.to_string(),
        "host and vm1 are one kernel (both have the boot ID 0f-1): a kernel is recorded under one name, so give one of \
         them, or the other machine"
    );
    assert!(asked.lock().unwrap().iter().all(|weaving| !weaving) && told.is_empty(), "{told:?}");
    assert!(!stage.trace().exists());
}

#[test]
fn an_agent_that_does_not_hang_up_keeps_nobody_waiting_before_it_was_asked_to_weave() {
    let stage = Stage::new();
    let mut facts = machine("0f-1", "lab");
    let guest = by(move |moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::DomainInfo) => {
            facts.at(moment, voice)?;
            // Until its connection is cut.
            loop {
                voice.raw(&[0])?;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        _ => Ok(Done::Nothing),
    });
    let begun = std::time::Instant::now();
    let error = record_here(&stage, scripted("vm1", guest), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::SameKernel { .. }), "{error}");
    // An agent that had woven would be waited for that long.
    assert!(begun.elapsed() < PACE.farewell / 2, "{:?}", begun.elapsed());
}

#[test]
fn what_each_domain_is_and_what_looks_wrong_is_told_before_weaving_and_once() {
    let stage = Stage::new();
    let guest = {
        let mut facts = machine("0f-2", "host");
        by(move |moment, voice: &mut Voice| match moment {
            // Nothing can be hooked there.
            Moment::Asked(Request::Weave(plan)) => {
                voice.plan = Some((**plan).clone());
                let skipped = |site| message::SkippedSite { site, reason: "it is notrace".to_owned() };
                let skipped = voice.sites().into_iter().map(skipped).collect();
                voice.reply(Reply::Woven(Woven { skipped, ..Woven::default() })).map(|()| Done::All)
            }
            moment => facts.at(moment, voice),
        })
    };
    let mut told = Vec::new();
    let mut look = |phase: Phase<'_>| match phase {
        Phase::Found { line } | Phase::Note { line } => told.push(line.to_owned()),
        Phase::Weaving { .. } => told.push("weaving".to_owned()),
        Phase::Recording { .. } if told.last().is_some_and(|last| last != "recording") => {
            told.push("recording".to_owned());
        }
        _ => {}
    };
    let host = scripted("host", machine("0f-1", "lab"));
    let outcome = stage.record_telling(AT_ONCE, host, scripted("vm1", guest), &mut look).unwrap();
    let expected = [
        "host: hostname lab, Linux 6.12.0, 1 CPU",
        "vm1: hostname host, Linux 6.12.0, 1 CPU",
        "vm1 has the hostname host, and host is another domain: are their addresses exchanged?",
        "host: KVM shows no virtual machine there, though guests are recorded: whose they are and their clocks are then \
         only estimated. If they run on host: mount -t debugfs none /sys/kernel/debug",
        "weaving",
        "vm1: test is not woven at 2 of 2 places: it is notrace (the first: f3+0x0)",
        "recording",
    ];
    assert_eq!(told, expected);
    // So they are not told again at the end; the trace keeps what concerns it.
    assert_eq!(outcome.told, outcome.manifest.warnings.len());
    assert_eq!(outcome.manifest.warnings, [expected[5]]);
}

#[test]
fn a_command_that_runs_longer_than_the_duration_is_ended_and_has_not_failed() {
    let stage = Stage::new();
    let sleeps = |script: &str, within| Until::CommandEnds {
        words: ["sh", "-c", script].map(str::to_owned).to_vec(),
        within: Some(within),
    };
    let record = |until| stage.record(until, honest("host", 10), honest("vm1", 10)).unwrap();
    let begun = std::time::Instant::now();
    let outcome = record(sleeps("sleep 60", Duration::from_millis(100)));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!((outcome.command, outcome.missing().len()), (None, 0));
    assert_eq!(stage.read(&outcome).1.len(), 20);
    // It ends the recording if it is over before.
    let outcome = record(sleeps("exit 3", Duration::from_secs(60)));
    assert_eq!(outcome.command.and_then(|status| status.code()), Some(3));
    assert_eq!(outcome.missing(), ["the recorded command failed: exit status: 3"]);
    // It has failed by itself before it would have been ended.
    let until = sleeps("exit 3", Duration::from_millis(1));
    let late = &mut |phase: Phase<'_>| {
        if matches!(phase, Phase::Recording { .. }) {
            std::thread::sleep(Duration::from_secs(1));
        }
    };
    let outcome = stage.record_telling(until, honest("host", 10), honest("vm1", 10), late).unwrap();
    assert_eq!(outcome.command.and_then(|status| status.code()), Some(3));
}

#[test]
fn a_command_starts_when_all_domains_record_however_long_one_takes() {
    let stage = Stage::new();
    let records = stage.0.path().join("vm1-records");
    let words = ["sh", "-c", r#"test -e "$0""#, records.to_str().unwrap()].map(str::to_owned).to_vec();
    let guest = answering(move |request, _| {
        if matches!(request, Request::Start { .. }) {
            std::thread::sleep(Duration::from_millis(300));
            fs::write(&records, "").unwrap();
        }
        None
    });
    let until = Until::CommandEnds { words, within: None };
    let outcome = stage.record(until, honest("host", 10), scripted("vm1", guest)).unwrap();
    assert!(outcome.command.is_some_and(|status| status.success()), "it ran before vm1 recorded");
}
