//! Mistakes in aspects, in the documents of `check` and `fmt`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// A mistake, or a warning.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Diagnostic<'a> {
    /// File; empty if the mistake is in none.
    pub file: &'a str,
    /// Line, from 1; 0 if the mistake is in no file.
    pub line: u32,
    /// Column, from 1, in characters; 0 if the mistake is in no file.
    pub column: u32,
    /// Description of the mistake.
    pub message: &'a str,
    /// Remedy; null if there is none.
    pub help: Option<&'a str>,
}
