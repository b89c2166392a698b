//! `xweave report`: the page of a trace.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{self, ExitCode},
};

use xweave_flow::Flows;
use xweave_report::html;
use xweave_trace::Trace;

use crate::{confinement::Only, failure::Failure};

/// Write one self-contained page for a browser: where the time of the data that was followed went
///
/// The page needs no network and no scripts, so it can be sent as it is.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave report trace -o report.html
  xweave report trace -o report.html --title 'vm1 to vm2, before the change'")]
pub struct Args {
    /// The directory that `xweave record -o` wrote
    #[arg(value_name = "DIR")]
    trace: PathBuf,
    /// The page to write; one that is there already is replaced
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The page's title; by default the trace's name
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    Only::reading([&*args.trace]).writing(&args.output).apply()?;
    let trace = Trace::open(&args.trace).map_err(Failure::wrong_use)?;
    let title = args.title.unwrap_or_else(|| format!("xweave: {}", name(&args.trace)));
    let page = html::page(&Flows::of(&trace), &title);
    let output = args.output.display();
    write(&args.output, &page)
        .map_err(|error| Failure::FellShort(format!("cannot write the page {output}: {error}")))?;
    println!("{output}: {} KB; open it with a browser", page.len().div_ceil(1000));
    Ok(ExitCode::SUCCESS)
}

/// The directory's own name, also where it is called `.`.
fn name(trace: &Path) -> String {
    let whole = fs::canonicalize(trace).unwrap_or_else(|_| trace.to_owned());
    whole.file_name().map_or_else(|| whole.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Whole or not at all: whoever has the old page open does not find half of a new one.
fn write(path: &Path, page: &str) -> io::Result<()> {
    // What is no file, such as /dev/stdout, is written to and not replaced.
    let replaceable = fs::metadata(path).map_or(true, |there| there.is_file());
    let Some(name) = path.file_name().filter(|_| replaceable) else { return fs::write(path, page) };
    let temporary = path.with_file_name(format!(".{}.tmp-{}", name.to_string_lossy(), process::id()));
    fs::write(&temporary, page).and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // Best effort: the failure to report is the first one.
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_replaces_an_older_one_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        for text in ["the first", "second"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(write(dir.path(), "a folder").is_err());
        assert!(write(&dir.path().join("none/report.html"), "nowhere").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_trace_is_called_after_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("trace")).unwrap();
        assert_eq!(name(&dir.path().join("trace/.")), "trace");
        assert_eq!(name(Path::new("/")), "/");
    }
}
