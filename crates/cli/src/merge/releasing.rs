//! `xweave merge release`: what was merged is each guest's own again.

use std::{io::Write, process::ExitCode};

use xweave_merge::{
    Host, direct,
    host::{VmMemory, available},
};
use xweave_report::{View, document, merge as report};
use xweave_text::{printable, size};
use xweave_wire::pages::PAGE;

use super::{WIDE, ways};
use crate::{failure::Failure, shown, told};

/// Give virtual machines memory of their own again: nothing of it is merged, nor marked for KSM
///
/// Each page that is merged is copied, which takes as much memory as merging gave back.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo xweave merge release --allow inject vm1 vm2")]
pub struct Args {
    /// Their names, as xweave merge doctor has them, or their processes' IDs
    #[arg(value_name = "VM", required = true)]
    vms: Vec<String>,
    #[command(flatten)]
    ways: ways::Args,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Releases them, one after the other.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let names: Vec<&str> = args.vms.iter().map(String::as_str).collect();
    let allowed = args.ways.allowed(&names)?;
    if !allowed.any() {
        return Err(Failure::Usage(
            "a virtual machine's process has to be touched for that, or QEMU asked: name a way with --allow inject or --allow qmp"
                .to_owned(),
        ));
    }
    let host = super::host()?;
    let vms = args.vms.iter().map(|name| find(&host, name)).collect::<Result<Vec<_>, Failure>>()?;
    let status = super::merged(&host)?;
    let mut released = Vec::new();
    for (vm, called) in vms.into_iter().zip(names) {
        let name = &vm.name;
        let merged = status.vms.iter().find(|of| of.pid == vm.pid).map_or(0, |of| of.merged);
        let needed = merged.saturating_mul(PAGE);
        if available() < needed.saturating_add(needed / 4) {
            return Err(Failure::Failed(format!(
                "{name}: to hold what is merged by itself it needs {} more, and {} is available: free some first",
                size(needed as f64),
                size(available() as f64)
            )));
        }
        if !vm.marked.is_empty() {
            allowed.unmark(called, vm, &xweave_interrupt::pending).map_err(|error| {
                match format!("memory of {name} is not released: {error}") {
                    why if xweave_interrupt::pending() => Failure::Interrupted(why),
                    why => Failure::Failed(why),
                }
            })?;
        }
        released.push((vm, merged));
    }
    if let Err(why) = direct::across_nodes(xweave_interrupt::pending) {
        told::tell(&why);
    }
    shown::only(|out| match args.json {
        true => document::merge::write_released(out, &released),
        false => write!(out, "{}", report::released(&released, View::of_stdout(WIDE))),
    })
}

fn find<'h>(host: &'h Host, name: &str) -> Result<&'h VmMemory, Failure> {
    let found = |vm: &&VmMemory| vm.name == name || name.parse() == Ok(vm.pid);
    host.vms.iter().find(found).ok_or_else(|| {
        Failure::Usage(format!(
            "this host runs no virtual machine `{}`: xweave merge doctor lists them",
            printable(name)
        ))
    })
}
