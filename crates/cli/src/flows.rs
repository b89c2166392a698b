//! `xweave flows`: the flow table and the segments of a trace.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use xweave_flow::{
    Flow, FlowKind, Flows, Wanted, ancestry,
    by_value::{self, Groups},
    exchange,
};
use xweave_model::Spec;
use xweave_report::{
    View, absent, closing, document, exchanges,
    hops::{self, Steps},
    kinds, next, places, segments,
};
use xweave_trace::Trace;

use crate::{
    arguments, confinement::Only, failure::Failure, joining, names::TraceDir, shown, told, trust::Owner,
};

/// Kinds of flow that are listed, unless all are asked for.
const KINDS: usize = 8;

/// Groups of flows, likewise.
const GROUPS: usize = 16;

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Show the path and latency of flows, step by step
///
/// Without options: latency by stage for the flows most like the typical one; that one step by step, with the time since the
/// previous step; latency by kind of flow; and the number of flows followed and records lost.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave flows trace                   where the time goes, and a typical flow
  xweave flows trace --all             where the time of each kind of flow goes
  xweave flows trace --steps           every step, and its time over all flows
  xweave flows trace --flow 0x200000000000001
  xweave flows trace --by connection   requests, and where their time went
  xweave flows trace --by ifindex      how long flows were in each tap's queue
  xweave flows trace --name virtio_tx --limit 5
  xweave flows trace --json | jq .summary")]
pub struct Args {
    /// A trace directory, of `xweave record`; `latest`: the newest in the current directory
    #[arg(value_name = "DIR")]
    trace: TraceDir,
    #[command(flatten)]
    owner: Owner,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
    /// Show the flow with this ID (decimal or 0x…), and what it is a part of and was cut into
    #[arg(long, value_name = "ID", value_parser = arguments::id)]
    flow: Option<u64>,
    /// Show the first N flows
    #[arg(long, value_name = "N", conflicts_with = "flow")]
    limit: Option<usize>,
    /// Group flows: by `connection`, the frames of a request and of its answer; by a value that advice stored (its name, or
    /// v1 to v7), where they were from there on, and for how long
    #[arg(long, value_name = "WHAT", conflicts_with = "flow")]
    by: Option<String>,
    /// List all kinds of flow (or servers), and where the time of each went
    #[arg(long)]
    all: bool,
    /// Show every step: where objects are only handed on, copies that went other ways, and the times between steps
    #[arg(long)]
    steps: bool,
    /// Only flows of this xflow definition
    #[arg(long, value_name = "XFLOW")]
    name: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    Only::reading([&*args.trace]).apply()?;
    let trace = args.owner.open(&args.trace)?;
    if let Some(name) = &args.name {
        let known = || trace.sites().iter().filter_map(|site| site.xflow.as_deref());
        if !known().any(|known| known == name) {
            let (dir, instead) = (args.trace.display(), xweave_text::instead(name, known()));
            return Err(Failure::Failed(format!("{dir} has no flow definition (xflow) {name}: {instead}")));
        }
    }
    let of = |flow: &Flow| {
        args.name.as_ref().is_none_or(|name| flow.name == *name)
            && args.flow.is_none_or(|id| flow.locals.contains(&id))
    };
    let wanted = |kept| Wanted { of: &of, kept };
    let join = || joining::join(&trace);
    match args.by.as_deref() {
        None => {}
        Some("connection") => {
            return by_connection(&trace, &Flows::read(&trace, join(), wanted(None)), &args);
        }
        Some(name) => {
            let (flows, groups) = by_value::read(&trace, join(), wanted(Some(0)), name);
            return by_stored_value(&trace, &flows, &groups, name, &args);
        }
    }
    if let Some(id) = args.flow {
        let flows = Flows::read(&trace, join(), wanted(None)).with_takers(&trace);
        if flows.flows().is_empty() {
            let (dir, argument) = (args.trace.display(), next::argument_of(&trace));
            return Err(Failure::Failed(format!(
                "{dir} has no flow {id:#x}: `xweave flows {argument} --json` lists all"
            )));
        }
        if args.json {
            return shown::only(|out| document::flows::write(out, &flows));
        }
        let relatives = ancestry::relatives(join(), id);
        let is_one = |flow: &Flow| relatives.contains(&flow.id);
        let family =
            (relatives.len() > 1).then(|| Flows::read(&trace, join(), Wanted { of: &is_one, kept: None }));
        return shown::only(|out| {
            if let Some(family) = &family {
                let family = ancestry::family(family.flows());
                let own = flows.flows().first().map_or(id, |flow| flow.id);
                writeln!(out, "{}", xweave_report::ancestry::table(&family, own, View::of_stdout(WIDE)))?;
            }
            tables(&flows, &args, out)
        });
    }
    if args.json {
        return shown::only(|out| {
            let mut document = document::flows::Stream::begin(out, args.limit.unwrap_or(usize::MAX))?;
            let flows = Flows::each(&trace, join(), wanted(Some(0)), |flow| document.flow(&flow))?;
            document.end(&flows.with_takers(&trace))
        });
    }
    let flows = Flows::read(&trace, join(), wanted(Some(args.limit.unwrap_or(0)))).with_takers(&trace);
    if let Some(remark) = next::instead_of_flows(&trace) {
        told::tell(&remark);
    }
    let kind = flows.typical().map(|flow| format!("flow:{}", flow.name));
    let why = kind.and_then(|kind| next::why(&trace, &kind)).unwrap_or_default();
    shown::only(|out| {
        tables(&flows, &args, out)?;
        write!(out, "{why}")
    })
}

