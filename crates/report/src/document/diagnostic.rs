//! Mistakes in aspects, for the documents of `check` and `fmt`.

use xweave_document::diagnostic::Diagnostic;

/// Builds the rows of mistakes or warnings.
pub(super) fn build_all(of: &[xweave_aspect::Diagnostic]) -> Vec<Diagnostic<'_>> {
    of.iter().map(build).collect()
}

fn build(of: &xweave_aspect::Diagnostic) -> Diagnostic<'_> {
    Diagnostic {
        file: &of.file,
        line: of.line,
        column: of.column,
        message: &of.message,
        help: of.help.as_deref(),
    }
}
