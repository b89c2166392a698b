//! The aspect language: what to record, and where.
//!
//! A file of aspects defines *flows* (`xflow`: a piece of data, from where it starts over what it
//! passes through to where it ends) and *advice* (C code that runs at the join points that a
//! pointcut selects). `docs/language.md` describes it for people who write it.
//!
//! ```
//! let source = xweave_aspect::Source {
//!     name: "open.aspect".into(),
//!     text: "execution(do_filp_open) { STORE_DATA1(dfd); }".into(),
//! };
//! let aspects = xweave_aspect::parse(vec![source]).unwrap();
//! assert_eq!(aspects.advice.len(), 1);
//! ```
//!
//! Modules, in the order of imports: [`diagnostic`] is how mistakes are reported, [`code`] a piece of C; [`syntax`] is
//! the tree that front ends build; `lexer` makes tokens of text; `trivia` are comments and empty lines, and
//! `parse_state` what is filled while files are read. `grammar` and `pointcut` are what both forms have in common,
//! `parse` reads the native form, with `parse_filter` for a [`filter`], and `xml` that of the paper on XenLASY;
//! `frontend` chooses between them. `read` finds the text (files, the `library`, the command line). `check` judges what can be judged without a kernel. `print`
//! makes text of the tree again; `format` goes from text to text.

mod check;
pub mod code;
pub mod diagnostic;
pub mod filter;
mod format;
mod frontend;
mod grammar;
mod lexer;
mod library;
mod parse;
mod parse_filter;
mod parse_state;
mod pointcut;
mod print;
mod read;
mod stored;
pub mod syntax;
mod trivia;
mod xml;

pub use code::{Code, Special};
pub use diagnostic::{Diagnostic, Severity, Source, Span};
pub use filter::Filter;
pub use format::{Formatted, format};
pub use library::{Module, library, library_names, module_of};
pub use pointcut::pointcut;
pub use read::{Unreadable, read};
pub use syntax::Aspects;

use frontend::read_all;
use parse_state::{Included, ParseState};

/// Reads files of aspects, which may use each other's flows, and checks what can be checked without a kernel.
/// A file whose first character is `<` is in the XML form.
///
/// # Errors
///
/// All mistakes that were found, in the order of the files.
pub fn parse(sources: Vec<Source>) -> Result<Aspects, Vec<Diagnostic>> {
    let ParseState { aspects, mut errors, .. } = read_all(sources, Included::Read);
    if errors.is_empty() {
        check::check(&aspects, &mut errors);
    }
    if errors.is_empty() { Ok(aspects) } else { Err(errors) }
}
