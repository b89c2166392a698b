//! `xweave vary --try`: experiments.

use std::{
    hash::{BuildHasher, RandomState},
    io::{self, IsTerminal, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use xweave_model::Spec;
use xweave_record::{Budget, DomainKnobs, DomainSpec, Options, Phase, Required, Settings, Until};
use xweave_report::{View, document, experiment as report, number::counted};
use xweave_trace::Trace;
use xweave_vary::experiment::{
    self, Experiment, Plan, Try,
    measure::{Measured, measure},
    run::{self as blocks, RunError, Step},
    shift::ENOUGH,
    stored::{Block, Held, StoreError, trace_name},
};
use xweave_weave::EventChoice;

use crate::{
    arguments::{Groups, buffer, command_line, duration},
    confinement::Only,
    failure::Failure,
    progress::Progress,
    shown, told,
    trust::Owner,
};

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

pub const HELP: &str = "\
  xweave vary --knobs --domain vm1=vsock:3
  xweave vary --try halt_poll_ns=0,200000 --domain vm1=vsock:3 -o polling -- ./load.sh
  xweave vary --try halt_poll_ns=now,0 --try busy_poll@vm1=0,50 --rounds 10 \\
      --domain vm1=vsock:3 --transaction request:80 -o polling -- ./load.sh
  xweave vary --try pin_vcpus@host:vm1=now,each:2-3 --domain vm1=vsock:3 -o pinned -- ./load.sh
  xweave vary polling --transaction request:5060        the same blocks, looked at again

Knobs (KNOB@DOMAIN, where the domain is not clear; `now` leaves a setting as it is):
  halt_poll_ns        KVM polls for so long before a halted vCPU sleeps: of the host's module kvm
  pin_vcpus           on which CPUs the vCPUs of a VM may run: 2-3, 2+5-7, or each:2-3, one on each
  pin_vhost           the same of its vhost threads
  busy_poll           sockets are polled for so many microseconds (net.core.busy_poll: poll, select)
  busy_read           the same of reads (net.core.busy_read): of sockets that are made from then on
  idle_governor       the cpuidle governor; in a guest haltpoll polls before the vCPU halts
  guest_halt_poll_ns  for how long that governor polls
  idle_poll           off or on: idle CPUs poll and never halt, where a cpuidle driver can be told

vhost's busy polling is none of them: QEMU sets it when it starts (-netdev tap,…,vhost=on,poll-us=50), and
the kernel takes it of QEMU only. idle=poll is an option of the kernel's command line; see idle_poll.

Ctrl-C ends the load and the recording of the block that is under way, which is not counted; settings are put
back, and what was measured until then is shown.";

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// A setting, and the values to try; the first is what the others are compared with
    #[arg(long = "try", id = "try", value_name = "KNOB[@DOMAIN]=A,B", conflicts_with = "dir", requires_all = ["output", "command"])]
    tries: Vec<Try>,
    /// List the settings that could be tried, and how they stand
    #[arg(long, conflicts_with_all = ["dir", "try"])]
    knobs: bool,
    /// Another domain, as for xweave record: NAME=vsock:CID, or NAME=COMMAND
    #[arg(long, value_name = "NAME=TRANSPORT", conflicts_with = "dir")]
    domain: Vec<String>,
    /// Begin no block without one of them: a guest that does not answer, or cannot be traced, is not left out
    #[arg(long, requires = "try")]
    require: bool,
    /// How often each setting is tried: below 6, no interval of 95 % is possible
    #[arg(long, value_name = "N", default_value_t = 6, requires = "try", value_parser = clap::value_parser!(u32).range(1..=200))]
    rounds: u32,
    /// What the order of the blocks is drawn from [default: another each time]
    #[arg(long, value_name = "N", requires = "try")]
    seed: Option<u64>,
    /// How long to wait between a change and the load
    #[arg(long, value_parser = duration, default_value = "1s", requires = "try")]
    settle: Duration,
    /// Run COMMAND for so long at most in each block; that it is ended then is no failure
    #[arg(long, value_parser = duration, requires = "try")]
    duration: Option<Duration>,
    /// Event groups to record
    #[arg(long, value_name = "GROUP,…", value_parser = Groups::parse, default_value = "sched,net,vm", requires = "try")]
    events: Groups,
    /// Ring buffer size per domain, over all CPUs: a power of two (K, M)
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = buffer, requires = "try")]
    buffer: u32,
    /// Record only where no other thread wants the CPU (SCHED_IDLE), here and in all domains
    #[arg(long, requires = "try")]
    background: bool,
    /// The directory to create: a trace of each block
    #[arg(short, long, value_name = "DIR", requires = "try")]
    output: Option<PathBuf>,
    /// The load. What it prints on standard output goes to standard error
    #[arg(last = true, value_name = "COMMAND", requires = "try")]
    command: Vec<String>,
}

