//! How the settings of domains stand that an experiment may change.

use xweave_wire::{
    knob::State,
    message::{Reply, Request, Vm},
};

use crate::{
    Budget, DomainSpec, Error, Phase, domain, identity,
    recording::{Means, answered, connect, read_facts},
    remaining::{Remaining, Required},
};

/// A domain, and its knobs.
#[derive(Clone, Debug, Default)]
pub struct DomainKnobs {
    /// Its name.
    pub domain: String,
    /// Whether it is the machine that runs the others.
    pub is_host: bool,
    /// Virtual machines that it runs.
    pub vms: Vec<Vm>,
    /// Its knobs.
    pub knobs: Vec<State>,
}

/// Asks these domains, and this machine, unless a host is among them. A guest that does not answer is left out, as of a
/// recording, and that is told.
///
/// # Errors
/// The host, or none of the guests, can be reached and answers; one that is required does not; it is interrupted.
pub fn knobs(
    domains: &[DomainSpec],
    required: Required,
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<Vec<DomainKnobs>, Error> {
    knobs_by(domains, required, &Means::usual(), progress)
}

/// The same over any streams.
fn knobs_by(
    domains: &[DomainSpec],
    required: Required,
    means: &Means<'_>,
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<Vec<DomainKnobs>, Error> {
    let specs = domain::complete(domains)?;
    xweave_interrupt::install(xweave_interrupt::Again::Waits, xweave_interrupt::Blocked::GoesOn);
    let mut remaining = Remaining::of(specs, required, 1);
    loop {
        let error = match ask(remaining.domains(), means, &mut *progress) {
            Ok(knobs) => return Ok(knobs),
            Err(error) => error,
        };
        remaining.leave_out(error)?.iter().for_each(|line| progress(Phase::Note { line }));
    }
}

fn ask(
    specs: &[DomainSpec],
    means: &Means<'_>,
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<Vec<DomainKnobs>, Error> {
    let mut capture = connect(specs.to_vec(), &Budget::default(), means, Box::new(progress))?;
    read_facts(&mut capture)?;
    identity::check(&answered(&capture).collect::<Vec<_>>())?;
    capture.sessions.iter_mut().for_each(|session| session.ask(Request::Knobs));
    capture.until(|session| !session.owes())?;
    let mut all = Vec::new();
    for index in 0..capture.sessions.len() {
        let Reply::Knobs(knobs) = capture.answer(index)? else { return Err(capture.unexpected(index)) };
        let session = &capture.sessions[index];
        all.push(DomainKnobs {
            domain: session.name().to_owned(),
            is_host: session.role() == xweave_weave::Role::Host,
            vms: session.facts.vms.clone(),
            knobs,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::{os::fd::OwnedFd, time::Duration};

    use xweave_synthetic::agent::{Done, Honest, Moment, answering, by};
    use xweave_wire::message::{Failure, FailureKind};

    use super::*;
    use crate::{
        Transport,
        pace::Pace,
        scripted::{Agent, Agents},
        transport::Stream,
    };

    /// What vm2 does to the others, and what is said of it.
    fn unfit() -> Vec<(Agent, &'static str)> {
        let answers = |reply: fn() -> Reply| {
            let script = answering(move |request, _| matches!(request, Request::Knobs).then(reply));
            Agent::new("vm2", 0, script)
        };
        let silent = by(|moment, _| match moment {
            Moment::Hello => Ok(Done::All),
            _ => Ok(Done::Nothing),
        });
        let old = by(|moment, voice| {
            if matches!(moment, Moment::Hello) {
                voice.facts.kernel = "5.10.0".to_owned();
            }
            Ok(Done::Nothing)
        });
        let leaves = by(|moment, _| {
            let leaves = matches!(moment, Moment::Asked(Request::Knobs));
            Ok(if leaves { Done::Leave } else { Done::Nothing })
        });
        let refusal = || Reply::Failed(Failure { kind: FailureKind::Misuse, message: "no".to_owned() });
        let wrong = "the agent went away: cut off: its answer does not fit the question (Knobs)";
        vec![
            (Agent::new("vm2", 0, silent), "no agent answers: no answer within 0.3 seconds"),
            (Agent::new("vm2", 0, old), "kernel 5.10.0 is older than 6.1"),
            (Agent::new("vm2", 0, leaves), "the agent went away: "),
            (answers(|| Reply::Done), wrong),
            (answers(refusal), "no"),
        ]
    }

    /// What comes of asking it and two honest domains, and what is told meanwhile.
    fn asked(unfit: Agent, required: Required) -> (Result<Vec<DomainKnobs>, Error>, Vec<String>) {
        let honest = |name| Agent::new(name, 0, Honest);
        // The others are reached anew where it is left out.
        let mut agents: Vec<Agent> = (0..2).flat_map(|_| ["host", "vm1"].map(honest)).collect();
        agents.push(unfit);
        let agents = Agents::new(agents);
        let open = |spec: &DomainSpec| Stream::of_socket(OwnedFd::from(agents.reach(spec)?));
        let pace = Pace { hello: Duration::from_millis(300), ..Pace::default() };
        let means = Means { open: &open, pace, ..Means::usual() };
        let specs = ["host", "vm1", "vm2"]
            .map(|name| DomainSpec { name: name.to_owned(), transport: Transport::Command(name.to_owned()) });
        let mut notes = Vec::new();
        let mut look = |phase: Phase<'_>| {
            if let Phase::Note { line } = phase {
                notes.push(line.to_owned());
            }
        };
        let knobs = knobs_by(&specs, required, &means, &mut look);
        agents.join();
        (knobs, notes)
    }

    #[test]
    fn the_others_have_knobs_where_a_guest_is_unfit() {
        for (unfit, why) in unfit() {
            let (knobs, notes) = asked(unfit, Required::all_if(false));
            let knobs = knobs.unwrap_or_else(|error| panic!("{why}: {error}"));
            let domains: Vec<_> = knobs.iter().map(|of| (&*of.domain, of.is_host)).collect();
            assert_eq!(domains, [("host", true), ("vm1", false)], "{why}");
            let [told] = &notes[..] else { panic!("{why}: {notes:?}") };
            let is_told = told.starts_with(&format!("domain vm2: {why}"));
            assert!(is_told && told.ends_with("; vm2 is left out"), "{told}");
        }
    }

    #[test]
    fn a_guest_that_is_unfit_and_required_is_an_error() {
        for (unfit, why) in unfit() {
            let (knobs, notes) = asked(unfit, Required::all_if(true));
            let error = knobs.expect_err(why).to_string();
            assert!(error.starts_with("domain vm2: ") && notes.is_empty(), "{error}");
        }
    }
}
