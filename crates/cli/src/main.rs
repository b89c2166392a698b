//! The `xweave` program: arguments and printing. What it does is in the other crates.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments of arguments are help texts: `[:PORT]` is no link"
)]

mod agent;
mod arguments;
mod called;
mod check;
mod compare;
mod confined;
mod confinement;
mod contrast;
mod cost;
mod doctor;
mod explain;
mod export;
mod failure;
mod flows;
mod fmt;
mod habits;
mod import;
mod indexing;
mod joining;
mod lab;
mod latency;
mod memory;
mod merge;
mod names;
mod progress;
mod record;
mod records;
mod report;
mod shown;
mod sites;
mod told;
mod trust;
mod vary;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{Asked, Failure};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// Where did this request's time go, in the guest and in the host together?
///
/// xweave attaches eBPF probes to the running kernels of a host and its virtual machines, follows
/// each piece of data across the boundary under one flow ID, and reports where its time went.
#[derive(Parser)]
#[command(name = "xweave", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  xweave doctor                                  what this machine supports
  xweave record virtio-net --domain vm1=vsock:3 --duration 10s -o trace
  xweave flows trace                             where a packet's time went
  xweave records trace                           what advice stored
  xweave latency vfs_read                        how long calls of a function take
  xweave explain trace --transaction request:80  where requests' time went
  xweave compare before after                    what two runs did differently
  xweave vary --try halt_poll_ns=0,200000 …      what a setting changes
  xweave report trace -o report.html             all of that as one HTML page
  xweave export trace --to perfetto              all of that for Perfetto
  xweave import trace.dat -o trace               what trace-cmd recorded
  xweave sites 'access(sk_buff.len)' --live      what accesses this member
  xweave cost --on native,kvm                    what exits cost in a guest
  xweave merge --dry-run --domain …              what memory guests hold twice
  xweave lab up kvm                              an emulated host with guests

Exit status: 0 success; 1 failure, with the reason; 2 usage error;
130 interrupted before anything was done.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Doctor(doctor::Args),
    Check(check::Args),
    Fmt(fmt::Args),
    Record(record::Args),
    Flows(flows::Args),
    Records(records::Args),
    Latency(latency::Args),
    Explain(explain::Args),
    Compare(compare::Args),
    Vary(vary::Args),
    Report(report::Args),
    Export(export::Args),
    Import(import::Args),
    Sites(sites::Args),
    Cost(cost::Args),
    Merge(merge::Args),
    Lab(lab::Args),
    Agent(agent::Args),
    #[command(hide = true)]
    Confined(confined::Args),
}

fn main() -> ExitCode {
    let asked = Asked::by(std::env::args_os());
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(error) => return failure::of_arguments(error, asked),
    };
    run(command).unwrap_or_else(|failure| failure.report(if shown::begun() { Asked::Text } else { asked }))
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Check(args) => check::run(args),
        Command::Fmt(args) => fmt::run(args),
        Command::Record(args) => record::run(args),
        Command::Flows(args) => flows::run(args),
        Command::Records(args) => records::run(&args),
        Command::Latency(args) => latency::run(args),
        Command::Explain(args) => explain::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Vary(args) => vary::run(args),
        Command::Report(args) => report::run(args),
        Command::Export(args) => export::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Sites(args) => sites::run(args),
        Command::Cost(args) => cost::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Agent(args) => agent::run(&args),
        Command::Confined(args) => confined::run(&args),
    }
}
