//! What other tools have recorded, as a trace: `xweave import`.
//!
//! A file describes its records itself: the formats of the kernel's tracepoints lie in it. They say where in a record
//! the numbers are that an event of the normal form (`xweave_trace::event`) is made of; so an import works with the
//! tracepoints of any kernel, and a record costs some loads and no allocation. The records of a kernel's processors
//! are merged by their times. Nothing is held in memory but some pages of each processor.
//!
//! A file is hostile until it has been understood: whatever it says of sizes and places is held against the file's own
//! size, and damage costs what is damaged.
//!
//! Modules: [`mod@import`] makes one trace of several files; `dat` is trace-cmd's file, `perf` that of `perf record`,
//! `ctf` LTTng's directory, which the program babeltrace2 decodes, and `xen` what xentrace took from Xen; `ring` is a
//! page of the kernel's buffer, `format` the description of a tracepoint and `tracepoint` its meaning; `kernel` makes
//! events of the records of one kernel.
//!
//! ```no_run
//! let files = ["host.dat".into(), "guest.dat".into()];
//! let outcome = xweave_import::import(&files, "trace".as_ref(), &xweave_import::Options::default())?;
//! println!("{} events of {} domains", outcome.events, outcome.domains.len());
//! # Ok::<(), xweave_import::Error>(())
//! ```

mod addition;
mod clocks;
mod ctf;
mod dat;
mod error;
mod format;
pub mod import;
mod input;
mod kernel;
mod merge;
mod partition;
mod perf;
mod ring;
mod sink;
mod tracepoint;
mod xen;

pub use addition::{Addition, add};
pub use error::{Error, ErrorKind, UNDERSTOOD};
pub use import::{Options, Outcome, decode, import};
pub use input::Input;
pub use sink::Sink;
pub use xen::CPU_HZ;
