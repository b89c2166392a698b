//! A whole run: guests are asked, what several hold is merged, once or at an interval until Ctrl-C.
//!
//! Each round either finds that enough memory is available, or asks the guests and merges. A round that fails after the first one
//! does not end the run: a guest that restarts is there the next time. Each problem is reported once for as long as it lasts.

use std::{
    fmt, mem,
    time::{Duration, Instant},
};

use xweave_system::ksm::WithinNodes;
use xweave_wire::pages::{LookedAt, PAGE};

use crate::{
    Allowed, Outcome, Reserve, SameBy, direct,
    host::{self, Host, HostError},
    merging::{self, Asked, MergeError, Pace},
    page_cache_query::{FEWEST_GUESTS, NewListener, PageCaches, Querier, Query},
    reserve::{self, HowMuch, TakeError},
    status::{Status, StatusError},
};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Guests and files that are queried.
    pub query: Query,
    /// Criterion by which files of two guests are the same.
    pub same_by: SameBy,
    /// Allowed ways of marking guests' memory.
    pub allowed: Allowed,
    /// When rounds are made.
    pub schedule: Schedule,
    /// Size of the reserve; `None` for no reserve.
    pub reserve: Option<HowMuch>,
    /// Merge within NUMA nodes only.
    pub numa_local: bool,
}

/// When rounds are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Time from the start of a round to the start of the next one; `None` for one round.
    pub every: Option<Duration>,
    /// Merge only while less memory of this host is available, in bytes.
    pub below: Option<u64>,
}

/// A step of a run, reported while the run goes on.
#[derive(Debug)]
pub enum Step<'s> {
    /// The guests have answered, or could not be asked.
    Answered,
    /// Enough memory is available: nothing is merged until it is less. Reported when that begins.
    Plenty {
        /// Available memory, in bytes, with what is held in reserve.
        available: u64,
        /// The limit, in bytes.
        below: u64,
    },
    /// A round has merged.
    Merged(&'s Outcome),
    /// A problem that the previous round did not have.
    Problem(&'s Problem),
}

/// A problem that keeps a round from merging, or from merging all guests.
#[derive(Debug)]
pub enum Problem {
    /// A note of [`PageCaches::notes`].
    Note(String),
    /// A guest cannot be merged and is left out of the round.
    LeftOut {
        /// The guest's name.
        guest: String,
        /// The reason.
        error: MergeError,
    },
    /// The round has failed; the next one tries again.
    Failed(RunError),
    /// The reserve is not what it should be.
    Reserve(ReserveError),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(note) => f.write_str(note),
            Self::LeftOut { guest, error } => write!(f, "{error}; {guest} is left out"),
            Self::Failed(error) => error.fmt(f),
            Self::Reserve(error) => error.fmt(f),
        }
    }
}

/// An error that ends a run, in its first round, or a round.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Guests cannot be asked.
    #[error(transparent)]
    Ask(#[from] xweave_record::Error),
    /// This host's virtual machines cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Nothing can be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// KSM cannot be made to merge within NUMA nodes only: the reason, for people.
    #[error("{0}")]
    WithinNodes(String),
}

/// The reserve cannot follow the memory that is given back.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// This host's virtual machines cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Merged pages cannot be read.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Memory cannot be held.
    #[error(transparent)]
    Take(#[from] TakeError),
}

/// Result of a run.
pub struct Finished {
    /// Result of all rounds; the default if no round has merged.
    pub outcome: Outcome,
    /// Files that each guest of the last round has read the state of.
    pub looked_at: Vec<LookedAt>,
    /// Ctrl-C ended the only round early.
    pub cut: bool,
    /// Keeps KSM within NUMA nodes until it is dropped: [`direct::leave_nodes`].
    pub within_nodes: Option<WithinNodes>,
}

/// Runs until the schedule or Ctrl-C ends it. `listener` shows the progress of connecting; `report` is called for each step, and
/// `on_reserve`, from another thread, when the reserve is let go.
///
/// # Errors
/// [`RunError`], of the first round only.
pub fn run(
    options: Options,
    listener: NewListener<'_>,
    on_reserve: impl Fn(reserve::Event) + Send + 'static,
    report: &mut dyn FnMut(Step<'_>),
) -> Result<Finished, RunError> {
    let Options { query, same_by, allowed, schedule, reserve, numa_local } = options;
    let within_nodes = numa_local.then(|| direct::within_nodes(xweave_interrupt::pending)).transpose();
    let within_nodes = within_nodes.map_err(RunError::WithinNodes)?;
    let require_all = query.requires_all();
    let mut rounds = LiveRounds {
        begun: Instant::now(),
        querier: Querier::new(query, schedule.every.is_some()),
        listener,
        reserve: reserve.map(|how_much| Reserve::begin(how_much, on_reserve)),
        pace: schedule.every.map(|_| Pace::default()),
    };
    let asked = Asked { same_by, allowed, ..Asked::default() };
    let done = repeat(&mut rounds, schedule, &asked, require_all, report)?;
    let (mut outcome, looked_at) = done.unwrap_or_default();
    outcome.reserve = rounds.reserve.as_ref().map(Reserve::state);
    let cut = outcome.taken.cut && schedule.every.is_none() && xweave_interrupt::pending();
    Ok(Finished { outcome, looked_at, cut, within_nodes })
}

/// Operations of a round on guests, this host and time; scripted in tests.
trait Rounds {
    /// Available memory of this host, in bytes, with what is held in reserve.
    fn available(&self) -> u64;
    /// Asks the guests.
    fn ask(&mut self) -> Result<PageCaches, RunError>;
    /// Merges what the guests hold twice.
    fn merge(&mut self, asked: &Asked) -> Result<Outcome, RunError>;
    /// Adapts the reserve to what is given back now; `None` without a reserve.
    fn follow_reserve(&mut self) -> Result<Option<reserve::State>, ReserveError>;
    /// Time since the run began.
    fn elapsed(&self) -> Duration;
    /// Waits; less if it is interrupted.
    fn wait(&mut self, time: Duration);
    fn is_interrupted(&self) -> bool;
}

struct LiveRounds<'l> {
    begun: Instant,
    querier: Querier,
    listener: NewListener<'l>,
    reserve: Option<Reserve>,
    pace: Option<Pace>,
}

