//! `xweave record`: weave, record, unweave.

use std::{io::Write, path::PathBuf, process::ExitCode, time::Duration};

use xweave_record::{Budget, DomainSpec, Options, Outcome, Required, Settings, Until};
use xweave_report::{document, recording};
use xweave_trace::Trace;
use xweave_weave::{EventChoice, PayloadKey};

use crate::{
    arguments::{Groups, buffer, command_line, duration, something_named},
    failure::Failure,
    names,
    progress::Progress,
    shown, told,
};

/// Attach probes to the kernels of the host and its guests, record a trace, detach
///
/// An aspect is a file, or the name of one of the library's: block, interrupt, page-cache, sched, tcp, udp, virtio-blk,
/// virtio-net, xen-blk, xen-net. Events (--events) are scheduling, block I/O, network and KVM events of the kernels, with
/// aspects or without. A recording ends after --duration, or when COMMAND exits, whichever comes first; with neither, on
/// Ctrl-C. Before anything is woven, a line of each domain says which machine it turned out to be.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave record virtio-net --domain vm1=vsock:3 -o trace --duration 10s
  xweave record virtio-net --where 'tcp port 80' --domain vm1=vsock:3 -o trace
  xweave record interrupt --domain vm1=vsock:3 -o trace --duration 10s
  xweave record my.aspect --domain vm1='ssh root@vm1 xweave agent --stdio' \\
      -o trace -- ./load.sh
  xweave record -e 'execution(tcp_v4_connect) { STORE_DATA1(uaddr); }' -o trace
  xweave record --events sched,block --domain vm1=vsock:3 -o trace -- ./load.sh
  xweave record xen-net --events sched --xen --domain dom0=local \
      --domain vm1='ssh root@vm1 xweave agent --stdio' -o trace --duration 10s
  xweave record virtio-net --where 'udp port 5060' --events sched,net,vm --key line:Call-ID \
      --domain vm1=vsock:3 -o trace --duration 30s

Ctrl-C ends the recording and drains all buffers; a second Ctrl-C stops immediately. Before the recording has
begun, Ctrl-C ends at once and leaves no trace; agents take out what is woven by themselves.

Event groups:
  sched     context switches, wakeups, forks, execs and exits; interrupts and softirqs; futex waits
  block     disk I/O requests: queued, issued, merged, completed
  net       sends and receives of TCP, UDP and Unix stream sockets; TCP connections,
            retransmissions and dropped SYNs
  vm        KVM vCPUs: entries, exits and their reasons, halts, injected interrupts
  syscalls  system calls and their results
  power     idle states and frequencies of CPUs")]
pub struct Args {
    /// Aspect files, or names of aspects of the library
    #[arg(value_name = "ASPECT")]
    aspects: Vec<PathBuf>,
    /// Aspect text given on the command line
    #[arg(short, long, value_name = "TEXT")]
    expression: Vec<String>,
    /// Packet filter of aspects, as tcpdump takes it: 'tcp port 80', 'host 10.0.0.1 and not arp'
    #[arg(long = "where", value_name = "FILTER")]
    filter: Option<String>,
    /// Event groups to record in all domains, or `all`
    #[arg(long, value_name = "GROUP,…", value_parser = Groups::parse)]
    events: Option<Groups>,
    /// Record what Xen itself does, too (xentrace): when each vCPU ran, and what Xen was entered for. dom0 has to be the
    /// first domain
    #[arg(long)]
    xen: bool,
    /// Correlation key of a call, such as a SIP Call-ID or an X-Request-ID: line:NAME, first-line, or bytes:OFFSET+LENGTH; with events `net`
    #[arg(long, value_name = "KEY")]
    key: Option<PayloadKey>,
    /// Another domain: vsock:CID[:PORT], local, or a command that runs `xweave agent --stdio` there
    #[arg(long, value_name = "NAME=TRANSPORT")]
    domain: Vec<String>,
    /// Record all domains or none: a guest that does not answer, or cannot be traced, is an error, and is not left out
    #[arg(long)]
    require: bool,
    /// The trace directory to create [default: xweave-DATE-TIME, UTC]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Replace an existing trace
    #[arg(long)]
    force: bool,
    /// Stop after this time: 500ms, 10s, 2m; a COMMAND still running is killed, which does not count as a failure
    #[arg(long, value_parser = duration)]
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
    /// Run controller and agents at SCHED_IDLE while recording, in all domains, so that requests do not wait for
    /// xweave: where CPUs are few. Buffers are drained later, and events may be lost on a busy host
    #[arg(long)]
    background: bool,
    /// Compile the library's aspects for these kernels, too, instead of using the programs that xweave was built with:
    /// needs clang
    #[arg(long)]
    compile_here: bool,
    /// Debug file (vmlinux) of a domain's kernel: adds source lines and local variables
    #[arg(long, value_name = "NAME=FILE")]
    symbols: Vec<String>,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
    /// Record while this command runs: it is started once everything is woven
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: Args) -> Result<ExitCode, Failure> {
    something_named("record", &args.aspects, &args.expression, args.events.as_ref())?;
    let until = match (args.command.is_empty(), args.duration) {
        (false, within) => Until::CommandEnds { words: args.command, within },
        (true, Some(duration)) => Until::Elapsed(duration),
        (true, None) => Until::Interrupted,
    };
    let domains: Result<Vec<_>, _> = args.domain.iter().map(|text| DomainSpec::parse(text)).collect();
    let symbols: Result<Vec<_>, _> = args.symbols.iter().map(|text| xweave_record::symbols(text)).collect();
    let output = args.output.unwrap_or_else(names::new_trace);
    let disk = args.max_size.unwrap_or_else(|| xweave_record::free_space(&output) / 2);
    let options = Options {
        aspects: args.aspects,
        expressions: args.expression,
        filter: args.filter,
        xen: args.xen,
        required: Required::all_if(args.require),
        events: EventChoice::new(args.events.map_or(Vec::new(), |groups| groups.0), args.key),
        domains: domains.map_err(Failure::usage)?,
        output,
        replace: args.force,
        until,
        buffer: args.buffer,
        flow_table: args.flow_table,
        serial_attach: args.serial_attach,
        compile_here: args.compile_here,
        background: args.background,
        symbols: symbols.map_err(Failure::usage)?,
        settings: Settings::default(),
        cache: xweave_weave::cache_directory().map_err(Failure::usage)?,
        budget: Budget { disk, ..Budget::default() },
        command_line: command_line(),
    };
    let mut progress = Progress::new(options.until.limit());
    let outcome = xweave_record::record(&options, &mut |phase| progress.show(&phase));
    progress.end();
    let outcome = outcome?;
    if args.json {
        shown::print(|out| document::write(out, &document::record::build(&outcome)))?;
    } else {
        print(&outcome)?;
    }
    let left_out =
        outcome.left_out.iter().map(|left| format!("{} was left out: {}", left.domain, left.reason));
    match left_out.chain(outcome.missing()).collect::<Vec<_>>() {
        missing if missing.is_empty() => Ok(ExitCode::SUCCESS),
        missing => Err(Failure::Failed(missing.join("; "))),
    }
}

fn print(outcome: &Outcome) -> Result<(), Failure> {
    let trace = Trace::open(&outcome.trace).ok();
    for note in recording::notes(outcome, trace.as_ref()) {
        told::write_line(told::fitted(&format!("note: {note}")));
    }
    shown::print(|out| write!(out, "{}", recording::closing(outcome, trace.as_ref()))).map(|_| ())
}
