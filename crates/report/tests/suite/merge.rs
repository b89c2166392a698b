//! What `xweave merge` looks like in a narrow terminal and where there is room, text by text: `tests/look/`.

use std::time::Duration;

use crate::snapshot::{assert_looks, views};
use xweave_merge::{
    Estimate, Host, Outcome, SameBy, Status,
    direct::Taken,
    host::{Kept, Ksm, VmMemory, Why},
    outcome::{OfFile, OfGuest},
    release::Released,
    reserve::{Event, State},
    status::OfVm,
    tree::Guest,
    ways::{Marked, Way},
};
use xweave_report::{View, document, merge};
use xweave_wire::pages::{CachedFile, LookedAt, Run};

/// A file of which these pages are cached, each of which holds what its place and SEED say.
fn file(path: &str, pages: u32, seed: u64) -> CachedFile {
    CachedFile {
        path: path.into(),
        size: 1 << 20,
        modified_ns: 1,
        inode: 7,
        runs: vec![Run { first: 0, pages }],
        contents: (1..=u64::from(pages)).map(|page| page << 32 | seed).collect(),
        frames: Vec::new(),
    }
}

fn guests() -> [Guest; 2] {
    let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    let guest = |name: &str, files| Guest { name: name.into(), files };
    [
        guest("vm1", vec![file("/usr/bin/dash", 30, 1), file(libc, 400, 2), file("/usr/bin/perl", 900, 3)]),
        guest("vm2", vec![file("/usr/bin/dash", 20, 9), file(libc, 480, 2)]),
    ]
}

/// All that is printed.
fn all(guests: &[Guest], looked_at: &[LookedAt], files: usize, view: View) -> String {
    merge::estimate(&Estimate::of(guests, SameBy::Path), looked_at, &[None, Some(false)], files, view)
}

#[test]
fn first_what_would_be_given_back_then_each_guests_part_and_the_files() {
    let cut = LookedAt { files: 9_000, whole: true, cut: Some("it took longer than 60 s".into()) };
    for view in views() {
        assert_looks(&all(&guests(), &[LookedAt::default(), cut.clone()], 1, view), "merge", view);
    }
}

#[test]
fn that_there_is_nothing_to_give_back_is_said() {
    let looked_at = [LookedAt::default(), LookedAt::default()];
    let [mut one, mut other] = guests();
    one.files.remove(1);
    other.files.remove(0);
    for view in views() {
        let text = all(&[one.clone(), other.clone()], &looked_at, 20, view);
        assert!(text.contains("No two of these guests hold the same page"), "{text}");
        assert!(!text.contains("File "), "{text}");
        let text = all(&[Guest::default(), Guest::default()], &looked_at, 20, view);
        assert!(text.contains("None of these guests has pages of such files"), "{text}");
    }
}

#[test]
fn the_document_has_the_same_numbers() {
    let estimate = Estimate::of(&guests(), SameBy::Path);
    let mut written = Vec::new();
    let looked_at = [LookedAt { files: 12, whole: true, cut: None }, LookedAt::default()];
    document::merge::write(&mut written, &estimate, &looked_at, &[Some(true), None], SameBy::Path).unwrap();
    let of: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!((&of["dry_run"], &of["same_by"]), (&true.into(), &"path".into()));
    assert_eq!((&of["pages"]["hinted"], &of["pages"]["saved"]), (&1830.into(), &420.into()));
    assert_eq!((&of["pages"]["visited"], &of["pages"]["merged"]), (&0.into(), &0.into()));
    assert_eq!((&of["compared"]["equal"], &of["compared"]["all"]), (&400.into(), &400.into()));
    assert_eq!(
        (&of["vms"][0]["files_looked_at"], &of["vms"][0]["saved_bytes"]),
        (&12.into(), &860_160.into())
    );
    assert_eq!(
        (&of["vms"][0]["may_merge"], &of["vms"][1]["may_merge"]),
        (&true.into(), &serde_json::Value::Null)
    );
    assert_eq!((&of["files"][0]["saved"], &of["files"][1]["equal"]), (&400.into(), &0.into()));
}

fn host() -> Host {
    let kept = |why, mib: u64| Kept { why, bytes: mib << 20 };
    let vm = |name: &str, mib: u64, kept: &[Kept]| VmMemory {
        pid: 4100,
        name: name.into(),
        mergeable: mib << 20,
        marked: Vec::new(),
        mappings: 300,
        kept: kept.to_vec(),
    };
    Host {
        ksm: Some(Ksm { run: 0, pages_sharing: 0, merge_across_nodes: false, nodes: 2 }),
        vms: vec![
            vm("web1", 1800, &[]),
            vm("web2", 0, &[kept(Why::Shared, 2048), kept(Why::Unmarked, 64)]),
            vm("db", 0, &[kept(Why::Pinned, 4096)]),
        ],
        most_mappings: 65_530,
    }
}

