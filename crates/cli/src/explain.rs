//! `xweave explain`: where the time of transactions went.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use xweave_document::explain::Explain;
use xweave_flow::Histogram;
use xweave_model::{
    Between, Census, DefaultSpec, Outcome, RecorderUse, Slowest, Spec, Tally, Usage, explain,
};
use xweave_report::{
    View, absent,
    document::{
        self, divided,
        explain::{self as explained, Stream},
    },
    histogram, intervals, lives, losses, machines, mermaid, next, number, sizes, steps, transactions,
};
use xweave_trace::Trace;
use xweave_vary::usual;

use crate::{arguments, confinement::Only, failure::Failure, names::TraceDir, shown, told, trust::Owner};

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Programs whose processes are told of.
const PROGRAMS: usize = 10;

/// Break down the latency of requests, processes and flows: threads, disks, locks, connections, vCPUs
///
/// Each transaction's time is divided among the objects that took it, without gap or overlap: who ran, who waited
/// for a CPU and who had it, which disk, lock or peer was waited for, and what vCPU exits and halts cost in the
/// host. If the trace has neither flows nor requests, prints a summary of each machine (as --machines).
#[derive(clap::Args)]
#[command(after_help = "\
What a transaction is (SPEC):
  connect[:PORT]       from the client's connect() to the server's accept()
  request[:PORT]       from a request on a connection to the end of its response; over UDP, to the datagram sent back
  request[:PORT]@DOM   the same as this domain sees it: at a server, from the request's arrival to the end of its response
  process[:NAME]       from the start of a process to its exit
  thread[:NAME]        from the start of a thread to its exit
  flow[:NAME]          from the start of a flow to its end; of network frames, those with data, if there are any
  exchange[:PORT]      from a request's first frame to the end of its answer's last one, as flows of frames tell
  call[:PORT]          from a call's first request to the end of its last answer: exchanges of one key (record --key)
  …,rate=R             of one of these: from when it was due, as one of R a second
  between:FROM..TO     from one event, function or advice to another: disk_queue..disk_issue, vm_exit..vm_enter,
                       send..receive, vfs_read..vfs_read (its call to its return), submit..done,by=v1; of more than
                       two (A..B..C), as --points takes them, each must be passed in turn

Examples:
  xweave record --events sched,net --domain vm1=vsock:3 -o trace --duration 10s
  xweave explain trace --machines
  xweave explain trace --transaction connect:80
  xweave explain trace --transaction request:80 --id 17
  xweave explain trace --transaction request:80 --by size
  xweave explain trace --points send@vm1,receive@vm2,send@vm2,receive@vm1
  xweave explain trace --transaction process:dd --json
  xweave explain trace --id 17 --mermaid > sequence.mmd")]
pub struct Args {
    /// A trace directory, of `xweave record` or `xweave import`; `latest`: the newest in the current directory
    #[arg(value_name = "DIR")]
    trace: TraceDir,
    #[command(flatten)]
    owner: Owner,
    /// Which transactions [default: requests to the service with the most, by their frames, or else by events; without
    /// any, flows; if neither, see --machines]
    #[arg(long, value_name = "SPEC")]
    transaction: Option<Spec>,
    /// Latency between trace points that are passed in turn: A,B,C[,by=KEY]
    #[arg(long, value_name = "POINTS", conflicts_with = "transaction", value_parser = Between::of_points)]
    points: Option<Between>,
    /// Print a summary of each machine: CPUs, who waited for whom, VM exits, disks, connections, locks
    #[arg(long, conflicts_with_all = ["transaction", "points", "by", "limit", "id", "mermaid"])]
    machines: bool,
    /// Also divide the transactions: by how much data they carried
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["id", "json"])]
    by: Option<By>,
    /// Also list each object and state that their time was spent on; with --id, each step; with --machines, all virtual
    /// machines, CPUs, disks and waits
    #[arg(long)]
    all: bool,
    /// Also show how their times are distributed, as a histogram
    #[arg(long, conflicts_with_all = ["id", "json", "machines"])]
    hist: bool,
    /// How many of the slowest to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    limit: usize,
    /// Show this transaction step by step
    #[arg(long, value_name = "ID", value_parser = arguments::id)]
    id: Option<u64>,
    /// Print that transaction as a Mermaid sequence diagram
    #[arg(long, requires = "id", conflicts_with = "json")]
    mermaid: bool,
    /// Print a JSON document of all transactions
    #[arg(long)]
    json: bool,
}

