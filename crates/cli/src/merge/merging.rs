//! `xweave merge`: gives back what guests hold twice, once or again and again.

use std::{
    io::Write,
    process::ExitCode,
    time::{Duration, Instant},
};

use xweave_merge::{
    Allowed, Outcome, Reserve, direct,
    merging::{self, Asked, MergeError, Pace},
    reserve::{self, HowMuch},
};
use xweave_report::{View, document, merge as report};
use xweave_wire::pages::{LookedAt, PAGE};

use super::{WIDE, asking, ways};
use crate::{failure::Failure, shown, told};

/// When it is done.
#[derive(Clone, Copy)]
pub struct Times {
    /// Each time that so much has passed; once, if that is not said.
    pub every: Option<Duration>,
    /// Only while less memory of this host is available, in bytes.
    pub below: Option<u64>,
    /// How much of what is given back is held for what guests write to.
    pub reserve: Option<HowMuch>,
}

/// Asks the guests where their pages lie, marks those that several hold, has KSM look at them, and tells: once, or at these
/// times, until Ctrl-C. KSM may be made to merge within NUMA nodes only.
pub fn run(
    asked: &asking::Args,
    ways: &ways::Args,
    times: Times,
    numa_local: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let allowed = ways.allowed(&asked.names())?;
    let within = numa_local.then(|| direct::within_nodes(xweave_interrupt::pending)).transpose();
    let within = within.map_err(Failure::Failed)?;
    let begun = Instant::now();
    let mut guests = asking::Guests::of(asked, false, true)?;
    let Times { every, below, reserve } = times;
    let reserve =
        reserve.map(|how_much| Reserve::begin(how_much, |event| told::tell(&report::event(&event))));
    let mut pace = every.map(|_| Pace::default());
    let mut done: Option<(Outcome, Vec<LookedAt>)> = None;
    let (mut next, mut failed, mut plenty) = (Duration::ZERO, Failed::default(), false);
    loop {
        // What is held would be available.
        let held = reserve.as_ref().map_or(0, |reserve| reserve.state().held);
        let available = xweave_merge::host::available().saturating_add(held);
        let was_plenty = plenty;
        plenty = below.is_some_and(|below| available >= below);
        if plenty && !was_plenty {
            told::tell(&report::plenty(available, below.unwrap_or_default()));
        }
        let mut why = Vec::new();
        if plenty {
            why.extend(follow(reserve.as_ref()).err());
        } else {
            let told = if done.is_none() { guests.ask_all(every.is_some()) } else { guests.ask_again() };
            let now = told.and_then(|mut told| {
                why.append(&mut told.missing);
                once(asked, told, &allowed, pace.as_mut(), &mut why)
            });
            let followed = follow(reserve.as_ref());
            match now {
                Err(failure) if done.is_none() => return Err(failure),
                Err(_) if xweave_interrupt::pending() => break,
                // A guest that starts anew is there the next time.
                Err(failure) => why.extend([Some(failure.message()), followed.err()].into_iter().flatten()),
                Ok((mut now, looked)) => {
                    match followed {
                        Ok(held) => now.reserve = held,
                        Err(failure) => why.push(failure),
                    }
                    if every.is_some() {
                        told::tell(&report::line(&now));
                    }
                    done = Some(match done {
                        Some((before, _)) => (now.after(&before), looked),
                        None => (now, looked),
                    });
                }
            }
        }
        failed.tell(why);
        let Some(every) = every.filter(|_| !xweave_interrupt::pending()) else { break };
        // Times that have passed meanwhile are not made up for.
        next = (next + every).max(begun.elapsed());
        guests.rest(next.saturating_sub(begun.elapsed()));
        if xweave_interrupt::pending() {
            break;
        }
    }
    let (mut outcome, looked_at) = done.unwrap_or_default();
    outcome.reserve = reserve.map(|reserve| reserve.state());
    let is_told = shown::only(|out| match json {
        true => document::merge::write_outcome(out, &outcome, &looked_at, asked.same_by()),
        false => {
            let view = View::of_stdout(WIDE);
            write!(out, "{}", report::outcome(&outcome, &looked_at, asked.limit, view))
        }
    });
    if within.is_some() {
        drop(within);
        if super::host()?.ksm.is_some_and(|ksm| !ksm.merge_across_nodes) {
            told::tell(report::STAYS_WITHIN);
        }
    }
    match outcome.taken.cut && every.is_none() && xweave_interrupt::pending() {
        true => is_told.map(|_| ExitCode::from(130)),
        false => is_told,
    }
}

/// What keeps it from being done, or from some of the guests: told once for as long as it stays the same.
#[derive(Default)]
struct Failed(Vec<String>);

impl Failed {
    fn tell(&mut self, now: Vec<String>) {
        for message in now.iter().filter(|message| !self.0.contains(message)) {
            told::tell(message);
        }
        self.0 = now;
    }
}

