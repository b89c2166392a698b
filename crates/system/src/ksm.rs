//! Kernel samepage merging (KSM): its counters, and its settings while this process directs when it scans which pages.
//!
//! Documentation/admin-guide/mm/ksm.rst; mm/ksm.c, Linux 6.1 to 6.12.

use std::{fs, io, path::Path};

use crate::{
    exclusive::ExclusiveSettings,
    settings_journal::{Journal, Target, ValueKind, is_root, new_holder},
};

/// Names of the journal's entries.
const ENTRY: &str = "ksm";
const NODES_ENTRY: &str = "ksm-nodes";

const FOLDER: &str = "/sys/kernel/mm/ksm";
const PAGES_TO_SCAN: Target = Target::File("/sys/kernel/mm/ksm/pages_to_scan", ValueKind::Number);
const SLEEP: Target = Target::File("/sys/kernel/mm/ksm/sleep_millisecs", ValueKind::Number);
const SMART_SCAN: Target = Target::File("/sys/kernel/mm/ksm/smart_scan", ValueKind::Number);
const ADVISOR: Target = Target::File("/sys/kernel/mm/ksm/advisor_mode", ValueKind::Choice);
const RUN: Target = Target::File("/sys/kernel/mm/ksm/run", ValueKind::Number);

const NODES: Target = Target::File("/sys/kernel/mm/ksm/merge_across_nodes", ValueKind::NumberIfFree);

/// All settings, in the order in which they are restored: `pages_to_scan` is read-only while an advisor is on.
const ALL: [Target; 5] = [PAGES_TO_SCAN, SLEEP, SMART_SCAN, ADVISOR, RUN];

/// Time that ksmd sleeps unless it is woken, in milliseconds: about eleven days. A change of the setting wakes it.
const LONG: u64 = 999_999_990;

/// Maximum pages of one batch. ksmd cannot be stopped within a batch (`ksm_thread_mutex`).
pub const MAX_PAGES_TO_SCAN: u64 = 50_000;

/// The journal of the settings by which KSM is directed.
pub(crate) fn journal() -> Journal {
    Journal::new(ENTRY, ALL.into_iter().filter_map(Target::file).collect(), false)
}

/// The journal of `merge_across_nodes`: separate, as it stays changed while anything is merged, and other processes direct KSM
/// in that time.
pub(crate) fn nodes_journal() -> Journal {
    Journal::new(NODES_ENTRY, NODES.file().into_iter().collect(), false)
}

/// Control of KSM by this process alone. On drop, all its settings are restored; after SIGKILL, by
/// [`restore_settings`](crate::restore_settings).
pub struct Directed {
    settings: ExclusiveSettings,
    woken: u64,
}

impl Directed {
    /// Takes control of KSM: each time it is woken it scans `pages` pages (at most [`MAX_PAGES_TO_SCAN`]), and none in between.
    ///
    /// # Errors
    /// The reason, for people: the kernel has no KSM, another process directs it, or this process is not root.
    pub fn begin(pages: u64) -> Result<Self, String> {
        check_available()?;
        let journal = journal();
        // Smart scan exists since Linux 6.7, the advisor since 6.9.
        let there = |target: &Target| target.read(&journal).is_ok();
        let all: Vec<Target> = ALL.into_iter().filter(there).collect();
        let busy = |process: &str| {
            format!(
                "process {process} directs KSM already: its trees are the whole host's, so one at a time does"
            )
        };
        let directed = Self { settings: ExclusiveSettings::begin(&journal, &all, busy)?, woken: 0 };
        for (target, value) in [(ADVISOR, "none"), (SMART_SCAN, "0")] {
            if all.contains(&target) {
                directed.settings.set(&target, value)?;
            }
        }
        directed.settings.set(&SLEEP, &LONG.to_string())?;
        directed.settings.set(&PAGES_TO_SCAN, &pages.clamp(1, MAX_PAGES_TO_SCAN).to_string())?;
        directed.settings.set(&RUN, "1")?;
        Ok(directed)
    }

