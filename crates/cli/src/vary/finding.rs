//! `xweave vary DIR`: which layer makes response time vary, why, and what to try.

use std::{io::Write, path::Path, process::ExitCode};

use xweave_model::{Between, DefaultSpec, Spec};
use xweave_report::{View, absent, document, losses, next, transactions, variation};
use xweave_text::argument;
use xweave_trace::Trace;
use xweave_vary::{Variation, each::each, usual, variation::LEAST};

use crate::{confinement::Only, explain, failure::Failure, shown, trust::Owner};

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

pub const HELP: &str = "\
Examples:
  xweave record virtio-net --where 'udp port 5060' --events sched,net,vm --domain vm1=vsock:3 -o trace --duration 30s
  xweave vary trace
  xweave vary trace --transaction exchange:5060 --json
  xweave vary trace --json --requests | jq '.each[] | [.total_ns, .segments_ns[]]'
  xweave vary trace --points receive@vm1,send@vm1
";

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Latency between trace points that are passed in turn: A,B,C[,by=KEY]
    #[arg(long, value_name = "POINTS", conflicts_with_all = ["transaction", "try", "knobs"], value_parser = Between::of_points)]
    points: Option<Between>,
    /// Show all segments and causes
    #[arg(long, conflicts_with_all = ["try", "knobs"])]
    all: bool,
    /// Also list every request
    #[arg(long, requires = "json", conflicts_with_all = ["try", "knobs"])]
    requests: bool,
}

/// Says why the requests of a trace vary.
pub fn run(
    dir: &Path,
    owner: &Owner,
    transaction: Option<Spec>,
    args: Args,
    json: bool,
) -> Result<ExitCode, Failure> {
    Only::reading([dir]).apply()?;
    let trace = owner.open_telling(dir)?;
    if !trace.has_events() {
        return Err(Failure::no_events(&trace));
    }
    let named = transaction.or_else(|| args.points.map(Spec::Between)).map(DefaultSpec::from);
    let Some(chosen) = named.or_else(|| usual(&trace, LEAST as u64)) else {
        let (requests, outcome) = (Spec::Request(None, None), xweave_model::Outcome::default());
        return Err(explain::none(&trace, &requests, &outcome));
    };
    let spec = &chosen.spec;
    let (found, requests) = Variation::of(&trace, spec).map_err(|few| {
        let sizes = [few.found, LEAST];
        Failure::Failed(absent::too_few(&trace, spec, sizes, "say why they vary", &few.outcome))
    })?;
    let each = args.requests.then(|| each(&requests, 0..requests.all().len()));
    let printed = shown::print(|out| match json {
        true => document::vary::write(out, &found, each.as_deref(), &chosen),
        false => tables(&trace, &chosen, &found, args.all, out),
    })?;
    if printed.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    Failure::unless_whole(&found.outcome.damaged)
}

fn tables(
    trace: &Trace,
    chosen: &DefaultSpec,
    found: &Variation,
    all: bool,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let (spec, view) = (&chosen.spec, View::of_stdout(WIDE));
    write!(out, "{}", losses::text_of_recording(&found.outcome, trace.manifest(), all, view))?;
    writeln!(out, "{}", variation::headline(found, &spec.to_string(), view))?;
    writeln!(out, "{}", variation::segments(found, all, view))?;
    writeln!(out, "{}", variation::causes(found, all, view))?;
    let settings = variation::settings(found, view);
    if !settings.is_empty() {
        writeln!(out, "{settings}")?;
    }
    write!(out, "{}", variation::queues(found, view))?;
    write!(out, "{}", variation::spikes(found, view))?;
    if let Some(others) = next::other_services(chosen) {
        writeln!(out, "{others}")?;
    }
    if let Some(first) = found.causes.first() {
        writeln!(
            out,
            "A slow one, step by step: {} --id {}",
            next::explain_command(trace, spec),
            transactions::id(first.example)
        )?;
    }
    if !all {
        let command = format!("xweave vary {}", next::argument_of(trace));
        writeln!(
            out,
            "Each segment and cause: {command} --transaction {} --all",
            argument(&spec.to_string())
        )?;
    }
    Ok(())
}
