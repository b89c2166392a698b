//! Making the blocks of an experiment: each is a recording of its own, during which the domains have their settings.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use xweave_guard::private::Dir;
use xweave_model::Spec;
use xweave_record::{DomainKnobs, LeftOut, Outcome, Phase, Required, Settings, Until};
use xweave_wire::knob;

use super::{
    order::order,
    restored::{NotRestored, check_restored},
    stored::{Block, Experiment, FILE, Held, StoreError, Vm, trace_name},
    tries::{Plan, TryError},
};

/// How an experiment is made.
pub struct Options {
    /// How each block is recorded: all but the output, the settings and what ends it.
    pub record: xweave_record::Options,
    /// What is compared.
    pub plan: Plan,
    /// The domains' virtual machines.
    pub domains: Vec<DomainKnobs>,
    /// The load.
    pub command: Vec<String>,
    /// When it is made to end in each block, if it has not: that is no failure of it.
    pub within: Option<Duration>,
    /// How long is waited between a change and the load.
    pub settle: Duration,
    /// How often each setting is tried.
    pub rounds: u32,
    /// From which the order of the blocks is drawn.
    pub seed: u64,
    /// Which transactions are to be looked at; none if those that the traces have are to be chosen.
    pub transaction: Option<Spec>,
    /// The folder to make.
    pub output: PathBuf,
}

