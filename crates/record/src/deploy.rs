//! From what domains say their kernels are, to what each is to weave.
//!
//! What a domain sends (type information, machine code) is neither parsed nor unpacked in this process, which may do
//! anything: it is passed on to a confined one ([`xweave_guard::confine`]), one for each domain, which gives a draft
//! of the plan. The C in the draft is compiled by another, which may start clang and has nothing but that C. What
//! comes back is bounded and checked, and goes to the domain that it is about.
//!
//! ```text
//! agent ─bytes─► input ─► [read: types, index, join points, C] ─► draft ─► checked ─┐ judged together, numbered ─► plan
//!                                    which programs of the library fit: their objects ┤
//!                               or, where none fit, C ─► [compile: clang] ─► object ┘
//! ```
//!
//! A domain can spoil its own plan, which it could anyway, and no other's. What is kept for the next time follows that:
//!
//! - type information is kept by the hash of the bytes that were received, so that it is what was asked for, whoever
//!   sent it before;
//! - an index of instructions is kept by build ID where it was made of a file of this machine, and else under a name
//!   that only this domain in this boot asks for: a guest may call its kernel by any build ID;
//! - an object is kept by the hash of all that the compiler saw, taken here. A domain may have had it compiled to do
//!   harm, by C that is made for that: then only who has the very same C gets it, and that is who has the very same
//!   types, functions and aspects.
//!
//! Modules: `input` is what a domain sent, `types` and `indices` are what is kept of it, `parcel` is how it is passed on,
//! [`work`] is what the confined processes do, `meter` how far they are, `plan` has them do it and puts the answers together.

mod analysis;
mod indices;
mod input;
mod meter;
mod parcel;
mod plan;
mod types;
pub mod work;

use std::{collections::VecDeque, time::Duration};

use xweave_aspect::{Aspects, Diagnostic};
use xweave_weave::{Library, Woven};

use crate::{Error, Options, Phase, capture::Capture};
use indices::Indices;
use input::Input;
use types::Types;

/// What is to be woven, and what people should know of it.
#[derive(Default)]
pub(crate) struct Deployment {
    /// By domain, in their order.
    pub(crate) woven: Vec<Woven>,
    /// What of the aspects and of the probes of events kernels have no place for: what the recording does not see.
    pub(crate) left_out: Vec<String>,
    /// What makes no difference to the recording.
    pub(crate) notes: Vec<String>,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Asks the domains what their kernels are, and makes the plans.
pub(crate) fn deploy(
    capture: &mut Capture<'_>,
    aspects: &Aspects,
    library: &Library<'_>,
    options: &Options,
) -> Result<Deployment, Error> {
    let types = Types::new(&options.cache);
    let indices = Indices::new(&options.cache);
    let mut inputs = Vec::new();
    for session in &capture.sessions {
        inputs.push(Input::new(&session.spec, session.number, &session.facts, &types));
    }
    let peers: Vec<_> = inputs.iter().map(|input| input.peer.clone()).collect();
    let weaves = !aspects.xflows.is_empty() || !aspects.advice.is_empty();
    for input in &mut inputs {
        let named = options.symbols.iter().find(|(domain, _)| *domain == input.peer.name);
        let file = named.map(|(_, file)| file.as_path());
        let of_code = xweave_weave::needs_code(aspects, &peers, &input.peer);
        // Debug information that the user named has the source lines of function hooks, too: no module's code need be
        // sent and analysed for them.
        if of_code || weaves && file.is_some() {
            input.find_indices(file, of_code, &indices, &mut |phase| goes_on(capture, phase))?;
        } else if weaves {
            input.find_debug_indices(&indices);
        }
    }
    ask(capture, &mut inputs)?;
    plan::plans((aspects, library), inputs, options, &types, &indices, &mut |phase| goes_on(capture, phase))
}

/// While others work: people are told how far that is, agents that we are there, and Ctrl-C is looked at.
fn goes_on(capture: &mut Capture<'_>, phase: Phase<'_>) -> bool {
    capture.tell(phase);
    // A trace that cannot be written is seen again when it is written to.
    !xweave_interrupt::pending() && capture.wait(Duration::ZERO).is_ok()
}

/// Asks all domains, side by side, for what is not known of them.
fn ask(capture: &mut Capture<'_>, inputs: &mut [Input]) -> Result<(), Error> {
    let mut questions: Vec<VecDeque<_>> = inputs.iter().map(Input::questions).collect();
    for input in inputs.iter() {
        capture.tell(Phase::Reading { domain: &input.peer.name, kernel: &input.release });
    }
    loop {
        let mut asked = Vec::new();
        for (index, questions) in questions.iter_mut().enumerate() {
            if let Some(request) = questions.pop_front() {
                capture.sessions[index].ask(request.clone());
                asked.push((index, request));
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        capture.until(|session| !session.owes())?;
        for (index, request) in asked {
            let reply = capture.answer(index)?;
            inputs[index].take(&request, reply)?;
        }
    }
}
