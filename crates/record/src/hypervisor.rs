//! What Xen itself records meanwhile. dom0 sends it as a file of xentrace, which is kept beside the trace: its records have
//! times of the TSC, and get their places when it is known what that was, at the end.

use std::path::Path;

use xweave_trace::Manifest;
use xweave_wire::message::{Reply, Request, XenDomain};

use crate::{Error, Options, Phase, capture::Capture};

/// Whether Xen can be had to record, where that is wanted.
pub(crate) fn check(capture: &Capture<'_>, options: &Options) -> Result<(), Error> {
    match capture.sessions.first() {
        // Another one has a TSC of its own.
        Some(first) if options.xen && first.facts.xen != Some(XenDomain::Pv) => {
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
    // Nobody else can have Xen record.
    let domids = vec![(manifest.reference.clone().into(), 0)];
    let options = xweave_import::Options { domids, ..xweave_import::Options::default() };
    match xweave_import::add(&file, dir, &options, &goes_on) {
        Ok(added) => {
            // What is in it is in the trace, if it can be read and was of that time.
            if added.outcome.damage.is_empty() && added.outcome.outside == 0 {
                let _ = std::fs::remove_file(&file);
            }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use xweave_synthetic::agent::{Done, Moment, by};
    use xweave_trace::XENTRACE;
    use xweave_wire::message::{Event, Failure, FailureKind};

    use super::*;
    use crate::{
        Budget, Outcome, Until,
        pace::Pace,
        scripted::{self, Agent},
    };

    /// What a dom0 does that is asked to have Xen record.
    #[derive(Clone, Copy)]
    enum Answer {
        Sends,
        Refuses,
        SendsUnasked,
    }

    fn dom0(xen: Option<XenDomain>, answer: Answer) -> Agent {
        let script = by(move |moment, voice| match (moment, answer) {
            (Moment::Hello, _) => {
                voice.facts.xen = xen;
                Ok(Done::Nothing)
            }
            (Moment::Asked(Request::Xentrace), Answer::Refuses) => {
                let (kind, message) = (FailureKind::Unsupported, "there is no program xentrace".to_owned());
                voice.reply(Reply::Failed(Failure { kind, message })).map(|()| Done::All)
            }
            (Moment::Asked(Request::Xentrace), Answer::Sends) => {
                voice.event(Event::Xentrace(b"what came ".to_vec())).map(|()| Done::Nothing)
            }
            (Moment::Asked(Request::Stop), Answer::Sends) => {
                voice.event(Event::Xentrace(b"of Xen".to_vec())).map(|()| Done::Nothing)
            }
            (Moment::Asked(Request::Start { .. }), Answer::SendsUnasked) => {
                voice.event(Event::Xentrace(b"of Xen".to_vec())).map(|()| Done::Nothing)
            }
            _ => Ok(Done::Nothing),
        });
        Agent::new("dom0", 0, script)
    }

    fn recorded(dir: &Path, agent: Agent, xen: bool) -> Result<Outcome, Error> {
        let until = Until::Elapsed(std::time::Duration::ZERO);
        let options = Options { xen, ..scripted::options(dir, &["dom0"], until, Budget::default()) };
        scripted::record(&options, Pace::default(), vec![agent], &mut |_| {})
    }

    #[test]
    fn what_has_no_place_in_the_trace_is_kept_and_how_it_gets_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let outcome = recorded(folder.path(), dom0(Some(XenDomain::Pv), Answer::Sends), true).unwrap();
        let kept = fs::read(outcome.trace.join(XENTRACE)).unwrap();
        assert_eq!(kept, b"what came of Xen");
        // Scripted agents have no TSC.
        let told = outcome.manifest.warnings.last().unwrap();
        assert!(told.contains("does not tell what the TSC was") && told.contains("xweave import"), "{told}");
        assert!(xweave_trace::Trace::open(&outcome.trace).unwrap().manifest().complete);
    }

    #[test]
    fn where_xen_does_not_record_there_is_no_recording() {
        for (xen, answer, said) in [
            (Some(XenDomain::Pv), Answer::Refuses, "there is no program xentrace"),
            (None, Answer::Sends, "domain dom0 is no paravirtual one of Xen"),
            (Some(XenDomain::Pvh), Answer::Sends, "domain dom0 is no paravirtual one of Xen"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let error = recorded(folder.path(), dom0(xen, answer), true).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn who_sends_what_he_was_not_asked_for_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let agent = dom0(Some(XenDomain::Pv), Answer::SendsUnasked);
        let outcome = recorded(folder.path(), agent, false).unwrap();
        let missing = outcome.missing().join("; ");
        assert!(missing.contains("dom0 was lost"), "{missing}");
        assert!(!outcome.trace.join(XENTRACE).exists());
    }
}
