use std::{collections::VecDeque, io};

use crate::tree::Guest;

use super::*;

const UNKNOWN: &str = "is not known: xweave merge doctor lists those that KVM shows";

/// Rounds in which guests without a process cannot be merged.
#[derive(Default)]
struct Script {
    /// Processes of the guests in each round; the run is interrupted after the last one. `None`: the guests cannot be asked.
    rounds: VecDeque<Option<Vec<Option<u32>>>>,
    /// Available memory in each round, in bytes; the last value stays.
    available: VecDeque<u64>,
    /// Why the reserve cannot follow, in all rounds.
    reserve: Option<io::ErrorKind>,
    now: Duration,
    /// Time that a round takes.
    takes: Duration,
    /// Guests of each attempt to merge.
    tried: Vec<Vec<String>>,
    waits: Vec<Duration>,
}

impl Rounds for Script {
    fn available(&self) -> u64 {
        self.available.front().copied().unwrap_or(0)
    }

    fn ask(&mut self) -> Result<PageCaches, RunError> {
        let pids = self.rounds.pop_front().flatten();
        let lost =
            || xweave_record::Error::Lost { domain: "vm1".to_owned(), reason: "it is silent".to_owned() };
        let pids = pids.ok_or_else(lost)?;
        let guest = |nth: usize| Guest { name: format!("vm{}", nth + 1), ..Guest::default() };
        // The first guest has looked at 1 file, the second at 2, and so on.
        let looked_at = (1..=pids.len() as u64).map(|files| LookedAt { files, ..LookedAt::default() });
        Ok(PageCaches {
            guests: (0..pids.len()).map(guest).collect(),
            looked_at: looked_at.collect(),
            pids,
            notes: Vec::new(),
        })
    }

    fn merge(&mut self, asked: &Asked) -> Result<Outcome, RunError> {
        self.tried.push(asked.guests.iter().map(|guest| guest.name.clone()).collect());
        // A missing process is seen before the kernel is asked for anything.
        match asked.pids.contains(&None) {
            true => Ok(merging::merge(asked, &Host::default(), None, || false)?),
            false => Ok(Outcome { saved: 1, ..Outcome::default() }),
        }
    }

    fn follow_reserve(&mut self) -> Result<Option<reserve::State>, ReserveError> {
        self.now += self.takes;
        match self.reserve {
            Some(kind) => Err(StatusError::from(io::Error::from(kind)).into()),
            None => Ok(None),
        }
    }

    fn elapsed(&self) -> Duration {
        self.now
    }

    fn wait(&mut self, time: Duration) {
        self.waits.push(time);
        self.now += time;
        if self.available.len() > 1 {
            self.available.pop_front();
        }
    }

    fn is_interrupted(&self) -> bool {
        self.rounds.is_empty()
    }
}

impl Script {
    fn new(rounds: &[Option<&[Option<u32>]>]) -> Self {
        let rounds = rounds.iter().map(|pids| pids.map(<[_]>::to_vec)).collect();
        Self { rounds, ..Self::default() }
    }

    /// Runs the script. Returns the files that each guest of the last round has looked at, and the reports.
    fn run(
        &mut self,
        schedule: Schedule,
        require_all: bool,
    ) -> (Result<Option<Vec<u64>>, String>, Vec<String>) {
        let mut reports = Vec::new();
        let done = repeat(self, schedule, &Asked::default(), require_all, &mut |step| {
            reports.push(match step {
                Step::Answered => return,
                Step::Plenty { available, below } => format!("{available} of {below}"),
                Step::Merged(outcome) => format!("saved {}", outcome.saved),
                Step::Problem(problem) => problem.to_string(),
            });
        });
        let files = |(_, looked_at): (Outcome, Vec<LookedAt>)| looked_at.iter().map(|of| of.files).collect();
        (done.map(|done| done.map(files)).map_err(|error| error.to_string()), reports)
    }
}

const ONCE: Schedule = Schedule { every: None, below: None };
const EVERY: Schedule = Schedule { every: Some(Duration::from_secs(10)), below: None };

