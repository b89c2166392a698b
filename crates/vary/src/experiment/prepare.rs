//! Preparing an experiment: from a request to the plan and options of its blocks.

use std::{
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    time::Duration,
};

use xweave_model::Spec;
use xweave_record::{DomainSpec, Phase, Required, Until};
use xweave_weave::EventChoice;

use super::{
    run::{Options, RunError, check},
    tries::{Plan, Try},
};

/// Seeds that are drawn are less than that: short enough to type.
const SEEDS: u64 = 1_000_000;

/// A user's request for an experiment.
#[derive(Clone, Debug)]
pub struct Request {
    /// Settings to try; each value is combined with each.
    pub tries: Vec<Try>,
    /// The domains; this machine is added unless a host is among them.
    pub domains: Vec<DomainSpec>,
    /// Require all domains. Otherwise guests that do not answer are left out.
    pub require_all: bool,
    /// The load.
    pub command: Vec<String>,
    /// Maximum time that the load runs in each block.
    pub within: Option<Duration>,
    /// Time between a change and the load.
    pub settle: Duration,
    /// Blocks per setting.
    pub rounds: u32,
    /// Seed of the order of blocks; drawn if it is `None`.
    pub seed: Option<u64>,
    /// Events to record.
    pub events: EventChoice,
    /// Bytes of a domain's ring buffers.
    pub buffer: u32,
    /// Run agents in the background (SCHED_IDLE).
    pub background: bool,
    /// Transactions to measure; `None`: those that the blocks' traces have are chosen.
    pub transaction: Option<Spec>,
    /// The folder to create.
    pub output: PathBuf,
    /// Folder of compiled programs.
    pub cache: PathBuf,
    /// The user's command line, for the traces.
    pub command_line: Vec<String>,
}

/// Asks the domains for their settings, and plans the experiment. Changes nothing.
///
/// # Errors
/// The folder exists, a domain cannot be asked, or a setting cannot be tried.
pub fn prepare(request: Request, progress: &mut dyn FnMut(Phase<'_>)) -> Result<Options, RunError> {
    check(&request.output)?;
    let knobs = xweave_record::knobs(&request.domains, Required::all_if(request.require_all), progress)?;
    let plan = Plan::of(&request.tries, &knobs)?;
    Ok(Options {
        record: record_options(&request),
        plan,
        domains: knobs,
        command: request.command,
        within: request.within,
        settle: request.settle,
        rounds: request.rounds,
        seed: request.seed.unwrap_or_else(|| RandomState::new().hash_one(0) % SEEDS),
        transaction: request.transaction,
        output: request.output,
    })
}

/// Options of each block's recording; [`run`](super::run::run) sets the output, the settings and the end.
fn record_options(request: &Request) -> xweave_record::Options {
    xweave_record::Options {
        required: Required::all_if(request.require_all),
        events: request.events.clone(),
        domains: request.domains.clone(),
        buffer: request.buffer,
        flow_table: 1,
        background: request.background,
        command_line: request.command_line.clone(),
        ..xweave_record::Options::new(PathBuf::new(), Until::Interrupted, request.cache.clone())
    }
}
