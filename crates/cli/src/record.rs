//! `xweave record`: weave, record, unweave.

use std::{
    collections::BTreeMap,
    env,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use xweave_record::{Budget, DomainSpec, Group, Options, Outcome, Phase, Until};
use xweave_report::document::SCHEMA;
use xweave_trace::{ClockBreak, Exit, Trace};

use crate::{failure::Failure, shown};

/// Weave aspects and event probes into running kernels, record, and detach
///
/// An aspect is a file, or the name of one of the library's (virtio-net). Events (--events) are scheduling,
/// block I/O, network and KVM events of the kernels, with aspects or without. Without --duration and without
/// a command, Ctrl-C ends the recording.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave record virtio-net --domain vm1=vsock:3 --domain vm2=vsock:4 -o trace --duration 10s
  xweave record my.aspect --domain vm1='ssh root@vm1 xweave agent --stdio' -o trace -- ./load.sh
  xweave record -e 'execution(tcp_v4_connect) { STORE_DATA1(uaddr); }' -o trace
  xweave record --events sched,block,net,vm --domain vm1=vsock:3 -o trace -- ./load.sh

Ctrl-C ends the recording and drains all buffers; a second Ctrl-C ends it at once.

Event groups:
  sched     context switches, wakeups, forks, execs and exits; interrupts and softirqs; futex waits
  block     disk I/O requests: queued, issued, merged, completed
  net       sends and receives of TCP, UDP and Unix stream sockets; TCP connections,
            retransmissions and dropped SYNs
  vm        KVM vCPUs: entries, exits and their reasons, halts, injected interrupts
  syscalls  system calls and their results")]
pub struct Args {
    /// Aspect files, or names of aspects of the library
    #[arg(value_name = "ASPECT", required_unless_present_any = ["expression", "events"])]
    aspects: Vec<PathBuf>,
    /// Aspect text given on the command line
    #[arg(short, long, value_name = "TEXT")]
    expression: Vec<String>,
    /// Event groups to record in all domains, or `all`
    #[arg(long, value_name = "GROUP,…", value_parser = Groups::parse)]
    events: Option<Groups>,
    /// Another domain: vsock:CID[:PORT], local, or a command that runs `xweave agent --stdio` there
    #[arg(long, value_name = "NAME=TRANSPORT")]
    domain: Vec<String>,
    /// The trace directory to create
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Replace an existing trace
    #[arg(long)]
    force: bool,
    /// How long to record: 500ms, 10s, 2m
    #[arg(long, value_parser = duration, conflicts_with = "command")]
    duration: Option<Duration>,
    /// Ring buffer size per domain, over all CPUs: a power of two (K, M); events get the same again
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = buffer)]
    buffer: u32,
    /// Limit of the trace on disk (K, M, G), shared equally among domains [default: half of the free space]
    #[arg(long, value_name = "SIZE", value_parser = xweave_text::parse_size)]
    max_size: Option<u64>,
    /// Maximum number of flows under way at once in a domain
    #[arg(long, value_name = "N", default_value_t = 65536)]
    flow_table: u32,
    /// Attach probes one by one and leave kernel settings alone: slower with many instructions
    #[arg(long, alias = "gently")]
    serial_attach: bool,
    /// Debug file (vmlinux) of a domain's kernel: adds source lines and local variables
    #[arg(long, value_name = "NAME=FILE")]
    symbols: Vec<String>,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
    /// Record while this command runs
    #[arg(last = true)]
    command: Vec<String>,
}

/// What one argument names.
#[derive(Clone)]
struct Groups(Vec<Group>);

impl Groups {
    fn parse(text: &str) -> Result<Self, String> {
        Group::list(text).map(Self)
    }
}

pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let until = match (args.duration, args.command.is_empty()) {
        (Some(duration), _) => Until::Elapsed(duration),
        (None, true) => Until::Interrupted,
        (None, false) => Until::CommandEnds(args.command),
    };
    let domains: Result<Vec<_>, _> = args.domain.iter().map(|text| DomainSpec::parse(text)).collect();
    let symbols: Result<Vec<_>, _> = args.symbols.iter().map(|text| xweave_record::symbols(text)).collect();
    let disk = args.max_size.unwrap_or_else(|| free(&args.output) / 2);
    let options = Options {
        aspects: args.aspects,
        expressions: args.expression,
        events: args.events.map_or(Vec::new(), |groups| groups.0),
        domains: domains.map_err(Failure::usage)?,
        output: args.output,
        replace: args.force,
        until,
        buffer: args.buffer,
        flow_table: args.flow_table,
        serial_attach: args.serial_attach,
        symbols: symbols.map_err(Failure::usage)?,
        cache: xweave_weave::cache_directory().map_err(Failure::usage)?,
        budget: Budget { disk, ..Budget::default() },
        command_line: env::args().collect(),
    };
    let mut progress = Progress::new(&options.until);
    let outcome = xweave_record::record(&options, &mut |phase| progress.show(&phase));
    progress.end();
    let outcome = outcome?;
    if args.json {
        print_json(&outcome);
    } else {
        print(&outcome);
    }
    judge(&outcome)
}