    /// Wakes ksmd, unless it is awake. [`Counters`] show when it has scanned its pages.
    ///
    /// # Errors
    /// The reason, for people: the setting cannot be changed.
    pub fn wake(&mut self) -> Result<(), String> {
        self.woken = (self.woken + 1) % 2;
        self.settings.set(&SLEEP, &(LONG + self.woken).to_string())
    }

    /// Restores KSM's settings. Merged pages stay merged, unless `run` was 2 before.
    ///
    /// # Errors
    /// The setting that could not be restored, for people. It is retried by the next process that restores settings.
    pub fn restore(mut self) -> Result<(), String> {
        self.settings.restore()
    }
}

fn check_available() -> Result<(), String> {
    if !is_root() {
        return Err("only root directs KSM: run it as root".to_owned());
    }
    match Path::new(FOLDER).is_dir() {
        true => Ok(()),
        false => Err(format!("this kernel has no KSM (CONFIG_KSM): there is no {FOLDER}")),
    }
}

/// Has KSM merge only within NUMA nodes. When the last one is dropped, the setting is restored if nothing is merged then. Otherwise
/// the kernel refuses, and [`restore_settings`](crate::restore_settings) restores it later, also after SIGKILL.
pub struct WithinNodes {
    journal: Journal,
    holder: String,
}

/// Error of making KSM merge within NUMA nodes only.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// Pages are merged: the kernel changes the setting only while none is (mm/ksm.c, `merge_across_nodes_store`).
    #[error("{} cannot be set to 0 while anything is merged", NODES.name())]
    Merged,
    /// Any other reason, for people.
    #[error("{0}")]
    Other(String),
}

impl WithinNodes {
    /// Sets `merge_across_nodes` to 0.
    ///
    /// # Errors
    /// [`NodesError`].
    pub fn begin() -> Result<Self, NodesError> {
        check_available().map_err(NodesError::Other)?;
        let failed = |error: io::Error| NodesError::Other(format!("{}: {error}", NODES.name()));
        let journal = nodes_journal();
        let open = journal.open().map_err(failed)?;
        let mut entry = open.read().map_err(failed)?;
        if entry.before.is_empty() {
            entry.before.push((NODES.name(), NODES.read(&journal).map_err(failed)?));
        }
        let holder = new_holder();
        entry.holders.push(holder.clone());
        open.write(&entry).map_err(failed)?;
        let written = NODES.write(&journal, "0");
        drop(open);
        let within = Self { journal, holder };
        match written {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(NodesError::Merged),
            written => written.map(|()| within).map_err(failed),
        }
    }

    /// Checks whether the setting is still changed although no living process needs it.
    pub fn is_left() -> bool {
        let left = |journal: &Journal| -> io::Result<bool> {
            let entry = journal.open()?.read()?;
            Ok(!entry.before.is_empty() && entry.holders.is_empty())
        };
        is_root() && left(&nodes_journal()).unwrap_or(false)
    }
}

impl Drop for WithinNodes {
    fn drop(&mut self) {
        // A failure is retried by the next process that restores settings.
        let _ = self.journal.release(|holder| holder == self.holder);
    }
}

/// Counters of KSM since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Full passes over all marked memory.
    pub full_scans: u64,
    /// Pages scanned; `None` before Linux 6.6.
    pub pages_scanned: Option<u64>,
    /// Merged pages in KSM's tables. A page that is no longer merged is removed when ksmd scans it.
    pub pages_shared: u64,
}

impl Counters {
    /// Reads the counters.
    ///
    /// # Errors
    /// The kernel has no KSM.
    pub fn read() -> io::Result<Self> {
        let number = |name: &str| -> io::Result<u64> {
            let text = fs::read_to_string(Path::new(FOLDER).join(name))?;
            text.trim().parse().map_err(|_| io::Error::other(format!("{FOLDER}/{name} is no number")))
        };
        Ok(Self {
            full_scans: number("full_scans")?,
            pages_scanned: number("pages_scanned").ok(),
            pages_shared: number("pages_shared")?,
        })
    }
}
