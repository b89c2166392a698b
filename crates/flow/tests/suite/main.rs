//! The tests of this crate's public interface, in one program: it is linked once.

mod ancestry;
mod clock;
mod copies;
mod drops;
mod exchange;
mod hostile;
mod interrupts;
mod join;
mod keys;
mod places;
mod window;
mod wrap;
mod xen;
