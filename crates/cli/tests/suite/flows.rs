//! `xweave flows` as it is used.

use std::{path::Path, process::Command};

use serde_json::Value;
use xweave_trace::{Domain, Manifest, Site, Writer};
use xweave_wire::record::{Kind, Record};

/// Exit status, what it printed, and what it complained about.
fn flows(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let command = ["flows", "trace"].iter().chain(arguments);
    let output = Command::new(env!("CARGO_BIN_EXE_xweave")).current_dir(folder).args(command).output();
    let output = output.expect("xweave runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A folder with a trace of two flows, which wait in the queues of two devices: 4, and 5.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let manifest = Manifest { domains, ..Manifest::default() };
    let mut writer = Writer::create(&folder.path().join("trace"), manifest).expect("a trace");
    let site = |site, function: &str, values: &[&str]| Site {
        site,
        domain: "host".into(),
        function: function.into(),
        xflow: Some("packet".into()),
        values: values.iter().map(ToString::to_string).collect(),
        ..Site::default()
    };
    let sites = [
        site(1, "__dev_queue_xmit", &[]),
        site(2, "skb_clone", &[]),
        site(3, "tun_net_xmit", &["len", "ifindex"]),
        site(4, "tun_do_read", &[]),
    ];
    writer.sites(&sites).expect("sites");
    for flow in [4, 5] {
        let steps = [
            (0, 1, Kind::Start, vec![7]),
            (1_000, 2, Kind::Copy, vec![7, 8]),
            (2_000, 3, Kind::Hop, vec![60, flow]),
            (2_000 + flow * 1_000, 4, Kind::Quit, vec![7]),
            (2_001 + flow * 1_000, 4, Kind::Quit, vec![8]),
        ];
        for (time_ns, site, kind, values) in steps {
            let (flow, comm) = (1 << 56 | flow, [0; 16]);
            let record = Record { time_ns, flow, site, pid: 7, tid: 7, cpu: 0, kind, comm, values };
            writer.append(1, time_ns.cast_signed(), &record).expect("a record");
        }
    }
    writer.finish().expect("it is written");
    folder
}

#[test]
fn places_come_first_and_the_kinds_of_records_when_they_are_asked_for() {
    let folder = folder();
    let (status, printed, said) = flows(folder.path(), &[]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    assert!(printed.starts_with("packet, host: 2 flows, typically "), "{printed}");
    assert!(printed.contains("host    a tap's queue") && !printed.contains("skb_clone"), "{printed}");
    let (_, printed, _) = flows(folder.path(), &["--steps"]);
    let is_copy = |line: &str| line.contains("skb_clone") && line.contains(" copy ");
    assert!(printed.contains("Kind") && printed.lines().any(is_copy), "{printed}");
}

#[test]
fn each_devices_queue_is_told_apart_by_the_number_that_advice_stored() {
    let folder = folder();
    let (status, printed, said) = flows(folder.path(), &["--by", "ifindex"]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    let rows: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1][..7], ["5", "host", "a", "tap's", "queue", "1", "5.0"], "{printed}");
    assert_eq!(rows[2][..7], ["4", "host", "a", "tap's", "queue", "1", "4.0"], "{printed}");
    let (_, printed, _) = flows(folder.path(), &["--by", "ifindex", "--json"]);
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    let of = |nth: usize| (&document["groups"][nth]["value"], &document["groups"][nth]["p50_ns"]);
    assert_eq!((of(0), of(1)), ((&5.into(), &5_001.into()), (&4.into(), &4_001.into())));
}

#[test]
fn a_value_that_no_flow_has_is_answered_with_those_that_there_are() {
    let folder = folder();
    let (status, printed, said) = flows(folder.path(), &["--by", "ifidex"]);
    assert_eq!((status, printed.as_str()), (Some(1), ""));
    assert!(
        said.contains("has a value called ifidex: ifindex? There are connection, ifindex, len"),
        "{said}"
    );
}
