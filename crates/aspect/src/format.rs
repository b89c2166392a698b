//! `xweave fmt`: a file of either form to canonical text of the native one.

use crate::diagnostic::{Diagnostic, Source};
use crate::frontend::read_all;
use crate::parse_state::{Included, ParseState};
use crate::print::print;
use crate::syntax::Aspects;

/// A file in canonical form.
#[derive(Clone, Debug)]
pub struct Formatted {
    /// The text.
    pub text: String,
    /// What it says, and what the user should know of.
    pub aspects: Aspects,
}

/// Brings a file into the canonical native form. Whether its names have a meaning is not asked: a file may
/// use another's flows.
///
/// # Errors
///
/// All mistakes in the file; or a comment that has no place in the new text.
pub fn format(source: Source) -> Result<Formatted, Vec<Diagnostic>> {
    let ParseState { aspects, mut errors, trivia, .. } = read_all(vec![source], Included::Left);
    if errors.is_empty()
        && let Some(comment) = trivia.lost
    {
        let message = "this comment is within a clause or advice, where it would be lost";
        let help = "put it on a line before, at the end, or into the C code";
        errors.push(aspects.error(comment, message).with_help(help));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Formatted { text: print(&aspects, &trivia), aspects })
}
