//! What `xweave fmt --json` prints.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use super::diagnostic::{self, Diagnostic};

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct Fmt<'a> {
    /// The files that could be formatted.
    pub files: Vec<File<'a>>,
    /// What is to be known of them.
    pub warnings: Vec<Diagnostic<'a>>,
    /// What is wrong with the others.
    pub errors: Vec<Diagnostic<'a>>,
}

/// A file in its canonical form.
#[derive(Clone, Debug, Serialize)]
pub struct File<'a> {
    /// Its path.
    pub file: Cow<'a, str>,
    /// Whether it was in another form.
    pub changed: bool,
    /// Its text in the canonical form.
    pub text: &'a str,
}

impl<'a> File<'a> {
    /// Of a file's path, its text in the canonical form, and whether that is another than it had.
    pub fn new(path: &'a Path, text: &'a str, changed: bool) -> Self {
        Self { file: super::path(path), changed, text }
    }
}

impl<'a> Fmt<'a> {
    /// Of what came of all files.
    pub fn new(
        files: impl IntoIterator<Item = File<'a>>,
        warnings: &'a [xweave_aspect::Diagnostic],
        errors: &'a [xweave_aspect::Diagnostic],
    ) -> Self {
        let files = files.into_iter().collect();
        Self { files, warnings: diagnostic::all(warnings), errors: diagnostic::all(errors) }
    }
}