#[test]
fn what_keeps_ksm_from_memory_is_said_with_how_to_fix_it() {
    for view in views() {
        assert_looks(&merge::host(&host(), view), "merge-doctor", view);
    }
    let running = Ksm { run: 1, pages_sharing: 512, merge_across_nodes: true, nodes: 1 };
    let text = merge::host(&Host { ksm: Some(running), ..host() }, views()[1]);
    assert!(
        text.contains("KSM is running, and has given back 2.0 MiB.") && text.contains("one NUMA node."),
        "{text}"
    );
    let text = merge::host(&Host::default(), views()[1]);
    assert!(text.contains("This host runs no virtual machine") && text.contains("CONFIG_KSM"), "{text}");
}

#[test]
fn the_document_of_the_host_has_the_same_numbers() {
    let mut written = Vec::new();
    document::merge::write_host(&mut written, &host()).unwrap();
    let of: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!((&of["ksm"]["run"], &of["vms"][0]["mergeable_bytes"]), (&0.into(), &(1800_u64 << 20).into()));
    assert_eq!(
        (&of["vms"][1]["kept"][1]["why"], &of["vms"][1]["held_bytes"]),
        (&"unmarked".into(), &(2112_u64 << 20).into())
    );
}

fn outcome() -> Outcome {
    let guest = |name: &str, lost, merged| OfGuest {
        name: name.into(),
        hinted: 6_580,
        shared: 6_480,
        lost,
        apart: 0,
        marked: Marked { way: if lost > 0 { Way::Ring } else { Way::Calls }, ranges: 12, pages: 6_500 },
        merged,
    };
    let file = |path: &str, shared, saved| OfFile { path: path.into(), shared, saved };
    let ksmd = Duration::from_millis(840);
    Outcome {
        hinted: 13_160,
        shared: 12_960,
        merged: 12_900,
        saved: 6_450,
        saved_before: 100,
        taken: Taken { passes: vec![0, 12_900], made: 2, visited: 26_000, ksmd, cut: false },
        waited: Some(Duration::from_millis(2_340)),
        marked: 13_000,
        guests: vec![guest("vm1", 3, 6_450), guest("vm2", 0, 6_450)],
        files: vec![file("/usr/bin/perl", 12_000, 6_000), file("/usr/bin/dash", 960, 450)],
        reserve: None,
    }
}

#[test]
fn first_what_was_given_back_and_what_it_took() {
    let looked_at = [LookedAt::default(), LookedAt::default()];
    for view in views() {
        assert_looks(&merge::outcome(&outcome(), &looked_at, 1, view), "merge-outcome", view);
    }
    let cut = Outcome { taken: Taken { cut: true, ..outcome().taken }, ..outcome() };
    assert!(merge::outcome(&cut, &looked_at, 1, views()[1]).contains("It was ended before KSM was through"));
    let text = merge::outcome(&Outcome::default(), &looked_at, 1, views()[1]);
    assert!(text.contains("there is nothing to merge"), "{text}");
}

#[test]
fn the_document_of_merging_has_the_same_numbers() {
    let mut written = Vec::new();
    let looked_at = [LookedAt { files: 12, whole: true, cut: None }, LookedAt::default()];
    document::merge::write_outcome(&mut written, &outcome(), &looked_at, SameBy::Inode).unwrap();
    let of: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!((&of["dry_run"], &of["same_by"]), (&false.into(), &"inode".into()));
    let pages =
        ["hinted", "shared", "visited", "merged", "saved", "saved_before"].map(|key| &of["pages"][key]);
    assert_eq!(pages, [13_160, 12_960, 26_000, 12_900, 6_450, 100]);
    // 6,350 pages for 26,000 visits, of which 13,000 took a checksum only.
    let near = |key: &str, ratio: f64| (of[key].as_f64().unwrap() - ratio).abs() < 1e-9;
    assert!(
        near("saved_per_visit", 6_350.0 / 26_000.0)
            && near("merged_per_productive_visit", 6_350.0 / 13_000.0)
    );
    assert_eq!((&of["ksmd_cpu_s"], &of["merged_after_pass"][1]), (&0.84.into(), &12_900.into()));
    assert_eq!((&of["vms"][0]["pages"]["lost"], &of["vms"][0]["way"]), (&3.into(), &"ring".into()));
    assert_eq!((&of["files"][1]["saved"], &of["longest_wait_s"]), (&450.into(), &2.34.into()));
}

