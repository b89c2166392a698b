//! Which transactions are looked at where none are asked for.
//!
//! A machine serves more than one service: beside the one that is looked at, somebody's shell, a database's pool, a controller
//! that waits for minutes. Times of requests to different services have nothing to do with each other, so those of one are
//! chosen, and the others are listed.

use std::{cmp::Reverse, collections::BTreeMap};

use rustc_hash::FxHashSet;
use xweave_replay::Replay;
use xweave_trace::{Trace, event::Kind};

use crate::{connection::EndId, machine::Machine, ports::is_unix, spec::Spec, transaction::Finder};

/// So many events are gone through to count requests.
const MOST: usize = 1 << 22;

/// Events after which what is over is forgotten.
const ROUND: usize = 1 << 16;

/// So many ports of Unix sockets are told apart from those of services: each is a part of an address.
const UNIX: usize = 1 << 16;

/// Ports of SSH, Telnet, remote desktops and VNC: what people type and see there is no service's load, however often they do.
const TERMINALS: [u16; 4] = [22, 23, 3389, 5900];

/// Reports whether requests are those of terminals: chosen only where there are no others.
pub fn is_of_terminals(spec: &Spec) -> bool {
    matches!(spec, Spec::Request(Some(port), _) | Spec::Exchange(Some(port), _) if TERMINALS.contains(port))
}

/// The transactions of a trace that are looked at where none are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultSpec {
    /// Which.
    pub spec: Spec,
    /// Those of other services, and how many requests to each were answered: the most first.
    pub others: Vec<(Spec, u64)>,
    /// Whether requests were counted in all of the trace, and not only in its beginning.
    pub whole: bool,
}

impl From<Spec> for DefaultSpec {
    fn from(spec: Spec) -> Self {
        Self { spec, others: Vec::new(), whole: true }
    }
}

impl DefaultSpec {
    /// Chooses the flows of a trace; where there are none, the requests to the service of which most were answered, the
    /// recorder's own and [terminals'](is_of_terminals) apart. None, if there are neither.
    pub fn choose(trace: &Trace) -> Option<Self> {
        if trace.has_flows() {
            return Some(Spec::Flow(None).into());
        }
        Services::count(trace, u64::MAX).choose()
    }
}

/// All transactions of a trace of the kind that it has: flows; where there are none, requests to any service. None, if there
/// are neither.
pub fn all_transactions(trace: &Trace) -> Option<Spec> {
    if trace.has_flows() {
        return Some(Spec::Flow(None));
    }
    (Services::count(trace, 1).total > 0).then_some(Spec::Request(None, None))
}

/// How many requests to each service were answered.
#[derive(Debug, Default)]
struct Services {
    /// By port.
    requests: BTreeMap<u16, u64>,
    /// To all of them.
    total: u64,
    /// Ports that are parts of Unix sockets' addresses.
    unix: FxHashSet<u16>,
    whole: bool,
}

impl Services {
    /// Counts those of the first four million events, until there are so many. Threads are not followed: when a request was
    /// answered, connections tell.
    fn count(trace: &Trace, enough: u64) -> Self {
        let mut services = Self::default();
        let Some(mut finder) = Finder::new(&Spec::Request(None, None), &|_| None) else { return services };
        let mut machine = Machine::of(trace, Replay::default());
        let mut events = trace.events();
        for nth in 1..=MOST {
            let Some(event) = events.next() else {
                services.whole = true;
                break;
            };
            if tells_of_requests(event.kind) {
                if let Some(end) = EndId::of(&event).filter(|_| is_unix(&event))
                    && services.unix.len() < UNIX
                {
                    services.unix.extend([end.connection.local_port(), end.connection.remote_port()]);
                }
                machine.feed(&event);
                let answered = finder.feed(&event, &machine, events.names());
                services.add(answered.and_then(|request| request.service));
            }
            if services.total >= enough {
                return services;
            }
            if nth % ROUND == 0 {
                finder.settle(Some(event.time_ns)).iter().for_each(|request| services.add(request.service));
                machine.forget_before(finder.earliest().unwrap_or(event.time_ns).min(event.time_ns));
            }
        }
        finder.settle(None).iter().for_each(|request| services.add(request.service));
        services
    }

    fn add(&mut self, port: Option<u16>) {
        if let Some(port) = port {
            *self.requests.entry(port).or_default() += 1;
            self.total += 1;
        }
    }

    fn choose(&self) -> Option<DefaultSpec> {
        let (unix, mut named): (Vec<_>, Vec<_>) = self
            .requests
            .iter()
            .map(|(port, count)| (*port, *count))
            .partition(|(port, _)| self.unix.contains(port));
        named.sort_by_key(|(port, count)| (TERMINALS.contains(port), Reverse(*count)));
        let unix: u64 = unix.iter().map(|(_, count)| count).sum();
        let mut services = named.into_iter().map(|(port, count)| (Spec::Request(Some(port), None), count));
        let whole = self.whole;
        match services.next() {
            Some((spec, count)) if count >= unix => {
                Some(DefaultSpec { spec, others: services.collect(), whole })
            }
            // Each connection has ports of its own, so that there is none to choose them by.
            _ if unix > 0 => Some(DefaultSpec { whole, ..Spec::Request(None, None).into() }),
            _ => None,
        }
    }
}

/// Reports whether such events tell of requests, or whose they are.
fn tells_of_requests(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Thread
            | Kind::Fork
            | Kind::Exit
            | Kind::Send
            | Kind::Receive
            | Kind::Accept
            | Kind::Socket
            | Kind::Retransmit
            | Kind::SynDrop
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(requests: &[(u16, u64)], unix: &[u16]) -> Services {
        Services {
            requests: requests.iter().copied().collect(),
            total: requests.iter().map(|(_, count)| count).sum(),
            unix: unix.iter().copied().collect(),
            whole: true,
        }
    }

    #[test]
    fn the_service_that_was_asked_most_is_chosen_and_the_others_are_listed() {
        let chosen = services(&[(22, 7), (80, 300), (5432, 40)], &[]).choose().unwrap();
        assert_eq!(chosen.spec, Spec::Request(Some(80), None));
        assert_eq!(
            chosen.others,
            [(Spec::Request(Some(5432), None), 40), (Spec::Request(Some(22), None), 7)]
        );
        assert_eq!(services(&[], &[]).choose(), None);
    }

    #[test]
    fn what_is_typed_in_terminals_is_chosen_only_where_there_is_nothing_else() {
        let chosen = services(&[(22, 700), (80, 300)], &[]).choose().unwrap();
        assert_eq!(chosen.spec, Spec::Request(Some(80), None));
        assert_eq!(chosen.others, [(Spec::Request(Some(22), None), 700)]);
        let alone = services(&[(22, 700), (3389, 900)], &[]).choose().unwrap();
        assert_eq!(alone.spec, Spec::Request(Some(3389), None));
    }

    #[test]
    fn unix_sockets_have_no_ports_to_choose_them_by() {
        let requests = [(80, 300), (41_001, 200), (41_002, 200)];
        let all = services(&requests, &[41_001, 41_002]).choose().unwrap();
        assert_eq!((all.spec, all.others), (Spec::Request(None, None), Vec::new()));
        let named = services(&requests, &[41_001]).choose().unwrap();
        assert_eq!(named.spec, Spec::Request(Some(80), None));
        assert_eq!(named.others, [(Spec::Request(Some(41_002), None), 200)]);
    }
}
