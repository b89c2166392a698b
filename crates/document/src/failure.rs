//! The document of a command that fails before it has printed its own.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The document.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Failure<'a> {
    /// Reason why there is no other document.
    pub error: FailureReason<'a>,
}

/// Reason of a failure.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FailureReason<'a> {
    /// What happened, where, and what to do: as on standard error.
    pub message: &'a str,
    /// Exit status: 1 it ran and failed, 2 usage, 125 a command was not run, 130 interrupted.
    pub exit: u8,
}

impl<'a> Failure<'a> {
    /// Creates the document of a message, as on standard error, and an exit status.
    pub fn new(message: &'a str, exit: u8) -> Self {
        Self { error: FailureReason { message, exit } }
    }
}
