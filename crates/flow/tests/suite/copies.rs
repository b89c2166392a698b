//! Flows of which several copies crossed: the path shown is that of the one that arrived.

use xweave_flow::{Flow, Flows, Incomplete};
use xweave_trace::{Domain, DomainVm, Manifest, Role, Site, Trace, Writer};
use xweave_wire::record::{Kind, Record};

const HOST: u64 = 1;
const VM1: u64 = 2;
const VM2: u64 = 3;
/// The processes that run the guests.
const PIDS: [u64; 2] = [4002, 4003];

/// Of TCP: `SKB_DROP_REASON_TCP_OLD_DATA`, what was sent again had arrived already.
const OLD_DATA: &[u64] = &[7, 28, 0xabc];

fn id(domain: u64, number: u64) -> u64 {
    domain << 56 | number
}

/// A segment that vm1 sends twice, from 0 and from 5,000 ns on: the records of the way to the host, the crossing to vm2
/// that each copy has there, and `more`. Once the host gives what comes to it IDs of its own, and once it is told them:
/// whether it is comes with each.
fn sent_twice(crosses: [bool; 2], more: &[(u64, u64, Kind, &[u64])]) -> [(Flows, Flow, bool); 2] {
    [false, true].map(|told| {
        let (flows, flow) = sent_and_recorded(crosses, more, told);
        (flows, flow, told)
    })
}

fn sent_and_recorded(crosses: [bool; 2], more: &[(u64, u64, Kind, &[u64])], told: bool) -> (Flows, Flow) {
    let segment = id(VM1, 1);
    let mut records = vec![(segment, 1, Kind::Start, vec![7])];
    for (nth, begun, crosses) in [(1, 0, crosses[0]), (2, 5_000, crosses[1])] {
        records.push((segment, begun + 10, Kind::Copy, vec![7, 8]));
        records.push((segment, begun + 20, Kind::Xin, vec![0x1000, nth, nth, 0]));
        records.push((segment, begun + 30, Kind::Quit, vec![8]));
        records.push((id(HOST, nth), begun + 100, Kind::Xout, vec![0x1000, nth, nth, PIDS[0]]));
        if crosses {
            records.push((id(HOST, nth), begun + 200, Kind::Xin, vec![0x2000, nth, nth, PIDS[1]]));
            records.push((id(HOST, nth), begun + 210, Kind::Quit, vec![9]));
            records.push((id(VM2, nth), begun + 300, Kind::Xout, vec![0x2000, nth, nth, 0]));
        }
    }
    records.extend(more.iter().map(|(flow, time, kind, values)| (*flow, *time, *kind, values.to_vec())));
    // Acknowledged, or given up.
    records.push((segment, 20_000, Kind::Quit, vec![7]));

    let dir = tempfile::tempdir().unwrap();
    let guest = |name: &str, number, pid| Domain {
        name: name.into(),
        number,
        role: Role::Guest,
        vm: Some(DomainVm { host: "host".into(), pid, cid: None }),
        ..Domain::default()
    };
    let host = Domain { name: "host".into(), number: 1, ..Domain::default() };
    let domains = vec![host, guest("vm1", 2, 4002), guest("vm2", 3, 4003)];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let site = |site| Site { site, carrier: Some("virtio_net".into()), ..Site::default() };
    writer.sites(&[site(1), site(2), site(3)]).unwrap();
    for (flow, time_ns, kind, values) in records {
        let domain = u8::try_from(flow >> 56).unwrap();
        let flow = if told && flow >> 56 == HOST { segment } else { flow };
        let (site, comm) = (domain.into(), [0; 16]);
        // In the host one thread takes off the ring, and another gives to the second guest.
        let gives = matches!(kind, Kind::Xin) || matches!((kind, &values[..]), (Kind::Quit, [9]));
        let tid = if gives { 2 } else { 1 };
        let record = Record { time_ns, flow, site, pid: 1, tid, cpu: 0, kind, comm, values };
        writer.append(domain, i64::try_from(time_ns).unwrap(), &record).unwrap();
    }
    writer.finish().unwrap();
    let flows = Flows::of(&Trace::open(dir.path()).unwrap());
    let flow = flows.flow(segment).unwrap().clone();
    (flows, flow)
}

