//! KSM's settings while somebody directs it: which pages it visits when.
//!
//! Documentation/admin-guide/mm/ksm.rst; mm/ksm.c, Linux 6.1 to 6.12.

use std::{fs, io, path::Path};

use crate::{
    alone::Alone,
    book::{self, Book, Takes, Target, is_root},
};

/// What it is written in.
const PAGE: &str = "ksm";
const NODES_PAGE: &str = "ksm-nodes";

const FOLDER: &str = "/sys/kernel/mm/ksm";
const PAGES_TO_SCAN: Target = Target::File("/sys/kernel/mm/ksm/pages_to_scan", Takes::Number);
const SLEEP: Target = Target::File("/sys/kernel/mm/ksm/sleep_millisecs", Takes::Number);
const SMART_SCAN: Target = Target::File("/sys/kernel/mm/ksm/smart_scan", Takes::Number);
const ADVISOR: Target = Target::File("/sys/kernel/mm/ksm/advisor_mode", Takes::Choice);
const RUN: Target = Target::File("/sys/kernel/mm/ksm/run", Takes::Number);

const NODES: Target = Target::File("/sys/kernel/mm/ksm/merge_across_nodes", Takes::NumberIfFree);

/// In the order in which they are put back: an advisor that is on lets nobody say how many pages are visited at a time.
const ALL: [Target; 5] = [PAGES_TO_SCAN, SLEEP, SMART_SCAN, ADVISOR, RUN];

/// How long it sleeps unless it is woken, in milliseconds: about eleven days. It wakes when that changes.
const LONG: u64 = 999_999_990;

/// The most pages that it visits at a time. Meanwhile nobody can stop it (`ksm_thread_mutex`).
pub const MOST_AT_A_TIME: u64 = 50_000;

pub(crate) fn book() -> Book {
    Book::of_this_machine(PAGE, ALL.into_iter().filter_map(Target::file).collect(), false)
}

/// Whether it merges across NUMA nodes is on a page of its own: it stays changed for as long as anything is merged, and others
/// direct KSM meanwhile.
pub(crate) fn nodes_book() -> Book {
    Book::of_this_machine(NODES_PAGE, NODES.file().into_iter().collect(), false)
}

/// KSM, as this process alone directs it until this is dropped: then all its settings are as they were. They are, too, soon
/// after it was killed: see [`restore_settings`](crate::restore_settings).
pub struct Directed {
    settings: Alone,
    woken: u64,
}

impl Directed {
    /// Takes it over: it visits so many pages each time it is woken ([`MOST_AT_A_TIME`] at most), and none else.
    ///
    /// # Errors
    /// Why not, in words: this kernel has none, another process directs it, the process is not root's.
    pub fn begin(pages: u64) -> Result<Self, String> {
        may_be_directed()?;
        let book = book();
        // Kernels before 6.7 and 6.9 have no smart scan, and no advisor.
        let there = |target: &Target| target.read(&book).is_ok();
        let all: Vec<Target> = ALL.into_iter().filter(there).collect();
        let busy = |process: &str| {
            format!(
                "process {process} directs KSM already: its trees are the whole host's, so one at a time does"
            )
        };
        let directed = Self { settings: Alone::begin(&book, &all, busy)?, woken: 0 };
        for (target, value) in [(ADVISOR, "none"), (SMART_SCAN, "0")] {
            if all.contains(&target) {
                directed.settings.set(&target, value)?;
            }
        }
        directed.settings.set(&SLEEP, &LONG.to_string())?;
        directed.settings.set(&PAGES_TO_SCAN, &pages.clamp(1, MOST_AT_A_TIME).to_string())?;
        directed.settings.set(&RUN, "1")?;
        Ok(directed)
    }

    /// Wakes it, unless it is awake. When it is through is told by what it has counted ([`Counted`]).
    ///
    /// # Errors
    /// The setting cannot be changed any more.
    pub fn wake(&mut self) -> Result<(), String> {
        self.woken = (self.woken + 1) % 2;
        self.settings.set(&SLEEP, &(LONG + self.woken).to_string())
    }

    /// Puts its settings back. What is merged stays so, unless it was told to unmerge before (`run` 2).
    ///
    /// # Errors
    /// Which could not be put back: it is tried again by whoever looks next.
    pub fn end(mut self) -> Result<(), String> {
        self.settings.put_back()
    }
}

fn may_be_directed() -> Result<(), String> {
    if !is_root() {
        return Err("only root directs KSM: run it as root".to_owned());
    }
    match Path::new(FOLDER).is_dir() {
        true => Ok(()),
        false => Err(format!("this kernel has no KSM (CONFIG_KSM): there is no {FOLDER}")),
    }
}

/// KSM, as it merges pages of each NUMA node among themselves only. When all of these are dropped, it is as it was before, if
/// nothing is merged then: otherwise the kernel refuses, and whoever looks later puts it back
/// ([`restore_settings`](crate::restore_settings)), also after this process was killed.
pub struct WithinNodes {
    book: Book,
    me: String,
}

/// Why KSM cannot be made to merge within nodes only.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// The kernel changes that only while nothing is merged (mm/ksm.c, `merge_across_nodes_store`).
    #[error("{} cannot be set to 0 while anything is merged", NODES.name())]
    Merged,
    /// Something else.
    #[error("{0}")]
    Other(String),
}

impl WithinNodes {
    /// Has it do so from now on.
    ///
    /// # Errors
    /// [`NodesError`].
    pub fn begin() -> Result<Self, NodesError> {
        may_be_directed().map_err(NodesError::Other)?;
        let failed = |error: io::Error| NodesError::Other(format!("{}: {error}", NODES.name()));
        let book = nodes_book();
        let open = book.open().map_err(failed)?;
        let mut page = open.read().map_err(failed)?;
        if page.before.is_empty() {
            page.before.push((NODES.name(), NODES.read(&book).map_err(failed)?));
        }
        let me = book::holder();
        page.holders.push(me.clone());
        open.write(&page).map_err(failed)?;
        let written = NODES.write(&book, "0");
        drop(open);
        let within = Self { book, me };
        match written {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(NodesError::Merged),
            written => written.map(|()| within).map_err(failed),
        }
    }

    /// Whether it has been so for somebody who does not need it any more.
    pub fn is_left() -> bool {
        let left = |book: &Book| -> io::Result<bool> {
            let page = book.open()?.read()?;
            Ok(!page.before.is_empty() && page.holders.is_empty())
        };
        is_root() && left(&nodes_book()).unwrap_or(false)
    }
}

impl Drop for WithinNodes {
    fn drop(&mut self) {
        // What fails now is tried again by whoever looks next.
        let _ = self.book.close(|holder| holder == self.me);
    }
}

/// What KSM has counted since the kernel was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Passes over all marked memory.
    pub full_scans: u64,
    /// Pages that it visited; none before Linux 6.6.
    pub pages_scanned: Option<u64>,
    /// Merged pages, as it knows: what is not merged any more, it learns when it visits it.
    pub pages_shared: u64,
}

impl Counted {
    /// As it is now.
    ///
    /// # Errors
    /// The kernel has no KSM.
    pub fn now() -> io::Result<Self> {
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