impl Rounds for LiveRounds<'_> {
    fn available(&self) -> u64 {
        // Held memory becomes available when memory gets short.
        let held = self.reserve.as_ref().map_or(0, |reserve| reserve.state().held);
        host::available().saturating_add(held)
    }

    fn ask(&mut self) -> Result<PageCaches, RunError> {
        Ok(self.querier.ask(self.listener)?)
    }

    fn merge(&mut self, asked: &Asked) -> Result<Outcome, RunError> {
        Ok(merging::merge(asked, &Host::read()?, self.pace.as_mut(), xweave_interrupt::pending)?)
    }

    fn follow_reserve(&mut self) -> Result<Option<reserve::State>, ReserveError> {
        let Some(reserve) = &self.reserve else { return Ok(None) };
        // Everything merged on this host counts: guests need copies of the pages that they write to.
        let given_back = Status::read(&Host::read()?)?.saved.saturating_mul(PAGE);
        Ok(Some(reserve.follow(given_back, xweave_interrupt::pending)?))
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn wait(&mut self, time: Duration) {
        self.querier.wait(time);
    }

    fn is_interrupted(&self) -> bool {
        xweave_interrupt::pending()
    }
}

/// Makes rounds as scheduled; `asked` lacks the guests. Returns the result of all rounds, and what the guests of the last one have
/// looked at; `None` if no round has merged.
fn repeat(
    rounds: &mut impl Rounds,
    schedule: Schedule,
    asked: &Asked,
    require_all: bool,
    report: &mut dyn FnMut(Step<'_>),
) -> Result<Option<(Outcome, Vec<LookedAt>)>, RunError> {
    let mut done: Option<(Outcome, Vec<LookedAt>)> = None;
    let (mut next, mut lasting, mut plenty) = (Duration::ZERO, Vec::new(), false);
    loop {
        let mut problems = Vec::new();
        let available = rounds.available();
        let below = schedule.below.filter(|below| available >= *below);
        let was_plenty = mem::replace(&mut plenty, below.is_some());
        if let Some(below) = below {
            if !was_plenty {
                report(Step::Plenty { available, below });
            }
            problems.extend(rounds.follow_reserve().err().map(Problem::Reserve));
        } else {
            let caches = rounds.ask();
            report(Step::Answered);
            let merged =
                caches.and_then(|caches| merge_fit(rounds, asked, caches, require_all, &mut problems));
            let reserve = rounds.follow_reserve();
            match merged {
                Err(error) if done.is_none() => return Err(error),
                Err(_) if rounds.is_interrupted() => break,
                Err(error) => {
                    problems.push(Problem::Failed(error));
                    problems.extend(reserve.err().map(Problem::Reserve));
                }
                Ok((mut outcome, looked_at)) => {
                    match reserve {
                        Ok(state) => outcome.reserve = state,
                        Err(error) => problems.push(Problem::Reserve(error)),
                    }
                    report(Step::Merged(&outcome));
                    done = Some(match done {
                        Some((before, _)) => (outcome.after(&before), looked_at),
                        None => (outcome, looked_at),
                    });
                }
            }
        }
        report_new(&problems, &mut lasting, report);
        let Some(every) = schedule.every.filter(|_| !rounds.is_interrupted()) else { break };
        // Rounds that were missed are not made up for.
        next = (next + every).max(rounds.elapsed());
        rounds.wait(next.saturating_sub(rounds.elapsed()));
        if rounds.is_interrupted() {
            break;
        }
    }
    Ok(done)
}

/// Reports the problems that are not in `lasting`, and makes `lasting` those of this round.
fn report_new(problems: &[Problem], lasting: &mut Vec<String>, report: &mut dyn FnMut(Step<'_>)) {
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    for (problem, _) in problems.iter().zip(&texts).filter(|(_, text)| !lasting.contains(text)) {
        report(Step::Problem(problem));
    }
    *lasting = texts;
}

/// Merges. A guest that cannot be merged is left out, unless all are required or too few would remain.
fn merge_fit(
    rounds: &mut impl Rounds,
    asked: &Asked,
    caches: PageCaches,
    require_all: bool,
    problems: &mut Vec<Problem>,
) -> Result<(Outcome, Vec<LookedAt>), RunError> {
    let PageCaches { guests, pids, mut looked_at, notes } = caches;
    problems.extend(notes.into_iter().map(Problem::Note));
    let mut asked = Asked { guests, pids, ..asked.clone() };
    loop {
        let error = match rounds.merge(&asked) {
            Ok(outcome) => return Ok((outcome, looked_at)),
            Err(RunError::Merge(error)) => error,
            Err(error) => return Err(error),
        };
        let unfit =
            error.of_guest().and_then(|name| asked.guests.iter().position(|guest| guest.name == name));
        let goes_on = !require_all && asked.guests.len() > FEWEST_GUESTS && !rounds.is_interrupted();
        let Some(unfit) = unfit.filter(|_| goes_on) else { return Err(error.into()) };
        let guest = asked.guests.remove(unfit).name;
        asked.pids.remove(unfit);
        looked_at.remove(unfit);
        problems.push(Problem::LeftOut { guest, error });
    }
}

#[cfg(test)]
mod tests;
