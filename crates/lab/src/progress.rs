//! How long work tells what it is doing.

use std::time::{Duration, Instant};

/// A step of long work. The program that called decides how it looks.
#[derive(Debug, Clone, Copy)]
pub enum Phase<'a> {
    /// A step begins.
    Begin(&'a str),
    /// Something worth a line within the step that began last.
    Note(&'a str),
    /// The step that began last is done.
    End(&'a str, Duration),
}

/// Receives the steps. Use `&|_| ()` for silence.
pub type Progress<'a> = &'a dyn Fn(Phase<'_>);

/// Runs `work` as a step called `name`: its end is reported only if it succeeded.
pub(crate) fn step<T, E>(
    progress: Progress<'_>,
    name: &str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let begun = Instant::now();
    progress(Phase::Begin(name));
    let value = work()?;
    progress(Phase::End(name, begun.elapsed()));
    Ok(value)
}
