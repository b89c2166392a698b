//! `xweave agent`: the runtime in a domain.

use std::{io, process::ExitCode};

use crate::failure::Failure;

/// Run in a domain: load, attach and drain what a controller sends
///
/// All probes are held by this process: when it ends, however it ends, the kernel takes them away.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave agent --vsock                                        in a guest: wait for the host
  xweave record … --domain vm1='ssh root@vm1 xweave agent --stdio'")]
pub struct Args {
    /// Speak the protocol on standard input and output, until they are closed
    #[arg(long, conflicts_with = "vsock", required_unless_present = "vsock")]
    stdio: bool,
    /// Listen for the host (CID 2 and no other) on this vsock port
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "7390")]
    vsock: Option<u32>,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    match args.vsock {
        Some(port) => match xweave_agent::listen(port) {
            Ok(never) => match never {},
            Err(error) => Err(Failure::WrongUse(format!(
                "cannot listen on vsock port {port}: {error}; the guest needs a vsock device (QEMU: -device vhost-vsock-pci,guest-cid=N)"
            ))),
        },
        None => xweave_agent::serve(io::stdin(), io::stdout())
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Failure::FellShort(format!("agent: {error}"))),
    }
}
