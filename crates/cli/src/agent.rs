//! `xweave agent`: the runtime in a domain.

use std::{io, os::fd::AsFd, process::ExitCode, time::Duration};

use xweave_agent::Options;

use crate::{arguments::duration, failure::Failure};

/// Run in a domain: load, attach and drain what a controller sends
///
/// All probes belong to this process: when it ends, in whatever way, the kernel detaches them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave agent --vsock                                        in a guest: wait for the host
  xweave record … --domain vm1='ssh root@vm1 xweave agent --stdio'")]
pub struct Args {
    /// Serve one controller on standard input and output
    #[arg(long, conflicts_with = "vsock", required_unless_present = "vsock")]
    stdio: bool,
    /// Listen on this vsock port, for root on the host only (CID 2, source port below 1024)
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "7390")]
    vsock: Option<u32>,
    /// How long probes stay without a word from the controller. For tests, and for links that stand still for long
    #[arg(long, hide = true, value_parser = duration, default_value = "30s")]
    lease: Duration,
    /// Both ends have said what they speak: whoever listened has seen to it
    #[arg(long, hide = true, conflicts_with = "vsock")]
    greeted: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(port) = args.vsock {
        return match xweave_agent::listen(port, args.lease) {
            Ok(never) => match never {},
            Err(error) => Err(Failure::Usage(format!(
                "cannot listen on vsock port {port}: {error}; the guest needs a vsock device (QEMU: -device vhost-vsock-pci,guest-cid=N)"
            ))),
        };
    }
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("agent: {error}"));
    let output = io::stdout().as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
    xweave_agent::serve(io::stdin(), output, Options { lease: args.lease, greeted: args.greeted })
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| failed(&error))
}
