//! What `xweave records` prints, as it is looked at: 80 columns wide.

use crate::snapshot::{assert_looks, views};
use xweave_flow::{
    Stored,
    stored::{By, Filter},
};
use xweave_report::{View, document, records};
use xweave_trace::{Domain, Manifest, Site, Trace, Writer};
use xweave_wire::record::{Kind, Record};

const VIEW: View = View { width: 80, color: false };

/// Two guests' sends of 1 to 100 pages each on one socket or the other, and one read in the host that failed.
fn recorded() -> (tempfile::TempDir, Trace) {
    let dir = tempfile::tempdir().expect("a folder");
    let domain = |(number, name): (u8, &str)| Domain { name: name.into(), number, ..Domain::default() };
    let domains = [(1, "host"), (2, "vm1"), (3, "vm2")].map(domain).to_vec();
    let manifest = Manifest { domains, start_ns: 1_000, ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).expect("a trace");
    let site = |(site, domain, advice, function, values): (u32, &str, &str, &str, &[&str])| Site {
        site,
        domain: domain.into(),
        advice: advice.into(),
        function: function.into(),
        values: values.iter().map(|name| (*name).to_owned()).collect(),
        ..Site::default()
    };
    let sites = [
        (1, "vm1", "sent", "tcp_sendmsg", &["size", "sk"][..]),
        (2, "vm2", "sent", "tcp_sendmsg", &["size", "sk"]),
        (3, "host", "got", "vfs_read", &[]),
    ];
    writer.sites(&sites.map(site)).expect("sites");
    let mut tell = |domain, time_ns: i64, site, kind, values: &[u64]| {
        let comm = *b"nginx\0\0\0\0\0\0\0\0\0\0\0";
        let values = values.to_vec();
        let record = Record { time_ns: 0, flow: 0, site, pid: 70, tid: 71, cpu: 1, kind, comm, values };
        writer.append(domain, time_ns, &record).expect("a record");
    };
    for nth in 1..=100u64 {
        let socket = 0xffff_8881_0000_0000 + nth % 2 * 0x1000;
        let time = 10_000 * i64::try_from(nth).expect("a time");
        tell(2, time, 1, Kind::Hop, &[nth * 4096, socket]);
        if nth % 4 == 0 {
            tell(3, time + 1, 2, Kind::Hop, &[nth, socket]);
        }
    }
    tell(1, 5_000, 3, Kind::Hop, &[11u64.wrapping_neg()]);
    // Keys of flows are not what anybody stored.
    tell(1, 5_001, 3, Kind::Start, &[77]);
    writer.finish().expect("it is written");
    let trace = Trace::open(dir.path()).expect("a trace");
    (dir, trace)
}

#[test]
fn places_and_how_their_values_lie() {
    let (_dir, trace) = recorded();
    let stored = Stored::of(&trace, &Filter::default(), None, None, 0);
    assert_eq!(
        records::summary(&stored, 3, 1_500_000),
        "126 records of 3 places in host, vm1, vm2, 1.50 ms; 3 lost\n"
    );
    let few = records::sites(&stored, 2, View { width: 160, color: false });
    assert_eq!(
        few,
        "\
Domain  Advice  Function     Value  Records                 min                 p50                 p99                 max
vm1     sent    tcp_sendmsg  size       100               4 096             204 800             405 504             409 600
                             sk              0xffff888100000000  0xffff888100000000  0xffff888100001000  0xffff888100001000
vm2     sent    tcp_sendmsg  size        25                   4                  52                 100                 100
                             sk              0xffff888100000000  0xffff888100000000  0xffff888100000000  0xffff888100000000
… and 1 other place: --all shows them
"
    );
    let filter = Filter { of: Some("vfs_read".into()), domain: None };
    let stored = Stored::of(&trace, &filter, None, None, 0);
    assert_eq!(
        records::sites(&stored, 9, VIEW),
        "\
Domain  Advice  Function  Value  Records  min  p50  p99  max
host    got     vfs_read  v1           1  -11  -11  -11  -11
"
    );
}

#[test]
fn groups_and_a_histogram() {
    let (_dir, trace) = recorded();
    let filter = Filter { of: Some("sent".into()), domain: Some("vm1".into()) };
    let by = By::Value("sk".into());
    let stored = Stored::of(&trace, &filter, Some(&by), Some("size"), 0);
    assert_eq!(
        records::groups(&stored, "sk", 9, VIEW),
        "\
sk                  Records  Share
0xffff888100000000       50   50 % ████████████
0xffff888100001000       50   50 % ████████████
"
    );
    assert_eq!(
        records::histogram(&stored.bits, "size", VIEW),
        "\
size            Records  Share
[4Ki, 8Ki)            1    1 % ▏
[8Ki, 16Ki)           2    2 % ▍
[16Ki, 32Ki)          4    4 % ▉
[32Ki, 64Ki)          8    8 % █▉
[64Ki, 128Ki)        16   16 % ███▊
[128Ki, 256Ki)       32   32 % ███████▋
[256Ki, 512Ki)       37   37 % ████████▉
"
    );
    let by = Stored::of(&trace, &Filter::default(), Some(&By::Domain), None, 0);
    let groups: Vec<_> = by.groups.iter().map(|group| (group.is.as_str(), group.records)).collect();
    assert_eq!(groups, [("vm1", 100), ("vm2", 25), ("host", 1)]);
    let by = Stored::of(&trace, &Filter::default(), Some(&By::Value("v1".into())), None, 0);
    assert_eq!((by.groups.len(), by.ungrouped), (126, 0));
}

#[test]
fn records_one_by_one_in_the_order_of_their_times() {
    let (_dir, trace) = recorded();
    let stored = Stored::of(&trace, &Filter::default(), None, None, 3);
    assert_eq!(
        records::list(&stored.records, 1_000, View { width: 120, color: false }),
        "\
Time (µs)  Domain  Process   Function     Advice  CPU  Values
      4.0  host    nginx/71  vfs_read     got       1  v1=-11
      9.0  vm1     nginx/71  tcp_sendmsg  sent      1  size=4 096 sk=0xffff888100001000
     19.0  vm1     nginx/71  tcp_sendmsg  sent      1  size=8 192 sk=0xffff888100000000
"
    );
    let mut text = Vec::new();
    document::records::write(&mut text, &stored, 3).expect("memory");
    let document: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(document["summary"], serde_json::json!({"records": 126, "lost": 3}));
    assert_eq!(document["sites"][0]["values"][0]["name"], "size");
    assert_eq!(document["records"][1]["values"][0], serde_json::json!(["size", 4096]));
}

#[test]
fn nothing_is_broken_where_there_is_little_room() {
    let (_dir, trace) = recorded();
    let stored = Stored::of(&trace, &Filter::default(), None, None, 3);
    for view in views() {
        let text = records::sites(&stored, 9, view) + "\n" + &records::list(&stored.records, 1_000, view);
        assert_looks(&text, "records", view);
    }
}
