//! The document of `xweave fmt`.

use std::path::Path;

use xweave_document::fmt::{Fmt, FormattedFile};

use super::diagnostic;

/// Builds the entry of a file: its path, its text in the canonical form, and whether it was in another form.
pub fn build_file<'a>(path: &'a Path, text: &'a str, changed: bool) -> FormattedFile<'a> {
    FormattedFile { file: super::path(path), changed, text }
}

/// Builds the document of all files.
pub fn build<'a>(
    files: impl IntoIterator<Item = FormattedFile<'a>>,
    warnings: &'a [xweave_aspect::Diagnostic],
    errors: &'a [xweave_aspect::Diagnostic],
) -> Fmt<'a> {
    let files = files.into_iter().collect();
    Fmt { files, warnings: diagnostic::build_all(warnings), errors: diagnostic::build_all(errors) }
}
