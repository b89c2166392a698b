//! Agents that refuse, answer wrongly, greet otherwise or go before anything is recorded: an error or a loss that names the
//! domain and the reason, and nothing is left behind.

use super::*;

#[test]
fn a_refused_plan_names_its_domain_and_the_reason_and_leaves_nothing() {
    let refusal = || {
        answering(|request, _| match request {
            Request::Weave(_) => Some(Reply::Failed(Failure {
                kind: FailureKind::Verifier,
                message: "the kernel refused the program of f4: R1 is no pointer".to_owned(),
            })),
            _ => None,
        })
    };
    let asked = Arc::new(Mutex::new(Vec::new()));
    let stage = Stage::new();
    let error =
        stage.record(AT_ONCE, scripted("host", noting(&asked)), scripted("vm1", refusal())).unwrap_err();
    assert!(matches!(&error, Error::Agent { domain, .. } if domain == "vm1"), "{error:?}");
    assert_eq!(error.to_string(), "domain vm1: the kernel refused the program of f4: R1 is no pointer");
    assert!(!stage.trace().exists());
    // The host had woven. It never recorded, and its connection has ended, by which its probes are gone.
    let asked = asked.lock().unwrap();
    assert_eq!(asked.last().map(String::as_str), Some("Weave"), "{asked:?}");

    // With a trace there that was to be replaced: it is as it was.
    let kept = stage.record(AT_ONCE, honest("host", 10), honest("vm1", 10)).unwrap();
    stage.record(AT_ONCE, scripted("host", refusal()), honest("vm1", 10)).unwrap_err();
    assert_eq!(stage.read(&kept).1.len(), 20);
}

#[test]
fn a_command_that_cannot_be_started_leaves_nothing_and_an_earlier_trace_as_it_was() {
    let words = || vec!["/nonexistent/command".to_owned()];
    let missing = || Until::CommandEnds { words: words(), within: None };
    let stage = Stage::new();
    let record = |until| stage.record(until, honest("host", 10), honest("vm1", 10));
    let error = record(missing()).unwrap_err();
    assert!(matches!(error, Error::Command { .. }), "{error:?}");
    assert!(!stage.trace().exists());

    let kept = record(AT_ONCE).unwrap();
    record(missing()).unwrap_err();
    assert_eq!(stage.read(&kept).1.len(), 20);
}

#[test]
fn an_agent_that_fails_once_it_records_is_lost_with_its_own_words() {
    let stage = Stage::new();
    let guest = answering(|request, _| match request {
        Request::Start { .. } => {
            Some(Reply::Failed(Failure { kind: FailureKind::Misuse, message: "nothing is woven".to_owned() }))
        }
        _ => None,
    });
    let outcome = stage.record(AT_ONCE, honest("host", 50), scripted("vm1", guest)).unwrap();
    let (manifest, rows) = stage.read(&outcome);
    assert_eq!(lost(&manifest, 1), "cut off: nothing is woven");
    assert_eq!((manifest.domains[0].exit.clone(), rows.len()), (Some(Exit::Stopped), 50));
}

#[test]
fn places_that_could_not_be_woven_are_warnings_and_no_sites_of_the_trace() {
    let stage = Stage::new();
    let guest = answering(|request, voice| match request {
        Request::Weave(plan) => {
            voice.plan = Some((**plan).clone());
            let [first, second] = voice.sites()[..] else { panic!("{:?}", voice.sites()) };
            Some(Reply::Woven(Woven {
                sites: vec![message::SiteAddress { site: first, address: 0x1000 }],
                skipped: vec![message::SkippedSite { site: second, reason: "it is notrace".to_owned() }],
                left_out: vec![message::LeftOut {
                    function: "sched_switch".to_owned(),
                    kind: event::Kind::Switch,
                    reason: "no such tracepoint".to_owned(),
                }],
                ..Woven::default()
            }))
        }
        _ => None,
    });
    let outcome = stage.record(AT_ONCE, honest("host", 0), scripted("vm1", guest)).unwrap();
    let (manifest, _) = stage.read(&outcome);
    let trace = Trace::open(&stage.trace()).unwrap();
    let sites: Vec<_> =
        trace.sites().iter().map(|site| (site.domain.as_str(), site.site, site.address)).collect();
    let of_host = 0xffff_ffff_8100_0000;
    assert_eq!(sites, [("host", 1, of_host), ("host", 2, of_host), ("vm1", 3, 0x1000)]);
    assert_eq!(outcome.sites, 3);
    assert_eq!(
        manifest.warnings,
        [
            "vm1: events switch are recorded without those of sched_switch: no such tracepoint",
            "vm1: test is not woven at 1 of 2 places: it is notrace (the first: f4+0x0)"
        ]
    );
}

/// A guest that answers one kind of question by what is never an answer to it.
fn answers_wrongly(to: fn(&Request) -> bool) -> Agent {
    scripted(
        "vm1",
        answering(move |request, _| {
            let other = || match request {
                Request::Vms | Request::Btf(_) => Reply::Done,
                _ => Reply::Btf(Vec::new()),
            };
            to(request).then(other)
        }),
    )
}

