//! What a command that did not succeed leaves behind: a message on standard error, and a status.

use std::{fmt::Display, path::Path, process::ExitCode};

use xweave_text as text;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// Exit status 1: it ran and failed.
    Failed(String),
    /// Exit status 2: it could not be done as it was asked.
    Usage(String),
}

impl Failure {
    /// A usage error, from an error's words.
    pub fn usage(error: impl Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// A trace that was to have events has none.
    pub fn no_events(trace: &Path) -> Self {
        Self::Usage(format!(
            "{} has no events: record with --events sched,block,net, or bring in what another tool recorded with \
             xweave import",
            trace.display()
        ))
    }

    /// Says it, and gives the status.
    pub fn report(self) -> ExitCode {
        let (message, status) = match self {
            Self::Failed(message) => (message, 1),
            Self::Usage(message) => (message, 2),
        };
        // The last line of defence: what came from elsewhere was made fit to be shown where it was received.
        eprintln!("xweave: {}", text::lines(&message));
        ExitCode::from(status)
    }
}
