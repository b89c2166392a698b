//! The documents of `xweave merge`. Pages have 4,096 bytes.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The document of `xweave merge --dry-run`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DryRun<'a> {
    /// True: nothing was merged.
    pub dry_run: bool,
    /// What makes files the same: `path` or `inode`.
    pub same_by: &'static str,
    /// Files of which any guest holds pages.
    pub files_cached: u64,
    /// Pages of these files.
    pub pages: DryRunPages,
    /// Null, because no page was visited.
    pub saved_per_visit: Option<f64>,
    /// Null, because no page was visited.
    pub merged_per_productive_visit: Option<f64>,
    /// 0, because nothing was merged.
    pub ksmd_cpu_s: f64,
    /// With `--contents`, pages whose contents were compared; otherwise null.
    pub compared: Option<ComparedPages>,
    /// Virtual machines.
    pub vms: Vec<DryRunVm<'a>>,
    /// Files, those that give back most first.
    pub files: Vec<DryRunFile<'a>>,
}

/// Pages of a dry run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DryRunPages {
    /// Pages that the guests hold.
    pub hinted: u64,
    /// Pages among these that another guest holds too.
    pub shared: u64,
    /// 0, because no page was visited.
    pub visited: u64,
    /// 0, because no page was merged.
    pub merged: u64,
    /// Pages that would be given back.
    pub saved: u64,
}

/// Pages whose contents were compared.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ComparedPages {
    /// Pages of `saved` with equal contents.
    pub equal: u64,
    /// Pages that would be given back if all equal pages of these files were held once.
    pub all: u64,
}

/// A virtual machine of a dry run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DryRunVm<'a> {
    /// Name.
    pub name: &'a str,
    /// Files that were looked at.
    pub files_looked_at: u64,
    /// Reason why not all files were looked at; null if all were.
    pub cut: Option<&'a str>,
    /// Files that it holds pages of.
    pub files: u64,
    /// Pages of the virtual machine.
    pub pages: DryRunVmPages,
    /// Its part of the memory that would be given back: of n guests that hold a page, each gives back (n − 1)/n of it.
    pub saved_bytes: u64,
    /// Whether KSM may merge most of its memory as it runs now; null if that is not known.
    pub may_merge: Option<bool>,
}

/// Pages of a virtual machine in a dry run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DryRunVmPages {
    /// Pages that it holds.
    pub hinted: u64,
    /// Pages among these that another guest holds too.
    pub shared: u64,
}

/// A file of a dry run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DryRunFile<'a> {
    /// Path.
    pub path: &'a str,
    /// Virtual machines that hold pages of it.
    pub vms: u64,
    /// Pages that several hold.
    pub pages: u64,
    /// Pages that would be given back.
    pub saved: u64,
    /// Pages of these with equal contents; null without `--contents`.
    pub equal: Option<u64>,
}

/// The document of `xweave merge`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Merge<'a> {
    /// False: pages were merged.
    pub dry_run: bool,
    /// What makes files the same: `path` or `inode`.
    pub same_by: &'static str,
    /// Pages of the guests' files.
    pub pages: MergedPages,
    /// Pages given back now, per visit; null if no page was visited.
    pub saved_per_visit: Option<f64>,
    /// Pages given back now, per visit after the first of each marked page; null if there was none.
    pub merged_per_productive_visit: Option<f64>,
    /// CPU time of KSM's thread, in seconds.
    pub ksmd_cpu_s: f64,
    /// Longest time from a guest's report of a page until it was merged, in seconds; null if no page was merged.
    pub longest_wait_s: Option<f64>,
    /// Shared pages that were merged after each pass; with `--every`, the last time that there were any.
    pub merged_after_pass: &'a [u64],
    /// Whether it was interrupted (exit status 130), or took longer than half an hour.
    pub ended_early: bool,
    /// With `--reserve`, the memory that was held back; otherwise null.
    pub reserve: Option<Reserve>,
    /// Virtual machines.
    pub vms: Vec<MergedVm<'a>>,
    /// Files, those that give back most first.
    pub files: Vec<MergedFile<'a>>,
}

/// Memory that was held back.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Reserve {
    /// Memory that is given back now.
    pub wanted_bytes: u64,
    /// Memory that was held until the end.
    pub held_bytes: u64,
    /// Memory that was let go in all, because memory got short.
    pub let_go_bytes: u64,
    /// Number of times that memory got short.
    pub times_short: u64,
}