/// Exit status 1 where something is missing from the trace, with what.
fn judge(outcome: &Outcome) -> Result<ExitCode, Failure> {
    let mut missing = Vec::new();
    for domain in &outcome.manifest.domains {
        if let Some(Exit::Lost { reason }) = &domain.exit {
            missing.push(format!("domain {} was lost while recording: {reason}", domain.name));
        }
    }
    if let Some(status) = outcome.command.filter(|status| !status.success()) {
        missing.push(format!("the recorded command failed: {status}"));
    }
    if missing.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(Failure::Failed(missing.join("; "))) }
}

fn print_json(outcome: &Outcome) {
    let manifest = &outcome.manifest;
    println!(
        "{}",
        json!({
            "schema": SCHEMA,
            "trace": outcome.trace,
            "records": manifest.records,
            "events": manifest.events,
            "lost": manifest.lost,
            "domains": manifest.domains,
            "clocks": manifest.clocks,
            "warnings": manifest.warnings,
            "loss": manifest.loss,
            "command_status": outcome.command.and_then(|status| status.code()),
            "sites": outcome.sites,
            "attach_ns": nanoseconds(outcome.weaving),
            "detach_ns": nanoseconds(outcome.unweaving),
        })
    );
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn print(outcome: &Outcome) {
    for warning in &outcome.warnings {
        eprintln!("{}", shown::diagnostic(warning));
    }
    for (domain, skipped) in &outcome.skipped {
        eprintln!(
            "note: {domain}: {} is not woven ({}): {}",
            skipped.function, skipped.clause, skipped.reason
        );
    }
    let manifest = &outcome.manifest;
    for warning in &manifest.warnings {
        eprintln!("note: {warning}");
    }
    for note in faults(outcome) {
        eprintln!("note: {note}");
    }
    for clock in &manifest.clocks {
        for jump in &clock.breaks {
            eprintln!("note: {}: {}; {}", clock.domain, jump.detail, when(jump, manifest.start_ns));
        }
    }
    let names: Vec<_> = manifest.domains.iter().map(|domain| domain.name.as_str()).collect();
    println!(
        "{} of {} in {}; {} lost",
        recorded(outcome),
        names.join(", "),
        outcome.trace.display(),
        manifest.lost
    );
    if outcome.sites > 0 {
        println!("next: xweave flows {}", outcome.trace.display());
    }
}

/// Reads that failed: what was stored of them is 0, and looks like any other value.
fn faults(outcome: &Outcome) -> Vec<String> {
    let faults = || outcome.manifest.loss.sites.iter().filter(|site| site.faults > 0);
    if faults().next().is_none() {
        return Vec::new();
    }
    // Which clause a site is of, the trace says.
    let Ok(trace) = Trace::open(&outcome.trace) else { return Vec::new() };
    let mut by_clause: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for site in faults() {
        let Some(of) = trace.site(site.site) else { continue };
        *by_clause.entry((&of.domain, &of.advice)).or_default() += site.faults;
    }
    let told = by_clause.into_iter().map(|((domain, clause), count)| {
        format!("{domain}: {count} reads of {clause} met memory that is not there and gave 0")
    });
    told.collect()
}

/// When a clock jumped, in seconds of the recording.
fn when(jump: &ClockBreak, start_ns: i64) -> String {
    let second = |ns: i64| format!("{:.3} s", ns.saturating_sub(start_ns) as f64 / 1e9);
    let place = match (jump.after_ns, jump.before_ns) {
        (Some(after), Some(before)) => format!("from {} to {}", second(after), second(before)),
        (None, Some(before)) => format!("up to {}", second(before)),
        (Some(after), None) => format!("from {} on", second(after)),
        (None, None) => "in the whole recording".to_owned(),
    };
    format!("{place} its times are not exact")
}

/// How much of what was asked for.
fn recorded(outcome: &Outcome) -> String {
    let (records, events) = (outcome.manifest.records, outcome.manifest.events);
    match (outcome.sites, events) {
        (_, 0) => format!("{records} records"),
        (0, _) => format!("{events} events"),
        _ => format!("{records} records and {events} events"),
    }
}

/// Plain lines where there is no terminal: one when a phase begins, and one at the end.
struct Progress {
    bar: Option<ProgressBar>,
    until: Option<Duration>,
    said: String,
}

impl Progress {
    fn new(until: &Until) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let until = match until {
            Until::Elapsed(duration) => Some(*duration),
            Until::Interrupted | Until::CommandEnds(_) => None,
        };
        Self { bar, until, said: String::new() }
    }

    fn show(&mut self, phase: &Phase<'_>) {
        let (line, detail) = match phase {
            Phase::Connecting { domain } => (format!("reaching {domain}"), String::new()),
            Phase::Reading { domain, kernel } => (format!("reading {domain}: {kernel}"), String::new()),
            Phase::Indexing { domain } => (format!("looking into the code of {domain}"), String::new()),
            Phase::Compiling => ("compiling aspects".to_owned(), String::new()),
            Phase::Weaving { sites } => (format!("weaving {sites} sites"), String::new()),
            Phase::Attaching { domain, done, total } => {
                // Where there is no terminal, the line before has said it.
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("weaving {done} of {total} in {domain}"));
                }
                return;
            }
            Phase::Recording { elapsed, records, events, lost } => {
                let of = self.until.map_or(String::new(), |d| format!(" of {}", seconds(d)));
                let end = if self.until.is_none() { " (Ctrl-C ends)" } else { "" };
                let detail = format!(
                    "  {}{of}{end}: {records} records, {events} events, {lost} lost",
                    seconds(*elapsed)
                );
                ("recording".to_owned(), detail)
            }
            Phase::Stopping { waiting_for } => {
                let of = if waiting_for.is_empty() {
                    String::new()
                } else {
                    format!(" {}", waiting_for.join(", "))
                };
                ("unweaving".to_owned(), format!("{of} (Ctrl-C again ends it at once)"))
            }
            Phase::Said { domain, line } => {
                match &self.bar {
                    Some(bar) => bar.println(format!("{domain}: {line}")),
                    None => eprintln!("{domain}: {line}"),
                }
                return;
            }
        };
        match &self.bar {
            Some(bar) => bar.set_message(format!("{line}{detail}")),
            None if line != self.said => eprintln!("xweave: {line}"),
            None => {}
        }
        self.said = line;
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Reads `500ms`, `10s`, `2m`, or bare seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write 500ms, 10s or 2m");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let scale = match unit.trim() {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * scale).map_err(|_| wrong())
}

