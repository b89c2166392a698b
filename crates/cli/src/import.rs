//! `xweave import`: what other tools have recorded, as a trace.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use xweave_import::{CPU_HZ, Error, ErrorKind, Options, Outcome};
use xweave_interrupt as interrupt;
use xweave_report::{document, import};

use crate::{arguments, confinement::Only, failure::Failure, names, names::TraceDir, shown, told};

/// Make a trace of what other tools have recorded
///
/// Give the files of a host and its guests that were recorded together (`trace-cmd record -A GUEST`) together: they
/// become one trace with one time line.
///
/// A file of `xentrace` becomes a domain `xen`: its threads are the vCPUs of Xen's domains, and `xweave explain
/// --machines` tells how long each was in its guest, in Xen, blocked, or waited while others had the CPU. One that was
/// recorded while `xweave record` ran in dom0 can become part of that trace.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave import trace.dat -o trace
  xweave import perf.data -o trace
  xweave import lttng-traces/auto-1/kernel -o trace  needs babeltrace2
  xweave import trace.dat trace-vm1.dat -o trace     a host and its guest
  xweave import busy.xt -o trace                     of `xentrace -D -e all busy.xt`
  xweave import busy.xt --cpu-hz 2596.097M -o trace  if it does not tell how fast the TSC counts
  xweave import busy.xt dom0.dat --domid dom0.dat=0 -o trace
                                                     Xen and dom0, recorded at a time
  xweave import busy.xt --into trace                 Xen, while `xweave record` ran in its dom0
  xweave import trace.dat -o trace --json | jq .unknown
  duckdb -c \"select kind, count(*) from 'trace/events/*.parquet' group by 1\"")]
pub struct Args {
    /// trace.dat of trace-cmd, perf.data of perf, a file of xentrace, or a CTF directory of LTTng
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The trace directory to create [default: xweave-DATE-TIME, UTC]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The trace that FILE, one of xentrace, becomes part of: one that `xweave record` made meanwhile, its first domain the dom0
    /// of that host
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "cpu_hz"])]
    into: Option<TraceDir>,
    /// TSC frequency of a file of xentrace, in Hz, or with K, M or G [default: from its records]; `xl info | grep cpu_mhz` on
    /// that host prints it
    #[arg(long, value_name = "HZ", value_parser = hertz)]
    cpu_hz: Option<u64>,
    /// FILE was recorded in domain N of the host that a file of xentrace is of (0: dom0), by trace-cmd record -C x86-tsc:
    /// both are on one time line, and Xen has its vCPUs. With --into, NAME=N: one of the trace's domains, where the trace does
    /// not tell which it is
    #[arg(long, value_name = "FILE=N", value_parser = domid)]
    domid: Vec<(PathBuf, u16)>,
    /// Replace an existing trace; with --into, add to one that is not complete
    #[arg(long)]
    force: bool,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(missing) = args.files.iter().find(|file| !file.exists()) {
        return Err(Failure::Usage(format!(
            "{}: there is no such file; what can be imported: trace.dat of trace-cmd, perf.data of perf, files of \
             xentrace, directories of LTTng (CTF)",
            missing.display()
        )));
    }
    let new = || args.output.clone().unwrap_or_else(names::new_trace);
    let dir = args.into.as_deref().map_or_else(new, Path::to_owned);
    let outcome = match args.into {
        Some(_) => add(args, &dir)?,
        None => import_to(args, &dir)?,
    };
    shown::print(|out| match args.json {
        true => document::write(out, &document::import::build(&dir, &outcome)),
        false => write!(out, "{}", import::summary(&dir, &outcome)),
    })?;
    for warning in outcome.warnings.iter().chain(&outcome.damage) {
        told::tell(warning);
    }
    if outcome.damage.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let dir = dir.display();
    Err(Failure::Failed(format!("{dir} has what could be read; record again for the rest")))
}

/// A trace of the files.
fn import_to(args: &Args, dir: &Path) -> Result<Outcome, Failure> {
    let made = !dir.exists();
    let only = Only::reading(args.files.iter().map(|file| &**file)).writing_in(dir);
    // Directories are CTF, which a program decodes.
    let decoded = args.files.iter().any(|file| file.is_dir());
    let only = if decoded { only.starting(None) } else { only };
    only.apply()?;
    xweave_import::import(&args.files, dir, &options(args)).map_err(|error| {
        if made {
            // It was made for the trace that is not there; with anything in it, it stays.
            let _ = fs::remove_dir(dir);
        }
        failure(error)
    })
}

/// The file as part of a trace.
fn add(args: &Args, dir: &Path) -> Result<Outcome, Failure> {
    let [file] = &args.files[..] else {
        return Err(Failure::Usage("--into takes one file, of xentrace".to_owned()));
    };
    // What was begun is taken away again.
    interrupt::install(interrupt::Again::Waits, interrupt::Blocked::GoesOn);
    // What may be written in is made where it is missing.
    if dir.is_dir() {
        Only::reading([&**file]).writing_in(dir).apply()?;
    }
    xweave_import::add(file, dir, &options(args), &|| !interrupt::pending())
        .map(|added| added.outcome)
        .map_err(failure)
}

fn options(args: &Args) -> Options {
    Options {
        force: args.force,
        command: arguments::command_line(),
        cpu_hz: args.cpu_hz,
        domids: args.domid.clone(),
    }
}

/// A file, and the number of a domain of Xen's: `dom0.dat=0`.
fn domid(text: &str) -> Result<(PathBuf, u16), String> {
    let split = text.rsplit_once('=').and_then(|(file, number)| Some((file, number.parse().ok()?)));
    let found = split.filter(|(file, _)| !file.is_empty());
    found
        .map(|(file, number)| (file.into(), number))
        .ok_or_else(|| "a file, =, and the number that `xl list` has for the domain: dom0.dat=0".to_owned())
}

/// A rate as xenalyze takes it: `2596.097M`, `2.4G`, `2400000000`.
fn hertz(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1e3),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1e6),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let hz = number.parse::<f64>().ok().map(|number| (number * unit).round());
    let (least, most) = (*CPU_HZ.start(), *CPU_HZ.end());
    #[expect(clippy::cast_precision_loss, reason = "bounds far below 2⁵³")]
    let fits = hz.filter(|hz| (least as f64..=most as f64).contains(hz));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within these bounds")]
    fits.map(|hz| hz as u64).ok_or_else(|| "a rate from 0.5G to 10G, such as 2596.097M or 2.4G".to_owned())
}

fn failure(error: Error) -> Failure {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Damaged => Failure::Failed(format!("{text}; nothing was imported: record again")),
        ErrorKind::Io => Failure::Failed(text),
        ErrorKind::Interrupted => Failure::Interrupted(text),
        ErrorKind::Trace(kind) => Failure::of_trace(kind, text),
        _ => Failure::Usage(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_domains() {
        assert_eq!(domid("a=b.dat=12"), Ok(("a=b.dat".into(), 12)));
        for text in ["", "dom0.dat", "=0", "dom0.dat=", "dom0.dat=-1", "dom0.dat=65536"] {
            assert!(domid(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_have_units() {
        let rates = ["2596.097M", "2.4G", "2400000k", "2400000000"].map(hertz);
        assert_eq!(rates, [2_596_097_000, 2_400_000_000, 2_400_000_000, 2_400_000_000].map(Ok));
        for text in ["", "G", "2.4", "-2G", "NaN", "infG", "20G", "2.4GHz", "µ"] {
            assert!(hertz(text).is_err(), "{text}");
        }
    }
}
