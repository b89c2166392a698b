//! What `xweave merge --json`, with `--dry-run` and without, and `xweave merge doctor --json` print: the keys are described in `docs/merge.md`.

use std::io::{self, Write};

use serde::Serialize;
use xweave_merge::{Estimate, Host, Outcome, SameBy, Status, host, outcome::OfGuest, release};
use xweave_wire::pages::LookedAt;

/// Writes the document of what merging would give back.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut impl Write,
    estimate: &Estimate,
    looked_at: &[LookedAt],
    may_merge: &[Option<bool>],
    same_by: SameBy,
) -> io::Result<()> {
    let guests = estimate.guests.iter().zip(looked_at).zip(may_merge);
    let vms = guests.map(|((guest, looked_at), may_merge)| Vm {
        name: &guest.name,
        files_looked_at: looked_at.files,
        cut: looked_at.cut.as_deref(),
        files: guest.files,
        pages: OfVm { hinted: guest.hinted, shared: guest.shared },
        saved_bytes: guest.saved_bytes,
        may_merge: *may_merge,
    });
    let files = estimate.by_file.iter().map(|file| File {
        path: &file.path,
        vms: file.guests,
        pages: file.pages,
        saved: file.saved,
        equal: file.equal,
    });
    let document = Document {
        dry_run: true,
        same_by: word(same_by),
        files_cached: estimate.files,
        pages: Pages {
            hinted: estimate.hinted,
            shared: estimate.shared,
            visited: 0,
            merged: 0,
            saved: estimate.saved,
        },
        saved_per_visit: None,
        merged_per_productive_visit: None,
        ksmd_cpu_s: 0.0,
        compared: estimate.compared.map(|of| Compared { equal: of.equal, all: of.all }),
        vms: vms.collect(),
        files: files.collect(),
    };
    super::write(out, &document)
}

#[derive(Serialize)]
struct Document<'a> {
    dry_run: bool,
    same_by: &'static str,
    files_cached: u64,
    pages: Pages,
    saved_per_visit: Option<f64>,
    merged_per_productive_visit: Option<f64>,
    ksmd_cpu_s: f64,
    compared: Option<Compared>,
    vms: Vec<Vm<'a>>,
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct Pages {
    hinted: u64,
    shared: u64,
    visited: u64,
    merged: u64,
    saved: u64,
}

#[derive(Serialize)]
struct Compared {
    equal: u64,
    all: u64,
}

#[derive(Serialize)]
struct Vm<'a> {
    name: &'a str,
    files_looked_at: u64,
    cut: Option<&'a str>,
    files: u64,
    pages: OfVm,
    saved_bytes: u64,
    may_merge: Option<bool>,
}

#[derive(Serialize)]
struct OfVm {
    hinted: u64,
    shared: u64,
}

#[derive(Serialize)]
struct File<'a> {
    path: &'a str,
    vms: u64,
    pages: u64,
    saved: u64,
    equal: Option<u64>,
}

fn word(same_by: SameBy) -> &'static str {
    match same_by {
        SameBy::Path => "path",
        SameBy::Inode => "inode",
    }
}

/// Writes the document of what merging has given back.
///
/// # Errors
/// Those of `out`.
pub fn write_outcome(
    out: &mut impl Write,
    of: &Outcome,
    looked_at: &[LookedAt],
    same_by: SameBy,
) -> io::Result<()> {
    let vm = |(guest, looked_at): (&OfGuest, &LookedAt)| MergedVm {
        name: guest.name.clone(),
        files_looked_at: looked_at.files,
        only_changed: !looked_at.whole,
        cut: looked_at.cut.clone(),
        pages: OfMergedVm {
            hinted: guest.hinted,
            shared: guest.shared,
            lost: guest.lost,
            apart: guest.apart,
            marked: guest.marked.pages,
            merged: guest.merged,
        },
        way: guest.marked.way.word(),
        ranges: guest.marked.ranges,
    };
    let files =
        of.files.iter().map(|file| MergedFile { path: &file.path, pages: file.shared, saved: file.saved });
    let document = Merging {
        dry_run: false,
        same_by: word(same_by),
        pages: MergedPages {
            hinted: of.hinted,
            shared: of.shared,
            visited: of.taken.visited,
            merged: of.merged,
            saved: of.saved,
            saved_before: of.saved_before,
        },
        saved_per_visit: of.saved_per_visit(),
        merged_per_productive_visit: of.saved_per_productive_visit(),
        ksmd_cpu_s: of.taken.ksmd.as_secs_f64(),
        longest_wait_s: of.waited.map(|waited| waited.as_secs_f64()),
        merged_after_pass: &of.taken.passes,
        ended_early: of.taken.cut,
        reserve: of.reserve.map(|of| Reserve {
            wanted_bytes: of.wanted,
            held_bytes: of.held,
            let_go_bytes: of.let_go,
            times_short: of.times,
        }),
        vms: of.guests.iter().zip(looked_at).map(vm).collect(),
        files: files.collect(),
    };
    super::write(out, &document)
}

