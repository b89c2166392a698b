//! What any command with `--json` prints when it fails before it has printed a document.

use serde::Serialize;

/// The document.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Failure<'a> {
    /// Why there is no other.
    pub error: Error<'a>,
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Error<'a> {
    /// What happened, where, and what to do: as on standard error.
    pub message: &'a str,
    /// The exit status: 1 it ran and failed, 2 usage, 125 a command was not run, 130 interrupted.
    pub exit: u8,
}

impl<'a> Failure<'a> {
    /// Of what is said on standard error, and the status.
    pub fn new(message: &'a str, exit: u8) -> Self {
        Self { error: Error { message, exit } }
    }
}
