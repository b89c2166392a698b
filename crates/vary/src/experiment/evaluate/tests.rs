use xweave_model::{DomainRef, Spec, TimeState, delay::DelayKind};

use super::{
    super::stored::{Setting, Vm},
    *,
};

/// An experiment with that knob, from one value to another.
fn experiment(knob: Knob, values: [Option<&str>; 2]) -> Experiment {
    let (domain, vm) = match knob {
        Knob::PinVcpus => ("host", Some("web".to_owned())),
        Knob::IdlePoll => ("guest", None),
        _ => ("host", None),
    };
    let held = Held { knob, domain: domain.to_owned(), vm, now: "200000".to_owned() };
    let setting = |value: Option<&str>| Setting { values: vec![value.map(str::to_owned)] };
    Experiment {
        knobs: vec![held],
        settings: values.map(setting).to_vec(),
        vms: vec![Vm { host: "host".to_owned(), name: "web".to_owned(), pid: 42 }],
        ..Experiment::new(None, Vec::new(), 1, 6)
    }
}

/// Six rounds, of which each has been measured as given by its number, from 0, and its setting.
fn evaluated(
    mut experiment: Experiment,
    measured: impl Fn(u32, u32) -> Result<Measured, String>,
) -> Evaluation {
    for round in 1..=6 {
        for setting in 0..2 {
            let number = u32::try_from(experiment.blocks.len()).unwrap() + 1;
            experiment.blocks.push(Block { number, round, setting, failed: None, read: Vec::new() });
        }
    }
    evaluate(experiment, Spec::Request(None, None).into(), |block| measured(block.round - 1, block.setting))
}

/// What drifts by a tenth from round to round.
fn drifting(round: u32, ns: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
    let ns = (ns * (1.0 + f64::from(round) / 10.0)) as u64;
    ns
}

fn delay(spent: TimeState) -> Delay {
    let domain = DomainRef::One("vm1".to_owned());
    Delay { kind: DelayKind::Other(spent), domain, whom: None, awaited: None }
}

#[test]
fn a_change_is_found_though_everything_drifts_by_more() {
    let evaluation = evaluated(experiment(Knob::BusyPoll, [None, Some("50")]), |round, setting| {
        let factor = if setting == 0 { 1.0 } else { 0.8 };
        let (mean, slow) = (drifting(round, 100_000.0), drifting(round, 900_000.0 * factor));
        let causes = [
            (delay(TimeState::Halted), 100 * drifting(round, 50_000.0 * factor)),
            (delay(TimeState::Stopped), 1),
        ];
        let cpus = [("host".to_owned(), 0.5 + f64::from(setting) * 0.4 + f64::from(round) / 100.0)];
        Ok(Measured {
            requests: 100,
            p50_ns: mean + u64::from(round % 2),
            p99_ns: slow,
            mean_ns: mean,
            causes: causes.into(),
            cpus: cpus.into(),
            ..Measured::default()
        })
    });
    let [effect] = &*evaluation.effects else { panic!("{:?}", evaluation.effects) };
    assert_eq!(effect.rounds, 6);
    let ratio = effect.p99.ratio.unwrap();
    assert!((ratio.estimate - 0.8).abs() < 1e-3 && ratio.high < 0.81 && ratio.low > 0.79, "{ratio:?}");
    assert!(effect.p99.difference.is_seen() && effect.p99.difference.estimate < -180_000.0);
    assert!(!effect.p50.difference.is_seen());
    let [(cause, change)] = &*effect.causes else { panic!("what is small is left out: {:?}", effect.causes) };
    assert_eq!(*cause, delay(TimeState::Halted));
    assert!(change.difference.is_seen() && (change.ratio.unwrap().estimate - 0.8).abs() < 1e-3);
    let (domain, cpus) = &effect.cpus[0];
    assert!(domain == "host" && (cpus.difference.estimate - 0.4).abs() < 1e-9, "{cpus:?}");
}