#[test]
fn an_answer_to_another_question_ends_a_domains_part_whatever_the_question_was() {
    type Question = (&'static str, fn(&Request) -> bool);
    let before: [Question; 3] = [
        ("DomainInfo", |request| matches!(request, Request::DomainInfo)),
        ("Clock", |request| matches!(request, Request::Clock)),
        ("Weave", |request| matches!(request, Request::Weave(_))),
    ];
    for (question, is) in before {
        let stage = Stage::new();
        let error = stage.record(AT_ONCE, honest("host", 0), answers_wrongly(is)).unwrap_err();
        let told = format!(
            "domain vm1: the agent went away: cut off: its answer does not fit the question ({question})"
        );
        assert_eq!(error.to_string(), told);
        assert!(!stage.trace().exists());
    }
    let while_recording: [Question; 4] = [
        ("Start", |request| matches!(request, Request::Start { .. })),
        ("Loss", |request| matches!(request, Request::Loss)),
        ("Drain", |request| matches!(request, Request::Drain)),
        ("Stop", |request| matches!(request, Request::Stop)),
    ];
    for (question, is) in while_recording {
        let stage = Stage::new();
        let outcome = stage.record(AT_ONCE, honest("host", 70), answers_wrongly(is)).unwrap();
        let (manifest, rows) = stage.read(&outcome);
        let told = format!("cut off: its answer does not fit the question ({question})");
        assert_eq!(lost(&manifest, 1), told);
        assert_eq!((manifest.domains[0].exit.clone(), rows.len()), (Some(Exit::Stopped), 70));
    }
}

/// A guest whose first words are these.
fn greets_with(words: Vec<u8>) -> Agent {
    scripted(
        "vm1",
        by(move |moment, voice| match moment {
            Moment::Hello => voice.raw(&words).map(|()| Done::All),
            _ => Ok(Done::Nothing),
        }),
    )
}

#[test]
fn who_greets_otherwise_is_told_with_how_it_was_reached_and_what_to_do() {
    let older = [b"XWEAVE".as_slice(), &(VERSION - 1).to_le_bytes()].concat();
    let of_version = format!(
        "domain vm1: no agent answers (vm1): the other end speaks protocol version {}, this one {VERSION}: install the \
         same xweave on both sides",
        VERSION - 1
    );
    let banner = b"Welcome to vm1.\nLast login: never\n".to_vec();
    let of_banner = "domain vm1: no agent answers (vm1): the other end does not speak xweave's protocol; it said: \
                     \"Welcome to vm1.\\nLast login: never\"";
    for (greeting, told) in [(older, of_version.as_str()), (banner, of_banner)] {
        let stage = Stage::new();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let error =
            stage.record(AT_ONCE, scripted("host", noting(&asked)), greets_with(greeting)).unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert_eq!(error.to_string(), told);
        assert_eq!(*asked.lock().unwrap(), [""; 0], "the others are not asked before all have greeted");
        assert!(!stage.trace().exists());
    }
}

#[test]
fn an_agent_that_goes_before_anything_is_recorded_is_an_error_that_names_its_domain() {
    let leaves_at = |is: fn(&Moment<'_>) -> bool| {
        scripted("vm1", by(move |moment, _| Ok(if is(&moment) { Done::Leave } else { Done::Nothing })))
    };
    let gone = "the other end closed the connection";
    let told = [
        (leaves_at(|moment| matches!(moment, Moment::Hello)), format!("no agent answers (vm1): {gone}")),
        (
            leaves_at(|moment| matches!(moment, Moment::Asked(Request::DomainInfo))),
            format!("the agent went away: {gone}"),
        ),
        (
            leaves_at(|moment| matches!(moment, Moment::Asked(Request::Weave(_)))),
            format!("the agent went away: {gone}"),
        ),
    ];
    for (guest, told) in told {
        let stage = Stage::new();
        let error = stage.record(AT_ONCE, honest("host", 0), guest).unwrap_err();
        assert_eq!(error.to_string(), format!("domain vm1: {told}"));
        assert!(!stage.trace().exists());
    }
}

#[test]
fn a_trace_that_is_there_is_told_before_anybody_is_asked() {
    let stage = Stage::new();
    stage.record(AT_ONCE, honest("host", 10), honest("vm1", 10)).unwrap();
    let mut options = scripted::options(stage.0.path(), &["host", "vm1"], AT_ONCE, Budget::default());
    options.replace = false;
    let mut connected = false;
    let mut look = |_: Phase<'_>| connected = true;
    let agents = vec![honest("host", 10), honest("vm1", 10)];
    let error = scripted::record(&options, PACE, agents, &mut look).unwrap_err();
    assert!(error.to_string().contains("holds a trace already"), "{error}");
    assert!(!connected);
}

#[test]
fn a_domain_that_cannot_be_reached_is_told_with_the_error_that_caused_it() {
    let stage = Stage::new();
    let options = scripted::options(stage.0.path(), &["host", "vm1"], AT_ONCE, Budget::default());
    // There is none for vm1.
    let error = scripted::record(&options, PACE, vec![honest("host", 0)], &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "domain vm1: no agent answers (vm1): entity not found");
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>());
    assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::NotFound));
}