/// Has the reserve follow what is given back now, of all that is merged on this host: whoever writes to that needs it. How it
/// stands then; or why it does not, in words.
fn follow(reserve: Option<&Reserve>) -> Result<Option<reserve::State>, String> {
    let Some(reserve) = reserve else { return Ok(None) };
    let merged = super::host().and_then(|host| super::merged(&host)).map_err(|failure| failure.message())?;
    let given_back = merged.saved.saturating_mul(PAGE);
    let state = reserve.follow(given_back, xweave_interrupt::pending);
    state.map(Some).map_err(|error| error.to_string())
}

/// Does it with what guests have said.
fn once(
    args: &asking::Args,
    told: asking::Told,
    allowed: &Allowed,
    mut pace: Option<&mut Pace>,
    left_out: &mut Vec<String>,
) -> Result<(Outcome, Vec<LookedAt>), Failure> {
    let asking::Told { guests, pids, looked_at, .. } = told;
    let asked = Asked { guests, pids, same_by: args.same_by(), allowed: allowed.clone() };
    without_unfit(
        asked,
        looked_at,
        args.require,
        |asked| Ok(merging::merge(asked, &super::host()?, pace.as_deref_mut(), xweave_interrupt::pending)),
        left_out,
    )
}

/// Merges; where one of the guests cannot be, without that one, which is told.
fn without_unfit(
    mut asked: Asked,
    mut looked_at: Vec<LookedAt>,
    require: bool,
    mut merge: impl FnMut(&Asked) -> Result<Result<Outcome, MergeError>, Failure>,
    left_out: &mut Vec<String>,
) -> Result<(Outcome, Vec<LookedAt>), Failure> {
    loop {
        let error = match merge(&asked)? {
            Ok(outcome) => return Ok((outcome, looked_at)),
            Err(error) => error,
        };
        let of = error.of_guest().and_then(|name| asked.guests.iter().position(|of| of.name == name));
        let goes_on = !require && asked.guests.len() > asking::FEWEST && !xweave_interrupt::pending();
        let Some(of) = of.filter(|_| goes_on) else { return Err(failure(&error)) };
        let guest = asked.guests.remove(of);
        asked.pids.remove(of);
        looked_at.remove(of);
        left_out.push(format!("{error}; {} is left out", guest.name));
    }
}

fn failure(error: &MergeError) -> Failure {
    match error {
        _ if xweave_interrupt::pending() => Failure::Interrupted(error.to_string()),
        MergeError::NotAllowed { .. } => Failure::usage(error),
        _ => Failure::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use xweave_merge::{Host, tree::Guest};

    use super::*;

    struct Came {
        /// What was looked at of those that were merged: the number of the first guest is 1.
        looked_at: Result<Vec<u64>, Failure>,
        /// The guests with which it was tried.
        tried: Vec<Vec<String>>,
        told: Vec<String>,
    }

    /// Merges guests with these processes. One that has none cannot be.
    fn merged(pids: &[Option<u32>], require: bool) -> Came {
        let guest = |nth: usize| Guest { name: format!("vm{}", nth + 1), ..Guest::default() };
        let guests = (0..pids.len()).map(guest).collect();
        let asked = Asked { guests, pids: pids.to_vec(), ..Asked::default() };
        let looked_at = (1..=pids.len() as u64).map(|files| LookedAt { files, ..LookedAt::default() });
        let (mut tried, mut told) = (Vec::new(), Vec::new());
        let came = without_unfit(
            asked,
            looked_at.collect(),
            require,
            |asked| {
                tried.push(asked.guests.iter().map(|guest| guest.name.clone()).collect());
                // That it has none is seen before the kernel is asked for anything.
                match asked.pids.contains(&None) {
                    true => Ok(merging::merge(asked, &Host::default(), None, || false)),
                    false => Ok(Ok(Outcome::default())),
                }
            },
            &mut told,
        );
        let looked_at = came.map(|(_, looked_at)| looked_at.iter().map(|looked| looked.files).collect());
        Came { looked_at, tried, told }
    }

    const UNKNOWN: &str = "is not known: xweave merge doctor lists those that KVM shows";

    #[test]
    fn the_others_are_merged_without_a_guest_that_cannot_be() {
        let Came { looked_at, tried, told } = merged(&[Some(1), None, Some(3)], false);
        assert_eq!(looked_at.unwrap(), [1, 3]);
        assert_eq!(tried, [vec!["vm1", "vm2", "vm3"], vec!["vm1", "vm3"]]);
        assert_eq!(told, [format!("which process of this host runs vm2 {UNKNOWN}; vm2 is left out")]);
    }

    #[test]
    fn a_required_guest_or_one_left_alone_merges_nothing() {
        let three = merged(&[Some(1), None, Some(3)], true);
        let message = three.looked_at.unwrap_err().message();
        assert_eq!(message, format!("which process of this host runs vm2 {UNKNOWN}"));
        assert_eq!((three.tried.len(), three.told.len()), (1, 0));

        let one = merged(&[None, None, Some(3)], false);
        let message = one.looked_at.unwrap_err().message();
        assert_eq!(message, format!("which process of this host runs vm2 {UNKNOWN}"));
        assert_eq!((one.tried.len(), one.told.len()), (2, 1));
    }
}
