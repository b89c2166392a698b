//! `xweave fmt`: aspects in their canonical form.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use xweave_aspect::Source;
use xweave_report::document::{self, fmt};
use xweave_text as text;

use crate::{failure::Failure, shown, told};

/// Format aspect files
///
/// A file in the XML form is printed in the native form. Comments are kept; a file with a comment that has no place
/// in the new text is refused. Names are not checked: use `xweave check`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave fmt my.aspect                       print it
  xweave fmt --write *.aspect                rewrite the files
  xweave fmt --check *.aspect                list those that would change: exit status 1 if any
  xweave fmt figure-3.xml > netflow.aspect   from the XML form to the native one")]
pub struct Args {
    /// Aspect files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Rewrite the files
    #[arg(long)]
    write: bool,
    /// Only list the files that would change
    #[arg(long, conflicts_with = "write")]
    check: bool,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// A file that was read, and what becomes of it.
struct File {
    path: PathBuf,
    changed: bool,
    text: String,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let (mut files, mut warnings, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for path in args.files {
        let name = path.display().to_string();
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::Usage(format!("{name} cannot be read: {error}")))?;
        let source = Source { name, text };
        if source.is_xml() && (args.write || args.check) {
            return Err(Failure::Usage(format!(
                "{0} is in the XML form, and the native one needs a file of its own: xweave fmt {0} > FILE.aspect",
                source.name
            )));
        }
        let old = source.text.clone();
        match xweave_aspect::format(source) {
            Ok(formatted) => {
                warnings.extend(formatted.aspects.warnings);
                files.push(File { path, changed: formatted.text != old, text: formatted.text });
            }
            Err(mistakes) => errors.extend(mistakes),
        }
    }
    if args.write {
        for file in files.iter().filter(|file| file.changed) {
            fs::write(&file.path, &file.text).map_err(|error| {
                Failure::Failed(format!("{} cannot be written: {error}", file.path.display()))
            })?;
        }
    }
    if args.json {
        let documents = files.iter().map(|of| fmt::build_file(&of.path, &of.text, of.changed));
        shown::print(|out| document::write(out, &fmt::build(documents, &warnings, &errors)))?;
    } else {
        for diagnostic in warnings.iter().chain(&errors) {
            told::write_line(format_args!("{}\n", shown::diagnostic(diagnostic)));
        }
        shown::print(|out| {
            files.iter().try_for_each(|file| match (args.write || args.check, file.changed) {
                // What goes on to a file stays as it is.
                (false, _) if io::stdout().is_terminal() => write!(out, "{}", text::lines(&file.text)),
                (false, _) => write!(out, "{}", file.text),
                (true, true) => writeln!(out, "{}", file.path.display()),
                (true, false) => Ok(()),
            })
        })?;
    }
    match (errors.len(), files.iter().filter(|file| file.changed).count()) {
        (0, n) if n > 0 && args.check => {
            let files = if n == 1 { "1 file is" } else { &format!("{n} files are") };
            Err(Failure::Failed(format!("{files} not in canonical form: xweave fmt --write changes that")))
        }
        (0, _) => Ok(ExitCode::SUCCESS),
        (1, _) => Err(Failure::Failed("1 error: the file was not changed".to_owned())),
        (n, _) => Err(Failure::Failed(format!("{n} errors: files with errors were not changed"))),
    }
}
