//! `xweave cost`: what instructions, exits and hypercalls cost under a hypervisor.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use xweave_cost::comparison::Method;
use xweave_cost::document::{self, Measurement};
use xweave_cost::microarchitecture::Identified;
use xweave_cost::run::{self, Request, RunError, Selection};
use xweave_cost::{Comparison, Environment, Options, history, microarchitecture, published, summary, tables};
use xweave_interrupt as interrupt;
use xweave_report::View;

use crate::failure::Failure;
use crate::lab::show;
use crate::{shown, told};

/// Measure what instructions, exits and hypercalls cost under a hypervisor
///
/// A small image without an operating system is booted in each environment; natively, the same code runs as a
/// process. Figures are core cycles per instruction: the latency of a dependency chain, the throughput of
/// independent instructions, the cost of what serializes or exits. Environments: native, tcg (QEMU's software
/// emulation), kvm and xen-pv (in a world of the lab, or on this machine with --this-host).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave cost                                      this machine, and QEMU's software emulation
  xweave cost --on native,kvm --this-host          the cost of KVM on this machine
  xweave cost --on native,kvm,xen-pv --group privileged
  xweave cost --on native --published              compared with published figures
  xweave cost --all                                every figure
  xweave cost --on native --method paper --group arithmetic
  xweave cost --on kvm --this-host --history costs.jsonl
                                                   and what changed since the last run
  xweave cost --image cost.elf                     the image itself, for GRUB (multiboot2)
  xweave cost --on native,kvm --this-host --bare log
                                                   with the bare machine's figures")]
pub struct Args {
    /// Where to measure
    #[arg(long, value_name = "ENV", value_delimiter = ',', default_values = ["native", "tcg"])]
    on: Vec<On>,
    /// Add the figures of the bare machine, from the console output of the image there
    #[arg(long, value_name = "FILE")]
    bare: Option<PathBuf>,
    /// Only these groups
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    group: Vec<String>,
    /// Only forms whose name matches; % matches any text
    #[arg(long, value_name = "PATTERN")]
    form: Option<String>,
    /// The method: the sound one, or that of the paper (100 copies, 20 repetitions, the mean)
    #[arg(long, value_enum, default_value_t = How::Sound)]
    method: How,
    /// Also measure independent instructions in a small loop
    #[arg(long)]
    looped: bool,
    /// Compare native figures with published ones of the same microarchitecture
    #[arg(long)]
    published: bool,
    /// Compare with published figures of this microarchitecture, whatever the CPU is
    #[arg(long, value_name = "NAME", requires = "published")]
    microarchitecture: Option<microarchitecture::Name>,
    /// Append the figures to this file, and report what changed since the last run
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Measure in this world of the lab instead of bringing one up
    #[arg(long, value_name = "NAME", conflicts_with = "this_host")]
    world: Option<String>,
    /// kvm: by this machine's own KVM; xen-pv: this is a dom0
    #[arg(long, alias = "here")]
    this_host: bool,
    /// Also count what the hypervisor does with privileged forms: KVM's exits by reason, Xen's emulations (xentrace)
    #[arg(long)]
    count: bool,
    /// The CPU that the native process is pinned to [default: the last]
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<usize>,
    /// Rounds per form [default: depends on the environment]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=255))]
    rounds: Option<u32>,
    /// Time limit of one environment, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// List every figure, not only the groups' medians and what is marked
    #[arg(long)]
    all: bool,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
    /// List the forms with their code; measures nothing
    #[arg(long)]
    forms: bool,
    /// Write the image to this file; measures nothing
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    Native,
    Tcg,
    Kvm,
    XenPv,
}

