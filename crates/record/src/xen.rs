//! Which of Xen's domains a guest is.
//!
//! A guest is given a mark that it alone knows, and writes it into its own part of XenStore, where Xen lets nobody write
//! but that domain and dom0; dom0 is asked in whose part which mark is. So a guest cannot pass for another, whatever its
//! agent says: two that work together may exchange their marks, and then have exchanged their own flows.

use std::time::Instant;

use xweave_weave::Role;
use xweave_wire::message::{Reply, Request};

use crate::{Error, capture::Capture, question::Question, secret::secret, session::Session};

/// Finds out which domains the guests of dom0 are. Gives what should be known of those of which that is not told.
pub(crate) fn identify(capture: &mut Capture<'_>) -> Result<Vec<String>, Error> {
    let is_dom0 =
        capture.sessions.first().is_some_and(|host| host.role() == Role::Host && host.facts.xen.is_some());
    let guests: Vec<usize> =
        (1..capture.sessions.len()).filter(|&at| capture.sessions[at].role() == Role::Guest).collect();
    if !is_dom0 || guests.is_empty() {
        return Ok(Vec::new());
    }
    let mut marked = Vec::new();
    for &index in &guests {
        let mark = secret().map_err(Error::Random)?;
        capture.sessions[index].ask(Request::XenMark(Some(mark)));
        marked.push((index, mark));
    }
    capture.until(|session| !session.owes())?;
    let mut reasons = Vec::new();
    for &(index, _) in &marked {
        let Reply::XenMarked { reason } = capture.answer(index)? else {
            return Err(capture.unexpected(index));
        };
        reasons.push(reason);
    }

    let marks: Vec<_> = marked.iter().map(|(_, mark)| *mark).collect();
    let asked = marks.len();
    capture.sessions[0].ask(Request::XenGuests(marks));
    capture.until(|session| !session.owes())?;
    let domids = match capture.answer(0)? {
        Reply::XenGuests { domids, reason } if domids.len() == asked => {
            reasons.iter_mut().for_each(|of| *of = of.take().or_else(|| reason.clone()));
            domids
        }
        _ => return Err(capture.unexpected(0)),
    };
    for &index in &guests {
        capture.sessions[index].ask(Request::XenMark(None));
    }
    capture.until(|session| !session.owes())?;
    for &index in &guests {
        capture.answer(index)?;
    }

    let mut warnings = Vec::new();
    for ((&index, domid), reason) in guests.iter().zip(domids).zip(reasons) {
        let session = &mut capture.sessions[index];
        session.domid = domid;
        if domid.is_none() {
            let why = reason.unwrap_or_else(|| "none has its mark in XenStore".to_owned());
            warnings.push(format!(
                "{}: which of Xen's domains it is, is not known, and concluded from what it exchanges with dom0: {why}",
                session.name()
            ));
        }
    }
    Ok(warnings)
}