#[test]
fn blocks_that_failed_take_their_rounds_along_and_nothing_else() {
    let evaluation =
        evaluated(experiment(Knob::BusyPoll, [None, Some("50")]), |round, setting| match (round, setting) {
            (2, 1) => Err("the recorded command failed".to_owned()),
            _ => Ok(Measured { requests: 1, p50_ns: 5, p99_ns: 5, mean_ns: 5, ..Measured::default() }),
        });
    assert_eq!(evaluation.effects[0].rounds, 5);
    assert_eq!(evaluation.blocks.iter().filter(|looked| looked.measured.is_err()).count(), 1);
    let none = evaluated(experiment(Knob::BusyPoll, [None, Some("50")]), |_, setting| match setting {
        0 => Err("it has no requests".to_owned()),
        _ => Ok(Measured::default()),
    });
    assert!(none.effects.is_empty());
}

fn observed(experiment: Experiment, vcpus: impl Fn(u32, u32) -> Vcpus) -> Observed {
    let evaluation = evaluated(experiment, |round, setting| {
        let vms = [(("host".to_owned(), 42), vcpus(round, setting))].into();
        let guests = [("guest".to_owned(), ("host".to_owned(), 42))].into();
        let span_ns = 1_000_000_000;
        Ok(Measured {
            requests: 1,
            p50_ns: 5,
            p99_ns: 5,
            mean_ns: 5,
            vms,
            guests,
            span_ns,
            ..Measured::default()
        })
    });
    let [observed] = &*evaluation.effects[0].observed else { panic!("{:?}", evaluation.effects[0]) };
    observed.clone()
}

#[test]
fn whether_kvm_polled_is_told_by_how_halts_ended_and_not_by_what_was_set() {
    let halts =
        |slept, shortest| Vcpus { halts: 1000, slept, shortest_sleep_ns: Some(shortest), ..Vcpus::default() };
    let polling = || experiment(Knob::HaltPollNs, [Some("0"), Some("200000")]);
    let seen = observed(polling(), |round, setting| match setting {
        0 => halts(1000 - u64::from(round), 10_000),
        _ => halts(400 + u64::from(round), 210_000),
    });
    assert!(seen.holds && seen.note.is_none() && seen.vm == "web", "{seen:?}");
    assert!(seen.first < 0.01 && (seen.other - 0.6).abs() < 0.01, "{seen:?}");

    for (vcpus, why) in [
        (halts(990, 12_000), "it slept also for shorter times than KVM polls. KVM_CAP_HALT_POLL may"),
        (halts(990, 250_000), "it did so for longer than KVM polls: 250000 ns at least, against 200000 ns"),
        (Vcpus::default(), "it never halted"),
    ] {
        let seen = observed(polling(), |_, _| vcpus.clone());
        assert!(!seen.holds && seen.note.as_ref().unwrap().contains(why), "{seen:?}");
    }
    // From what is set now, which lasts longest: the first.
    let seen = observed(experiment(Knob::HaltPollNs, [None, Some("0")]), |_, _| halts(990, 250_000));
    assert!(seen.note.unwrap().contains("against 200000 ns"));
}

#[test]
fn whether_vcpus_stayed_on_their_cpus_is_told_by_where_they_entered() {
    let entries =
        |entries: &[(u32, u64)]| Vcpus { entries: entries.iter().copied().collect(), ..Vcpus::default() };
    let pinning = || experiment(Knob::PinVcpus, [None, Some("2-3")]);
    let seen = observed(pinning(), |_, setting| match setting {
        0 => entries(&[(0, 30), (2, 10)]),
        _ => entries(&[(2, 30), (3, 10)]),
    });
    assert!(seen.holds && (seen.first, seen.other) == (0.25, 1.0), "{seen:?}");
    let seen = observed(pinning(), |_, _| entries(&[(0, 10), (2, 30)]));
    assert_eq!((seen.holds, seen.note.as_deref()), (false, Some("it ran on CPUs 0 as well")));
    assert!(!observed(pinning(), |_, _| Vcpus::default()).holds);
}

#[test]
fn whether_a_guest_polls_is_told_by_how_often_it_halts() {
    let halts = |halt_exits| Vcpus { halt_exits, ..Vcpus::default() };
    let polling = || experiment(Knob::IdlePoll, [Some("off"), Some("on")]);
    let seen = observed(
        polling(),
        |round, setting| if setting == 0 { halts(500 + u64::from(round)) } else { halts(0) },
    );
    assert!(seen.holds && seen.other == 0.0, "{seen:?}");
    assert!(!observed(polling(), |round, _| halts(500 + u64::from(round))).holds);
}
