//! The tests of this crate's public interface, in one program: it is linked once.

mod checker;
mod common;
mod docs;
mod format;
mod language;
mod pointcuts;
mod xml;
