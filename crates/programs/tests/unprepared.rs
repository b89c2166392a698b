//! Kernels that nobody prepared for: what they renamed or removed is named, and nothing that uses it is taken for whole.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use xweave_code::Kernel;
use xweave_programs::{COMPILED_FOR, coverage};
use xweave_synthetic::unknown;
use xweave_weave::{CoveredPart, Group, Role, Verdict};

/// Type information of the newest kernel that the library is compiled for.
fn newest() -> Vec<u8> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/kernels"));
    let series = format!("{}.", COMPILED_FOR.last().unwrap());
    let is_newest = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&series);
    let path = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(is_newest);
    fs::read(path.unwrap()).unwrap()
}

/// The same of a kernel that has these names spelled with another first letter.
fn renamed(names: &[&str]) -> Kernel {
    let mut types = newest();
    names.iter().for_each(|name| unknown::rename(&mut types, name));
    Kernel::new("unknown", &types).unwrap()
}

fn verdicts(kernel: &Kernel) -> HashMap<CoveredPart, Verdict> {
    coverage(kernel).unwrap().into_iter().map(|of| (of.part, of.verdict)).collect()
}

#[test]
fn renamed_members_and_removed_functions_are_named_by_all_that_use_them() {
    const NAMES: [&str; 3] = ["bi_sector", "data_len", "tun_net_xmit"];
    let (known, unknown) = (verdicts(&renamed(&[])), verdicts(&renamed(&NAMES)));
    let mut changed = Vec::new();
    for (part, verdict) in &unknown {
        if *verdict == known[part] {
            continue;
        }
        let reasons = verdict.reasons();
        assert!(!reasons.is_empty(), "{part}: {verdict:?}");
        for reason in reasons {
            assert!(NAMES.iter().any(|name| reason.contains(name)), "{part}: {reason}");
        }
        changed.push(*part);
    }
    let names = |part: CoveredPart, name: &str| unknown[&part].reasons().iter().any(|of| of.contains(name));
    let refused = &unknown[&CoveredPart::Aspect("virtio-net", Role::Host)];
    assert!(matches!(refused, Verdict::Refused(_)), "{refused:?}");
    assert!(names(CoveredPart::Aspect("virtio-net", Role::Host), "tun_net_xmit"));
    for role in [Role::Host, Role::Guest] {
        assert!(names(CoveredPart::Aspect("block", role), "bi_sector"), "{role:?}");
        assert!(names(CoveredPart::Aspect("tcp", role), "data_len"), "{role:?}");
        assert_eq!(unknown[&CoveredPart::Aspect("sched", role)], Verdict::Whole);
    }
    assert_eq!(unknown[&CoveredPart::Events(Group::Sched)], Verdict::Whole);
    println!("{} of {} parts changed: {changed:?}", changed.len(), unknown.len());
}

/// Each function of the probes of events that a kernel lacks leaves out its probe, and no other.
#[test]
fn events_without_one_of_their_functions_are_recorded_in_part() {
    let unknown = verdicts(&renamed(&["ip_send_skb"]));
    let Verdict::Without(reasons) = &unknown[&CoveredPart::Events(Group::Net)] else {
        panic!("{:?}", unknown[&CoveredPart::Events(Group::Net)]);
    };
    assert!(reasons.iter().all(|reason| reason.contains("ip_send_skb")), "{reasons:?}");
    assert_eq!(unknown[&CoveredPart::Events(Group::Block)], Verdict::Whole);
}