/// Makes an experiment, or lists what one could change.
pub fn run(args: Args, transaction: Option<Spec>, json: bool) -> Result<ExitCode, Failure> {
    let domains: Result<Vec<_>, _> = args.domain.iter().map(|text| DomainSpec::parse(text)).collect();
    let domains = domains.map_err(Failure::usage)?;
    let reached = |required| {
        let mut progress = Progress::new(None);
        let knobs = xweave_record::knobs(&domains, required, &mut |phase| progress.show(&phase));
        progress.end();
        knobs
    };
    if args.knobs {
        let knobs = reached(Required::all_if(args.require))?;
        return shown::only(|out| match json {
            true => document::experiment::write_knobs(out, &knobs),
            false => write!(out, "{}", report::knobs(&knobs, View::of_stdout(WIDE))),
        });
    }
    let (Some(output), false) = (args.output.clone(), args.tries.is_empty()) else {
        return Err(Failure::Usage(
            "nothing to do is named: give a trace (xweave vary DIR), settings to try (xweave vary --try halt_poll_ns=0,200000 -o DIR -- COMMAND), the \
             directory of an experiment, or --knobs to see what could be tried"
                .to_owned(),
        ));
    };
    blocks::check(&output)?;
    let transaction = transaction.unwrap_or(Spec::Request(None));
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    let knobs = reached(Required::all_if(args.require))?;
    let plan = Plan::of(&args.tries, &knobs).map_err(Failure::usage)?;
    announce(&plan, args.rounds, seed);
    let options = blocks::Options {
        record: Options {
            aspects: Vec::new(),
            expressions: Vec::new(),
            filter: None,
            xen: false,
            required: Required::all_if(args.require),
            events: EventChoice::new(args.events.0, None),
            domains: domains.clone(),
            output: PathBuf::new(),
            replace: false,
            until: Until::Interrupted,
            buffer: args.buffer,
            flow_table: 1,
            serial_attach: false,
            compile_here: false,
            background: args.background,
            symbols: Vec::new(),
            settings: Settings::default(),
            cache: xweave_weave::cache_directory().map_err(Failure::usage)?,
            budget: Budget::default(),
            command_line: command_line(),
        },
        plan,
        domains: knobs,
        command: args.command,
        within: args.duration,
        settle: args.settle,
        rounds: args.rounds,
        seed,
        transaction: transaction.to_string(),
        output: output.clone(),
    };
    let aside = Aside::begin().map_err(|error| Failure::Failed(format!("standard output: {error}")))?;
    let mut teller = Teller { limit: args.duration, progress: None, number: 0 };
    let experiment = blocks::run(options, &mut |step| teller.tell(&step));
    drop(teller);
    let experiment = experiment?;
    if experiment.ended.is_none() {
        let changed = experiment.knobs.iter().map(|held| held.domain.clone()).collect();
        assert_put_back(&experiment, &reached(Required::Named(changed))?, &output)?;
    }
    drop(aside);
    if experiment.blocks.iter().all(|block| block.failed.is_some()) {
        return Err(Failure::Interrupted("interrupted before anything was measured".to_owned()));
    }
    Err(look(&output, &transaction, json))
}

/// Goes on as who looks at the experiment, and may do nothing else. Comes back only if that fails.
fn look(output: &Path, transaction: &Spec, json: bool) -> Failure {
    let mut command = Command::new("/proc/self/exe");
    command.arg("vary").arg(output).args(["--transaction", &transaction.to_string()]);
    let error = command.args(json.then_some("--json")).exec();
    Failure::Failed(format!("xweave cannot be started again to look at the blocks: {error}"))
}

/// What is going to be done.
fn announce(plan: &Plan, rounds: u32, seed: u64) {
    let settings = plan.settings.len();
    let blocks = settings * rounds as usize;
    let in_rounds = counted(u64::from(rounds), "round", "rounds");
    eprintln!("xweave: {settings} settings in {in_rounds}: {blocks} blocks (--seed {seed})");
    if (rounds as usize) < ENOUGH {
        eprintln!("note: below --rounds {ENOUGH}, no interval of 95 % is possible");
    }
}

/// All is as it was before.
fn assert_put_back(experiment: &Experiment, now: &[DomainKnobs], output: &Path) -> Result<(), Failure> {
    let stands = |held: &Held| {
        let domain = now.iter().find(|domain| domain.domain == held.domain)?;
        domain.knobs.iter().find(|state| state.knob == held.knob && state.vm == held.vm)
    };
    let other = |held: &&Held| stands(held).is_some_and(|state| state.value != held.now);
    match experiment.knobs.iter().find(other) {
        None => Ok(()),
        Some(held) => Err(Failure::Failed(format!(
            "{} is {} now, and was {} before the experiment: if nobody else has changed it, run `xweave doctor` there. The \
             blocks are in {}: xweave vary {0}",
            held.name(),
            stands(held).map_or("", |state| &state.value),
            held.now,
            output.display(),
        ))),
    }
}