/// Finds out, while something is recorded, which domains the guests are now: one that is restored from a file gets another
/// number. Gives what should be known of that. Who does not answer in time stays what it was.
pub(crate) fn identify_again(capture: &mut Capture<'_>) -> Result<Vec<String>, Error> {
    let there = |session: &Session| session.is_recorded() && session.domid.is_some();
    let guests = (1..capture.sessions.len()).filter(|&at| there(&capture.sessions[at]));
    let mut marked =
        guests.map(|at| Ok((at, secret().map_err(Error::Random)?))).collect::<Result<Vec<_>, Error>>()?;
    for &(index, mark) in &marked {
        capture.sessions[index].ask(Request::XenMark(Some(mark)));
    }
    let late = Instant::now() + capture.pace.identity;
    capture.answered_by(Question::XenMark, late)?;
    let is_done = |reply: Reply| matches!(reply, Reply::XenMarked { reason: None });
    marked.retain(|&(index, _)| capture.sessions[index].answers.drain(..).any(is_done));
    if marked.is_empty() {
        return Ok(Vec::new());
    }

    capture.sessions[0].ask(Request::XenGuests(marked.iter().map(|(_, mark)| *mark).collect()));
    capture.answered_by(Question::XenGuests, late)?;
    let told = capture.sessions[0].answers.drain(..).next_back();
    let mut changed = Vec::new();
    for (nth, &(index, _)) in marked.iter().enumerate() {
        let session = &mut capture.sessions[index];
        session.ask(Request::XenMark(None));
        let Some(Reply::XenGuests { domids, .. }) = &told else { continue };
        let now = domids.get(nth).copied().flatten().filter(|now| Some(*now) != session.domid);
        session.domid_since = now;
        changed.extend(
            now.map(|now| format!("{}: it was restored, and is domain {now} of Xen since", session.name())),
        );
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashMap,
        sync::{Arc, Mutex},
    };

    use xweave_synthetic::agent::{Done, Moment, answering, by};
    use xweave_wire::message::XenDomain;

    use super::*;
    use crate::{
        Budget, Outcome, Until,
        pace::Pace,
        scripted::{self, Agent},
    };

    /// What guests have written into their parts, by their domains' numbers.
    type Store = Arc<Mutex<HashMap<u16, [u64; 2]>>>;

    fn guest(name: &'static str, store: &Store, domid: Option<u16>) -> Agent {
        restored(name, store, domid, domid)
    }

    /// One that is another domain once it has been asked for the first time.
    fn restored(name: &'static str, store: &Store, domid: Option<u16>, since: Option<u16>) -> Agent {
        let store = Arc::clone(store);
        let asked = std::cell::Cell::new(0);
        let script = answering(move |request, _| {
            let Request::XenMark(mark) = request else { return None };
            // A mark is written, and taken away.
            asked.set(asked.get() + 1);
            let Some(domid) = (if asked.get() > 2 { since } else { domid }) else {
                return Some(Reply::XenMarked { reason: Some("/dev/xen/xenbus: not there".to_owned()) });
            };
            let mut store = store.lock().unwrap();
            match mark {
                Some(mark) => drop(store.insert(domid, *mark)),
                None => drop(store.remove(&domid)),
            }
            Some(Reply::XenMarked { reason: None })
        });
        Agent::new(name, 0, script)
    }

    fn dom0(store: &Store, answers: impl Fn(Vec<Option<u16>>) -> Vec<Option<u16>> + Send + 'static) -> Agent {
        let store = Arc::clone(store);
        let script = by(move |moment, voice| match moment {
            Moment::Hello => {
                voice.facts.xen = Some(XenDomain::Pv);
                Ok(Done::Nothing)
            }
            Moment::Asked(Request::XenGuests(marks)) => {
                let store = store.lock().unwrap();
                let of = |mark| store.iter().find(|(_, of)| *of == mark).map(|(domid, _)| *domid);
                let domids = answers(marks.iter().map(of).collect());
                voice.reply(Reply::XenGuests { domids, reason: None }).map(|()| Done::All)
            }
            Moment::Asked(_) | Moment::Tick => Ok(Done::Nothing),
        });
        Agent::new("dom0", 0, script)
    }

    fn recorded(agents: Vec<Agent>) -> (Result<Outcome, Error>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let until = Until::Elapsed(std::time::Duration::ZERO);
        let options = scripted::options(folder.path(), &["dom0", "vm1", "vm2"], until, Budget::default());
        let mut told = Vec::new();
        let outcome = scripted::record(&options, Pace::default(), agents, &mut |phase| match phase {
            crate::Phase::Found { line } | crate::Phase::Note { line } => told.push(line.to_owned()),
            _ => {}
        });
        (outcome, told)
    }

    #[test]
    fn guests_are_the_domains_in_whose_parts_their_marks_are() {
        let store = Store::default();
        let agents =
            vec![dom0(&store, |domids| domids), guest("vm1", &store, Some(7)), guest("vm2", &store, Some(3))];
        let (outcome, told) = recorded(agents);
        let domains = outcome.unwrap().manifest.domains;
        let domids: Vec<_> =
            domains.iter().map(|of| of.xen.as_ref().map(|xen| (&*xen.host, xen.domid))).collect();
        assert_eq!(domids, [None, Some(("dom0", 7)), Some(("dom0", 3))]);
        assert!(
            told.iter().any(|line| line.starts_with("vm1: ") && line.contains("domain 7 of Xen")),
            "{told:?}"
        );
        assert!(store.lock().unwrap().is_empty(), "marks are taken away again");
    }

    #[test]
    fn a_guest_that_is_restored_has_two_numbers() {
        let store = Store::default();
        let agents = vec![
            dom0(&store, |domids| domids),
            restored("vm1", &store, Some(7), Some(9)),
            restored("vm2", &store, Some(3), None),
        ];
        let (outcome, told) = recorded(agents);
        let domains = outcome.unwrap().manifest.domains;
        let domids: Vec<_> =
            domains.iter().flat_map(|of| &of.xen).map(|xen| (xen.domid, xen.since)).collect();
        assert_eq!(domids, [(7, Some(9)), (3, None)]);
        assert!(told.contains(&"vm1: it was restored, and is domain 9 of Xen since".to_owned()), "{told:?}");
        assert!(store.lock().unwrap().is_empty(), "marks are taken away again");
    }

    #[test]
    fn what_dom0_does_not_find_is_not_known() {
        let store = Store::default();
        let agents =
            vec![dom0(&store, |domids| domids), guest("vm1", &store, None), guest("vm2", &store, Some(3))];
        let (outcome, told) = recorded(agents);
        let domains = outcome.unwrap().manifest.domains;
        assert!(domains[1].xen.is_none() && domains[2].xen.is_some());
        let said = "vm1: which of Xen's domains it is, is not known, and concluded from what it exchanges with dom0: \
                    /dev/xen/xenbus: not there";
        assert!(told.iter().any(|line| line == said), "{told:?}");
    }

    #[test]
    fn an_answer_about_fewer_than_were_asked_for_is_none() {
        let store = Store::default();
        let agents = vec![
            dom0(&store, |domids| domids[1..].to_vec()),
            guest("vm1", &store, Some(7)),
            guest("vm2", &store, Some(3)),
        ];
        let error = recorded(agents).0.unwrap_err().to_string();
        assert!(error.contains("dom0") && error.contains("does not fit the question"), "{error}");
    }
}
