//! Releasing virtual machines: their merged pages are copied, and their memory is no longer marked for KSM.

use xweave_text::{printable, size};
use xweave_wire::pages::PAGE;

use crate::{
    Allowed, direct,
    host::{Host, HostError, VmMemory, available},
    status::{Status, StatusError},
    ways::WayError,
};

/// A virtual machine that was released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Its memory, as it was before.
    pub vm: VmMemory,
    /// Pages that were merged.
    pub merged: u64,
}

/// Result of releasing virtual machines.
#[derive(Debug)]
pub struct Release {
    /// The virtual machines, in the order given.
    pub vms: Vec<Released>,
    /// Why KSM could not be made to merge across NUMA nodes again, for people; `None` if it does, or always did.
    pub within_nodes: Option<String>,
}

/// Why virtual machines are not released. Those before the one at fault are.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// No way of unmarking is allowed.
    #[error(
        "this changes the memory settings of a virtual machine's process: pass --allow inject or --allow qmp"
    )]
    NotAllowed,
    /// No virtual machine has that name or process ID.
    #[error("this host runs no virtual machine `{}`: xweave merge doctor lists them", printable(.0))]
    Unknown(String),
    /// This host's virtual machines cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Merged pages cannot be read.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Copies of the merged pages do not fit into the available memory.
    #[error(
        "{name}: to hold what is merged by itself it needs {} more, and {} is available: free some first",
        size(*.needed as f64), size(*.available as f64)
    )]
    Memory {
        /// The virtual machine.
        name: String,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are available.
        available: u64,
    },
    /// Memory cannot be unmarked.
    #[error("memory of {0} is not released: {1}")]
    Unmark(String, #[source] WayError),
}

/// Releases virtual machines, given by names or process IDs, one after the other.
///
/// # Errors
/// [`ReleaseError`].
pub fn release(
    names: &[String],
    allowed: &Allowed,
    ended: impl Fn() -> bool,
) -> Result<Release, ReleaseError> {
    if !allowed.any() {
        return Err(ReleaseError::NotAllowed);
    }
    let host = Host::read()?;
    let vms = names.iter().map(|name| find(&host, name)).collect::<Result<Vec<_>, ReleaseError>>()?;
    let status = Status::read(&host)?;
    let mut released = Vec::new();
    for (vm, name) in vms.into_iter().zip(names) {
        let merged = status.vms.iter().find(|of| of.pid == vm.pid).map_or(0, |of| of.merged);
        check_memory(vm, merged, available())?;
        if !vm.marked.is_empty() {
            let unmarked = allowed.unmark(name, vm, &ended);
            unmarked.map_err(|error| ReleaseError::Unmark(vm.name.clone(), error))?;
        }
        released.push(Released { vm: vm.clone(), merged });
    }
    Ok(Release { vms: released, within_nodes: direct::across_nodes(ended).err() })
}

/// Checks that copies of the merged pages fit into the available memory, and a quarter more.
fn check_memory(vm: &VmMemory, merged: u64, available: u64) -> Result<(), ReleaseError> {
    let needed = merged.saturating_mul(PAGE);
    match available < needed.saturating_add(needed / 4) {
        true => Err(ReleaseError::Memory { name: vm.name.clone(), needed, available }),
        false => Ok(()),
    }
}

/// Finds a virtual machine by its name or process ID.
fn find<'h>(host: &'h Host, name: &str) -> Result<&'h VmMemory, ReleaseError> {
    let is_it = |vm: &&VmMemory| vm.name == name || name.parse() == Ok(vm.pid);
    host.vms.iter().find(is_it).ok_or_else(|| ReleaseError::Unknown(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(pid: u32, name: &str) -> VmMemory {
        VmMemory { pid, name: name.to_owned(), ..VmMemory::default() }
    }

    #[test]
    fn virtual_machines_are_found_by_name_or_process() {
        let host = Host { vms: vec![vm(7, "web"), vm(8, "db")], ..Host::default() };
        assert_eq!(find(&host, "db").unwrap().pid, 8);
        assert_eq!(find(&host, "7").unwrap().name, "web");
        let error = find(&host, "9").unwrap_err().to_string();
        assert!(error.starts_with("this host runs no virtual machine `9`"), "{error}");
    }

    #[test]
    fn copies_need_a_quarter_more_than_their_size() {
        let web = vm(7, "web");
        check_memory(&web, 4, 5 * PAGE).unwrap();
        let error = check_memory(&web, 4, 5 * PAGE - 1).unwrap_err();
        assert!(matches!(error, ReleaseError::Memory { needed, .. } if needed == 4 * PAGE), "{error}");
        check_memory(&web, 0, 0).unwrap();
    }

    #[test]
    fn nothing_is_released_without_an_allowed_way() {
        let error = release(&["web".to_owned()], &Allowed::default(), || false).unwrap_err();
        assert!(matches!(error, ReleaseError::NotAllowed), "{error}");
    }
}