/// That the path is that of this copy, and how long it took.
fn assert_path(flow: &Flow, told: bool, nth: u64, total_ns: i64) {
    let host = (!told).then_some(id(HOST, nth));
    let locals: Vec<u64> = [id(VM1, 1)].into_iter().chain(host).chain([id(VM2, nth)]).collect();
    assert_eq!(flow.locals[..locals.len()], locals);
    assert_eq!((flow.crossings, flow.total_ns(), flow.copies), (2, total_ns, 2));
}

#[test]
fn what_was_sent_again_without_need_is_not_how_it_arrived() {
    let ends = [(id(VM2, 1), 400, Kind::Quit, &[7][..]), (id(VM2, 2), 5_400, Kind::Quit, OLD_DATA)];
    for (flows, flow, told) in sent_twice([true; 2], &ends) {
        assert_path(&flow, told, 1, 399);
        assert!(flow.complete() && flow.drops == 1);
        assert_eq!(flow.copies, 2);
        let carrier = &flows.summary().carriers[0];
        let to_host = if told { 2 } else { 0 };
        assert_eq!((carrier.crossings, carrier.told, carrier.contradicted), (4, to_host, 0));
    }
    // Nor where the kernel does not tell that it was dropped.
    let ends = [(id(VM2, 1), 400, Kind::Quit, &[7][..]), (id(VM2, 2), 5_400, Kind::Quit, &[7])];
    for (_, flow, told) in sent_twice([true; 2], &ends) {
        assert_path(&flow, told, 1, 399);
    }
}

#[test]
fn what_was_dropped_on_its_way_is_not_how_it_arrived() {
    for end in [OLD_DATA, &[7]] {
        let ends = [(id(HOST, 1), 150, Kind::Quit, end), (id(VM2, 2), 5_400, Kind::Quit, &[7])];
        for (_, flow, told) in sent_twice([false, true], &ends) {
            assert_path(&flow, told, 2, 5_399);
            assert!(flow.complete());
        }
    }
}

#[test]
fn what_comes_again_before_the_first_is_gone_is_followed_by_itself() {
    // The first is dropped when the second has crossed already: under its own key, in another thread.
    let ends = [
        (id(HOST, 1), 110, Kind::Move, &[11, 12][..]),
        (id(HOST, 2), 5_110, Kind::Move, &[11, 13]),
        (id(HOST, 1), 5_350, Kind::Quit, &[12, 28, 0xabc]),
        (id(HOST, 2), 5_360, Kind::Quit, &[13]),
        (id(VM2, 2), 5_400, Kind::Quit, &[7]),
    ];
    for (_, flow, told) in sent_twice([false, true], &ends) {
        assert_path(&flow, told, 2, 5_399);
        assert!(flow.complete() && flow.drops == 1, "{told} {flow:?}");
    }
}

#[test]
fn what_waits_to_be_read_is_not_what_was_dropped() {
    for (_, flow, told) in sent_twice([true; 2], &[(id(VM2, 2), 5_400, Kind::Quit, OLD_DATA)]) {
        assert_path(&flow, told, 1, 299);
        assert_eq!((flow.incomplete, flow.dropped), (Some(Incomplete::NoEnd), None));
    }
}

#[test]
fn what_was_dropped_each_time_is_dropped() {
    let ends: &[(u64, u64, Kind, &[u64])] =
        &[(id(HOST, 1), 150, Kind::Quit, OLD_DATA), (id(HOST, 2), 5_150, Kind::Quit, OLD_DATA)];
    for (_, flow, _) in sent_twice([false; 2], ends) {
        assert_eq!((flow.incomplete, flow.crossings, flow.drops), (Some(Incomplete::Dropped), 1, 2));
    }
}
