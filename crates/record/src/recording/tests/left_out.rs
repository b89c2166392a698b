//! Guests that are not there before anything is recorded, or not as they should be: the others are recorded, and it is said.

use super::*;
use crate::remaining::Required;

/// What vm2 does to the others, by name, and what is said of it.
fn unfit() -> Vec<(&'static str, Agent, &'static str)> {
    let greets = |words: Vec<u8>| {
        scripted(
            "vm2",
            by(move |moment, voice| match moment {
                Moment::Hello => voice.raw(&words).map(|()| Done::All),
                _ => Ok(Done::Nothing),
            }),
        )
    };
    let older = [b"XWEAVE".as_slice(), &(VERSION - 1).to_le_bytes()].concat();
    let leaves_at = |is: fn(&Request) -> bool| {
        scripted(
            "vm2",
            by(move |moment, _| {
                let leaves = matches!(moment, Moment::Asked(request) if is(request));
                Ok(if leaves { Done::Leave } else { Done::Nothing })
            }),
        )
    };
    let refuses = |is: fn(&Request) -> bool| {
        scripted(
            "vm2",
            answering(move |request, _| {
                let message = "no".to_owned();
                is(request).then_some(Reply::Failed(Failure { kind: FailureKind::Verifier, message }))
            }),
        )
    };
    let facts = |change: fn(&mut message::DomainInfo)| {
        scripted(
            "vm2",
            answering(move |request, _| {
                let mut facts = xweave_synthetic::agent::facts("6.12.0");
                change(&mut facts);
                matches!(request, Request::DomainInfo).then(|| Reply::DomainInfo(Box::new(facts)))
            }),
        )
    };
    let answers_wrongly = scripted(
        "vm2",
        answering(|request, _| matches!(request, Request::DomainInfo).then_some(Reply::Done)),
    );
    let silent = scripted(
        "vm2",
        by(|moment, _| match moment {
            Moment::Hello => Ok(Done::All),
            _ => Ok(Done::Nothing),
        }),
    );
    vec![
        ("older", greets(older), "no agent answers: the other end speaks protocol version"),
        ("banner", greets(b"Welcome to vm2.\n".to_vec()), "no agent answers: the other end does not speak"),
        ("silent", silent, "no agent answers: no answer within 0.3 seconds"),
        ("leaves", leaves_at(|asked| matches!(asked, Request::DomainInfo)), "the agent went away: "),
        ("leaves late", leaves_at(|asked| matches!(asked, Request::Weave(_))), "the agent went away: "),
        ("refuses", refuses(|asked| matches!(asked, Request::DomainInfo)), "no"),
        ("refuses late", refuses(|asked| matches!(asked, Request::Weave(_))), "no"),
        ("old", facts(|facts| facts.kernel = "5.10.0".to_owned()), "kernel 5.10.0 is older than 6.1"),
        ("a user's", facts(|facts| facts.privileged = false), "the agent may not trace its kernel"),
        (
            "answers wrongly",
            answers_wrongly,
            "the agent went away: cut off: its answer does not fit the question (DomainInfo)",
        ),
        (
            "a path",
            facts(|facts| facts.build_id = "../../../etc/cron.d/x".to_owned()),
            "the agent went away: the agent cannot be believed: it sent as its kernel's build ID `../",
        ),
    ]
}

/// How often a recording of three begins anew at most: once for each guest.
const TIMES: usize = 3;

fn record(stage: &Stage, unfit: Agent, required: Required) -> (Result<Outcome, Error>, Vec<String>) {
    let mut options = scripted::options(stage.0.path(), &["host", "vm1", "vm2"], AT_ONCE, Budget::default());
    options.required = required;
    let mut agents: Vec<Agent> = (0..TIMES).flat_map(|_| [honest("host", 10), honest("vm1", 20)]).collect();
    agents.push(unfit);
    let mut notes = Vec::new();
    let mut look = |phase: Phase<'_>| {
        if let Phase::Note { line } = phase {
            notes.push(line.to_owned());
        }
    };
    let pace = Pace { hello: Duration::from_millis(300), ..PACE };
    let outcome = scripted::record(&options, pace, agents, &mut look);
    (outcome, notes)
}

#[test]
fn a_guest_that_is_not_as_it_should_be_before_the_recording_is_left_out_and_told() {
    for (name, unfit, why) in unfit() {
        let stage = Stage::new();
        let (outcome, notes) = record(&stage, unfit, Required::all_if(false));
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (manifest, rows) = stage.read(&outcome);
        let domains: Vec<_> = manifest.domains.iter().map(|domain| &*domain.name).collect();
        assert_eq!(domains, ["host", "vm1"], "{name}");
        assert_eq!(exits(&manifest), [Some(Exit::Stopped), Some(Exit::Stopped)], "{name}");
        let of = |domain| rows.iter().filter(|row| row.domain == domain).count();
        assert_eq!((of(1), of(2), rows.len()), (10, 20, 30), "{name}");
        let [left] = &outcome.left_out[..] else { panic!("{name}: {:?}", outcome.left_out) };
        assert_eq!(left.domain, "vm2");
        assert!(left.reason.starts_with(&format!("domain vm2: {why}")), "{name}: {}", left.reason);
        let told = format!("{}; vm2 is left out", left.reason);
        assert!(notes.contains(&told) && manifest.warnings.contains(&told), "{name}: {notes:?}");
    }
}

#[test]
fn a_guest_that_is_required_or_the_last_one_ends_the_recording_before_it_has_begun() {
    for (name, unfit, _) in unfit() {
        let stage = Stage::new();
        let (outcome, _) = record(&stage, unfit, Required::all_if(true));
        let error = outcome.expect_err(name);
        assert!(error.to_string().starts_with("domain vm2: "), "{name}: {error}");
        assert!(!stage.trace().exists());
    }
    // Those of whom the settings are changed are required, too.
    let stage = Stage::new();
    let mut options = scripted::options(stage.0.path(), &["host", "vm1", "vm2"], AT_ONCE, Budget::default());
    options.settings.of = vec![("vm2".to_owned(), Vec::new())];
    let agents = vec![honest("host", 10), honest("vm1", 20)];
    let error = scripted::record(&options, PACE, agents, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "domain vm2: no agent answers (vm2): entity not found");
}

#[test]
fn guests_that_are_all_unfit_are_all_told_at_once() {
    let stage = Stage::new();
    let options = scripted::options(stage.0.path(), &["host", "vm1", "vm2"], AT_ONCE, Budget::default());
    let error = scripted::record(&options, PACE, vec![honest("host", 10)], &mut |_| {}).unwrap_err();
    let of = |name: &str| format!("domain {name}: no agent answers ({name}): entity not found");
    assert_eq!(error.to_string(), format!("{}\n{}", of("vm1"), of("vm2")));
    assert!(!stage.trace().exists());
}
