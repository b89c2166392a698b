//! Calls: requests and answers that have one key, and what was sent again within them.

use xweave_flow::legs::WayPoint;
use xweave_model::{Explained, Stretch, TimeState, explain};
use xweave_trace::{
    Domain, Event, Manifest, Site, Trace, Writer,
    event::{Kind as Told, Name},
};
use xweave_wire::record::{Kind, Record};

const CLIENT: u32 = 7;
const SERVER: u32 = 70;

/// A datagram between two threads of one kernel: when it is sent, whether to the server, its key, how it begins, and whether it
/// comes.
type Datagram = (u64, bool, u64, u32, bool);

/// The transactions of a kind, in the order of their beginnings.
fn explained(datagrams: &[Datagram], spec: &str, key: Option<&str>) -> Vec<Explained> {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let key = key.map(str::to_owned);
    let mut writer = Writer::create(dir.path(), Manifest { domains, key, ..Manifest::default() }).unwrap();
    let site = |(site, function): (u32, &str)| {
        let xflow = Some("packet".to_owned());
        Site { site, domain: "host".into(), function: function.into(), xflow, ..Site::default() }
    };
    writer.sites(&(1..).zip(["udp_sendmsg", "skb_consume_udp"]).map(site).collect::<Vec<_>>()).unwrap();
    for (id, &(at, to_server, key, head, comes)) in (1..).zip(datagrams) {
        let (from, to) = if to_server { ((1, 40_000), (2, 5060)) } else { ((2, 5060), (1, 40_000)) };
        let (sender, reader) = if to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let words = vec![400 << 32 | 0x0800 << 16 | 17 << 8, from.0, 0, to.0, 0, 0, from.1 << 16 | to.1];
        let end = if comes { vec![id] } else { vec![id, 2, 0xffff] };
        let reader = if comes { reader } else { sender };
        let records = [
            (0, 1, Kind::Start, vec![id], sender),
            (20, 1, Kind::Frame, words, sender),
            (100, 2, Kind::Quit, end, reader),
        ];
        for (after, site, kind, values, tid) in records {
            let (time_ns, flow) = (at + after, 1 << 56 | id);
            let record = Record { time_ns, flow, site, pid: 1, tid, cpu: 0, kind, comm: [0; 16], values };
            writer.append(1, i64::try_from(time_ns).unwrap(), &record).unwrap();
        }
        let told = Event::new(Told::Key, 1, i64::try_from(at + 10).unwrap(), 0, sender);
        let name = Name::default();
        writer.event(Event { bytes: 400, code: 1, object: key, other: head, name, ..told }).unwrap();
    }
    writer.finish().unwrap();
    let mut all = Vec::new();
    explain(&Trace::open(dir.path()).unwrap(), &spec.parse().unwrap(), &mut |one, _| all.push(one));
    all.sort_by_key(|one| one.start_ns);
    all
}

/// Two calls on one socket: the second's request is sent twice, as the first copy does not come.
const CALLS: [Datagram; 7] = [
    (1_000, true, 11, 1, true),
    (2_000, true, 22, 1, false),
    (3_000, false, 11, 2, true),
    (502_000, true, 22, 1, true),
    (503_000, false, 22, 2, true),
    (600_000, true, 11, 3, true),
    (700_000, false, 11, 2, true),
];

/// How long a transaction spent on something.
fn spent(on: TimeState, of: &Explained) -> i64 {
    of.steps.iter().filter(|step| step.spent == on).map(|step| step.to - step.from).sum()
}

#[test]
fn a_call_is_all_that_has_its_key() {
    let all = explained(&CALLS, "call:5060", Some("line:Call-ID"));
    let times: Vec<_> = all.iter().map(|one| (one.start_ns, one.length())).collect();
    assert_eq!(times, [(1_000, 699_100), (2_000, 501_100)]);
    for one in &all {
        let sum: i64 = one.steps.iter().map(|step| step.to - step.from).sum();
        assert_eq!(u64::try_from(sum).unwrap(), one.length());
    }
    assert_eq!(all[0].bytes.map(|bytes| (bytes.sent, bytes.received)), Some((800, 800)));
    let is_client = |stretch: &Stretch| match stretch {
        Stretch::Way(place) => matches!(place.point, WayPoint::ClientLate | WayPoint::ClientBetween),
        _ => false,
    };
    assert!(all[0].segments.iter().any(|passed| is_client(&passed.stretch)), "{:?}", all[0]);
    assert_eq!((spent(TimeState::Retransmit, &all[0]), spent(TimeState::Retransmit, &all[1])), (0, 500_000));
}

#[test]
fn requests_are_told_apart_by_their_keys_if_they_have_any() {
    let all = explained(&CALLS, "exchange:5060", Some("line:Call-ID"));
    assert_eq!(all.iter().map(|one| one.start_ns).collect::<Vec<_>>(), [1_000, 2_000, 600_000]);
    assert!(explained(&CALLS, "call:5060", None).is_empty());
}
