//! From what domains say their kernels are, to what each is to weave.

use xweave_aspect::{Aspects, Diagnostic};
use xweave_weave::{Weaving, Woven};

use crate::{
    Error, Options, Phase,
    capture::Capture,
    kernels,
    weaving::{add_events, compile, indices},
};

/// What is to be woven, and what people should know of it.
pub(crate) struct Deployment {
    /// By domain, in their order.
    pub(crate) woven: Vec<Woven>,
    /// Probes of events that kernels have no place for.
    pub(crate) left_out: Vec<String>,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Asks the domains what their kernels are, and makes the plans.
pub(crate) fn deploy(
    capture: &mut Capture<'_>,
    aspects: &Aspects,
    options: &Options,
) -> Result<Deployment, Error> {
    let kernels = kernels::kernels(capture, &options.cache)?;
    let codes = indices(aspects, capture, &kernels, options)?;
    capture.tell(Phase::Compiling);
    let Weaving { domains: mut woven, warnings } =
        compile(aspects, &capture.sessions, &kernels, &codes, options)?;
    let left_out = add_events(&mut woven, &capture.sessions, &kernels, options)?;
    Ok(Deployment { woven, left_out, warnings })
}
