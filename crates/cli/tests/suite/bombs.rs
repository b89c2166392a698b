//! Small traces that say very much: what reads them takes no more memory than it may.

use std::{fs, path::Path};

use xweave_trace::{Domain, Manifest, Site, Writer};
use xweave_wire::record::{Kind, Record};

use crate::measured::run;

/// Steps of the one flow.
const STEPS: u64 = 2_000_000;

/// What a command takes for it at most, in bytes: some 500 for each step, and the program's own.
const MOST: u64 = 1 << 30;

/// A trace of one flow, which ends after very many steps that are all alike. Gives how long its files are.
fn write(dir: &Path) -> u64 {
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir, Manifest { domains, ..Manifest::default() }).unwrap();
    let site = |site, function: &str| Site {
        site,
        domain: "host".into(),
        function: function.into(),
        xflow: Some("packet".into()),
        ..Site::default()
    };
    writer.sites(&[site(1, "tun_net_xmit"), site(2, "tun_do_read")]).unwrap();
    for step in 0..STEPS {
        let (kind, site) = match step {
            0 => (Kind::Start, 1),
            _ if step + 1 == STEPS => (Kind::Quit, 2),
            _ => (Kind::Hop, 2),
        };
        let (flow, comm, values) = (1 << 56 | 4, [0; 16], vec![7]);
        let record = Record { time_ns: 0, flow, site, pid: 7, tid: 7, cpu: 0, kind, comm, values };
        writer.append(1, i64::try_from(step / 1_000_000).unwrap(), &record).unwrap();
    }
    writer.finish().unwrap();
    let files = fs::read_dir(dir.join("records")).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

const COMMANDS: [&str; 5] = [
    "report trace -o /dev/stdout",
    "flows trace",
    "flows trace --json",
    "export trace --to perfetto -o out.pftrace",
    "records trace",
];

#[test]
fn one_flow_of_very_many_steps_costs_no_more_than_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let length = write(&folder.path().join("trace"));
    assert!(length < 1 << 20, "the files have {length} bytes");
    for arguments in COMMANDS {
        let ran = run(folder.path(), arguments, libc::RLIM_INFINITY);
        println!("{arguments}: exit {}, at most {} MiB: {}", ran.status, ran.peak >> 20, ran.said);
        assert!(
            ran.status == 0 && ran.peak < MOST,
            "{arguments}: exit {}, {} MiB",
            ran.status,
            ran.peak >> 20
        );
    }
}

#[test]
fn where_there_is_little_memory_part_of_the_records_is_read_and_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("trace"));
    for arguments in COMMANDS {
        let ran = run(folder.path(), arguments, MOST / 2);
        assert!(!ran.said.contains("panicked") && ran.peak < MOST / 2, "{arguments}: {}", ran.peak >> 20);
        let told = "records of flows that are taken into memory";
        let told = ran.said.contains(told) || ran.printed.contains(told);
        assert!(told || arguments == "records trace", "{arguments}: {}", ran.said);
        // Export says that parts are missing.
        assert!(ran.status <= i32::from(arguments.starts_with("export")), "{arguments}: {}", ran.said);
    }
}
