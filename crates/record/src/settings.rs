//! Settings that the domains have while a recording goes on. Agents put them back when it is over, or their connection is.

use std::time::{Duration, Instant};

use xweave_wire::{
    knob::{Knob, Setting, State},
    message::{Reply, Request},
};

use crate::{Error, capture::Capture, question::Question};

/// What domains are set to while they are recorded.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The domains' names, and what is set there.
    pub of: Vec<(String, Vec<Setting>)>,
    /// How long is waited then, before anything is recorded.
    pub settle: Duration,
}

/// A setting as its domain has read it after it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The domain.
    pub domain: String,
    /// The setting.
    pub state: State,
}

/// Has the domains make their settings, and waits until that has settled.
///
/// # Errors
/// A domain cannot; it is interrupted. What was changed is put back when the agents are let go.
pub(crate) fn make(capture: &mut Capture<'_>, settings: &Settings) -> Result<Vec<Made>, Error> {
    let mut asked = Vec::new();
    for (domain, of_domain) in &settings.of {
        let index = capture.sessions.iter().position(|session| session.name() == domain);
        let index = index.ok_or_else(|| Error::NoDomain(domain.clone()))?;
        capture.sessions[index].ask(Request::Set(of_domain.clone()));
        asked.push(index);
    }
    capture.until(|session| !session.owes())?;
    let mut made = Vec::new();
    for index in asked {
        let Reply::Knobs(states) = capture.answer(index)? else { return Err(capture.unexpected(index)) };
        let session = &mut capture.sessions[index];
        // The trace tells how it is while it is recorded, and not how it stood when the agent came.
        if let Some(state) = states.iter().find(|state| state.knob == Knob::HaltPollNs) {
            session.facts.settings.halt_poll_ns = state.value.parse().ok();
        }
        let domain = session.name().to_owned();
        made.extend(states.into_iter().map(|state| Made { domain: domain.clone(), state }));
    }
    if !made.is_empty() {
        let settled = Instant::now() + settings.settle;
        capture.until(|_| Instant::now() >= settled)?;
    }
    Ok(made)
}

/// Has the domains put them back, and does not wait for it: also those of which nothing is recorded.
pub(crate) fn put_back(capture: &mut Capture<'_>, settings: &Settings) {
    let is_set = |name: &str| settings.of.iter().any(|(domain, _)| domain == name);
    let there = capture.sessions.iter_mut().filter(|session| session.is_there());
    there.filter(|session| is_set(session.name())).for_each(|session| session.ask(Request::Unset));
}

/// Whether a domain has not put them back yet.
pub(crate) fn are_made(capture: &Capture<'_>) -> bool {
    capture.sessions.iter().any(|session| session.is_there() && session.owes_answer_to(Question::Unset))
}
