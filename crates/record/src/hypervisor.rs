//! What Xen itself records meanwhile. dom0 sends it as a file of xentrace, which is kept beside the trace: its records have
//! times of the TSC, and get their places when it is known what that was, at the end.

use std::{path::Path, time::Duration};

use serde::{Deserialize, Serialize};
use xweave_guard::confine::{Job, Limits, job::Failed, run_all};
use xweave_trace::{Manifest, Trace};
use xweave_wire::message::{Reply, Request, XenDomain};

use crate::{Error, Options, Phase, capture::Capture, pace::SOON};

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
    while capture.sessions[0].owes() && !xweave_interrupt::pending() {
        capture.wait(SOON)?;
    }
    if xweave_interrupt::pending() {
        return Err(Error::Interrupted { woven: true });
    }
    if let Some(reason) = capture.sessions[0].lost() {
        let domain = capture.sessions[0].name().to_owned();
        return Err(Error::Lost { domain, reason: reason.to_owned() });
    }
    match capture.sessions[0].answers.pop_front() {
        Some(Reply::Failed(failure)) => {
            let domain = capture.sessions[0].name().to_owned();
            Err(Error::Agent { domain, message: failure.message })
        }
        _ => Ok(()),
    }
}

/// Makes a file of xentrace part of a trace: of the file, the trace's folder, and the name of dom0 there. Asks again and
/// again whether to go on.
pub(crate) type Import = dyn Fn(&Path, &Path, &str, &mut dyn FnMut() -> bool) -> Result<Imported, String>;

/// What came of a file of xentrace.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Imported {
    /// What could not be read.
    pub(crate) damage: Vec<String>,
    /// Records that are of no time of the trace.
    pub(crate) outside: u64,
}

/// How long the process that reads a file of xentrace may take: one of GBs takes minutes.
const READ_WITHIN: Duration = Duration::from_secs(6 * 3600);

/// Has it done by a process that has nothing but the file and the trace (`xweave confined place`): what Xen records, guests
/// decide.
pub(crate) fn import(
    file: &Path,
    dir: &Path,
    dom0: &str,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Imported, String> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| error.to_string());
    let what = "reading what Xen recorded";
    let mut job = Job::new(what, &["confined", "place"], Limits::of_command(), READ_WITHIN);
    job.arguments.extend([absolute(file)?.into(), absolute(dir)?.into(), dom0.into()]);
    let answer = run_all(vec![job], goes_on).pop().unwrap_or(Err(Failed::Interrupted));
    postcard::from_bytes(&answer.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

/// Adds a file of xentrace to a trace, in a process that has given up what it does not need for that. Returns the answer for the
/// process that records, in bytes.
///
/// # Errors
/// Why it is not part of it: the trace is as it was.
pub fn place_file(file: &Path, dir: &Path, dom0: &str) -> Result<Vec<u8>, String> {
    let options = xweave_import::Options { domids: vec![(dom0.into(), 0)], ..Default::default() };
    let added = xweave_import::add(file, dir, &options, &|| !xweave_interrupt::pending());
    let outcome = added.map_err(|error| error.to_string())?.outcome;
    postcard::to_stdvec(&Imported { damage: outcome.damage, outside: outcome.outside })
        .map_err(|error| error.to_string())
}

/// Makes what Xen recorded part of the trace, which is finished. Gives what the trace says then; if it could not be done,
/// the file stays beside it, and why is told.
pub(crate) fn place(
    capture: &mut Capture<'_>,
    dir: &Path,
    mut manifest: Manifest,
    import: &Import,
) -> Manifest {
    let file = dir.join(xweave_trace::XENTRACE);
    if !file.exists() {
        return manifest;
    }
    capture.tell(Phase::Placing);
    // Nobody else can have Xen record.
    let imported = import(&file, dir, &manifest.reference, &mut || !xweave_interrupt::at_once());
    if let Ok(trace) = Trace::open(dir) {
        trace.manifest().clone_into(&mut manifest);
    }
    match imported {
        // What is in it is in the trace, if it can be read and was of that time.
        Ok(imported) if imported.damage.is_empty() && imported.outside == 0 => {
            let _ = std::fs::remove_file(&file);
        }
        Ok(_) => {}
        Err(error) => {
            let (file, dir) = (file.display(), dir.display());
            manifest.warnings.push(format!(
                "what Xen recorded is not in the trace, or not all of it: {error}; it is kept: xweave import {file} --into \
                 {dir} --force"
            ));
        }
    }
    manifest
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
        let until = Until::Elapsed(Duration::ZERO);
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
        assert!(Trace::open(&outcome.trace).unwrap().manifest().complete);
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