/// What transactions are divided by.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// How much data they sent and received, or read and wrote.
    Size,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    Only::reading([&*args.trace]).apply()?;
    let trace = args.owner.open_telling(&args.trace)?;
    let dir = args.trace.display();
    if !trace.has_events() {
        return Err(Failure::no_events(&trace));
    }
    let named = args.transaction.clone().or_else(|| args.points.clone().map(Spec::Between));
    let asked = named.map(DefaultSpec::from).or_else(|| match args.machines {
        true => None,
        false => usual(&trace, 1),
    });
    // What the terminal shows of such a trace is in its document, too.
    let shows_machines = asked.is_none() && !args.machines && args.json && args.id.is_none();
    let machines = shows_machines.then(|| Usage::of(&trace));
    let chosen = match asked {
        Some(chosen) => chosen,
        // Documents and steps are of transactions.
        None if !args.machines && (args.json || args.id.is_some()) => Spec::Process(None).into(),
        None => return in_all(&trace, args),
    };
    let spec = &chosen.spec;
    let printed = shown::print(|out| match (args.json, args.id) {
        (true, wanted) => document(&trace, &chosen, wanted, machines.as_ref(), out),
        (false, Some(wanted)) => one(&trace, spec, wanted, args, out),
        (false, None) => tables(&trace, &chosen, args, out),
    })?;
    let Some(Printed { outcome, found }) = printed else { return Ok(ExitCode::SUCCESS) };
    let whole = Failure::unless_whole(&outcome.damaged);
    // Some are always under way at the end of a recording.
    let (accesses, without_end) = (outcome.accesses, outcome.incomplete_ios);
    if without_end * 2 > accesses {
        told::tell(&format!(
            "{dir} lacks the ends of {without_end} of {accesses} disk I/O requests: what threads waited for \
             them is reported as waiting. Requests end in interrupts: record those of all processors (perf record -a), \
             with block_rq_complete"
        ));
    }
    match args.id {
        _ if outcome.transactions == 0 && machines.is_none() => Err(none(&trace, spec, &outcome)),
        Some(wanted) if !found => Err(Failure::Failed(format!(
            "{dir} has no transaction {wanted} of the kind {spec}: {} --json lists all",
            next::explain_command(&trace, spec)
        ))),
        _ => whole,
    }
}

/// What the machines did.
fn in_all(trace: &Trace, args: &Args) -> Result<ExitCode, Failure> {
    let usage = Usage::of(trace);
    shown::print(|out| {
        if args.json {
            return document::machines::write(out, &usage);
        }
        let (view, dir) = (View::of_stdout(WIDE), next::argument_of(trace));
        let domains: Vec<_> = trace.manifest().domains.iter().map(|domain| &*domain.name).collect();
        write!(out, "{}", losses::text_of_recorder(&RecorderUse::of(trace, &usage), view))?;
        write!(out, "{}", machines::text(&usage, &domains, args.all, view))?;
        write!(out, "\n{}", machines::transactions(&Census::of(trace), &dir, view))
    })?;
    if trace.manifest().lost > 0 {
        told::tell(&format!("{} records were lost: figures are too low", trace.manifest().lost));
    }
    Failure::unless_whole(&usage.damaged)
}

/// Fails with what the trace has instead of transactions of that kind.
pub fn none(trace: &Trace, spec: &Spec, outcome: &Outcome) -> Failure {
    Failure::Failed(absent::no_transactions(trace, spec, outcome))
}

/// What came of printing.
struct Printed {
    outcome: Outcome,
    /// Whether the one that was asked for was among them.
    found: bool,
}

