//! The tests of this crate's public interface, in one program: it is linked once.

mod addition;
mod common;
mod ctf;
mod dat;
mod hostile;
mod perf;
mod xen;
