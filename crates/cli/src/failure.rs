//! What a command that did not succeed leaves behind: a message on standard error, and a status.

use std::{fmt::Display, path::Path, process::ExitCode};

use xweave_lab::Error as Lab;
use xweave_record::Error as Record;
use xweave_text as text;
use xweave_trace::ErrorKind;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// Exit status 1: it ran and failed.
    Failed(String),
    /// Exit status 2: it could not be done as it was asked.
    Usage(String),
    /// Exit status 125: what was to run a command and to end with its status could not, so that 1 is not said of the
    /// command.
    NotRun(String),
    /// Exit status 130, as a shell has it: Ctrl-C, before anything was done.
    Interrupted(String),
}

impl Failure {
    /// A usage error, from an error's words.
    pub fn usage(error: impl Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// A trace that cannot be read or written: that it is none, or somebody else's, is a matter of usage.
    pub fn of_trace(kind: ErrorKind, message: String) -> Self {
        match kind {
            ErrorKind::Damaged | ErrorKind::DiskFull | ErrorKind::Io => Self::Failed(message),
            _ => Self::Usage(message),
        }
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
            Self::NotRun(message) => (message, 125),
            Self::Interrupted(message) => (message, 130),
        };
        // The last line of defence: what came from elsewhere was made fit to be shown where it was received.
        eprintln!("xweave: {}", text::lines(&message));
        ExitCode::from(status)
    }
}

/// What was asked for is a matter of usage, and so are aspects that no kernel here has places for; what a domain or a
/// disk did is none.
impl From<Record> for Failure {
    fn from(error: Record) -> Self {
        let message = error.to_string();
        match error {
            Record::Interrupted => Self::Interrupted(message),
            Record::NoEvents(_)
            | Record::DomainSyntax(_)
            | Record::DomainTwice(_)
            | Record::GuestAsHost { .. }
            | Record::SameKernel { .. }
            | Record::TooManyDomains(_)
            | Record::Aspects(_)
            | Record::AspectFile(_)
            | Record::SymbolsSyntax(_)
            | Record::SymbolsDomain { .. }
            | Record::Symbols { .. }
            | Record::Command { .. } => Self::Usage(message),
            Record::Trace(error) => Self::of_trace(error.kind(), message),
            _ => Self::Failed(message),
        }
    }
}

/// What was asked for is a matter of usage; that a world is there or is not, and what became of it, is none.
impl From<Lab> for Failure {
    fn from(error: Lab) -> Self {
        let message = error.to_string();
        match error {
            Lab::Interrupted => Self::Interrupted(message),
            _ if error.is_usage() => Self::Usage(message),
            _ => Self::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_lab_was_asked_is_told_from_what_it_did() {
        let of = |error: Lab| Failure::from(error);
        assert!(matches!(of(Lab::Interrupted), Failure::Interrupted(_)));
        assert!(
            matches!(of(Lab::LoadAddress("x".into())), Failure::Usage(said) if said.starts_with("`x` is not an address"))
        );
        assert!(matches!(of(Lab::NoWorld { name: "x".into() }), Failure::Failed(_)));
        let name = Lab::Name { what: "world", name: "X".into(), rule: "small letters" };
        assert!(matches!(of(name), Failure::Usage(_)));
    }
}