impl From<On> for Environment {
    fn from(on: On) -> Self {
        match on {
            On::Native => Self::Native,
            On::Tcg => Self::Tcg,
            On::Kvm => Self::Kvm,
            On::XenPv => Self::XenPv,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    Sound,
    Paper,
    Both,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.image {
        std::fs::write(path, xweave_cost::IMAGE)
            .map_err(|e| Failure::Failed(format!("cannot write the image {}: {e}", path.display())))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.forms {
        return shown::only(|out| match args.json {
            true => xweave_report::document::write_line(out, &document::build_forms()),
            false => write!(out, "{}", tables::catalogue(view())),
        });
    }
    let selection = Selection { groups: args.group, form: args.form };
    selection.check().map_err(Failure::usage)?;
    let environments: Vec<Environment> = args.on.iter().map(|on| (*on).into()).collect();
    if args.published && !environments.contains(&Environment::Native) {
        return Err(Failure::Usage("--published compares native figures: add native to --on".into()));
    }
    // Said before the time is spent on measuring.
    let identified =
        args.microarchitecture.map_or_else(microarchitecture::identify, microarchitecture::assume);
    let figures = if args.published { figures(&identified) } else { None };
    // What was started is ended first.
    interrupt::install(interrupt::Again::Waits, interrupt::Blocked::Returns);
    let options = Options {
        cpu: args.cpu.unwrap_or_else(run::last_cpu),
        rounds: args.rounds,
        looped: args.looped,
        world: args.world,
        this_host: args.this_host,
        count: args.count,
        timeout: Duration::from_secs(args.timeout),
    };
    let run = run::run(&Request { environments, bare: args.bare, options }, &show)?;
    let processor = xweave_cost::processor();
    let tsc_hz = xweave_cost::tsc_hz();
    let mut reasons = Vec::new();
    let changes = args.history.as_ref().and_then(|path| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let changes = history::remember(path, &run.measured, &processor, tsc_hz, now);
        // What was measured is shown all the same.
        changes.map_err(|error| reasons.push(error.to_string())).ok()
    });
    let comparison = Comparison { measured: run.measured };
    let native = comparison.measured.iter().find(|one| one.environment == Environment::Native);
    let beside = native
        .filter(|_| args.published)
        .map(|native| figures.map_or_else(Vec::new, |figures| published::beside(native, figures)));
    let method = match args.method {
        How::Sound => Method::Sound,
        How::Paper => Method::Paper,
        How::Both => Method::Both,
    };
    let rows = selection.rows(&comparison, method);

    if args.json {
        let of = Measurement {
            comparison: &comparison,
            rows: &rows,
            method,
            failed: &run.failed,
            processor: &processor,
            identified: &identified,
            tsc_hz,
            beside: beside.as_deref(),
            changes: changes.as_deref(),
        };
        shown::print(|out| xweave_report::document::write(out, &of.build()))?;
    } else {
        let mut text = summary::heading(&comparison, &processor, &identified);
        // Forms that were asked for are all shown.
        let every = args.all || !selection.is_all();
        let table = if every { tables::all } else { tables::summary };
        text.push_str(&table(&comparison, &rows, view()));
        if let Some(beside) = beside.as_ref().filter(|_| figures.is_some()) {
            text.push_str(&summary::agreement(beside, identified.name, view()));
        }
        if let Some(changes) = &changes {
            text.push_str(&summary::changes(changes));
        }
        shown::print(|out| out.write_all(text.as_bytes()))?;
    }
    if run.interrupted {
        return Ok(ExitCode::from(130));
    }
    let given_up = comparison.measured.iter().filter_map(|one| {
        let why = one.given_up.as_ref()?;
        Some(format!("{}: not measured to the end: {why}", one.environment))
    });
    let failed = run.failed.iter().map(|(environment, error)| format!("{environment}: {error}"));
    let reasons: Vec<String> = failed.chain(given_up).chain(reasons).collect();
    if reasons.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(Failure::Failed(reasons.join("; "))) }
}

/// How tables are shown.
fn view() -> View {
    View::of_stdout(140)
}

/// The published figures to compare with; says so if there are none.
fn figures(identified: &Identified) -> Option<&'static [published::Figure]> {
    let figures = published::figures(identified.name);
    if figures.is_none() {
        let known: Vec<_> = published::names().map(|name| name.to_string()).collect();
        told::tell(&format!(
            "no published figures are known of this CPU ({}): it is measured, and compared with nothing. \
             There are those of {}: --microarchitecture NAME compares with these",
            identified.evidence,
            known.join(", ")
        ));
    }
    figures
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Bare(_) => Self::usage(error),
            RunError::Reference(_) => Self::Failed(error.to_string()),
        }
    }
}
