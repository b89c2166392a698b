//! The documents of `xweave merge`, with `--dry-run` and without, and of its subcommands.

use std::io::{self, Write};

use xweave_document::merge::{
    ComparedPages, DryRun, DryRunFile, DryRunPages, DryRunVm, DryRunVmPages, Ksm, Merge, MergeDoctor,
    MergeStatus, MergedFile, MergedPages, MergedVm, MergedVmPages, Release, ReleasedVm, Reserve,
    UnmergeableMemory, VmMemory, VmStatus,
};
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
    let vms = guests.map(|((guest, looked_at), may_merge)| DryRunVm {
        name: &guest.name,
        files_looked_at: looked_at.files,
        cut: looked_at.cut.as_deref(),
        files: guest.files,
        pages: DryRunVmPages { hinted: guest.hinted, shared: guest.shared },
        saved_bytes: guest.saved_bytes,
        may_merge: *may_merge,
    });
    let files = estimate.by_file.iter().map(|file| DryRunFile {
        path: &file.path,
        vms: file.guests,
        pages: file.pages,
        saved: file.saved,
        equal: file.equal,
    });
    let document = DryRun {
        dry_run: true,
        same_by: word(same_by),
        files_cached: estimate.files,
        pages: DryRunPages {
            hinted: estimate.hinted,
            shared: estimate.shared,
            visited: 0,
            merged: 0,
            saved: estimate.saved,
        },
        saved_per_visit: None,
        merged_per_productive_visit: None,
        ksmd_cpu_s: 0.0,
        compared: estimate.compared.map(|of| ComparedPages { equal: of.equal, all: of.all }),
        vms: vms.collect(),
        files: files.collect(),
    };
    super::write(out, &document)
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
    let files =
        of.files.iter().map(|file| MergedFile { path: &file.path, pages: file.shared, saved: file.saved });
    let document = Merge {
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
        vms: of.guests.iter().zip(looked_at).map(build_merged_vm).collect(),
        files: files.collect(),
    };
    super::write(out, &document)
}

fn build_merged_vm<'a>((guest, looked_at): (&'a OfGuest, &'a LookedAt)) -> MergedVm<'a> {
    MergedVm {
        name: &guest.name,
        files_looked_at: looked_at.files,
        only_changed: !looked_at.whole,
        cut: looked_at.cut.as_deref(),
        pages: MergedVmPages {
            hinted: guest.hinted,
            shared: guest.shared,
            lost: guest.lost,
            apart: guest.apart,
            marked: guest.marked.pages,
            merged: guest.merged,
        },
        way: guest.marked.way.word(),
        ranges: guest.marked.ranges,
    }
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
            .map(|kept| UnmergeableMemory {
                why: kept.why.word(),
                bytes: kept.bytes,
                reason: kept.why.reason(),
                remedy: kept.why.fix(),
            })
            .collect(),
    });
    super::write(out, &MergeDoctor { ksm: host.ksm.map(build_ksm), vms: vms.collect() })
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
    let (ksm, saved_pages) = (status.ksm.map(build_ksm), status.saved);
    let available_bytes = status.available;
    super::write(out, &MergeStatus { ksm, saved_pages, available_bytes, vms: vms.collect() })
}

fn build_ksm(ksm: host::Ksm) -> Ksm {
    let host::Ksm { run, pages_sharing, merge_across_nodes, nodes } = ksm;
    Ksm { run, pages_sharing, merge_across_nodes, nodes }
}

/// Writes the document of which machines have memory of their own again, and how many pages had been merged.
///
/// # Errors
/// Those of `out`.
pub fn write_released(out: &mut impl Write, released: &[release::Released]) -> io::Result<()> {
    super::write(out, &Release { vms: released.iter().map(build_released).collect() })
}

fn build_released(released: &release::Released) -> ReleasedVm<'_> {
    ReleasedVm { name: &released.vm.name, pid: released.vm.pid, pages: released.merged }
}
