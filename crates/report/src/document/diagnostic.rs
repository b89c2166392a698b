//! A mistake in an aspect, as the documents of `check` and `fmt` have it.

use serde::Serialize;

/// A mistake, or something to know of.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Diagnostic<'a> {
    /// The file; empty if it is in none.
    pub file: &'a str,
    /// From 1; 0 if it is in no file.
    pub line: u32,
    /// From 1, in characters; 0 if it is in no file.
    pub column: u32,
    /// What is wrong.
    pub message: &'a str,
    /// What to do about it, where that can be said.
    pub help: Option<&'a str>,
}

impl<'a> From<&'a xweave_aspect::Diagnostic> for Diagnostic<'a> {
    fn from(of: &'a xweave_aspect::Diagnostic) -> Self {
        Self {
            file: &of.file,
            line: of.line,
            column: of.column,
            message: &of.message,
            help: of.help.as_deref(),
        }
    }
}

/// All of them.
pub(super) fn all(of: &[xweave_aspect::Diagnostic]) -> Vec<Diagnostic<'_>> {
    of.iter().map(Diagnostic::from).collect()
}
