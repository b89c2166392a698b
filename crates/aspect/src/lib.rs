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
//! Rooms: [`syntax`] is the tree that front ends build, [`code`] the C fragments in it,
//! [`diagnostic`] how mistakes are told. `read` finds the text (files, the `library`, the command line). There
//! are two front ends, with `front` in common: in the native form, text becomes tokens in `lexer`, a tree in
//! `parse` and `pointcut`; `xml` makes the same tree of the form of the paper XenLASY. What can be judged
//! without a kernel is, in `check`. `print` makes text of the tree again, with the comments that are in
//! `margin`; `format` is the way from text to text.

mod check;
pub mod code;
pub mod diagnostic;
mod format;
mod front;
mod lexer;
mod library;
mod margin;
mod parse;
mod pointcut;
mod print;
mod read;
pub mod syntax;
mod xml;

pub use code::{Code, Special};
pub use diagnostic::{Diagnostic, Severity, Source, Span};
pub use format::{Formatted, format};
pub use library::{library, library_names};
pub use pointcut::pointcut;
pub use read::{Unreadable, read};
pub use syntax::Aspects;

/// Reads files of aspects, which may use each other's flows, and checks what can be checked without a kernel.
/// A file whose first character is `<` is in the XML form.
///
/// # Errors
///
/// All mistakes that were found, in the order of the files.
pub fn parse(sources: Vec<Source>) -> Result<Aspects, Vec<Diagnostic>> {
    let front::Reading { aspects, mut errors, .. } = front::Reading::of(sources);
    if errors.is_empty() {
        check::check(&aspects, &mut errors);
    }
    if errors.is_empty() { Ok(aspects) } else { Err(errors) }
}
