//! Emulated worlds to run in: a stock KVM host, or Xen with its dom0, with guests of its own, on any machine.
//!
//! A [`World`] is one QEMU process: the *host*, a Debian kernel with KVM or Xen's dom0, which runs the guests
//! `vm1`, `vm2`, … on the same kernel or another one. Where the machine's own virtualization cannot nest, QEMU emulates
//! AMD's in software: every event is real, no time is. Commands run in any domain over a channel of the
//! lab's own; the program that runs there is xweave itself, static, so guests need nothing else.
//!
//! ```no_run
//! use xweave_lab::{Command, Kind, Options, World};
//!
//! let world = World::up(&Options::new(Kind::Kvm)?, &|phase| eprintln!("{phase:?}"))?;
//! let output = world.exec("vm1", &Command::new(["uname", "-r"]))?.output(b"")?;
//! println!("{}", String::from_utf8_lossy(&output.stdout));
//! world.down()?;
//! # Ok::<(), xweave_lab::Error>(())
//! ```
//!
//! Images are built once, from the packages of the machine's own Debian sources ([`Cache`], [`Images`]); kernels that
//! these do not have come from newer suites of the same mirror ([`Kernels`]).

mod accelerator;
mod apt;
mod cache;
mod copy;
mod emulator;
mod error;
mod exec;
mod images;
mod initrd;
mod kernel;
mod kind;
pub mod load;
mod modules;
mod newc;
mod plugin;
mod process;
mod progress;
mod runtime;
mod sources;
mod virtualization;
mod world;

pub use accelerator::Accelerator;
pub use cache::Cache;
pub use error::{Error, Result};
pub use exec::client::{Event, ExecChild, ExecStdin, Output};
pub use exec::guest::enter;
pub use exec::protocol::{Command, PORT, Status};
pub use exec::server::{Listen, serve};
pub use images::{Choice, Images};
pub use kernel::{Flavour, Kernel, KernelFiles, Kernels, NEWEST, series_of};
pub use kind::{Kind, Qemu};
pub use progress::{Phase, Progress};
pub use runtime::{Description, State};
pub use world::{Listed, Options, World, console, down, list};
