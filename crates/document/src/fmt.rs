//! The document of `xweave fmt`.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostic::Diagnostic;

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Fmt<'a> {
    /// Files that could be formatted.
    pub files: Vec<FormattedFile<'a>>,
    /// Warnings about these files.
    pub warnings: Vec<Diagnostic<'a>>,
    /// Mistakes in the other files.
    pub errors: Vec<Diagnostic<'a>>,
}

/// A file in its canonical form.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FormattedFile<'a> {
    /// Path of the file.
    pub file: Cow<'a, str>,
    /// Whether it was in another form.
    pub changed: bool,
    /// Text in the canonical form.
    pub text: &'a str,
}
