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
//! [`diagnostic`] how mistakes are told. `read` finds
//! the text (files, the `library`, the command line). Text becomes tokens in `lexer`, a tree in `parse`, and is
//! judged, as far as that needs no kernel, in `check`.

mod check;
pub mod code;
pub mod diagnostic;
mod lexer;
mod library;
mod parse;
mod read;
pub mod syntax;

pub use code::{Code, Special};
pub use diagnostic::{Diagnostic, Severity, Source, Span};
pub use library::{library, library_names};
pub use read::{Unreadable, read};
pub use syntax::Aspects;

/// Reads files of aspects in the native form, which may use each other's flows, and checks what
/// can be checked without a kernel.
///
/// # Errors
///
/// All mistakes that were found, in the order of the files.
pub fn parse(sources: Vec<Source>) -> Result<Aspects, Vec<Diagnostic>> {
    let mut aspects = Aspects { sources, xflows: Vec::new(), advice: Vec::new() };
    let mut errors = Vec::new();
    for file in 0..aspects.sources.len() {
        parse::file(&mut aspects, file, &mut errors);
    }
    if errors.is_empty() {
        check::check(&aspects, &mut errors);
    }
    if errors.is_empty() { Ok(aspects) } else { Err(errors) }
}
