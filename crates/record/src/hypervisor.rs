//! What Xen itself records meanwhile. dom0 sends it as a file of xentrace, which is kept beside the trace: its records have
//! times of the TSC, and get their places when it is known what that was, at the end.

use std::path::Path;

use xweave_trace::Manifest;
use xweave_wire::message::{Reply, Request};

use crate::{Error, Options, Phase, capture::Capture};

/// Whether Xen can be had to record, where that is wanted.
pub(crate) fn check(capture: &Capture<'_>, options: &Options) -> Result<(), Error> {
    match capture.sessions.first() {
        Some(first) if options.xen && first.facts.xen.is_none() => {
            Err(Error::NotXen { domain: first.name().to_owned() })
        }
        _ => Ok(()),
    }
}

/// Has Xen record from now on.
pub(crate) fn begin(capture: &mut Capture<'_>) -> Result<(), Error> {
    capture.sessions[0].ask(Request::Xentrace);
    capture.until(|session| !session.owes())?;
    match capture.sessions[0].answers.pop_front() {
        Some(Reply::Failed(failure)) => {
            let domain = capture.sessions[0].name().to_owned();
            Err(Error::Agent { domain, message: failure.message })
        }
        _ => Ok(()),
    }
}

/// Makes what Xen recorded part of the trace, which is finished. Gives what the trace says then; if it could not be done,
/// the file stays beside it, and why is told.
pub(crate) fn place(capture: &mut Capture<'_>, dir: &Path, mut manifest: Manifest) -> Manifest {
    let file = dir.join(xweave_trace::XENTRACE);
    if !file.exists() {
        return manifest;
    }
    capture.tell(Phase::Placing);
    let goes_on = || !xweave_interrupt::at_once();
    match xweave_import::add(&file, dir, &xweave_import::Options::default(), &goes_on) {
        Ok(added) => {
            // What is in it is in the trace.
            let _ = std::fs::remove_file(&file);
            added.manifest
        }
        Err(error) => {
            let (file, dir) = (file.display(), dir.display());
            manifest.warnings.push(format!(
                "what Xen recorded is not in the trace: {error}; it is kept: xweave import {file} --into {dir}"
            ));
            manifest
        }
    }
}
