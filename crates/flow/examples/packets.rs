//! Writes a trace of packets that go from one virtual machine to another, as many records as are asked for: what
//! joining is measured with.
//!
//!     packets RECORDS DIR
//!
//! Each packet makes 16 records under three local flow IDs, in the order in which the aspects make them. At any time
//! some dozens are under way; one in 500 is never seen to end, and one in 1,000 waits 0.3 s to be taken off its ring.
//! Prints what must come of it: flows, complete ones, crossings.

#![allow(clippy::unwrap_used, reason = "a measurement may panic")]

use std::{env, path::Path};

use xweave_trace::{Domain, DomainVm, Manifest, Role, Site, Writer};
use xweave_wire::record::{Kind, Record};

/// Packets that are written at once: a domain's records are in the order of their times but for the last of these.
const AT_ONCE: u64 = 16 << 10;

/// Nanoseconds between two packets.
const EVERY: u64 = 20_000;

const NAMES: [&str; 3] = ["host", "vm1", "vm2"];
const PIDS: [u32; 3] = [0, 4002, 4003];

/// Kind, domain, microseconds from the packet's beginning: what is recorded of one.
const STEPS: [(Kind, u8, u64); 16] = [
    (Kind::Start, 2, 0),
    (Kind::Frame, 2, 4),
    (Kind::Hop, 2, 6),
    (Kind::Hop, 2, 9),
    (Kind::Xin, 2, 11),
    (Kind::Xout, 1, 40),
    (Kind::Hop, 1, 46),
    (Kind::Hop, 1, 52),
    (Kind::Hop, 1, 60),
    (Kind::Xin, 1, 66),
    (Kind::Quit, 1, 70),
    (Kind::Quit, 2, 80),
    (Kind::Xout, 3, 120),
    (Kind::Hop, 3, 131),
    (Kind::Hop, 3, 160),
    (Kind::Quit, 3, 175),
];

fn values(kind: Kind, packet: u64, domain: u8) -> Vec<u64> {
    let index = packet & 0xffff;
    let key = |ring: u64, peer: u64| vec![ring, index, packet << 12, peer];
    match kind {
        Kind::Xin if domain == 2 => key(0x1000, 0),
        Kind::Xout if domain == 1 => key(0x1000, PIDS[1].into()),
        Kind::Xin => key(0x2000, PIDS[2].into()),
        Kind::Xout => key(0x2000, 0),
        Kind::Frame => {
            let what = 1448 << 32 | 0x0800 << 16 | 6 << 8 | 0x18;
            vec![what, 0x0200_4d0a, 0, 0x0300_4d0a, 0, packet << 32 | 9, 41_234 << 16 | 80]
        }
        Kind::Hop => vec![packet << 12, 1_448],
        _ => vec![packet << 12],
    }
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let (Some(records), Some(dir)) = (arguments.get(1).and_then(|n| n.parse::<u64>().ok()), arguments.get(2))
    else {
        eprintln!("packets RECORDS DIR");
        std::process::exit(2);
    };
    let packets = records / STEPS.len() as u64;
    let domain = |at: usize| {
        let vm = (at > 0).then(|| DomainVm { host: "host".into(), pid: PIDS[at], cid: None });
        let (name, number) = (NAMES[at].into(), u8::try_from(at + 1).unwrap());
        Domain { name, number, role: if at > 0 { Role::Guest } else { Role::Host }, vm, ..Domain::default() }
    };
    let manifest =
        Manifest { reference: "host".into(), domains: (0..3).map(domain).collect(), ..Manifest::default() };
    let mut writer = Writer::create(Path::new(dir), manifest).unwrap();
    let site = |(at, (kind, domain, _)): (usize, &(Kind, u8, u64))| Site {
        site: u32::try_from(at).unwrap() + 1,
        domain: NAMES[usize::from(*domain) - 1].into(),
        function: format!("function_{at}"),
        xflow: Some("packet".into()),
        carrier: matches!(kind, Kind::Xin | Kind::Xout).then(|| "virtio_net".into()),
        ..Site::default()
    };
    writer.sites(&STEPS.iter().enumerate().map(site).collect::<Vec<_>>()).unwrap();

    let mut written = Vec::new();
    for first in (0..packets).step_by(usize::try_from(AT_ONCE).unwrap()) {
        for packet in first..packets.min(first + AT_ONCE) {
            let late = if packet % 1_000 == 7 { 300_000_000 } else { 0 };
            for (at, (kind, domain, us)) in STEPS.into_iter().enumerate() {
                if packet % 500 == 3 && at + 1 == STEPS.len() {
                    continue;
                }
                let wait = if at >= 12 { late } else { 0 };
                let mixed = (packet << 4 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let jitter = mixed >> 54;
                let record = Record {
                    time_ns: 1_000_000_000 + packet * EVERY + us * 1_000 + jitter + wait,
                    flow: u64::from(domain) << 56 | (packet + 1),
                    site: u32::try_from(at).unwrap() + 1,
                    pid: 100 + u32::from(domain),
                    tid: 100 + u32::from(domain),
                    cpu: u16::try_from(packet & 3).unwrap(),
                    kind,
                    comm: *b"vhost-4002\0\0\0\0\0\0",
                    values: values(kind, packet, domain),
                };
                written.push((domain, record));
            }
        }
        written.sort_by_key(|(_, record)| record.time_ns);
        for (domain, record) in written.drain(..) {
            writer.append(domain, i64::try_from(record.time_ns).unwrap(), &record).unwrap();
        }
    }
    writer.finish().unwrap();
    let open = (0..packets).filter(|packet| packet % 500 == 3).count() as u64;
    println!("{packets} {} {}", packets - open, 2 * packets);
}
