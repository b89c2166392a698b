//! What a trace's manifest says of the recording.

use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use xweave_aspect::Aspects;
use xweave_flow::clock::Timeline;
use xweave_trace::{Aspect, Domain, DomainVm, DomainXen, Late, Manifest};
use xweave_weave::Role;

use crate::{Options, session::Session};

/// What is known from the beginning.
pub(crate) fn manifest(options: &Options, aspects: &Aspects, sessions: &[Session]) -> Manifest {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Manifest {
        schema: xweave_trace::SCHEMA,
        xweave: env!("CARGO_PKG_VERSION").to_owned(),
        created_ns: u64::try_from(created.as_nanos()).unwrap_or(0),
        command: options.command_line.clone(),
        reference: sessions.first().map(|session| session.name().to_owned()).unwrap_or_default(),
        aspects: aspects
            .sources
            .iter()
            .map(|source| Aspect {
                name: source.name.clone(),
                file: source.name.clone(),
                sha256: xweave_text::hex(&Sha256::digest(&source.text)),
            })
            .collect(),
        key: options.events.key.as_ref().map(ToString::to_string),
        background: options.background,
        ..Manifest::default()
    }
}

/// What may change while recording: which VM a domain is, how good its clock is, how it ended, what it lost.
pub(crate) fn domains(manifest: &mut Manifest, sessions: &[Session], timeline: &Timeline) {
    let host = manifest.reference.clone();
    let domain = |session: &Session| {
        let mut domain = Domain::new(session.name(), session.number, role(session), &session.facts);
        domain.vm =
            timeline.vm(session.number).map(|vm| DomainVm { host: host.clone(), pid: vm.pid, cid: vm.cid });
        let since = session.domid_since;
        domain.xen = session.domid.map(|domid| DomainXen { host: host.clone(), domid, since });
        domain.events = session.kinds.groups();
        domain.drop_reasons = session.drops.reasons.clone();
        domain.symbols = session.drops.symbols.clone();
        domain.exit = session.exit.clone();
        domain
    };
    manifest.domains = sessions.iter().map(domain).collect();
    let clock = |session: &Session| timeline.clock(session.number, session.name());
    manifest.clocks = sessions.iter().filter_map(clock).collect();
    let losses: Vec<_> = sessions.iter().map(|session| (session.name(), &session.loss)).collect();
    manifest.loss.set(&losses);
    let late = sessions.iter().filter(|session| session.order.late > 0).map(|session| Late {
        domain: session.name().to_owned(),
        events: session.order.late,
        most_ns: session.order.most_ns,
    });
    manifest.loss.late = late.collect();
}

fn role(session: &Session) -> xweave_trace::Role {
    match session.role() {
        Role::Host => xweave_trace::Role::Host,
        Role::Guest => xweave_trace::Role::Guest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Until, scripted};

    #[test]
    fn what_was_recorded_in_the_background_says_so() {
        let mut options =
            scripted::options("unused".as_ref(), &["host"], Until::Interrupted, Budget::default());
        for background in [false, true] {
            options.background = background;
            assert_eq!(manifest(&options, &Aspects::default(), &[]).background, background);
        }
    }
}
