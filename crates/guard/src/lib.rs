//! What keeps hostile input from doing harm, whatever it is that reads it.
//!
//! [`private`] makes and opens files that nobody but their owner can touch, and [`cache`] says where those lie that are
//! kept for the next time; [`broker`] opens files for a process that has no rights; [`confine`] takes from a process all
//! that it does not need for reading what a guest or a stranger sent.

pub mod broker;
pub mod cache;
pub mod confine;
pub mod private;
