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
//! vsock; `weaving` loads and attaches; `drain` empties the ring buffer; `clock`, `facts` and `kvm`
//! look at the machine.

mod clock;
mod drain;
mod facts;
mod kernel_btf;
mod kprobe;
mod kvm;
mod listen;
mod running;
mod session;
mod weaving;

pub use clock::{tsc, tsc_hz};
pub use facts::facts;
pub use listen::listen;
pub use session::serve;
