//! What `xweave merge --dry-run --json` and `xweave merge doctor --json` print: the keys are described in `docs/merge.md`.

use std::io::{self, Write};

use serde::Serialize;
use xweave_merge::{Estimate, Host, SameBy};
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
    let same_by = match same_by {
        SameBy::Path => "path",
        SameBy::Inode => "inode",
    };
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
        same_by,
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
    let ksm = host.ksm.map(|ksm| Ksm {
        run: ksm.run,
        pages_sharing: ksm.pages_sharing,
        merge_across_nodes: ksm.merge_across_nodes,
    });
    super::write(out, &HostDocument { ksm, vms: vms.collect() })
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