#[test]
fn what_is_left_because_it_is_on_several_numa_nodes_is_told() {
    let mut of = outcome();
    of.guests[0].apart = 512;
    of.guests[1].apart = 256;
    let looked_at = [LookedAt::default(), LookedAt::default()];
    let text = merge::outcome(&of, &looked_at, 1, views()[1]).replace('\n', " ");
    assert!(text.contains("3.0 MiB that several hold is left, as it is on other NUMA nodes"), "{text}");
    let mut written = Vec::new();
    document::merge::write_outcome(&mut written, &of, &looked_at, SameBy::Path).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(document["vms"][1]["pages"]["apart"], 256);
    of.shared = 0;
    let text = merge::outcome(&of, &looked_at, 1, views()[1]).replace('\n', " ");
    assert!(text.contains("of a file on the same NUMA node,") && text.contains("3.0 MiB"), "{text}");
}

#[test]
fn what_is_held_in_reserve_is_told_in_each_line_and_in_the_end() {
    let state = State { wanted: 12 << 20, held: 0, let_go: 25 << 20, times: 2 };
    let of = Outcome { reserve: Some(state), ..outcome() };
    assert!(merge::line(&of).ends_with("is merged; 0 B of 12 MiB held in reserve"), "{}", merge::line(&of));
    let looked_at = [LookedAt::default(), LookedAt::default()];
    let text = merge::outcome(&of, &looked_at, 1, views()[1]).replace('\n', " ");
    assert!(text.contains("0 B of the 12 MiB wanted were held in reserve"), "{text}");
    assert!(text.contains("Memory got short 2 times, for which 25 MiB were let go."), "{text}");
    let mut written = Vec::new();
    document::merge::write_outcome(&mut written, &of, &looked_at, SameBy::Path).unwrap();
    let of: serde_json::Value = serde_json::from_slice(&written).unwrap();
    let bytes = ["wanted_bytes", "held_bytes", "let_go_bytes", "times_short"].map(|key| &of["reserve"][key]);
    assert_eq!(bytes, [12 << 20, 0, 25 << 20, 2]);
    assert_eq!(
        merge::event(&Event::LetGo(25 << 20)),
        "memory is short: the 25 MiB held in reserve are let go"
    );
    assert!(merge::event(&Event::Untold("none".into())).contains("(none; psi=1"));
}

#[test]
fn what_is_merged_now_is_told_by_machine() {
    let vm = |name: &str, mib: u64, merged| OfVm {
        pid: 4100,
        name: name.into(),
        held: 2048 << 20,
        marked: mib << 20,
        merged,
    };
    let ksm = Some(Ksm { run: 1, pages_sharing: 70_000, merge_across_nodes: true, nodes: 2 });
    let vms = vec![vm("web1", 600, 70_000), vm("web2", 0, 0)];
    let status = Status { ksm, saved: 65_000, available: 3 << 30, vms };
    for view in views() {
        assert_looks(&merge::status(&status, view), "merge-status", view);
    }
    let little = Status { available: 200 << 20, ..status.clone() };
    let text = merge::status(&little, views()[1]);
    assert!(text.contains("only 200 MiB of this host is available, it would swap"), "{text}");
    let text = merge::status(&Status::default(), views()[1]);
    assert!(text.contains("0 B of memory is given back.") && text.contains("no virtual machine"), "{text}");
    let mut written = Vec::new();
    document::merge::write_status(&mut written, &status).unwrap();
    let of: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!((&of["saved_pages"], &of["ksm"]["run"]), (&65_000.into(), &1.into()));
    assert_eq!(of["available_bytes"], 3_u64 << 30);
    assert_eq!((&of["vms"][0]["merged_pages"], &of["vms"][1]["marked_bytes"]), (&70_000.into(), &0.into()));
}

#[test]
fn what_was_merged_and_is_a_machine_s_own_again_is_told() {
    let host = host();
    let released = |vm: usize, merged| Released { vm: host.vms[vm].clone(), merged };
    let released = [released(0, 512), released(2, 0)];
    assert_eq!(
        merge::released(&released, views()[1]),
        "2.0 MiB of web1 that was merged is its own again.\nNothing of db was merged.\n"
    );
    let mut written = Vec::new();
    document::merge::write_released(&mut written, &released).unwrap();
    let of: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!((&of["vms"][0]["name"], &of["vms"][0]["pages"]), (&"web1".into(), &512.into()));
}
