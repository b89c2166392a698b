//! `xweave explain`: where the time of transactions went.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

use serde_json::json;
use xweave_model::{
    Explained, Objects, Outcome, Spec, explain,
    explanation::usual,
    parts::{Totals, parts},
};
use xweave_report::{View, document::SCHEMA, mermaid, transactions};
use xweave_trace::Trace;

use crate::{confinement::Only, failure::Failure, trust::Owner};

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Break down the time of transactions: threads, disks, locks, connections, vCPUs
///
/// Each transaction's time is divided among the objects that took it, without gap or overlap: who ran, who waited
/// for a CPU and who had it, which disk, lock or peer was waited for, and what vCPU exits and halts cost in the
/// host.
#[derive(clap::Args)]
#[command(after_help = "\
What a transaction is (SPEC):
  connect[:PORT]       from the client's connect() to the server's accept()
  request[:PORT]       from a request on a connection to the end of its response
  process[:NAME]       from the start of a process to its exit
  thread[:NAME]        from the start of a thread to its exit
  flow[:NAME]          from the start of a flow to its end
  between:FROM..TO     from one event or function to another of the same thread

Examples:
  xweave record --events sched,net --domain vm1=vsock:3 --domain vm2=vsock:4 -o trace --duration 10s
  xweave explain trace --transaction connect:80
  xweave explain trace --transaction request:80 --id 17
  xweave explain trace --transaction process:dd --json
  xweave explain trace --id 17 --mermaid > sequence.mmd")]
