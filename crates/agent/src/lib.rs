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
//! Modules: [`serve`] speaks the protocol on any stream, through an `output` that does not block, until the controller's
//! `lease` ends; [`listen()`] accepts connections from the host by vsock; `weaving` has `objects`, `load` and `attach` do
//! their work, and `settings_report` reports on the kernel's settings that make it fast. `guard` keeps programs from running
//! inside each other; `modules` detects modules that are unloaded while something is woven into them. `events` are the built-in
//! probes, and `threads` and `listeners` what they cannot observe; both fill `rings`, which `drain` empties, at last when all
//! programs are `quiesce`d. `shared` is the memory in which guests describe their buffers to their host; `pages` reads the
//! page cache. What the machine is and which settings it has is in `xweave_system`.

mod absent;
mod addresses;
mod attach;
mod cancel;
mod drain;
mod error;
mod events;
mod guard;
mod hook;
mod kernel_btf;
mod lease;
mod libbpf_log;
mod listen;
mod listeners;
mod load;
mod modules;
mod objects;
mod output;
mod pages;
mod probe;
mod program;
mod prototype;
mod quiesce;
mod rings;
mod running;
mod session;
mod settings_report;
mod shared;
mod stand_in;
mod threads;
mod weaving;
mod xentrace;

pub use listen::listen;
pub use session::{Options, serve};
