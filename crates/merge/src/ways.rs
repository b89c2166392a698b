//! The ways in which a guest's memory is marked for KSM by somebody else than who started it: each if it is allowed, in order
//! of what it does to the guest's process.
//!
//! A ring marks pages beside it. Calls hold a thread of it, and mark pages as well. QEMU, asked by QMP, marks all memory of the
//! guest's, and does nothing else meanwhile.

use std::{collections::BTreeMap, io, path::PathBuf};

use xweave_wire::pages::PAGE;

use crate::{
    host::VmMemory,
    mark::{self, MarkError, Marker, Range},
    plan,
    qmp::{Qemu, QmpError},
};

/// How KSM came to look at a guest's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Way {
    /// All that is wanted was marked before: by whoever runs the guest, or an earlier time.
    Before,
    /// By a ring of the process's own, which one system call made that was injected into it.
    Ring,
    /// By system calls that were injected into the process.
    Calls,
    /// By QEMU, which was asked to.
    Qmp,
}

impl Way {
    /// All by which memory is marked.
    pub const ALL: [Self; 3] = [Self::Ring, Self::Calls, Self::Qmp];

    /// In a word, for programs.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// In words: how memory was marked.
    pub fn words(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Ring => "by a ring that its process was made to make",
            Self::Calls => "by calls that its process was made to make",
            Self::Qmp => "by QEMU, which marked all of it",
        }
    }
}

/// What may be done to guests' processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// System calls may be injected into them.
    pub inject: bool,
    /// QEMU may be asked by QMP.
    pub qmp: bool,
    /// Where, by guests' names; where it is not said, QEMU's command line says it.
    pub sockets: BTreeMap<String, PathBuf>,
}

/// What a guest's memory was marked by, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// How.
    pub way: Way,
    /// Ranges that were marked.
    pub ranges: u64,
    /// Pages that are marked, those of before too.
    pub pages: u64,
}

/// Why memory is not marked, or its marks not taken away.
#[derive(Debug, thiserror::Error)]
pub enum WayError {
    /// No way is allowed.
    #[error("no way of that is allowed: name one with --allow")]
    None,
    /// Not by injected calls.
    #[error(transparent)]
    Mark(#[from] MarkError),
    /// The kernel refuses to mark any of it.
    #[error("at {0:#x}: {1}")]
    Refused(u64, io::Error),
    /// QEMU does not do it.
    #[error(transparent)]
    Qmp(#[from] QmpError),
    /// It cannot be looked whether QEMU has done it.
    #[error("its mappings cannot be read: {0}")]
    Look(#[from] io::Error),
    /// Neither by injected calls nor by QEMU.
    #[error("by injected calls: {0}; by QMP: {1}")]
    Both(Box<Self>, Box<Self>),
}

impl Allowed {
    /// Whether any way is.
    pub fn any(&self) -> bool {
        self.inject || self.qmp
    }

    /// Marks these ranges of a guest's memory, or more. It stops when `ended` says so.
    ///
    /// # Errors
    /// [`WayError`], of each way that is allowed.
    pub fn mark(
        &self,
        guest: &str,
        vm: &VmMemory,
        ranges: &[Range],
        ended: &dyn Fn() -> bool,
    ) -> Result<Marked, WayError> {
        self.in_turn(
            || {
                let mut marker = Marker::open(vm.pid)?;
                let way = if marker.has_ring() { Way::Ring } else { Way::Calls };
                let mark::Outcome { bytes, failed } = marker.mark(ranges, ended)?;
                marker.close()?;
                match failed.into_iter().next() {
                    Some((range, error)) if bytes == 0 => Err(WayError::Refused(range.start, error)),
                    _ => {
                        Ok(Marked { way, ranges: ranges.len() as u64, pages: (vm.mergeable + bytes) / PAGE })
                    }
                }
            },
            || {
                self.qemu(guest, vm).set_merge(true, !vm.marked.is_empty(), ended)?;
                let now = vm.now()?;
                if plan::unmarked(ranges, &now.marked) == ranges {
                    return Err(QmpError::Nothing(vm.pid).into());
                }
                Ok(Marked { way: Way::Qmp, ranges: now.marked.len() as u64, pages: now.mergeable / PAGE })
            },
        )
    }

    /// Takes all marks of a guest's memory away: pages that are merged are copied.
    ///
    /// # Errors
    /// [`WayError`], of each way that is allowed.
    pub fn unmark(&self, guest: &str, vm: &VmMemory, ended: &dyn Fn() -> bool) -> Result<(), WayError> {
        self.in_turn(
            || {
                let mut marker = Marker::open(vm.pid)?;
                marker.unmark(&vm.marked, ended)?;
                Ok(marker.close()?)
            },
            || {
                self.qemu(guest, vm).set_merge(false, false, ended)?;
                // Memory that is no backend's may stay marked: firmware, and a display's.
                match vm.now()?.marked == vm.marked {
                    true => Err(QmpError::Nothing(vm.pid).into()),
                    false => Ok(()),
                }
            },
        )
    }

    fn qemu(&self, guest: &str, vm: &VmMemory) -> Qemu<'_> {
        Qemu { pid: vm.pid, socket: self.sockets.get(guest).map(PathBuf::as_path) }
    }

    /// By injected calls, or else by QEMU.
    fn in_turn<T>(
        &self,
        inject: impl FnOnce() -> Result<T, WayError>,
        qmp: impl FnOnce() -> Result<T, WayError>,
    ) -> Result<T, WayError> {
        let injected = self.inject.then(inject);
        match injected {
            Some(Ok(done)) => Ok(done),
            Some(Err(why)) if self.qmp => qmp().map_err(|error| WayError::Both(why.into(), error.into())),
            Some(Err(why)) => Err(why),
            None if self.qmp => qmp(),
            None => Err(WayError::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_least_comes_first_and_all_reasons_are_told() {
        let with = |inject, qmp| Allowed { inject, qmp, sockets: BTreeMap::new() };
        let refused = || Err(WayError::Mark(MarkError::Gone(7)));
        let silent = || Err(WayError::Qmp(QmpError::NoMemory));
        assert_eq!(with(true, true).in_turn(|| Ok(1), || Ok(2)).unwrap(), 1);
        assert_eq!(with(true, true).in_turn(refused, || Ok(2)).unwrap(), 2);
        assert_eq!(with(false, true).in_turn(|| Ok(1), || Ok(2)).unwrap(), 2);
        assert!(matches!(with(true, false).in_turn(refused, || Ok(2)), Err(WayError::Mark(_))));
        assert!(matches!(with(false, false).in_turn(|| Ok(1), || Ok(2)), Err(WayError::None)));
        let both = with(true, true).in_turn::<u8>(refused, silent).unwrap_err().to_string();
        assert!(both.contains("no process 7") && both.contains("no memory backend"), "{both}");
    }
}