pub struct Args {
    /// A trace directory, of `xweave record -o` or `xweave import -o`
    #[arg(value_name = "DIR")]
    trace: PathBuf,
    #[command(flatten)]
    owner: Owner,
    /// Which transactions [default: what the trace has: flows, requests or processes]
    #[arg(long, value_name = "SPEC")]
    transaction: Option<Spec>,
    /// How many of the slowest to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Show this transaction step by step
    #[arg(long, value_name = "ID", value_parser = crate::flows::id)]
    id: Option<u64>,
    /// Print that transaction as a Mermaid sequence diagram
    #[arg(long, requires = "id", conflicts_with = "json")]
    mermaid: bool,
    /// Print a JSON document of all transactions
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    Only::reading([&*args.trace]).apply()?;
    let trace = args.owner.open(&args.trace)?;
    let dir = args.trace.display();
    if trace.manifest().events == 0 && trace.events().next().is_none() {
        return Err(Failure::no_events(&args.trace));
    }
    let spec = args.transaction.clone().unwrap_or_else(|| usual(&trace));
    let mut out = BufWriter::new(io::stdout().lock());
    let printed = match (args.json, args.id) {
        (true, wanted) => document(&trace, &spec, wanted, &mut out),
        (false, Some(wanted)) => one(&trace, &spec, wanted, args.mermaid, &mut out),
        (false, None) => tables(&trace, &spec, args.limit, &mut out),
    };
    let Printed { outcome, found } = match printed.and_then(|printed| out.flush().map(|()| printed)) {
        Ok(printed) => printed,
        // Whoever reads has seen enough (`| head`).
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        Err(e) => return Err(Failure::Failed(format!("cannot write to standard output: {e}"))),
    };
    for damaged in &outcome.damaged {
        eprintln!("xweave: {damaged}");
    }
    // Some are always under way at the end of a recording.
    let (accesses, without_end) = (outcome.accesses, outcome.incomplete_ios);
    if without_end * 2 > accesses {
        eprintln!(
            "xweave: {dir} lacks the ends of {without_end} of {accesses} disk I/O requests: what threads waited for \
             them is reported as waiting. Requests end in interrupts: record those of all processors (perf record -a), \
             with block_rq_complete"
        );
    }
    match args.id {
        _ if outcome.transactions == 0 => Err(Failure::Failed(format!(
            "{dir} has no transactions of the kind {spec} that began and ended in it: see xweave explain --help for \
             the others"
        ))),
        Some(wanted) if !found => Err(Failure::Failed(format!(
            "{dir} has no transaction {wanted} of the kind {spec}: xweave explain {dir} --transaction {spec} --json \
             lists all"
        ))),
        _ if !outcome.damaged.is_empty() => Err(Failure::Failed("parts of the trace are missing".to_owned())),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// What came of printing.
struct Printed {
    outcome: Outcome,
    /// Whether the one that was asked for was among them.
    found: bool,
}

fn tables(trace: &Trace, spec: &Spec, limit: usize, out: &mut impl Write) -> io::Result<Printed> {
    let view = View::of_stdout(WIDE);
    let mut totals = Totals::default();
    let mut slowest = BinaryHeap::new();
    let outcome = explain(trace, spec, &mut |transaction, objects| {
        totals.add(&transaction, objects);
        slowest.push(Reverse(ByTime(transaction)));
        if slowest.len() > limit {
            slowest.pop();
        }
    });
    if outcome.transactions > 0 {
        writeln!(out, "{}", transactions::totals(&totals, &spec.to_string(), view))?;
        let slowest: Vec<_> = slowest.into_sorted_vec().into_iter().map(|Reverse(ByTime(one))| one).collect();
        if !slowest.is_empty() {
            writeln!(out, "The slowest:\n{}", transactions::table(&slowest, &outcome.objects, view))?;
            let id = slowest[0].id;
            writeln!(
                out,
                "Step by step: xweave explain {} --transaction {spec} --id {id}",
                trace.dir().display()
            )?;
        }
    }
    Ok(Printed { outcome, found: true })
}

fn one(trace: &Trace, spec: &Spec, wanted: u64, diagram: bool, out: &mut impl Write) -> io::Result<Printed> {
    let view = View::of_stdout(WIDE);
    let mut text = None;
    let outcome = explain(trace, spec, &mut |transaction, objects| {
        if transaction.id == wanted {
            text = Some(match diagram {
                true => mermaid::diagram(&transaction, objects),
                false => transactions::steps(&transaction, objects, view),
            });
        }
    });
    if let Some(text) = &text {
        write!(out, "{text}")?;
    }
    Ok(Printed { outcome, found: text.is_some() })
}

/// Transactions are written as they are found: there may be more than memory holds.
fn document(trace: &Trace, spec: &Spec, wanted: Option<u64>, out: &mut impl Write) -> io::Result<Printed> {
    write!(out, "{{\"schema\":{SCHEMA},\"transaction\":{},\"transactions\":[", json!(spec.to_string()))?;
    let mut totals = Totals::default();
    let (mut found, mut written) = (wanted.is_none(), Ok(()));
    let mut first = true;
    let outcome = explain(trace, spec, &mut |transaction, objects| {
        totals.add(&transaction, objects);
        let this = wanted.is_none_or(|wanted| wanted == transaction.id);
        if this && written.is_ok() {
            let comma = if std::mem::take(&mut first) { "" } else { "," };
            written = write!(out, "{comma}{}", told(&transaction, objects, wanted.is_some()));
        }
        found |= this;
    });
    written?;
    let quantile = |share| totals.quantile(share);
    let summary = json!({
        "transactions": outcome.transactions,
        "events": outcome.events,
        "accesses": outcome.accesses,
        "incomplete_ios": outcome.incomplete_ios,
        "total_ns": totals.ns(),
        "p50_ns": quantile(0.5),
        "p99_ns": quantile(0.99),
        "max_ns": quantile(1.0),
        "parts": totals.all(),
        "damaged": outcome.damaged.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    writeln!(out, "],\"summary\":{summary}}}")?;
    Ok(Printed { outcome, found })
}

fn told(transaction: &Explained, objects: &Objects, with_steps: bool) -> serde_json::Value {
    let mut told = json!({
        "id": transaction.id,
        "name": transaction.name,
        "domain": objects.domain(transaction.domain),
        "start_ns": transaction.start_ns,
        "total_ns": transaction.total_ns,
        "parts": parts(transaction, objects),
    });
    if with_steps {
        let step = |step: &xweave_model::Step| {
            let named = objects.named(step.object);
            json!({
                "t_ns": step.from,
                "ns": step.to - step.from,
                "domain": named.domain,
                "object": named.name,
                "state": step.spent.name(),
                "depth": step.depth,
                "why": step.cause.map(|cause| objects.why(cause)),
            })
        };
        told["steps"] = transaction.steps.iter().map(step).collect();
    }
    told
}

/// Ordered by how long it took.
struct ByTime(Explained);

impl ByTime {
    fn key(&self) -> (i64, Reverse<u64>) {
        (self.0.total_ns, Reverse(self.0.id))
    }
}

impl PartialEq for ByTime {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ByTime {}

impl PartialOrd for ByTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