/// Tells of the blocks on standard error.
struct Teller {
    limit: Option<Duration>,
    progress: Option<Progress>,
    number: u32,
}

impl Teller {
    fn tell(&mut self, step: &Step<'_>) {
        match step {
            Step::Begins { number, of, round, setting } => {
                eprintln!("xweave: block {number} of {of} (round {round}): {setting}");
                (self.number, self.progress) = (*number, Some(Progress::new(self.limit)));
            }
            Step::Recording(phase) => {
                // What is said of the first block is true of all.
                let again =
                    matches!(phase, Phase::Found { .. } | Phase::Note { .. } | Phase::Diagnosed { .. });
                let is_told = self.number == 1 || matches!(phase, Phase::Said { .. });
                let changes = io::stderr().is_terminal() && !again;
                if let (true, Some(progress)) = (is_told || changes, &mut self.progress) {
                    progress.show(phase);
                }
            }
            // Of the first, the recording has said so.
            Step::LeftOut { number: 1, .. } => {}
            Step::LeftOut { number, guest } => {
                let (domain, reason) = (&guest.domain, &guest.reason);
                let line = format!("note: from block {number} on, {domain} is left out: {reason}");
                eprintln!("{}", told::fitted(&line));
            }
            Step::Over { number, failed } => {
                if let Some(progress) = self.progress.take() {
                    progress.end();
                }
                if let Some(why) = failed {
                    eprintln!("{}", told::fitted(&format!("note: block {number} is not counted: {why}")));
                }
            }
        }
    }
}

/// As long as it lives, what this process and the load print goes to standard error: the answer comes first on standard
/// output.
struct Aside(std::os::fd::OwnedFd);

impl Aside {
    fn begin() -> io::Result<Self> {
        let own = io::stdout().as_fd().try_clone_to_owned()?;
        redirect(io::stderr().as_fd())?;
        Ok(Self(own))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // It was open before.
        let _ = redirect(self.0.as_fd());
    }
}

/// Makes standard output another name of a file.
fn redirect(to: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: takes integers; the first is open.
    match unsafe { libc::dup2(to.as_raw_fd(), libc::STDOUT_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Looks at an experiment's blocks.
pub fn evaluate(
    dir: &Path,
    owner: &Owner,
    transaction: Option<Spec>,
    json: bool,
) -> Result<ExitCode, Failure> {
    Only::reading([dir]).apply()?;
    let mut experiment = Experiment::open(dir, owner.forced())?;
    let spec = match transaction {
        Some(spec) => spec,
        None => experiment.transaction.parse().map_err(Failure::usage)?,
    };
    experiment.transaction = spec.to_string();
    let evaluation = experiment::evaluate(experiment, |block| look_at(dir, block, &spec, owner));
    let ended = evaluation.experiment.ended.clone();
    if evaluation.effects.is_empty() {
        return Err(Failure::Failed(format!(
            "{}: no round has a block of the first setting and one of another that could be measured{}",
            dir.display(),
            why_not(&evaluation, ended.as_deref())
        )));
    }
    shown::print(|out| match json {
        true => document::experiment::write(out, &evaluation),
        false => {
            let name = xweave_text::argument(&dir.to_string_lossy()).into_owned();
            write!(out, "{}", report::text(&evaluation, &name, View::of_stdout(WIDE)))
        }
    })?;
    match ended {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::Failed(format!(
            "the experiment ended after {} blocks: {why}",
            evaluation.experiment.blocks.len()
        ))),
    }
}

fn why_not(evaluation: &experiment::Evaluation, ended: Option<&str>) -> String {
    let failed = evaluation.blocks.iter().find_map(|looked| {
        Some(format!(": block {}: {}", looked.block.number, looked.measured.as_ref().err()?))
    });
    failed.or_else(|| ended.map(|why| format!(": {why}"))).unwrap_or_default()
}

fn look_at(dir: &Path, block: &Block, spec: &Spec, owner: &Owner) -> Result<Measured, String> {
    let dir = dir.join(trace_name(block.number));
    let open = if owner.forced() { Trace::open_forced } else { Trace::open };
    let trace = open(&dir).map_err(|error| error.to_string())?;
    let measured = measure(&trace, spec);
    match measured.requests {
        0 => Err(format!("it has no transactions of the kind {spec} that began and ended in it")),
        _ => Ok(measured),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Damaged { .. } => Self::Failed(message),
            _ => Self::Usage(message),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Record(error) => error.into(),
            RunError::FirstBlock(_) => Self::Failed(error.to_string()),
        }
    }
}
