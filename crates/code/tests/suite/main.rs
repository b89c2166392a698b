//! The tests of this crate's public interface, in one program: it is linked once.

mod dwarf;
mod dwarf_hostile;
mod hostile;
mod image;
mod inlining;
mod layout;
