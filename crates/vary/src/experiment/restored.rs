//! Checking that an experiment's settings were restored.

use xweave_record::DomainKnobs;

use super::stored::{Experiment, Held};

/// A setting that is not what it was before the experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{setting} is {now} now, and was {before} before the experiment: if nobody else has changed it, run `xweave doctor` there"
)]
pub struct NotRestored {
    /// Name of the setting: `halt_poll_ns@host`.
    pub setting: String,
    /// Value after the experiment.
    pub now: String,
    /// Value before the experiment.
    pub before: String,
}

/// Compares the settings of an experiment with their values after it. A setting that no longer exists is not compared: the
/// virtual machine has ended, or the domain does not answer.
///
/// # Errors
/// The first setting that has another value than before.
pub fn check_restored(experiment: &Experiment, now: &[DomainKnobs]) -> Result<(), NotRestored> {
    let value = |held: &Held| {
        let domain = now.iter().find(|domain| domain.domain == held.domain)?;
        let state = domain.knobs.iter().find(|state| state.knob == held.knob && state.vm == held.vm)?;
        Some(state.value.clone())
    };
    let changed = |held: &Held| {
        let now = value(held).filter(|now| *now != held.now)?;
        Some(NotRestored { setting: held.name(), now, before: held.now.clone() })
    };
    experiment.knobs.iter().find_map(changed).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use xweave_wire::knob::{Knob, State};

    use super::*;

    fn experiment(vm: Option<&str>) -> Experiment {
        let held = Held {
            knob: Knob::HaltPollNs,
            domain: "host".to_owned(),
            vm: vm.map(str::to_owned),
            now: "200000".to_owned(),
        };
        Experiment { knobs: vec![held], ..Experiment::new(None, Vec::new(), 7, 6) }
    }

    fn domain(name: &str, value: &str) -> DomainKnobs {
        let state = State {
            knob: Knob::HaltPollNs,
            vm: None,
            value: value.to_owned(),
            choices: Vec::new(),
            unavailable: None,
        };
        DomainKnobs { domain: name.to_owned(), knobs: vec![state], ..DomainKnobs::default() }
    }

    #[test]
    fn another_value_than_before_is_reported() {
        let error = check_restored(&experiment(None), &[domain("host", "0")]).unwrap_err().to_string();
        assert!(error.starts_with("halt_poll_ns@host is 0 now, and was 200000 before"), "{error}");
        check_restored(&experiment(None), &[domain("host", "200000")]).unwrap();
    }

    #[test]
    fn settings_of_other_domains_or_of_ended_machines_are_not_compared() {
        check_restored(&experiment(None), &[domain("vm1", "0")]).unwrap();
        check_restored(&experiment(Some("web")), &[domain("host", "0")]).unwrap();
    }
}
