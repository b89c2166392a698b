//! The runtime in a domain: it loads what a controller compiled, attaches it, drains what it
//! records, and reads the clocks. It needs neither a compiler nor debug information.
//!
//! Every probe is held by a file descriptor of the agent's process and by nothing else. However the
//! process ends, the kernel takes the probes away with it.
//!
//! ```no_run
//! // What `xweave agent --stdio` does:
//! use std::{io, os::fd::AsFd};
//!
//! let output = io::stdout().as_fd().try_clone_to_owned().unwrap();
//! xweave_agent::serve(io::stdin(), output, xweave_agent::Options::default()).unwrap();
//! ```
//!
//! Modules: [`serve`] speaks the protocol on any stream, through an `output` that nobody can hold up, for as long as the
//! controller's `lease` runs; [`listen()`] takes connections from the host by vsock; `weaving` has `objects`, `load` and `attach` do
//! their work, with `settings` of the kernel that make it fast; `pages` are what its page cache holds, and [`pagemap`] where pages are; `knobs` are those that an experiment changes, `affinity` among them, and
//! [`ksm`] those of KSM, which one process `alone` changes; the `book` has what all were before; recording may go on in the `background`; `guard` is what keeps
//! programs from running inside each other; `modules` may go while something is woven into them; `events` are the
//! built-in probes, and `threads` what they cannot tell of; both fill `rings`, which `drain` empties, at last when all
//! programs are `quiesce`d; `shared` is the memory in which guests tell their host what their buffers carry; `clock`, `facts` and `kvm` look at the machine, and [`command_line`] at what those of its virtual machines say.

mod absent;
mod addresses;
mod affinity;
mod alone;
mod attach;
mod back_ends;
mod background;
mod book;
mod cancel;
mod clock;
pub mod command_line;
mod drain;
mod error;
mod events;
mod facts;
mod guard;
mod hook;
mod kernel_btf;
mod knobs;
pub mod ksm;
mod kvm;
mod lease;
mod libbpf_log;
mod listen;
mod listeners;
mod load;
mod modules;
mod objects;
mod output;
pub mod pagemap;
mod pages;
mod probe;
mod program;
mod prototype;
mod quiesce;
mod rings;
mod running;
mod session;
mod settings;
mod shared;
mod stand_in;
mod standing;
mod symbols;
mod threads;
mod weaving;
mod xenstore;
mod xentrace;

pub use background::{Background, in_own_session};
pub use book::StaleSettings;
pub use clock::{tsc, tsc_hz};
pub use facts::facts;
pub use kvm::vms;
pub use listen::listen;
pub use session::{Options, serve};
pub use settings::restore as restore_settings;
