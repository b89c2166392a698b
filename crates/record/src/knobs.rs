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
#[derive(Clone, Debug)]
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
    let specs = domain::complete(domains)?;
    xweave_interrupt::install(xweave_interrupt::Again::Waits, xweave_interrupt::Blocked::GoesOn);
    let mut remaining = Remaining::of(specs, required, 1);
    loop {
        let error = match ask(remaining.domains(), &mut *progress) {
            Ok(knobs) => return Ok(knobs),
            Err(error) => error,
        };
        remaining.leave_out(error)?.iter().for_each(|line| progress(Phase::Note { line }));
    }
}

fn ask(specs: &[DomainSpec], progress: &mut dyn FnMut(Phase<'_>)) -> Result<Vec<DomainKnobs>, Error> {
    let (budget, means) = (Budget::default(), Means::usual());
    let mut capture = connect(specs.to_vec(), &budget, &means, Box::new(progress))?;
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