#[derive(Serialize)]
struct Merging<'a> {
    dry_run: bool,
    same_by: &'static str,
    pages: MergedPages,
    saved_per_visit: Option<f64>,
    merged_per_productive_visit: Option<f64>,
    ksmd_cpu_s: f64,
    longest_wait_s: Option<f64>,
    merged_after_pass: &'a [u64],
    ended_early: bool,
    reserve: Option<Reserve>,
    vms: Vec<MergedVm>,
    files: Vec<MergedFile<'a>>,
}

#[derive(Serialize)]
struct Reserve {
    wanted_bytes: u64,
    held_bytes: u64,
    let_go_bytes: u64,
    times_short: u64,
}

#[derive(Serialize)]
struct MergedPages {
    hinted: u64,
    shared: u64,
    visited: u64,
    merged: u64,
    saved: u64,
    saved_before: u64,
}

#[derive(Serialize)]
struct MergedVm {
    name: String,
    files_looked_at: u64,
    only_changed: bool,
    cut: Option<String>,
    pages: OfMergedVm,
    way: &'static str,
    ranges: u64,
}

#[derive(Serialize)]
struct OfMergedVm {
    hinted: u64,
    shared: u64,
    lost: u64,
    apart: u64,
    marked: u64,
    merged: u64,
}

#[derive(Serialize)]
struct MergedFile<'a> {
    path: &'a str,
    pages: u64,
    saved: u64,
}

/// Writes the document of which memory KSM may merge.
///
/// # Errors
/// Those of `out`.
pub fn write_host(out: &mut impl Write, host: &Host) -> io::Result<()> {
    let vms = host.vms.iter().map(|vm| VmMemory {
        name: &vm.name,
        pid: vm.pid,
        held_bytes: vm.held(),
        mergeable_bytes: vm.mergeable,
        kept: vm
            .kept
            .iter()
            .map(|kept| Kept {
                why: kept.why.word(),
                bytes: kept.bytes,
                reason: kept.why.reason(),
                remedy: kept.why.fix(),
            })
            .collect(),
    });
    super::write(out, &HostDocument { ksm: host.ksm.map(Ksm::of), vms: vms.collect() })
}

/// Writes the document of what is merged.
///
/// # Errors
/// Those of `out`.
pub fn write_status(out: &mut impl Write, status: &Status) -> io::Result<()> {
    let vms = status.vms.iter().map(|vm| VmStatus {
        name: &vm.name,
        pid: vm.pid,
        held_bytes: vm.held,
        marked_bytes: vm.marked,
        merged_pages: vm.merged,
    });
    let (ksm, saved_pages) = (status.ksm.map(Ksm::of), status.saved);
    let available_bytes = status.available;
    super::write(out, &StatusDocument { ksm, saved_pages, available_bytes, vms: vms.collect() })
}

#[derive(Serialize)]
struct StatusDocument<'a> {
    ksm: Option<Ksm>,
    saved_pages: u64,
    available_bytes: u64,
    vms: Vec<VmStatus<'a>>,
}

#[derive(Serialize)]
struct VmStatus<'a> {
    name: &'a str,
    pid: u32,
    held_bytes: u64,
    marked_bytes: u64,
    merged_pages: u64,
}

impl Ksm {
    fn of(ksm: host::Ksm) -> Self {
        let host::Ksm { run, pages_sharing, merge_across_nodes, nodes } = ksm;
        Self { run, pages_sharing, merge_across_nodes, nodes }
    }
}

#[derive(Serialize)]
struct HostDocument<'a> {
    ksm: Option<Ksm>,
    vms: Vec<VmMemory<'a>>,
}

#[derive(Serialize)]
struct Ksm {
    run: u64,
    pages_sharing: u64,
    merge_across_nodes: bool,
    nodes: u64,
}

#[derive(Serialize)]
struct VmMemory<'a> {
    name: &'a str,
    pid: u32,
    held_bytes: u64,
    mergeable_bytes: u64,
    kept: Vec<Kept>,
}

#[derive(Serialize)]
struct Kept {
    why: &'static str,
    bytes: u64,
    reason: &'static str,
    remedy: &'static str,
}

/// Writes the document of which machines have memory of their own again, and how many pages had been merged.
///
/// # Errors
/// Those of `out`.
pub fn write_released(out: &mut impl Write, released: &[release::Released]) -> io::Result<()> {
    let vm = |of: &release::Released| Released { name: of.vm.name.clone(), pid: of.vm.pid, pages: of.merged };
    super::write(out, &ReleasedDocument { vms: released.iter().map(vm).collect() })
}

#[derive(Serialize)]
struct ReleasedDocument {
    vms: Vec<Released>,
}

#[derive(Serialize)]
struct Released {
    name: String,
    pid: u32,
    pages: u64,
}