fn tables(trace: &Trace, chosen: &DefaultSpec, args: &Args, out: &mut impl Write) -> io::Result<Printed> {
    let (spec, view) = (&chosen.spec, View::of_stdout(WIDE));
    let limit = args.limit;
    let mut tally = Tally::of(spec, args.by == Some(By::Size));
    let mut slowest = Slowest::new(limit);
    let outcome = explain(trace, spec, &mut |transaction, objects| {
        tally.add(&transaction, objects);
        slowest.add(transaction);
    });
    let Tally { totals, intervals, programs, sizes } = tally;
    if outcome.transactions > 0 {
        write!(out, "{}", losses::text(&outcome, trace.manifest(), args.all, view))?;
        writeln!(out, "{}", transactions::totals(&totals, &spec.to_string(), view))?;
        if args.hist {
            let mut times = Histogram::default();
            totals.lengths().iter().for_each(|ns| times.add(i64::try_from(*ns).unwrap_or(i64::MAX)));
            writeln!(out, "{}", histogram::times(&times, "Transactions", view))?;
        }
        if let Some(intervals) = &intervals {
            writeln!(out, "{}", intervals::text(intervals, &totals, &outcome, view))?;
        }
        if let Some(programs) = &programs {
            let most = if args.all { usize::MAX } else { PROGRAMS };
            writeln!(out, "{}", lives::table(&programs.all(&outcome.objects), most, view))?;
        }
        if let Some(sizes) = &sizes {
            writeln!(out, "{}", sizes::table(sizes, outcome.transactions, view))?;
        }
        if args.all {
            writeln!(out, "{}", transactions::breakdown(&totals, view))?;
        }
        let by_default = args.transaction.is_none() && args.points.is_none();
        let evidence = next::evidence(spec).filter(|_| by_default);
        for line in evidence.into_iter().chain(next::other_services(chosen)) {
            writeln!(out, "{line}\n")?;
        }
        let slowest = slowest.into_vec();
        if !slowest.is_empty() {
            writeln!(out, "The slowest:\n{}", transactions::table(&slowest, &outcome.objects, view))?;
            let command = next::explain_command(trace, spec);
            writeln!(out, "Step by step: {command} --id {}", transactions::id(slowest[0].id))?;
            if !args.all {
                let parts = number::counted(totals.parts() as u64, "part", "parts");
                writeln!(out, "By object and state, {parts}: {command} --all")?;
            }
        }
    }
    Ok(Printed { outcome, found: true })
}

fn one(trace: &Trace, spec: &Spec, wanted: u64, args: &Args, out: &mut impl Write) -> io::Result<Printed> {
    let (view, diagram) = (View::of_stdout(WIDE), args.mermaid);
    let mut text = None;
    let outcome = explain(trace, spec, &mut |transaction, objects| {
        if transaction.id == wanted {
            text = Some(match diagram {
                true => mermaid::diagram(&transaction, objects),
                false => steps::table(&transaction, objects, args.all, view),
            });
        }
    });
    if let Some(text) = &text {
        match diagram {
            // What reads a diagram reads nothing else.
            true => losses::remarks(&outcome, trace.manifest()).iter().for_each(|remark| told::tell(remark)),
            false => write!(out, "{}", losses::text(&outcome, trace.manifest(), args.all, view))?,
        }
        write!(out, "{text}")?;
    }
    Ok(Printed { outcome, found: text.is_some() })
}

/// Transactions are written as they are found: there may be more than memory holds.
fn document(
    trace: &Trace,
    chosen: &DefaultSpec,
    wanted: Option<u64>,
    machines: Option<&Usage>,
    out: &mut impl Write,
) -> io::Result<Printed> {
    let spec = &chosen.spec;
    let mut document = Stream::begin(out, spec)?;
    let mut tally = Tally::of(spec, true);
    let (mut found, mut written) = (wanted.is_none(), Ok(()));
    let outcome = explain(trace, spec, &mut |transaction, objects| {
        tally.add(&transaction, objects);
        let this = wanted.is_none_or(|wanted| wanted == transaction.id);
        if this && written.is_ok() {
            written =
                document.transaction(&explained::build_transaction(&transaction, objects, wanted.is_some()));
        }
        found |= this;
    });
    written?;
    let Tally { totals, intervals, programs, sizes } = tally;
    let programs = programs.map(|programs| programs.all(&outcome.objects));
    let all = Explain {
        summary: explained::build_summary(&outcome, &totals),
        other_services: document::parts::build_other_services(chosen),
        sizes: sizes.as_ref().map(divided::build_sizes).unwrap_or_default(),
        points: intervals.as_ref().map(|of| divided::build_points(of, &outcome)),
        intervals: intervals.as_ref().map(divided::build_intervals),
        lives: programs.map(|programs| programs.iter().map(document::lives::build).collect()),
    };
    document.end(&all, machines.map(document::machines::build).as_ref())?;
    Ok(Printed { outcome, found })
}
