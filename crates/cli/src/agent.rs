//! `xweave agent`: the runtime in a domain.

use std::{io, os::fd::AsFd, process::ExitCode, time::Duration};

use xweave_agent::Options;
use xweave_wire::LEASE;

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
    #[arg(long, hide = true, value_parser = duration)]
    lease: Option<Duration>,
    /// Both ends have said what they speak: whoever listened has seen to it
    #[arg(long, hide = true, conflicts_with = "vsock")]
    greeted: bool,
}

impl Args {
    fn lease(&self) -> Duration {
        self.lease.unwrap_or(LEASE)
    }
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(port) = args.vsock {
        return match xweave_agent::listen(port, args.lease()) {
            Ok(never) => match never {},
            Err(error) => Err(Failure::Usage(format!(
                "cannot listen on vsock port {port}: {error}; the guest needs a vsock device (QEMU: -device vhost-vsock-pci,guest-cid=N)"
            ))),
        };
    }
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("agent: {error}"));
    let output = io::stdout().as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
    xweave_agent::serve(io::stdin(), output, Options { lease: args.lease(), greeted: args.greeted })
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    fn lease(words: &[&str]) -> Duration {
        let words = ["agent", "--stdio"].into_iter().chain(words.iter().copied());
        let given = Args::augment_args(Command::new("agent")).try_get_matches_from(words).unwrap();
        Args::from_arg_matches(&given).unwrap().lease()
    }

    #[test]
    fn probes_stay_for_the_lease_that_controllers_know() {
        assert_eq!(lease(&[]), LEASE);
        assert_eq!(lease(&["--lease", "2m"]), Duration::from_secs(120));
        // As SECURITY.md says.
        assert_eq!(LEASE, Duration::from_secs(30));
    }
}
