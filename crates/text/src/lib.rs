//! Text, for whichever crate reads it from strangers or writes it for people.
//!
//! Modules: `printable` (what came from a guest or a file made fit to be shown), `name` (patterns with `%`, nearest
//! names), `size` (bytes in units and in hexadecimal digits), `list` (numbers as the kernel lists them), `location` (places in code), `argument` (of commands). No other crate of the
//! workspace is used here.

mod argument;
mod list;
mod location;
mod name;
mod printable;
mod size;

pub use argument::argument;
pub use list::listed;
pub use location::location;
pub use name::{instead, matches, nearest};
pub use printable::{cut, lines, lines_cut, printable, printable_bytes};
pub use size::{hex, parse_size, size};