#[test]
fn other_guests_are_merged_without_an_unfit_one() {
    // A round more than is made: it is not interrupted.
    let mut script = Script::new(&[Some(&[Some(1), None, Some(3)]), None]);
    let (files, reports) = script.run(ONCE, false);
    assert_eq!(files, Ok(Some(vec![1, 3])));
    assert_eq!(script.tried, [vec!["vm1", "vm2", "vm3"], vec!["vm1", "vm3"]]);
    assert_eq!(
        reports,
        ["saved 1".to_owned(), format!("which process of this host runs vm2 {UNKNOWN}; vm2 is left out")]
    );
}

#[test]
fn required_or_last_two_guests_are_not_left_out() {
    let unknown = format!("which process of this host runs vm2 {UNKNOWN}");
    let mut three = Script::new(&[Some(&[Some(1), None, Some(3)]), None]);
    assert_eq!(three.run(ONCE, true), (Err(unknown.clone()), Vec::new()));
    assert_eq!(three.tried.len(), 1);
    let mut one = Script::new(&[Some(&[None, None, Some(3)]), None]);
    assert_eq!(one.run(ONCE, false), (Err(unknown), Vec::new()));
    assert_eq!(one.tried.len(), 2);
}

#[test]
fn problem_is_reported_once_while_it_lasts() {
    let unfit: Option<&[_]> = Some(&[Some(1), None, Some(3)]);
    let fit: Option<&[_]> = Some(&[Some(1), Some(2), Some(3)]);
    let mut script = Script::new(&[unfit, unfit, fit, unfit, None, None, fit, None]);
    let (files, reports) = script.run(EVERY, false);
    assert_eq!(files, Ok(Some(vec![1, 2, 3])));
    let left_out = format!("which process of this host runs vm2 {UNKNOWN}; vm2 is left out");
    let lost = "domain vm1: the agent went away: it is silent";
    let saved = "saved 1";
    // The last round was interrupted, and reports no problem.
    assert_eq!(reports, [saved, &left_out, saved, saved, saved, &left_out, lost, saved]);
}

#[test]
fn first_round_that_fails_ends_the_run() {
    let (files, reports) = Script::new(&[None, Some(&[Some(1), Some(2)])]).run(EVERY, false);
    assert_eq!(files, Err("domain vm1: the agent went away: it is silent".to_owned()));
    assert!(reports.is_empty());
}

#[test]
fn nothing_is_merged_while_memory_is_plenty() {
    let fit: Option<&[_]> = Some(&[Some(1), Some(2)]);
    let mut script = Script::new(&[fit]);
    script.available = VecDeque::from([4, 5, 3]);
    script.reserve = Some(io::ErrorKind::PermissionDenied);
    let schedule = Schedule { below: Some(4), ..EVERY };
    let mut reports = Vec::new();
    let done = repeat(&mut script, schedule, &Asked::default(), false, &mut |step| {
        reports.push(match step {
            Step::Plenty { available, below } => format!("{available} of {below}"),
            step => format!("{step:?}").split(['(', ' ']).next().unwrap_or_default().to_owned(),
        });
    });
    // The reserve's problem is reported in the first round, and lasts.
    assert_eq!(reports, ["4 of 4", "Problem", "Answered", "Merged"]);
    assert_eq!(done.unwrap().map(|(outcome, _)| outcome.saved), Some(1));
    assert_eq!(script.waits.len(), 2);
}

#[test]
fn missed_rounds_are_not_made_up_for() {
    let fit: Option<&[_]> = Some(&[Some(1), Some(2)]);
    let mut script = Script { takes: Duration::from_secs(4), ..Script::new(&[fit, fit, fit]) };
    script.run(EVERY, false).0.unwrap();
    assert_eq!(script.waits, [Duration::from_secs(6); 2]);
    let mut script = Script { takes: Duration::from_secs(25), ..Script::new(&[fit, fit, fit]) };
    script.run(EVERY, false).0.unwrap();
    assert_eq!(script.waits, [Duration::ZERO; 2]);
}
