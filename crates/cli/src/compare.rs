//! `xweave compare`: two runs, object by object; `contrast` compares transactions.

use std::{io::Write, path::Path, process::ExitCode};

use xweave_model::{Comparison, Spec, Usage};
use xweave_report::{
    View,
    comparison::{self, Which},
    document,
};

use crate::{confinement::Only, contrast, failure::Failure, names::TraceDir, shown, told, trust::Owner};

/// Columns where standard output is no terminal.
const WIDE: u16 = 180;

/// How many causes are shown, unless asked otherwise.
const CAUSES: usize = 10;

/// Compare two runs of the same work, object by object, or slow transactions with typical ones
///
/// Objects are processes, disks, peers, locks, interrupts and vCPUs, matched by domain, kind and name. A difference of
/// less than a factor of 1.25, or one that explains less than 1 % of the longer run, counts as noise.
///
/// With --transaction: where the time went by which transactions differ. Of one run, the slowest tenth (the slowest
/// quarter of fewer than 100) is compared with the middle half; of two runs, the middle half of each.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave record --events sched,block -o one-by-one -- sh -c 'cat file1; cat file2'
  xweave record --events sched,block -o at-once -- sh -c 'cat file1 & cat file2 & wait'
  xweave compare one-by-one at-once
  xweave compare one-by-one at-once --json | jq .findings
  xweave compare trace --transaction request:80
  xweave compare before after --transaction request:80")]
pub struct Args {
    /// The trace directory of the first run
    #[arg(value_name = "DIR_A")]
    first: TraceDir,
    /// The trace directory of the second run
    #[arg(value_name = "DIR_B")]
    second: Option<TraceDir>,
    #[command(flatten)]
    owner: Owner,
    /// Compare transactions of a kind, as `xweave explain` takes it: slow with typical ones, or those of two runs
    #[arg(long, value_name = "SPEC")]
    transaction: Option<Spec>,
    /// Show up to N objects of each kind [default: the 8 that changed most of all kinds]; with --transaction, N causes
    /// [default: 10]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// List all changes and all objects, also those that did not change; with --transaction, each object and state
    #[arg(long)]
    all: bool,
    /// Print a JSON document of all objects; with --transaction, of all causes and parts
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let dirs: Vec<&Path> = std::iter::once(&*args.first).chain(args.second.as_deref()).collect();
    Only::reading(dirs.iter().copied()).apply()?;
    match (&args.transaction, &args.second) {
        (Some(spec), _) => transactions(args, spec, &dirs),
        (None, Some(second)) => objects(args, &args.first, second),
        (None, None) => Err(Failure::Usage(
            "with which run is it to be compared? Give a second directory; or compare slow with typical transactions \
             of this one, such as --transaction request:80"
                .to_owned(),
        )),
    }
}

fn transactions(args: &Args, spec: &Spec, dirs: &[&Path]) -> Result<ExitCode, Failure> {
    let mut traces = Vec::new();
    for dir in dirs {
        let trace = args.owner.open_telling(dir)?;
        if !trace.has_events() {
            return Err(Failure::no_events(&trace));
        }
        traces.push(trace);
    }
    let how =
        contrast::Shown { json: args.json, all: args.all, limit: args.limit.unwrap_or(CAUSES), wide: WIDE };
    contrast::run(&traces, spec, &how)
}

fn objects(args: &Args, first: &Path, second: &Path) -> Result<ExitCode, Failure> {
    let (a, b) = (read(&args.owner, first)?, read(&args.owner, second)?);
    let compared = Comparison::of(&a.usage, &b.usage);
    let printed = shown::print(|out| {
        if args.json {
            return document::compare::write(out, &compared);
        }
        let view = View::of_stdout(WIDE);
        let which = Which { limit: args.limit, all: args.all };
        write!(out, "{}", comparison::findings(&compared, which, view))?;
        write!(out, "{}", comparison::tables(&compared, which, view))
    })?;
    if printed.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    for one in [&a, &b] {
        if one.lost > 0 {
            told::tell(&format!("{} lost {} records: its figures are too low", one.dir.display(), one.lost));
        }
    }
    for (one, other) in [(&a, &b), (&b, &a)] {
        for domain in one.domains.iter().filter(|domain| !other.domains.contains(domain)) {
            told::tell(&format!(
                "{} has the domain {domain}, which {} lacks: it is not compared. Call it the same in both \
                 recordings (--domain NAME=…)",
                one.dir.display(),
                other.dir.display()
            ));
        }
    }
    Failure::unless_whole(a.usage.damaged.iter().chain(&b.usage.damaged))
}

/// A trace, gone over.
struct Run<'a> {
    dir: &'a Path,
    usage: Usage,
    domains: Vec<String>,
    lost: u64,
}

fn read<'a>(owner: &Owner, dir: &'a Path) -> Result<Run<'a>, Failure> {
    let trace = owner.open_telling(dir)?;
    let usage = Usage::of(&trace);
    if usage.events == 0 && usage.damaged.is_empty() {
        return Err(Failure::no_events(&trace));
    }
    let manifest = trace.manifest();
    let domains = manifest.domains.iter().map(|domain| domain.name.clone()).collect();
    Ok(Run { dir, usage, domains, lost: manifest.lost })
}