fn by_connection(trace: &Trace, flows: &Flows, args: &Args) -> Result<ExitCode, Failure> {
    let found = exchange::of(flows);
    let services = exchange::services(&found);
    let listed = &found[..args.limit.unwrap_or(usize::MAX).min(found.len())];
    if args.json {
        return shown::only(|out| document::exchange::write(out, flows, &services, listed));
    }
    if found.is_empty() {
        return Err(Failure::Failed(next::instead_of_flows(trace).unwrap_or_else(|| {
            format!(
                "no request with an answer is in {}: frames of TCP, UDP or ICMP both ways are needed, \
                 as `xweave record virtio-net` records them",
                args.trace.display()
            )
        })));
    }
    shown::only(|out| {
        let view = View::of_stdout(WIDE);
        if args.limit.is_some() {
            writeln!(out, "{}", exchanges::list(listed.iter(), view))?;
        }
        if let Some(text) = services.first().and_then(|of| exchanges::typical(of, &found, view)) {
            writeln!(out, "{text}")?;
        }
        let (most, detailed) = if args.all { (usize::MAX, usize::MAX) } else { (KINDS, 1) };
        writeln!(out, "{}", exchanges::services(&services, most, view))?;
        for service in services.iter().take(detailed) {
            writeln!(out, "{}", exchanges::parts(service, view))?;
        }
        write!(out, "{}", closing::line(flows.summary(), view))?;
        let first = services.first().map(|of| Spec::Exchange(Some(of.server.port()), None));
        let why = first.and_then(|spec| next::why(trace, &spec.to_string()));
        write!(out, "{}", why.unwrap_or_default())
    })
}

fn by_stored_value(
    trace: &Trace,
    flows: &Flows,
    groups: &Groups,
    by: &str,
    args: &Args,
) -> Result<ExitCode, Failure> {
    if groups.groups.is_empty() {
        return Err(Failure::Failed(absent::no_value(trace, by)));
    }
    if args.json {
        return shown::only(|out| document::flows::write_by_value(out, flows.summary(), by, groups));
    }
    shown::only(|out| {
        let view = View::of_stdout(WIDE);
        let most = if args.all { usize::MAX } else { GROUPS };
        writeln!(out, "{}", xweave_report::by_value::table(groups, by, most, view))?;
        write!(out, "{}", closing::line(flows.summary(), view))
    })
}

fn tables(flows: &Flows, args: &Args, out: &mut impl Write) -> io::Result<()> {
    let view = View::of_stdout(WIDE);
    let typical = flows.typical();
    let of_typical = typical.and_then(|flow| flows.kind_of(flow));
    if let Some(kind) = of_typical.filter(|_| args.limit.is_none()) {
        time_of(flows, kind, args, view, out)?;
    }
    let shown = match args.limit {
        Some(limit) => flows.flows().iter().take(limit).collect(),
        None => Vec::from_iter(typical),
    };
    let which = if args.steps { Steps::All } else { Steps::OfPath };
    for flow in shown {
        writeln!(out, "{}", hops::table(flows, flow, which, view))?;
    }
    if flows.kinds().len() > 1 {
        let most = if args.all { usize::MAX } else { KINDS };
        writeln!(out, "{}", kinds::table(flows.kinds(), most, view))?;
    }
    for kind in flows.kinds().iter().filter(|_| args.all) {
        if args.limit.is_some() || of_typical != Some(kind) {
            time_of(flows, kind, args, view, out)?;
        }
    }
    write!(out, "{}", closing::line(flows.summary(), view))
}

/// Where the time of the flows of a kind went.
fn time_of(flows: &Flows, kind: &FlowKind, args: &Args, view: View, out: &mut impl Write) -> io::Result<()> {
    let of_kind = flows.places_of(kind);
    writeln!(out, "{}", places::headline(kind, of_kind))?;
    if !of_kind.is_empty() {
        writeln!(out, "{}", places::table(of_kind, view))?;
    }
    if args.steps && !flows.segments_of(kind).is_empty() {
        writeln!(out, "{}", segments::table(flows.segments_of(kind), view))?;
    }
    Ok(())
}
