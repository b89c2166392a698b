//! What a command that did not succeed leaves behind: a message on standard error, and a status.

use std::{
    ffi::OsString,
    fmt::Display,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::error::{ContextKind, ContextValue, ErrorKind as Argument};
use xweave_lab::Error as Lab;
use xweave_record::Error as Record;
use xweave_report::{document, next};
use xweave_text as text;
use xweave_trace::{ErrorKind, Trace};

use crate::{habits, told};

/// How an agent may be reached.
const AGENT: &str = "in a guest, --vsock waits for the host; --stdio is for what is started by ssh";

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
    pub fn no_events(trace: &Trace) -> Self {
        Self::Usage(next::instead_of_events(trace))
    }

    /// What became of a command by which traces were read: tells what of them could not be, which is a failure.
    pub fn unless_whole(damaged: impl IntoIterator<Item = impl Display>) -> Result<ExitCode, Self> {
        let missing = damaged.into_iter().inspect(|damaged| told::tell(&damaged.to_string())).count();
        match missing {
            0 => Ok(ExitCode::SUCCESS),
            _ => Err(Self::Failed("parts of the trace are missing".to_owned())),
        }
    }

    /// What it says, fit to be shown.
    pub fn message(&self) -> String {
        let (Self::Failed(message)
        | Self::Usage(message)
        | Self::NotRun(message)
        | Self::Interrupted(message)) = self;
        // The last line of defence: what came from elsewhere was made fit to be shown where it was received.
        text::lines(message).into_owned()
    }

    /// Says it, and gives the status.
    pub fn report(self, asked: Asked) -> ExitCode {
        let status = match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NotRun(_) => 125,
            Self::Interrupted(_) => 130,
        };
        let message = self.message();
        // A mistake in an aspect says so itself.
        let by = if message.starts_with("error: ") { "" } else { "xweave: " };
        told::write_line(told::fitted(&format!("{by}{message}")));
        asked.answer(&message, status)
    }
}

/// What a command was asked for on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Text, for people: an error leaves standard output empty.
    Text,
    /// A document, for programs: an error is one too.
    Json,
}

impl Asked {
    /// By the arguments as they were given: they may be ones that cannot be parsed. What is behind `--` is another
    /// command's.
    pub fn by(arguments: impl Iterator<Item = OsString>) -> Self {
        let mut own = arguments.take_while(|argument| argument != "--");
        if own.any(|argument| argument == "--json" || argument == "--jsonl") {
            Self::Json
        } else {
            Self::Text
        }
    }

    /// Writes the document, if one was asked for, and gives the status.
    fn answer(self, message: &str, status: u8) -> ExitCode {
        if self == Self::Json {
            let mut out = io::stdout().lock();
            // Where nobody reads it, the message on standard error has to do.
            let _ = document::write(&mut out, &xweave_document::failure::Failure::new(message, status))
                .and_then(|()| out.flush());
        }
        ExitCode::from(status)
    }
}

/// Arguments that say nothing that could be done, or ask for help.
pub fn of_arguments(mut error: clap::Error, asked: Asked) -> ExitCode {
    let command = std::env::args_os().nth(1).unwrap_or_default().to_string_lossy().into_owned();
    let known = tip(&error).map(str::to_owned);
    if let Some(tip) = known.or_else(|| habits::translate(&error, &command)) {
        // What only looks alike is not meant.
        for alike in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
            error.remove(alike);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let text = error.render().to_string();
    let fitted = if error.use_stderr() { told::fitted(&text) } else { text.clone() };
    if fitted == text {
        // In colour. Where nobody reads it, there is nothing else to do.
        let _ = error.print();
    } else {
        let _ = write!(io::stderr().lock(), "{fitted}");
    }
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    // What follows is for who reads it in a terminal.
    let ends = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|end| text.find(end)).min();
    let what = text[..ends.unwrap_or(text.len())].trim();
    asked.answer(&text::lines(what.strip_prefix("error: ").unwrap_or(what)), 2)
}

/// What was asked for is a matter of usage, and so are aspects that no kernel here has places for; what a domain or a
/// disk did is none.
impl From<Record> for Failure {
    fn from(error: Record) -> Self {
        let message = error.to_string();
        match error {
            Record::Interrupted { .. } => Self::Interrupted(message),
            Record::NoEvents(_)
            | Record::DomainSyntax(_)
            | Record::TransportName { .. }
            | Record::DomainTwice(_)
            | Record::GuestAsHost { .. }
            | Record::SameKernel { .. }
            | Record::TooManyDomains(_)
            | Record::Aspects(_)
            | Record::AspectFile(_)
            | Record::SymbolsSyntax(_)
            | Record::SymbolsDomain { .. }
            | Record::NoDomain(_)
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

/// What could be given instead, where that is not seen from the argument that is missing.
fn tip(error: &clap::Error) -> Option<&'static str> {
    let ContextValue::Strings(missing) = error.get(ContextKind::InvalidArg)? else { return None };
    let is_missing = error.kind() == Argument::MissingRequiredArgument;
    let lacks_agent = is_missing && missing.iter().any(|argument| argument.starts_with("--stdio"));
    lacks_agent.then_some(AGENT)
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
        assert!(matches!(
            of(Lab::NoWorld { name: "x".into(), instead: "there are none".into() }),
            Failure::Failed(_)
        ));
        let name = Lab::Name { what: "world", name: "X".into(), rule: "small letters" };
        assert!(matches!(of(name), Failure::Usage(_)));
    }
}
