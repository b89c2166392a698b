//! Of a kernel's type information, the part that the library's programs ask for.
//!
//! These parts are files in `bpf/kernels`: the programs are compiled against some, and all tell what works on which kernel.
//! They are made of whole kernels, which a machine that builds xweave does not have, by `make kernels`.

use std::collections::HashSet;
use std::io;

use xweave_aspect::{Aspects, Code};
use xweave_code::{Kept, Kernel};

use crate::point::At;
use crate::{Domain, Peer, events, prelude, resolve};

/// What the library's aspects, the probes of events and other programs, in C, ask of a kernel, as raw BTF.
///
/// # Errors
///
/// That it cannot be written.
pub fn prune(kernel: &Kernel, library: &[&Aspects], programs: &[&str]) -> io::Result<Vec<u8>> {
    let own = prelude::texts().map(Code::lex);
    let codes: Vec<Code> = own.chain(programs.iter().map(|text| Code::lex(text))).collect();
    let (mut functions, mut tracepoints) = (HashSet::new(), HashSet::new());
    let of_events = events::places().collect::<Vec<_>>();
    for (name, is_tracepoint) in of_events {
        let places = if is_tracepoint { &mut tracepoints } else { &mut functions };
        places.insert(name.to_owned());
    }
    let (mut identifiers, mut tags) = events::names();
    identifiers.extend(events::constants().map(str::to_owned));
    let peers = Peer::of_each_role();
    for aspects in library {
        for peer in &peers {
            let domain = Domain { name: peer.name.clone(), role: peer.role, number: 0, kernel, code: &[] };
            for point in resolve::resolve(aspects, &peers, &domain).points {
                match &point.at.at {
                    At::Function { function, .. } => functions.insert(function.name.clone()),
                    At::Tracepoint(of) => tracepoints.insert(of.name.clone()),
                    At::Instruction(_) | At::User { .. } => false,
                };
                for applied in &point.applied {
                    let of_clause = applied.condition.codes().into_iter().chain(applied.item.codes());
                    for code in of_clause {
                        identifiers.extend(code.names().map(str::to_owned));
                        tags.extend(code.tags().map(str::to_owned));
                    }
                }
            }
        }
    }
    let macros = prelude::macros();
    for code in &codes {
        identifiers.extend(code.names().filter(|name| !macros.contains(*name)).map(str::to_owned));
        tags.extend(code.tags().map(str::to_owned));
    }
    kernel.prune(&Kept {
        functions: functions.iter().map(String::as_str).collect(),
        tracepoints: tracepoints.iter().map(String::as_str).collect(),
        tags: tags.iter().map(String::as_str).collect(),
        identifiers: identifiers.iter().map(String::as_str).collect(),
    })
}
