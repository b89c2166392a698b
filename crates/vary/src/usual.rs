//! Which requests of a trace are looked at where none are asked for.

use std::cmp::Reverse;

use xweave_flow::{
    Flows,
    exchange::{self, Service},
};
use xweave_model::{DefaultSpec, Spec, is_of_terminals};
use xweave_trace::Trace;

/// Those that [`DefaultSpec::choose`] gives; of flows the requests that these tell of, of the service that was asked most
/// often, if there are at least so many of one.
pub fn usual(trace: &Trace, least: u64) -> Option<DefaultSpec> {
    usual_among(trace, least, || exchange::services(&exchange::of(&Flows::of(trace))))
}

/// The same; `services` are those that flows tell of, the one that was asked most often first.
pub fn usual_among(
    trace: &Trace,
    least: u64,
    services: impl FnOnce() -> Vec<Service>,
) -> Option<DefaultSpec> {
    let default = DefaultSpec::choose(trace)?;
    if !matches!(default.spec, Spec::Flow(_)) {
        return Some(default);
    }
    let mut requests: Vec<(Spec, u64)> = Vec::new();
    for of in services() {
        let spec = Spec::Exchange(Some(of.server.port()), None);
        match requests.iter_mut().find(|(known, _)| *known == spec) {
            Some((_, count)) => *count += of.complete,
            None => requests.push((spec, of.complete)),
        }
    }
    requests.sort_by_key(|(spec, count)| (is_of_terminals(spec), Reverse(*count)));
    let mut requests = requests.into_iter();
    match requests.next().filter(|(_, count)| *count >= least) {
        Some((spec, _)) => Some(DefaultSpec { others: requests.collect(), ..spec.into() }),
        None => Some(default),
    }
}
