//! Which requests a trace is most likely asked for.

use xweave_flow::exchange::Service;
use xweave_model::{Spec, explanation};
use xweave_trace::Trace;

use crate::variation::LEAST;

/// Those that [`explanation::usual`] gives; of flows the requests that these tell of, of the service that was asked most
/// often, if there are enough of one.
pub fn usual(trace: &Trace, services: impl FnOnce() -> Vec<Service>) -> Option<Spec> {
    match explanation::usual(trace)? {
        Spec::Flow(name) => {
            let services = services();
            let port = services.first().filter(|of| of.exchanges >= LEAST as u64).map(|of| of.server.port());
            Some(port.map_or(Spec::Flow(name), |port| Spec::Exchange(Some(port), None)))
        }
        other => Some(other),
    }
}
