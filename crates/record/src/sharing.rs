//! Which guests tell their hosts, in memory that both can read, what their buffers carry: `bpf/carriers/shared.h`.
//!
//! Each guest's table begins with a secret that it alone was given, by which a host finds out whose a ring is. What a
//! guest says there is believed of its own buffers alone, and only flows that it may make.

use xweave_weave::{Action, Role, Woven};
use xweave_wire::message::{BackEnd, Reply, Request, SHARING_GUESTS, SharingGuest};

use crate::{Error, capture::Capture, secret::secret};

/// Asks the guests where they tell it, and has the hosts listen. Gives what should be known of those that do not.
///
/// A guest whose network devices a process of the host emulates has no ring there: what goes through them is known by
/// what it is, on both sides.
pub(crate) fn share(capture: &mut Capture<'_>, woven: &[Woven]) -> Result<Vec<String>, Error> {
    let does = |at: usize, action: Action| {
        woven.get(at).is_some_and(|woven| woven.sites.iter().any(|site| site.action == action))
    };
    let crosses = |at: &usize| does(*at, Action::Xin) || does(*at, Action::Xout);
    let crossing = (0..capture.sessions.len()).filter(crosses);
    let (guests, hosts): (Vec<usize>, Vec<usize>) =
        crossing.partition(|&at| capture.sessions[at].role() == Role::Guest);
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    let recorded = guests.iter().filter(|&&at| does(at, Action::Xin)).count();
    let domids: Option<Vec<u16>> = guests.iter().map(|&at| capture.sessions[at].domid).collect();
    let domids = domids.filter(|all| all.len() <= SHARING_GUESTS).unwrap_or_default();
    let mut asked = Vec::new();
    for index in guests {
        let secret = secret().map_err(Error::Random)?;
        let vm = capture.timeline.vm(capture.sessions[index].number);
        let emulator = vm.filter(|vm| vm.back_ends.contains(&BackEnd::EmulatedNet)).map(|vm| vm.pid);
        capture.sessions[index].ask(Request::Share { secret, emulated: emulator.is_some() });
        asked.push((index, secret, emulator));
    }
    capture.until(|session| !session.owes())?;
    let (mut sharing, mut emulators, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for (index, secret, emulator) in asked {
        let Reply::Shared(shared) = capture.answer(index)? else { return Err(capture.unexpected(index)) };
        let session = &mut capture.sessions[index];
        if let Some(process) = emulator.filter(|_| shared.emulated && emulators.len() < SHARING_GUESTS) {
            session.emulated = true;
            emulators.push(process);
        }
        let reason = match shared.reason {
            _ if !shared.pages.is_empty() && sharing.len() == SHARING_GUESTS => {
                Some(format!("hosts listen to {SHARING_GUESTS} guests at most"))
            }
            None if !shared.pages.is_empty() => {
                sharing.push(SharingGuest { domain: session.number, secret, pages: shared.pages });
                None
            }
            reason => reason,
        };
        warnings.extend(reason.map(|reason| {
            let name = session.name();
            format!(
                "{name}: its host is not told which packets are followed, and records all of them: {reason}"
            )
        }));
    }
    for &index in &hosts {
        let session = &mut capture.sessions[index];
        session.believes = sharing.iter().map(|guest| guest.domain).collect();
        let all = sharing.len() == recorded;
        let (emulators, domids) = (emulators.clone(), domids.clone());
        session.ask(Request::Guests { guests: sharing.clone(), all, emulators, domids });
    }
    capture.until(|session| !session.owes())?;
    Ok(warnings)
}