/// Bytes that are free where a trace is to be made; all there can be, where that is not known.
fn free(output: &Path) -> u64 {
    let there = output.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let space = rustix::fs::statvfs(there);
    space.map_or(u64::MAX, |space| space.f_bavail.saturating_mul(space.f_frsize))
}

/// Reads a ring buffer's size: the kernel wants a power of two of at least a page.
fn buffer(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is not a buffer size: write a power of two from 4K to 1024M");
    let size =
        xweave_text::parse_size(text).ok().and_then(|size| u32::try_from(size).ok()).ok_or_else(wrong)?;
    if size.is_power_of_two() && (4096..=1 << 30).contains(&size) { Ok(size) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_is_told_in_seconds_of_the_recording() {
        let jump = |after_ns, before_ns| ClockBreak { after_ns, before_ns, detail: String::new() };
        let told = when(&jump(Some(3_500_000_000), Some(4_000_000_000)), 1_000_000_000);
        assert_eq!(told, "from 2.500 s to 3.000 s its times are not exact");
        assert!(when(&jump(Some(3_500_000_000), None), 1_000_000_000).starts_with("from 2.500 s on"));
        assert!(when(&jump(None, Some(i64::MAX)), i64::MIN).starts_with("up to"));
    }

    #[test]
    fn durations_and_sizes_are_read_with_their_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "s", "-1s", "10y", "1e400s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(buffer("16M"), Ok(16 << 20));
        assert_eq!(buffer("4096"), Ok(4096));
        for wrong in ["", "M", "3K", "2048", "4096M", "4G"] {
            assert!(buffer(wrong).is_err(), "{wrong}");
        }
    }
}
