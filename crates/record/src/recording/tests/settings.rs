//! Settings of domains hold while these are recorded, and neither longer nor where they are refused.

use xweave_wire::knob::{Knob, Setting};

use super::*;
use crate::settings::Settings;

fn options(stage: &Stage, domain: &str) -> Options {
    let setting = Setting { knob: Knob::HaltPollNs, vm: None, value: "0".to_owned() };
    let settings =
        Settings { of: vec![(domain.to_owned(), vec![setting])], settle: Duration::from_millis(1) };
    Options { settings, ..stage.options(AT_ONCE) }
}

#[test]
fn settings_are_made_when_all_is_woven_and_put_back_before_it_is_taken_out() {
    let (stage, asked) = (Stage::new(), Arc::new(Mutex::new(Vec::new())));
    let agents = vec![scripted("host", noting(&asked)), honest("vm1", 10)];
    let outcome = scripted::record(&options(&stage, "host"), PACE, agents, &mut |_| {}).unwrap();
    let [made] = &*outcome.settings else { panic!("{:?}", outcome.settings) };
    assert_eq!((&*made.domain, made.state.knob, &*made.state.value), ("host", Knob::HaltPollNs, "0"));
    let host = &outcome.manifest.domains[0];
    assert_eq!((&*host.name, host.settings.halt_poll_ns), ("host", Some(0)), "as it is while it is recorded");
    let asked = asked.lock().unwrap();
    let steps = ["Weave", "Set", "Start", "Drain", "Off", "Unset", "Stop"];
    let told: Vec<_> = asked.iter().filter(|asked| steps.contains(&&***asked)).collect();
    assert_eq!(told, steps, "{asked:?}");
}

#[test]
fn a_setting_that_is_refused_names_its_domain_and_nothing_is_recorded() {
    let refusal = answering(|request, _| match request {
        Request::Set(_) => Some(Reply::Failed(Failure {
            kind: FailureKind::Unsupported,
            message: "halt_poll_ns cannot be set: KVM is not loaded here".to_owned(),
        })),
        _ => None,
    });
    let (stage, asked) = (Stage::new(), Arc::new(Mutex::new(Vec::new())));
    let agents = vec![scripted("host", noting(&asked)), scripted("vm1", refusal)];
    let error = scripted::record(&options(&stage, "vm1"), PACE, agents, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "domain vm1: halt_poll_ns cannot be set: KVM is not loaded here");
    assert!(!stage.trace().exists() && !asked.lock().unwrap().iter().any(|asked| asked == "Start"));
}

#[test]
fn settings_that_are_not_put_back_are_told_of_their_domain() {
    let keeping = answering(|request, _| match request {
        Request::Unset => Some(Reply::Failed(Failure {
            kind: FailureKind::Unsupported,
            message: "halt_poll_ns is not put back".to_owned(),
        })),
        _ => None,
    });
    let stage = Stage::new();
    let agents = vec![scripted("host", keeping), honest("vm1", 10)];
    let outcome = scripted::record(&options(&stage, "host"), PACE, agents, &mut |_| {}).unwrap();
    let missing = outcome.missing().join("; ");
    assert!(missing.contains("domain host") && missing.contains("halt_poll_ns is not put back"), "{missing}");
}

#[test]
fn settings_of_no_domain_are_refused() {
    let stage = Stage::new();
    let agents = vec![honest("host", 10), honest("vm1", 10)];
    let error = scripted::record(&options(&stage, "vm7"), PACE, agents, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "there is no domain vm7 to change settings in");
}
