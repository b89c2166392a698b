//! The runtime in a domain: it loads what a controller compiled, attaches it, drains what it
//! records, and reads the clocks. It needs neither a compiler nor debug information.
//!
//! Every probe is held by a file descriptor of the agent's process and by nothing else. However the
//! process ends, the kernel takes the probes away with it.
//!
//! ```no_run
//! // What `xweave agent --stdio` does:
//! xweave_agent::serve(std::io::stdin(), std::io::stdout()).unwrap();
//! ```
//!
//! Rooms: [`serve`] speaks the protocol on any stream; [`listen`] takes connections from the host by
//! vsock; `weaving` has `load` and `attach` do their work, with `settings` of the kernel that make it quick;
//! `guard` is what keeps programs from running inside each other; `events` are the built-in probes, and `threads`
//! what they cannot tell of; both fill `rings`, which `drain` empties; `clock`, `facts` and `kvm` look at the
//! machine.

mod addresses;
mod attach;
mod cancel;
mod clock;
mod drain;
mod events;
mod facts;
mod guard;
mod kernel_btf;
mod kvm;
mod listen;
mod load;
mod probe;
mod program;
mod rings;
mod running;
mod session;
mod settings;
mod threads;
mod weaving;

pub use clock::{tsc, tsc_hz};
pub use facts::facts;
pub use listen::listen;
pub use session::serve;
pub use settings::{Left, put_back};
