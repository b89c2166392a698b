//! `xweave flows`: the flow table and the segments of a trace.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use xweave_flow::{Flow, Flows, Wanted, ancestry, exchange};
use xweave_report::{View, closing, document, exchanges, hops, kinds, next, segments};

use crate::{arguments, confinement::Only, failure::Failure, joining, shown, trust::Owner};

/// Kinds of flow that are listed, and steps of a typical one's kind, unless all are asked for.
const KINDS: usize = 8;
const STEPS: usize = 5;

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Show the path and latency of flows, step by step
///
/// Without options: the steps of a typical flow, the kinds of flow and how long they took, where those like the typical
/// one spent their time, and a summary of what was followed and lost.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave flows trace                        a typical flow, and where the time goes
  xweave flows trace --all                  the same for every kind of flow, step by step
  xweave flows trace --flow 0x200000000000001
  xweave flows trace --by connection        requests and their answers, and where their time went
  xweave flows trace --name virtio_tx --limit 5
  xweave flows trace --json | jq .summary")]
pub struct Args {
    /// A trace directory, of `xweave record -o`
    #[arg(value_name = "DIR")]
    trace: PathBuf,
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
    /// Put together what belongs together: `connection`: the frames of a request and of its answer
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "flow")]
    by: Option<By>,
    /// List all kinds of flow (or servers), and all steps of each
    #[arg(long)]
    all: bool,
    /// Only flows of this xflow definition
    #[arg(long, value_name = "XFLOW")]
    name: Option<String>,
}

/// What flows are put together by.
#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    /// The frames of one request and of its answer
    Connection,
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
    if args.by.is_some() {
        let instead = next::instead_of_flows(&trace);
        return by_connection(&Flows::read(&trace, join(), wanted(None)), instead, &args);
    }
    if let Some(id) = args.flow {
        let flows = Flows::read(&trace, join(), wanted(None));
        if flows.flows().is_empty() {
            let dir = args.trace.display();
            return Err(Failure::Failed(format!(
                "{dir} has no flow {id:#x}: `xweave flows {dir} --json` lists all"
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
            document.end(&flows)
        });
    }
    let flows = Flows::read(&trace, join(), wanted(Some(args.limit.unwrap_or(0))));
    if let Some(remark) = next::instead_of_flows(&trace) {
        eprintln!("xweave: {remark}");
    }
    shown::only(|out| tables(&flows, &args, out))
}

fn by_connection(flows: &Flows, instead: Option<String>, args: &Args) -> Result<ExitCode, Failure> {
    let found = exchange::of(flows);
    let services = exchange::services(&found);
    let listed = &found[..args.limit.unwrap_or(usize::MAX).min(found.len())];
    if args.json {
        let (summary, services) = (flows.summary(), &*services);
        let connections = document::flows::Connections { summary, services, exchanges: listed };
        return shown::only(|out| document::flows::write_connections(out, &connections));
    }
    if found.is_empty() {
        return Err(Failure::Failed(instead.unwrap_or_else(|| {
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
        write!(out, "{}", closing::line(flows.summary(), view))
    })
}

fn tables(flows: &Flows, args: &Args, out: &mut impl Write) -> io::Result<()> {
    let view = View::of_stdout(WIDE);
    let typical = flows.typical();
    let shown = match args.limit {
        Some(limit) => flows.flows().iter().take(limit).collect(),
        None => Vec::from_iter(typical),
    };
    for flow in shown {
        writeln!(out, "{}", hops::table(flows, flow, view))?;
    }
    let of_typical = typical.and_then(|flow| flows.kind_of(flow));
    if flows.kinds().len() > 1 {
        let most = if args.all { usize::MAX } else { KINDS };
        writeln!(out, "{}", kinds::table(flows.kinds(), most, view))?;
    }
    let most = (!args.all).then_some(STEPS);
    for of_kind in flows.segments().chunk_by(|a, b| a.kind == b.kind) {
        let kind = &of_kind[0].kind;
        if args.all || of_typical.is_some_and(|of| of.name == *kind) {
            writeln!(out, "{kind}:\n{}", segments::table(of_kind, most, view))?;
        }
    }
    write!(out, "{}", closing::line(flows.summary(), view))
}
