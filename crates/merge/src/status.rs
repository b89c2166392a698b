//! What of this host's virtual machines is merged now, whoever had it merged.

use std::{collections::HashSet, io};

use xweave_wire::pages::PAGE;

use crate::{
    host::{self, Host, Ksm},
    merged::Pages,
};

/// Pages that are looked at at once: of a GiB.
const AT_ONCE: usize = 1 << 18;

/// What is merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// How KSM stands; none if the kernel has none.
    pub ksm: Option<Ksm>,
    /// Pages that are given back: merged ones, less those that stay for them.
    pub saved: u64,
    /// Memory of this host that can be had without swapping, in bytes: what guests write to of what is merged is taken from it.
    pub available: u64,
    /// The machines, by their processes.
    pub vms: Vec<OfVm>,
}

/// What is merged of a machine's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfVm {
    /// Its process.
    pub pid: u32,
    /// What its user calls it, or else its process is called.
    pub name: String,
    /// Bytes that it holds.
    pub held: u64,
    /// Of these, bytes that are marked for KSM.
    pub marked: u64,
    /// Pages that are merged with others.
    pub merged: u64,
}

/// Merged pages cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("what is merged cannot be read: /proc/kpageflags: {0}: run it as root")]
pub struct StatusError(#[from] io::Error);

impl Status {
    /// Reads the state of each page that is marked. A virtual machine that has ended is left out.
    ///
    /// # Errors
    /// This process is not root.
    pub fn read(host: &Host) -> Result<Self, StatusError> {
        let pages = Pages::open()?;
        let (available, mut stays) = (host::available(), HashSet::new());
        let mut status = Self { ksm: host.ksm, available, ..Self::default() };
        for vm in &host.vms {
            let mut merged = 0;
            let starts = vm
                .marked
                .iter()
                .flat_map(|range| (0..range.length / PAGE).map(|page| range.start + page * PAGE));
            let mut starts = starts.peekable();
            while starts.peek().is_some() {
                let addresses: Vec<u64> = starts.by_ref().take(AT_ONCE).collect();
                let Ok(frames) = pages.merged(vm.pid, &addresses) else { break };
                for frame in frames.into_iter().filter(|frame| *frame > 0) {
                    merged += 1;
                    status.saved += u64::from(!stays.insert(frame));
                }
            }
            let (pid, name) = (vm.pid, vm.name.clone());
            status.vms.push(OfVm { pid, name, held: vm.held(), marked: vm.mergeable, merged });
        }
        Ok(status)
    }

    /// Pages of all machines that are merged with others.
    pub fn merged(&self) -> u64 {
        self.vms.iter().map(|vm| vm.merged).sum()
    }
}
