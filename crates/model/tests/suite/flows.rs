//! Flows as transactions: which of them are taken.

use xweave_model::{Outcome, Spec, explain};
use xweave_trace::{Domain, Manifest, Site, Trace, Writer};
use xweave_wire::record::{Kind, Record};

const DATA: u64 = 1;
const ACK: u64 = 2;
const CUT_OFF: u64 = 3;

/// The IDs of the flows that are explained, of a trace of these: bytes of data, and whether it ends, by ID.
fn explained(flows: &[(u64, u64, bool)]) -> (Vec<u64>, Outcome) {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let (domain, function, xflow) = ("host".to_owned(), "f".to_owned(), Some("packet".to_owned()));
    writer.sites(&[Site { site: 1, domain, function, xflow, ..Site::default() }]).unwrap();
    for &(id, bytes, ends) in flows {
        let words = vec![bytes << 32 | 0x0800 << 16 | 6 << 8 | 0x10, 1, 0, 2, 0, 0, 5 << 16 | 80];
        let end = if ends { (Kind::Quit, vec![id]) } else { (Kind::Hop, vec![]) };
        let records = [(Kind::Start, vec![id]), (Kind::Frame, words), end];
        for (nth, (kind, values)) in (0..).zip(records) {
            let (flow, time_ns) = (1 << 56 | id, id * 1_000 + nth * 100);
            let (site, pid, tid, cpu, comm) = (1, 1, 1, 0, [0; 16]);
            let record = Record { time_ns, flow, site, pid, tid, cpu, kind, comm, values };
            writer.append(1, i64::try_from(time_ns).unwrap(), &record).unwrap();
        }
    }
    writer.finish().unwrap();
    let mut ids = Vec::new();
    let trace = Trace::open(dir.path()).unwrap();
    let outcome = explain(&trace, &Spec::Flow(None), &mut |one, _| ids.push(one.id & 0xff));
    (ids, outcome)
}

#[test]
fn frames_with_data_are_transactions_if_there_are_any() {
    let (ids, outcome) = explained(&[(DATA, 100, true), (ACK, 0, true), (CUT_OFF, 100, false)]);
    assert_eq!((&ids[..], outcome.incomplete_flows), (&[DATA][..], false));
    let (ids, outcome) = explained(&[(ACK, 0, true), (CUT_OFF, 100, false)]);
    assert_eq!((&ids[..], outcome.incomplete_flows), (&[ACK][..], false));
}

#[test]
fn where_no_flow_is_complete_what_was_seen_is_explained_and_told_as_such() {
    let (ids, outcome) = explained(&[(CUT_OFF, 100, false)]);
    assert_eq!((&ids[..], outcome.incomplete_flows), (&[CUT_OFF][..], true));
    assert_eq!(explained(&[]).0, Vec::<u64>::new());
}
