//! `xweave report`: the page of a trace, or of what instructions cost.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    confinement::Only,
    explain,
    failure::Failure,
    joining,
    names::{self, TraceDir},
    shown, told,
    trust::Owner,
};
use xweave_guard::private;
use xweave_model::{Between, Spec};
use xweave_report::{
    next,
    page::{
        self, Contents,
        contents::{ASKED, Heading},
        cost,
    },
};

/// Write what flows and explain show as one HTML page, to look at in a browser
///
/// The page is self-contained and needs no network: it can be mailed as it is. Of very many flows and transactions it has
/// the slowest and a choice of the others; counts, percentiles and shares are of all. Of the JSON document of
/// `xweave cost` the page shows what instructions cost.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave report trace -o report.html
  xweave report after -o report.html --against before
  xweave report trace -o report.html --transaction request:80
  xweave report trace -o report.html --points disk_queue,disk_issue,disk_complete --transaction process
  xweave report trace -o report.html --title 'vm1 to vm2, before the change'
  xweave cost --on native,kvm --this-host --json > cost.json
  xweave report cost.json -o cost.html")]
pub struct Args {
    /// A trace directory, of `xweave record`; `latest`: the newest in the current directory; or a file, of `xweave cost --json`
    #[arg(value_name = "DIR")]
    trace: TraceDir,
    #[command(flatten)]
    owner: Owner,
    /// The page to write; an existing one is replaced [default: the trace's name, with .html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also compare with this trace: an earlier run of the same work, as the first of `xweave compare`
    #[arg(long, value_name = "DIR")]
    against: Option<TraceDir>,
    /// Explain these transactions first, as `xweave explain` takes them; may be given several times
    #[arg(long, value_name = "SPEC")]
    transaction: Vec<Spec>,
    /// Explain what passes these places in turn before all else, and how long from each to the next: A,B,C[,by=KEY]; may
    /// be given several times
    #[arg(long, value_name = "POINTS", value_parser = Between::of_points)]
    points: Vec<Between>,
    /// Show the whole command that recorded the trace; by default without what follows -- and without commands that reach
    /// domains, in which there may be passwords
    #[arg(long)]
    command_line: bool,
    /// The page's title; by default the trace's name
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let read = std::iter::once(&*args.trace).chain(args.against.as_deref());
    // Where a folder lies is not seen any more afterwards.
    let called = Names { trace: name(&args.trace), against: args.against.as_deref().map(name) };
    let output = args.output.clone().unwrap_or_else(|| names::of_file(&args.trace, "html"));
    Only::reading(read).writing(&output).apply()?;
    let title = args.title.clone().unwrap_or_else(|| format!("xweave: {}", called.trace));
    let page = if private::is_file(&args.trace) {
        of_cost(&args, &title)?
    } else {
        of_trace(&args, &called, &title)?
    };
    write(&output, &page)?;
    let size = page.len().div_ceil(1000);
    shown::only(|out| writeln!(out, "{}: {size} KB; open it with a browser", output.display()))
}

/// Names of the traces' folders.
struct Names {
    trace: String,
    against: Option<String>,
}

fn of_trace(args: &Args, names: &Names, title: &str) -> Result<String, Failure> {
    let trace = args.owner.open(&args.trace)?;
    let points = args.points.iter().cloned().map(Spec::Between);
    let asked: Vec<Spec> = points.chain(args.transaction.iter().cloned()).collect();
    if asked.len() > ASKED {
        return Err(Failure::Usage(format!(
            "{} kinds of transactions are too many for a page: name up to {ASKED}",
            asked.len()
        )));
    }
    if !asked.is_empty() && !trace.has_events() {
        return Err(Failure::no_events(&trace));
    }
    let heading = Heading { title, whole_command: args.command_line };
    let mut contents = Contents::of(&trace, heading, &asked, &|| joining::join(&trace));
    if let Some((spec, outcome)) = contents.lacking() {
        return Err(explain::none(&trace, spec, outcome));
    }
    if let (Some(first), Some(name)) = (&args.against, &names.against) {
        contents = contents.against(&args.owner.open(first)?, name);
    }
    if let Some(remark) = next::instead_of_flows(&trace).filter(|_| trace.manifest().events == 0) {
        told::tell(&format!("the page is empty: {remark}"));
    }
    Ok(page::html(title, contents.document()))
}

fn of_cost(args: &Args, title: &str) -> Result<String, Failure> {
    let path = args.trace.display();
    if args.against.is_some() || !args.transaction.is_empty() || !args.points.is_empty() {
        return Err(Failure::Usage(format!(
            "--against, --transaction and --points are of traces, and {path} is a file: name a trace directory"
        )));
    }
    let file = private::open_named(&args.trace).map_err(|error| Failure::Failed(error.to_string()))?;
    let document = cost::build(file, title).map_err(|error| Failure::Failed(format!("{path} {error}")))?;
    Ok(page::html(title, &document))
}

/// The directory's own name.
fn name(trace: &Path) -> String {
    let own = names::of_directory(trace);
    own.map_or_else(|| trace.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Whole or not at all: whoever has the old page open does not find half of a new one. Nobody else can read it, as
/// nobody else can read the trace.
fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let cannot = |why: &str| {
        Failure::Failed(format!("cannot write the page {}: {why}; name another file with -o", path.display()))
    };
    // It is open already, and what it is a name of need not be within reach.
    if path == Path::new("/dev/stdout") {
        return io::stdout().write_all(page.as_bytes()).map_err(|error| cannot(&error.to_string()));
    }
    match private::open_other(path) {
        // What is no file is written to and not replaced.
        Ok(Some(mut other)) => other.write_all(page.as_bytes()).map_err(|error| cannot(&error.to_string())),
        Ok(None) => private::write_file(path, page.as_bytes()).map_err(|error| cannot(&error.to_string())),
        Err(private::Error::Kind { found, .. }) => {
            Err(cannot(&format!("it is {found}: name the file itself")))
        }
        Err(error) => Err(cannot(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn a_page_replaces_an_older_one_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        for text in ["the first", "second"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let other = dir.path().join("other");
        for target in [&path, Path::new("/dev/null")] {
            symlink(target, &other).unwrap();
            assert!(write(&other, "third").is_err());
            fs::remove_file(&other).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        write(Path::new("/dev/null"), "third").unwrap();
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
