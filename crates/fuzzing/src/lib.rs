//! Fuzz targets: one for every parser of xweave. Each has a function that panics if an input breaks what the parser
//! promises, and seeds, which are inputs as honest programs make them.
//!
//! There are two users. `make fuzz` runs the targets with libFuzzer, which looks for inputs that reach new code (`fuzz/`,
//! a workspace of its own: all of it is compiled with coverage). The tests of this crate run each target with its seeds
//! and a fixed number of mutations of them, the same ones every time.
//!
//! Modules: one for each target; [`target`] is the table of them, [`mutate`] makes inputs of seeds, [`check`] runs them.
//! `compile` runs compilers for seeds, `samples` has values that several seeds contain, `parts` splits inputs, and
//! `aspect_checks` is common to both forms of aspects.

pub mod access;
pub mod aspect;
mod aspect_checks;
pub mod aspect_xml;
pub mod btf;
pub mod check;
mod compile;
pub mod cost;
pub mod dwarf;
pub mod image;
pub mod import;
pub mod mutate;
mod parts;
mod samples;
pub mod target;
pub mod trace;
pub mod wire;