/// What is being done.
pub enum Step<'a> {
    /// A block begins.
    Begins {
        /// Its number, from 1.
        number: u32,
        /// How many there are.
        of: usize,
        /// Its round.
        round: u32,
        /// Its setting.
        setting: String,
    },
    /// It is recorded.
    Recording(Phase<'a>),
    /// A guest is not recorded, from this block on.
    LeftOut {
        /// The block's number.
        number: u32,
        /// Which, and why.
        guest: &'a LeftOut,
    },
    /// It is over.
    Over {
        /// Its number.
        number: u32,
        /// Why it is not counted, if it is not.
        failed: Option<&'a str>,
    },
    /// All blocks are over: the domains are asked for their settings.
    Checking(Phase<'a>),
}

/// Why there is no experiment.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its folder.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// Its first block could not be recorded.
    #[error("{0}")]
    Record(#[from] xweave_record::Error),
    /// The load failed at once.
    #[error(
        "{0} (in the first block, so that nothing is known to work: nothing more was tried, and all settings are put back)"
    )]
    FirstBlock(String),
    /// The settings to try do not fit the domains.
    #[error(transparent)]
    Try(#[from] TryError),
    /// A setting was not restored.
    #[error("{error}. The blocks are in {folder}: xweave vary {folder}", folder = .folder.display())]
    NotRestored {
        /// Which.
        error: NotRestored,
        /// The experiment's folder.
        folder: PathBuf,
    },
    /// No block was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

/// Records a block, and tells how far that is.
type Recorder<'a> =
    dyn Fn(&xweave_record::Options, &mut dyn FnMut(Phase<'_>)) -> Result<Outcome, xweave_record::Error> + 'a;

/// Makes the blocks, and checks that all settings were restored. The experiment is stored, also if it ends early.
///
/// # Errors
/// [`RunError`]: nothing was measured, or a setting was not restored.
pub fn run(options: Options, progress: &mut dyn FnMut(Step<'_>)) -> Result<Experiment, RunError> {
    let (domains, folder) = (options.record.domains.clone(), options.output.clone());
    let experiment = run_by(options, &xweave_record::record, progress)?;
    if experiment.ended.is_none() {
        let changed = experiment.knobs.iter().map(|held| held.domain.clone()).collect();
        let required = Required::Named(changed);
        let now = xweave_record::knobs(&domains, required, &mut |phase| progress(Step::Checking(phase)))?;
        check_restored(&experiment, &now).map_err(|error| RunError::NotRestored { error, folder })?;
    }
    match experiment.blocks.iter().all(|block| block.failed.is_some()) {
        true => Err(RunError::Interrupted),
        false => Ok(experiment),
    }
}

/// The same of whatever records.
fn run_by(
    options: Options,
    recorder: &Recorder<'_>,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Experiment, RunError> {
    let Options { mut record, plan, domains, command, within, settle, rounds, seed, transaction, output } =
        options;
    check(&output)?;
    // Also in blocks in which its settings stay as they are.
    if let Required::Named(names) = &mut record.required {
        names.extend(plan.knobs.iter().map(|held| held.domain.clone()));
    }
    let dir = Dir::create(&output).map_err(StoreError::from)?;
    let mut experiment = Experiment {
        knobs: plan.knobs.clone(),
        settings: plan.settings.clone(),
        vms: domains.iter().flat_map(vms).collect(),
        ..Experiment::new(transaction.map(|spec| spec.to_string()), command.clone(), seed, rounds)
    };
    experiment.store(&dir)?;
    let order = order(plan.settings.len(), rounds as usize, seed);
    let all = order.iter().map(Vec::len).sum();
    let places = (1u32..)
        .zip(&order)
        .flat_map(|(round, settings)| settings.iter().map(move |setting| (round, *setting)));
    for (number, (round, setting)) in (1u32..).zip(places) {
        let name = plan.settings[setting].name(&plan.knobs);
        progress(Step::Begins { number, of: all, round, setting: name });
        let left = u64::try_from(all).unwrap_or(u64::MAX).saturating_sub(u64::from(number) - 1).max(1);
        let budget =
            xweave_record::Budget { disk: xweave_record::free_space(&output) / 2 / left, ..record.budget };
        let options = xweave_record::Options {
            output: output.join(trace_name(number)),
            until: Until::CommandEnds { words: command.clone(), within },
            settings: Settings { of: settings_of(&plan, setting), settle },
            budget,
            ..record.clone()
        };
        let recorded = recorder(&options, &mut |phase| progress(Step::Recording(phase)));
        let interrupted = xweave_interrupt::pending();
        let (failed, read) = match recorded {
            Ok(outcome) => {
                // The other blocks are not kept waiting by a guest that was not there.
                for guest in &outcome.left_out {
                    progress(Step::LeftOut { number, guest });
                    record.domains.retain(|spec| spec.name != guest.domain);
                }
                (failure(&outcome, interrupted), read(outcome))
            }
            Err(error) if number == 1 => {
                // As if it had not been: what is wrong with the arguments is told with the first block.
                let _ = dir.remove(FILE);
                let _ = std::fs::remove_dir(&output);
                return Err(error.into());
            }
            Err(error) => {
                // Its trace was not begun: it is no block.
                experiment.ended =
                    Some(if interrupted { "it was interrupted".to_owned() } else { error.to_string() });
                experiment.store(&dir)?;
                break;
            }
        };
        progress(Step::Over { number, failed: failed.as_deref() });
        let setting = u32::try_from(setting).unwrap_or(u32::MAX);
        experiment.blocks.push(Block { number, round, setting, failed: failed.clone(), read });
        match failed {
            _ if interrupted => experiment.ended = Some("it was interrupted".to_owned()),
            Some(why) if number == 1 => {
                experiment.ended = Some(why.clone());
                experiment.store(&dir)?;
                return Err(RunError::FirstBlock(why));
            }
            _ => {}
        }
        experiment.store(&dir)?;
        if experiment.ended.is_some() {
            break;
        }
    }
    Ok(experiment)
}

/// That a folder can become an experiment's: it is not there, or empty.
///
/// # Errors
/// What is there, and what to do.
pub fn check(path: &Path) -> Result<(), StoreError> {
    let in_the_way = |what| StoreError::InTheWay { folder: path.to_owned(), what };
    if Experiment::is_at(path) {
        return Err(in_the_way(
            "is an experiment already: give another -o DIR, or look at it with xweave vary DIR",
        ));
    }
    if path.symlink_metadata().is_ok() && path.read_dir().is_ok_and(|mut folder| folder.next().is_some()) {
        return Err(in_the_way("is not empty: give another -o DIR"));
    }
    Ok(())
}

/// What each domain is set to; knobs that stay as they are, are not touched.
fn settings_of(plan: &Plan, setting: usize) -> Vec<(String, Vec<knob::Setting>)> {
    let mut of: Vec<(String, Vec<knob::Setting>)> = Vec::new();
    for (held, value) in plan.knobs.iter().zip(&plan.settings[setting].values) {
        let Some(value) = value.clone() else { continue };
        let one = knob::Setting { knob: held.knob, vm: held.vm.clone(), value };
        match of.iter_mut().find(|(domain, _)| *domain == held.domain) {
            Some((_, settings)) => settings.push(one),
            None => of.push((held.domain.clone(), vec![one])),
        }
    }
    of
}

fn failure(outcome: &Outcome, interrupted: bool) -> Option<String> {
    match outcome.missing() {
        _ if interrupted => Some("it was interrupted".to_owned()),
        missing if missing.is_empty() => None,
        missing => Some(missing.join("; ")),
    }
}

fn read(outcome: Outcome) -> Vec<Held> {
    let held = |made: xweave_record::Made| Held {
        knob: made.state.knob,
        domain: made.domain,
        vm: made.state.vm,
        now: made.state.value,
    };
    outcome.settings.into_iter().map(held).collect()
}

/// As the agent's knobs call them: by their names, where these are their own.
fn vms(domain: &DomainKnobs) -> Vec<Vm> {
    let name = |vm: &xweave_wire::message::Vm| {
        let named = domain.knobs.iter().any(|state| state.vm.as_ref() == Some(&vm.name));
        if named { vm.name.clone() } else { vm.pid.to_string() }
    };
    let one = |vm: &xweave_wire::message::Vm| Vm { host: domain.domain.clone(), name: name(vm), pid: vm.pid };
    domain.vms.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use xweave_record::{DomainSpec, Error, Remaining};
    use xweave_trace::Manifest;
    use xweave_wire::knob::Knob;

    use super::*;
    use crate::experiment::stored::Setting;

    /// Of four blocks, with two guests. In two of them, a setting of that domain is changed.
    fn options(output: &Path, required: Required, changed: &str) -> Options {
        let spec = |text| DomainSpec::parse(text).unwrap();
        let now = "200000".to_owned();
        let held = Held { knob: Knob::HaltPollNs, domain: changed.to_owned(), vm: None, now };
        let setting = |value| Setting { values: vec![value] };
        Options {
            record: xweave_record::Options {
                domains: vec![spec("vm1=vsock:3"), spec("vm2=vsock:4")],
                required,
                ..xweave_record::Options::new(PathBuf::new(), Until::Interrupted, PathBuf::new())
            },
            plan: Plan { knobs: vec![held], settings: vec![setting(None), setting(Some("0".to_owned()))] },
            domains: Vec::new(),
            command: vec!["./load.sh".to_owned()],
            within: None,
            settle: Duration::ZERO,
            rounds: 2,
            seed: 7,
            transaction: None,
            output: output.to_owned(),
        }
    }

    fn outcome(left_out: &[LeftOut]) -> Outcome {
        Outcome {
            trace: PathBuf::new(),
            manifest: Manifest::default(),
            left_out: left_out.to_vec(),
            skipped: Vec::new(),
            told: 0,
            warnings: Vec::new(),
            command: None,
            settings: Vec::new(),
            sites: 0,
            weaving: Duration::ZERO,
            unweaving: Duration::ZERO,
        }
    }

    struct Made {
        experiment: Result<Experiment, RunError>,
        /// The guests that each block was to be recorded with.
        asked: Vec<Vec<String>>,
        /// In which blocks it was told of whom.
        left_out: Vec<(u32, LeftOut)>,
    }

    /// Makes an experiment in which vm2 is silent from that block on.
    fn make(options: Options, silent_from: usize) -> Made {
        let asked = RefCell::new(Vec::new());
        // It decides about a guest as a recording does.
        let recorded = |options: &xweave_record::Options| -> Result<Outcome, Error> {
            let names: Vec<_> = options.domains.iter().map(|spec| spec.name.clone()).collect();
            let is_there = names.iter().any(|name| name == "vm2");
            asked.borrow_mut().push(names);
            let mut remaining = Remaining::of(options.domains.clone(), options.required.clone(), 1);
            if is_there && asked.borrow().len() >= silent_from {
                let (domain, reason) = ("vm2".to_owned(), "it is silent".to_owned());
                remaining.leave_out(Error::Lost { domain, reason })?;
            }
            Ok(outcome(remaining.left_out()))
        };
        let mut left_out = Vec::new();
        let experiment = run_by(options, &|options, _| recorded(options), &mut |step| {
            if let Step::LeftOut { number, guest } = step {
                left_out.push((number, guest.clone()));
            }
        });
        Made { experiment, asked: asked.into_inner(), left_out }
    }

    const SILENT: &str = "domain vm2: the agent went away: it is silent";

    #[test]
    fn the_others_go_on_where_a_guest_is_unfit() {
        for silent_from in [1, 2] {
            let folder = tempfile::tempdir().unwrap();
            let output = folder.path().join("experiment");
            let Made { experiment, asked, left_out } =
                make(options(&output, Required::all_if(false), "host"), silent_from);
            let experiment = experiment.unwrap();
            assert!(experiment.blocks.iter().all(|block| block.failed.is_none()));
            assert_eq!((experiment.blocks.len(), experiment.ended), (4, None));
            // It keeps no later block waiting.
            let with = |block| if block <= silent_from { vec!["vm1", "vm2"] } else { vec!["vm1"] };
            assert_eq!(asked, (1..=4).map(with).collect::<Vec<_>>());
            let [(number, guest)] = &left_out[..] else { panic!("{left_out:?}") };
            assert_eq!((*number as usize, &*guest.domain), (silent_from, "vm2"));
            assert_eq!(guest.reason, SILENT);
        }
    }

    #[test]
    fn a_guest_that_is_required_or_changed_ends_the_experiment() {
        for (required, changed) in [(Required::all_if(true), "host"), (Required::all_if(false), "vm2")] {
            let folder = tempfile::tempdir().unwrap();
            let output = folder.path().join("experiment");
            let made = make(options(&output, required.clone(), changed), 1);
            let error = made.experiment.unwrap_err();
            assert!(matches!(&error, RunError::Record(Error::Lost { .. })), "{error}");
            assert_eq!(error.to_string(), SILENT);
            assert!(made.left_out.is_empty() && !output.exists());

            // Later on, what was recorded until then is kept.
            let made = make(options(&output, required, changed), 3);
            let experiment = made.experiment.unwrap();
            assert_eq!((experiment.blocks.len(), experiment.ended.as_deref()), (2, Some(SILENT)));
            assert!(made.left_out.is_empty() && made.asked.len() == 3);
            assert_eq!(Experiment::open(&output, false).unwrap(), experiment);
        }
    }
}
