//! What flows are parts of and were cut into.

use std::collections::HashSet;

use xweave_flow::{
    Flows, Join,
    ancestry::{Origin, family, relatives},
};
use xweave_trace::{Domain, Manifest, Trace, Writer};
use xweave_wire::record::{Kind, Record};

/// A trace of flows: each with the record that it begins by, and its first word.
fn trace(flows: &[(u64, Kind, u64)]) -> (tempfile::TempDir, Trace) {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let records = flows.iter().zip(1u64..).flat_map(|(&(flow, kind, word), nth)| {
        let time_ns = nth * 1_000;
        [(flow, time_ns, kind, vec![word, 7, flow]), (flow, time_ns + 500_000, Kind::Quit, vec![flow])]
    });
    for (flow, time_ns, kind, values) in records {
        let (site, pid, tid, cpu, comm) = (1, 1, 1, 0, [0; 16]);
        let record = Record { time_ns, flow, site, pid, tid, cpu, kind, comm, values };
        writer.append(1, i64::try_from(time_ns).unwrap(), &record).unwrap();
    }
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    (dir, trace)
}

const fn id(nth: u64) -> u64 {
    1 << 56 | nth
}

#[test]
fn parts_and_what_is_put_together_of_them_are_one_tree() {
    let (_dir, trace) = trace(&[
        (id(1), Kind::Start, id(1)),
        (id(2), Kind::Split, id(1)),
        (id(3), Kind::Split, id(1)),
        (id(4), Kind::Merge, id(2)),
        (id(4), Kind::Merge, id(3)),
        (id(9), Kind::Start, id(9)),
    ]);
    let of = |nth| relatives(Join::of(&trace), id(nth));
    let ids = |all: &[u64]| all.iter().map(|&nth| id(nth)).collect::<HashSet<_>>();
    assert_eq!(of(1), ids(&[1, 2, 3, 4]));
    assert_eq!(of(2), ids(&[1, 2, 4]), "the other part is no relative of it");
    assert_eq!(of(4), ids(&[1, 2, 3, 4]));
    assert_eq!((of(9), of(77)), (ids(&[9]), HashSet::new()));

    let flows = Flows::of(&trace);
    let shown: Vec<_> =
        family(flows.flows()).iter().map(|(flow, origin)| (flow.id & 0xff, *origin)).collect();
    let (root, cut) = (Origin::Root, Origin::Cut);
    assert_eq!(shown, [(1, root), (9, root), (2, cut), (3, cut), (4, Origin::PutTogether(2))]);
}

#[test]
fn flows_that_are_parts_of_each_other_end_somewhere() {
    let (_dir, trace) =
        trace(&[(id(1), Kind::Split, id(2)), (id(2), Kind::Split, id(3)), (id(3), Kind::Split, id(1))]);
    assert_eq!(relatives(Join::of(&trace), id(2)).len(), 3);
    let flows = Flows::of(&trace);
    assert!(family(flows.flows()).iter().all(|(_, origin)| *origin == Origin::Cut));
}

#[test]
fn of_very_many_relatives_the_nearest_are_found() {
    let many: Vec<_> = (1..=2_000)
        .map(|nth| (id(nth), if nth == 1 { Kind::Start } else { Kind::Split }, id(nth.max(2) - 1)))
        .collect();
    let (_dir, trace) = trace(&many);
    let found = relatives(Join::of(&trace), id(1_000));
    assert!(found.len() <= 256 && found.contains(&id(999)) && found.contains(&id(1_001)), "{}", found.len());
}
