//! `xweave records`: what advice stored.

use std::{collections::BTreeSet, io::Write, process::ExitCode};

use xweave_flow::{
    Stored,
    stored::{By, Filter},
};
use xweave_report::{View, document, next, records};
use xweave_text as text;
use xweave_trace::Trace;

use crate::{confinement::Only, failure::Failure, names::TraceDir, shown, trust::Owner};

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Places, and groups, that are listed unless all are asked for.
const LISTED: usize = 16;

/// Functions that are named where none of them was passed.
const NAMED: usize = 3;

/// Show hit counts and value statistics of each attach point
///
/// Values are called as they are written in STORE_DATA: `len` of STORE_DATA1(skb->len); v1 to v7 where that is no name.
/// Percentiles are exact up to 8,192 values of a place, and of a random choice of these beyond.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave record -e 'advice sent execution(tcp_sendmsg) { STORE_DATA1(size); }' \\
      -o trace --duration 5s
  xweave records trace                       each place: how many, min, p50, p99
  xweave records trace --hist size           a histogram of a value
  xweave records trace --by process          or by domain, cpu, a value's name
  xweave records trace --of sent --limit 20  the first of them, one by one
  xweave records trace --json | jq '.sites[] | {function, values}'")]
pub struct Args {
    /// A trace directory, of `xweave record`; `latest`: the newest in the current directory
    #[arg(value_name = "DIR")]
    trace: TraceDir,
    #[command(flatten)]
    owner: Owner,
    /// Only records of this advice or function
    #[arg(long, value_name = "NAME")]
    of: Option<String>,
    /// Only records of this domain
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// Count them by `domain`, `cpu`, `process`, or a stored value (its name, or v1 to v7)
    #[arg(long, value_name = "KEY")]
    by: Option<String>,
    /// Show how a stored value is distributed, in powers of two
    #[arg(long, value_name = "VALUE")]
    hist: Option<String>,
    /// List the first N records
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Show all places, or groups
    #[arg(long)]
    all: bool,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    Only::reading([&*args.trace]).apply()?;
    let trace = args.owner.open_telling(&args.trace)?;
    if let Some(name) = &args.domain {
        let known = trace.manifest().domains.iter().map(|domain| &*domain.name);
        if !known.clone().any(|known| known == name) {
            let (dir, instead) = (args.trace.display(), text::instead(name, known));
            return Err(Failure::Failed(format!("{dir} has no domain {name}: {instead}")));
        }
    }
    let filter = Filter { of: args.of.clone(), domain: args.domain.clone() };
    let by = args.by.as_deref().map(|by| match by {
        "domain" => By::Domain,
        "cpu" => By::Cpu,
        "process" => By::Process,
        value => By::Value(value.to_owned()),
    });
    let stored = Stored::of(&trace, &filter, by.as_ref(), args.hist.as_deref(), args.limit.unwrap_or(0));
    let whole = Failure::unless_whole(&stored.damaged);
    if stored.count == 0 {
        return Err(Failure::Failed(nothing(&trace, args)));
    }
    if let Some(name) = unknown(&stored, by.as_ref(), args) {
        let names = stored.sites.iter().flat_map(|site| &site.values).map(|of| &*of.name);
        let keys = args.by.iter().flat_map(|_| ["domain", "cpu", "process"]);
        return Err(Failure::Failed(format!(
            "no record has a value called {name}: {}",
            text::instead(name, names.chain(keys))
        )));
    }
    let (manifest, most) = (trace.manifest(), if args.all { usize::MAX } else { LISTED });
    if args.json {
        shown::only(|out| document::records::write(out, &stored, manifest.lost))?;
    } else {
        let view = View::of_stdout(WIDE);
        shown::only(|out| {
            let span = manifest.end_ns.saturating_sub(manifest.start_ns);
            writeln!(out, "{}", records::summary(&stored, manifest.lost, span))?;
            if args.limit.is_some() {
                return write!(out, "{}", records::list(&stored.records, manifest.start_ns, view));
            }
            if let Some(by) = &args.by {
                write!(out, "{}", records::groups(&stored, by, most, view))?;
            }
            if args.by.is_some() && args.hist.is_some() {
                writeln!(out)?;
            }
            if let Some(name) = &args.hist {
                write!(out, "{}", records::histogram(&stored.bits, name, view))?;
            }
            if args.by.is_none() && args.hist.is_none() {
                write!(out, "{}", records::sites(&stored, most, view))?;
            }
            Ok(())
        })?;
    }
    whole
}

/// The name of a value that was asked for and that no record has.
fn unknown<'a>(stored: &Stored, by: Option<&'a By>, args: &'a Args) -> Option<&'a str> {
    let grouped = match by {
        Some(By::Value(name)) if stored.groups.is_empty() => Some(name.as_str()),
        _ => None,
    };
    grouped.or_else(|| args.hist.as_deref().filter(|_| stored.bits.iter().all(|count| *count == 0)))
}

/// Why there is nothing to show, and what to do.
fn nothing(trace: &Trace, args: &Args) -> String {
    let (dir, argument) = (args.trace.display(), next::argument_of(trace));
    let storing = || trace.sites().iter().filter(|site| !site.values.is_empty());
    match &args.of {
        None if args.domain.is_some() => format!("{dir} has no records of that domain"),
        None if trace.sites().is_empty() => {
            format!("{dir} has no records: it has events, which `xweave explain {argument}` is for")
        }
        None if storing().next().is_some() => {
            let places: BTreeSet<&str> = storing().map(|site| &*site.function).collect();
            let first = places.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            let others = if places.len() > NAMED { ", …" } else { "" };
            format!("{dir} has no records: nothing passed {first}{others} while this was recorded")
        }
        None => format!(
            "{dir} has no records that advice stored: advice does so with STORE_DATA1(…); `xweave flows {argument}` \
             shows flows"
        ),
        Some(_) if storing().next().is_none() => format!("{dir} has no advice that stores anything"),
        Some(name) => {
            let names = storing().flat_map(|site| [&*site.advice, &*site.function]);
            if names.clone().any(|known| known == name) {
                return format!("{dir} has no records of {name}: it did not happen while this was recorded");
            }
            let instead = text::instead(name, names);
            format!("{dir} has no advice or function {name} that stores anything: {instead}")
        }
    }
}
