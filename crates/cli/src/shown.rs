//! What is printed on standard output, and text out of files that others made on its way to a terminal.

use std::{
    io::{self, BufWriter, StdoutLock, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use xweave_aspect::Diagnostic;
use xweave_text as text;

use crate::failure::Failure;

/// Whether anything was printed.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether anything was printed: a document that has begun takes no second one.
pub fn begun() -> bool {
    BEGUN.load(Ordering::Relaxed)
}

/// Prints. Gives what came of it; nothing if whoever reads has seen enough (`| head`).
pub fn print<T>(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<T>,
) -> Result<Option<T>, Failure> {
    BEGUN.store(true, Ordering::Relaxed);
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|made| out.flush().map(|()| made)) {
        Ok(made) => Ok(Some(made)),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(Failure::Failed(format!("cannot write to standard output: {error}"))),
    }
}

/// Prints, and that is all there is to do.
pub fn only(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<ExitCode, Failure> {
    print(write).map(|_| ExitCode::SUCCESS)
}

/// A mistake in an aspect, with the line that it is in.
pub fn diagnostic(diagnostic: &Diagnostic) -> String {
    text::lines(&diagnostic.to_string()).into_owned()
}
