//! A trace's content.

use std::{
    fs,
    path::{Path, PathBuf},
};

use xweave_trace::{Clock, Domain, DomainVm, Exit, Manifest, Method, Role, Writer};
use xweave_wire::record::{Kind, Record};

pub fn manifest() -> Manifest {
    let vm = DomainVm { host: "host".into(), pid: 4242, cid: Some(3) };
    Manifest {
        reference: "host".into(),
        command: vec!["xweave".into(), "record".into()],
        domains: vec![
            Domain { name: "host".into(), number: 1, cpus: 2, ..Domain::default() },
            Domain {
                name: "vm/1".into(),
                number: 2,
                role: Role::Guest,
                vm: Some(vm),
                exit: Some(Exit::Lost { reason: "went away".into() }),
                ..Domain::default()
            },
        ],
        clocks: vec![Clock {
            domain: "vm/1".into(),
            method: Method::TscOffset,
            error_ns: 90,
            ..Clock::default()
        }],
        ..Manifest::default()
    }
}

pub fn record(i: u64) -> Record {
    Record {
        time_ns: i * 10,
        flow: ((i % 3) << 56) | (i / 4),
        site: u32::try_from(i % 5).unwrap(),
        pid: 42,
        tid: 43,
        cpu: 1,
        kind: Kind::from_byte(u8::try_from(i % 7).unwrap()).unwrap(),
        comm: *b"vhost-4242\0\0\0\0\0\0",
        values: (0..i % 8).map(|v| u64::MAX - v).collect(),
    }
}

pub fn fill(writer: &mut Writer, domain: u8, count: u64) {
    for i in 0..count {
        writer.append(domain, i64::try_from(i).unwrap() * 10 + 7, &record(i)).unwrap();
    }
}

pub fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(dir.join("records")).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}
