//! What keeps hostile input from doing harm, whatever it is that reads it.
//!
//! [`private`] makes and opens files that nobody but their owner can touch; [`confine`] takes from a process all that
//! it does not need for reading what a guest or a stranger sent.

pub mod confine;
pub mod private;
