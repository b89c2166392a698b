//! `xweave vary --try`: experiments.

use std::{
    io::{self, IsTerminal, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use xweave_model::Spec;
use xweave_record::{DomainSpec, Phase, Required};
use xweave_report::{View, document, experiment as report, number::counted};
use xweave_vary::experiment::{
    EvaluateError, Request, Try, evaluate_traces, prepare,
    run::{self as blocks, Options, RunError, Step},
    shift::ENOUGH,
    stored::StoreError,
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

/// Makes an experiment, or lists the settings that one could change.
pub fn run(args: Args, transaction: Option<Spec>, json: bool) -> Result<ExitCode, Failure> {
    let domains: Result<Vec<_>, _> = args.domain.iter().map(|text| DomainSpec::parse(text)).collect();
    let domains = domains.map_err(Failure::usage)?;
    if args.knobs {
        return list_knobs(&domains, args.require, json);
    }
    let (Some(output), false) = (args.output, args.tries.is_empty()) else {
        return Err(Failure::Usage(
            "nothing to do is named: give a trace (xweave vary DIR), settings to try (xweave vary --try halt_poll_ns=0,200000 -o DIR -- COMMAND), the \
             directory of an experiment, or --knobs to see what could be tried"
                .to_owned(),
        ));
    };
    let request = Request {
        tries: args.tries,
        domains,
        require_all: args.require,
        command: args.command,
        within: args.duration,
        settle: args.settle,
        rounds: args.rounds,
        seed: args.seed,
        events: EventChoice::new(args.events.0, None),
        buffer: args.buffer,
        background: args.background,
        transaction,
        output: output.clone(),
        cache: xweave_weave::cache_directory().map_err(Failure::usage)?,
        command_line: command_line(),
    };
    let mut progress = Progress::new(None);
    let options = prepare(request, &mut |phase| progress.show(&phase));
    progress.end();
    let options = options?;
    announce(&options);
    let transaction = options.transaction.clone();
    let redirected =
        RedirectedOutput::begin().map_err(|error| Failure::Failed(format!("standard output: {error}")))?;
    let mut printer = StepPrinter { limit: args.duration, progress: None, number: 0 };
    let experiment = blocks::run(options, &mut |step| printer.print(&step));
    printer.end();
    experiment?;
    drop(redirected);
    Err(exec_evaluation(&output, transaction.as_ref(), json))
}

/// Prints the settings that an experiment could change.
fn list_knobs(domains: &[DomainSpec], require: bool, json: bool) -> Result<ExitCode, Failure> {
    let mut progress = Progress::new(None);
    let required = Required::all_if(require);
    let knobs = xweave_record::knobs(domains, required, &mut |phase| progress.show(&phase));
    progress.end();
    let knobs = knobs?;
    shown::only(|out| match json {
        true => document::experiment::write_knobs(out, &knobs),
        false => write!(out, "{}", report::knobs(&knobs, View::of_stdout(WIDE))),
    })
}

/// Replaces this process by one that evaluates the experiment, which is confined to reading. Returns only if that fails.
fn exec_evaluation(output: &Path, transaction: Option<&Spec>, json: bool) -> Failure {
    let mut command = Command::new("/proc/self/exe");
    command.arg("vary").arg(output);
    if let Some(spec) = transaction {
        command.args(["--transaction", &spec.to_string()]);
    }
    let error = command.args(json.then_some("--json")).exec();
    Failure::Failed(format!("xweave cannot be started again to look at the blocks: {error}"))
}

/// Prints what is going to be done.
fn announce(options: &Options) {
    let (settings, rounds, seed) = (options.plan.settings.len(), options.rounds, options.seed);
    let blocks = settings * rounds as usize;
    let in_rounds = counted(u64::from(rounds), "round", "rounds");
    told::write_line(format_args!(
        "xweave: {settings} settings in {in_rounds}: {blocks} blocks (--seed {seed})"
    ));
    if (rounds as usize) < ENOUGH {
        told::write_line(format_args!("note: below --rounds {ENOUGH}, no interval of 95 % is possible"));
    }
}

/// Prints the steps of an experiment on standard error.
struct StepPrinter {
    limit: Option<Duration>,
    progress: Option<Progress>,
    number: u32,
}

impl StepPrinter {
    fn print(&mut self, step: &Step<'_>) {
        match step {
            Step::Begins { number, of, round, setting } => {
                told::write_line(format_args!("xweave: block {number} of {of} (round {round}): {setting}"));
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
                told::write_line(told::fitted(&line));
            }
            Step::Checking(phase) => {
                self.progress.get_or_insert_with(|| Progress::new(None)).show(phase);
            }
            Step::Over { number, failed } => {
                self.end();
                if let Some(why) = failed {
                    told::write_line(told::fitted(&format!("note: block {number} is not counted: {why}")));
                }
            }
        }
    }

    fn end(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.end();
        }
    }
}

/// Redirects standard output of this process and the load to standard error until it is dropped: the evaluation is first on
/// standard output.
struct RedirectedOutput(std::os::fd::OwnedFd);

impl RedirectedOutput {
    fn begin() -> io::Result<Self> {
        let own = io::stdout().as_fd().try_clone_to_owned()?;
        redirect(io::stderr().as_fd())?;
        Ok(Self(own))
    }
}

impl Drop for RedirectedOutput {
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

/// Evaluates a stored experiment, and prints the evaluation.
pub fn evaluate(
    dir: &Path,
    owner: &Owner,
    transaction: Option<Spec>,
    json: bool,
) -> Result<ExitCode, Failure> {
    Only::reading([dir]).apply()?;
    let evaluation = evaluate_traces(dir, transaction, owner.forced())?;
    shown::print(|out| match json {
        true => document::experiment::write(out, &evaluation),
        false => {
            let name = xweave_text::argument(&dir.to_string_lossy()).into_owned();
            write!(out, "{}", report::text(&evaluation, &name, View::of_stdout(WIDE)))
        }
    })?;
    match &evaluation.experiment.ended {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::Failed(format!(
            "the experiment ended after {} blocks: {why}",
            evaluation.experiment.blocks.len()
        ))),
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

impl From<EvaluateError> for Failure {
    fn from(error: EvaluateError) -> Self {
        match error {
            EvaluateError::Store(error) => error.into(),
            EvaluateError::Transaction(_) => Self::usage(error),
            EvaluateError::NothingToCompare { .. } => Self::Failed(error.to_string()),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Record(error) => error.into(),
            RunError::Try(error) => Self::usage(error),
            RunError::FirstBlock(_) | RunError::NotRestored { .. } => Self::Failed(error.to_string()),
            RunError::Interrupted => Self::Interrupted(error.to_string()),
        }
    }
}