/// Pages of a merge.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MergedPages {
    /// Pages that the guests hold of these files.
    pub hinted: u64,
    /// Pages among these that another guest holds too, and whose place is known.
    pub shared: u64,
    /// Visits by KSM (before Linux 6.6, which counts them: marked pages times passes); with `--every`, of all times.
    pub visited: u64,
    /// Shared pages that are merged.
    pub merged: u64,
    /// Pages that are given back.
    pub saved: u64,
    /// Pages among these that had been given back before.
    pub saved_before: u64,
}

/// A virtual machine of a merge.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MergedVm<'a> {
    /// Name.
    pub name: &'a str,
    /// Files that were looked at, the last time.
    pub files_looked_at: u64,
    /// Whether these were only those that had changed since the time before (with `--every`).
    pub only_changed: bool,
    /// Reason why not all files were looked at; null if all were.
    pub cut: Option<&'a str>,
    /// Pages of the virtual machine.
    pub pages: MergedVmPages,
    /// Way in which its memory was marked: `ring`, `calls`, `qmp`, or `before` if all of it was marked already.
    pub way: &'static str,
    /// Ranges of memory that were marked.
    pub ranges: u64,
}

/// Pages of a virtual machine in a merge.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MergedVmPages {
    /// Pages that it holds.
    pub hinted: u64,
    /// Pages among these that another guest holds too, and whose place is known.
    pub shared: u64,
    /// Shared pages whose place is not known.
    pub lost: u64,
    /// Shared pages that no guest on the same NUMA node holds, where KSM merges within nodes only.
    pub apart: u64,
    /// Pages that were marked.
    pub marked: u64,
    /// Pages that are merged.
    pub merged: u64,
}

/// A file of a merge.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MergedFile<'a> {
    /// Path.
    pub path: &'a str,
    /// Pages that several hold, counted for each guest.
    pub pages: u64,
    /// Pages that are given back.
    pub saved: u64,
}

/// State of KSM.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Ksm {
    /// `/sys/kernel/mm/ksm/run`.
    pub run: u64,
    /// Pages that are given back.
    pub pages_sharing: u64,
    /// Whether pages of different NUMA nodes are merged.
    pub merge_across_nodes: bool,
    /// NUMA nodes.
    pub nodes: u64,
}

/// The document of `xweave merge status`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MergeStatus<'a> {
    /// State of KSM; null if the kernel has none.
    pub ksm: Option<Ksm>,
    /// Pages that are given back.
    pub saved_pages: u64,
    /// Memory that is available, in bytes.
    pub available_bytes: u64,
    /// Virtual machines.
    pub vms: Vec<VmStatus<'a>>,
}

/// Merged memory of a virtual machine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VmStatus<'a> {
    /// Name.
    pub name: &'a str,
    /// Process.
    pub pid: u32,
    /// Memory that it holds.
    pub held_bytes: u64,
    /// Memory that is marked as mergeable.
    pub marked_bytes: u64,
    /// Pages that are merged.
    pub merged_pages: u64,
}

/// The document of `xweave merge doctor`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MergeDoctor<'a> {
    /// State of KSM; null if the kernel has none.
    pub ksm: Option<Ksm>,
    /// Virtual machines.
    pub vms: Vec<VmMemory<'a>>,
}

/// Memory of a virtual machine that KSM may merge.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VmMemory<'a> {
    /// Name.
    pub name: &'a str,
    /// Process.
    pub pid: u32,
    /// Memory that it holds.
    pub held_bytes: u64,
    /// Memory that KSM may merge.
    pub mergeable_bytes: u64,
    /// Memory that KSM may not merge, by reason.
    pub kept: Vec<UnmergeableMemory>,
}

/// Memory that KSM may not merge for one reason.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct UnmergeableMemory {
    /// Reason, as a word.
    pub why: &'static str,
    /// Amount of memory.
    pub bytes: u64,
    /// Reason, in words.
    pub reason: &'static str,
    /// Remedy, in words.
    pub remedy: &'static str,
}

/// The document of `xweave merge release`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Release<'a> {
    /// Virtual machines that have memory of their own again.
    pub vms: Vec<ReleasedVm<'a>>,
}

/// A virtual machine that has memory of its own again.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ReleasedVm<'a> {
    /// Name.
    pub name: &'a str,
    /// Process.
    pub pid: u32,
    /// Pages that had been merged.
    pub pages: u64,
}
