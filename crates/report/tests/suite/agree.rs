//! That all commands say the same of one trace: `explain`, `vary`, `flows` and `explain --machines`, of every trace that tests
//! have or make.

use std::{collections::HashMap, fs, io::Read, path::Path};

use tempfile::TempDir;
use xweave_flow::{Flows, exchange};
use xweave_import::Options;
use xweave_model::{Outcome, Spec, Unused, Usage, UsageKind, explain, parts::Totals};
use xweave_synthetic::{Config, Simulation};
use xweave_trace::{
    Domain, DomainVm, Event, Manifest, Role, Site, Trace, Writer,
    event::{Access, Kind as EventKind},
};
use xweave_vary::Variation;
use xweave_wire::record::{Kind, Record};

use crate::made_up;

/// What `explain` says of transactions.
fn explained(trace: &Trace, spec: &Spec) -> (Totals, Outcome) {
    let mut totals = Totals::default();
    let outcome = explain(trace, spec, &mut |one, objects| totals.add(&one, objects));
    (totals, outcome)
}

/// Holds all that is said of a trace against each other. Returns for how many kinds of requests, and for how many disks, that could
/// be done.
fn hold(name: &str, trace: &Trace) -> [usize; 2] {
    let found = exchange::find(&Flows::of(trace));
    let mut ports: HashMap<u16, Vec<&exchange::Exchange>> = HashMap::new();
    let made: Vec<usize> = found.exchanges.iter().flat_map(|one| one.made.iter().copied()).collect();
    for (at, one) in found.exchanges.iter().enumerate().filter(|(_, one)| one.connection.protocol != "ICMP") {
        if !made.contains(&at) {
            ports.entry(one.connection.server.port()).or_default().push(one);
        }
    }
    let mut specs =
        vec![Spec::Request(None, None), Spec::Connect(None), Spec::Process(None), Spec::Exchange(None, None)];
    specs.extend(ports.keys().map(|port| Spec::Exchange(Some(*port), None)));
    let mut compared = 0;
    for spec in specs {
        let (totals, outcome) = explained(trace, &spec);
        let told = format!("{name}, {spec}");
        assert_eq!(outcome.transactions, totals.transactions() as u64, "{told}");
        match Variation::of(trace, &spec) {
            Err(few) => assert_eq!(few.found as u64, outcome.transactions, "{told}"),
            Ok((vary, _)) => {
                compared += 1;
                assert_eq!(
                    (vary.requests, vary.outcome.unused),
                    (outcome.transactions, outcome.unused),
                    "{told}"
                );
                // The others are of the requests after a slow start.
                if vary.startup.is_none() && vary.kept == vary.requests {
                    let quantiles = [0.5, 0.99].map(|share| totals.quantile(share).unwrap());
                    assert_eq!([vary.times.p50_ns, vary.times.p99_ns], quantiles, "{told}");
                }
            }
        }
        // What `flows` says of the same requests: those that are not told are counted.
        if let Spec::Exchange(Some(port), _) = spec {
            let of = &ports[&port];
            let Unused { dropped, lost, unseen, .. } = outcome.unused;
            let asked =
                found.unanswered.iter().filter(|one| one.connection.server.port() == port).count() as u64;
            let (all, unused) = (of.len() as u64 + asked, outcome.unused.all());
            assert_eq!(outcome.transactions + unused, all, "{told}: {dropped} {lost} {unseen}");
            let services = exchange::services(&found.exchanges);
            let mut services = services.iter().filter(|service| service.server.port() == port);
            let first = services.next().unwrap();
            if services.next().is_none() && first.exchanges == outcome.transactions {
                let quantiles = [0.5, 0.99].map(|share| totals.quantile(share).unwrap().cast_signed());
                assert_eq!([first.p50_ns, first.p99_ns], quantiles, "{told}");
                compared += 1;
            }
        }
    }
    [compared, hold_disks(name, trace)]
}

/// What disks did: as `explain` says of their requests, and as `explain --machines` says of the disks. Returns for how many disks
/// that could be compared.
fn hold_disks(name: &str, trace: &Trace) -> usize {
    let usage = Usage::of(trace);
    let disks = usage.objects.iter().filter(|(key, _)| key.kind() == UsageKind::Disk);
    let [count, device_ns] = disks.fold([0, 0], |[count, ns], (_, of)| [count + of.count, ns + of.device_ns]);
    let spec: Spec = "between:disk_issue..disk_complete".parse().unwrap();
    let (totals, outcome) = explained(trace, &spec);
    // What is told otherwise is no request of a disk: a device without requests, an end that is not in the trace, a part.
    let whole = outcome.incomplete_ios == 0 && outcome.lost.is_empty() && count == outcome.transactions;
    if count == 0 || !whole {
        return 0;
    }
    assert_eq!(totals.ns(), device_ns, "{name}: disks");
    1
}

/// A recording of another tool, from the tests of `xweave-import`.
fn imported(names: &[&str], dir: &Path) -> Trace {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/data");
    let unpack = |from: &Path, to: &Path| {
        let packed = fs::read(from).unwrap();
        let mut content = Vec::new();
        ruzstd::decoding::StreamingDecoder::new(&packed[..]).unwrap().read_to_end(&mut content).unwrap();
        fs::write(to, content).unwrap();
    };
    let files: Vec<_> = names
        .iter()
        .map(|name| {
            let file = dir.join(name);
            if name.ends_with(".ctf") {
                fs::create_dir(&file).unwrap();
                for packed in fs::read_dir(tests.join(name)).unwrap() {
                    let packed = packed.unwrap().path();
                    unpack(&packed, &file.join(packed.file_stem().unwrap()));
                }
            } else {
                unpack(&tests.join(format!("{name}.zst")), &file);
            }
            file
        })
        .collect();
    let trace = dir.join("trace");
    xweave_import::import(&files, &trace, &Options::default()).unwrap();
    Trace::open(&trace).unwrap()
}

#[test]
fn all_commands_say_the_same_of_recordings_of_other_tools() {
    let mut all = [0, 0];
    for names in [
        &["plain.data"][..],
        &["system.data"],
        &["packed.data"],
        &["pipe.data"],
        &["host.dat", "guest.dat"],
        &["lost.dat"],
        &["dom0.dat"],
        &["bash-mono.dat"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let [kinds, disks] = hold(&names.join(" "), &imported(names, dir.path()));
        all = [all[0] + kinds, all[1] + disks];
    }
    assert!(all[1] > 0, "{all:?}");
}

#[test]
fn all_commands_say_the_same_of_recordings_of_older_versions_and_of_flows_that_are_made_up() {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/schema-1");
    hold("schema-1", &Trace::open(&old).unwrap());
    let dir = tempfile::tempdir().unwrap();
    hold("made up", &made_up::write(dir.path(), 200, true));
}

#[test]
fn all_commands_say_the_same_of_simulated_machines() {
    let few = |config: Config| Config { transactions: 600, ..config };
    let single = || few(Config::single(3));
    let virtualized = || few(Config::virtualized(3));
    for config in [
        single(),
        virtualized(),
        Config { datagrams: true, ..virtualized() },
        Config { pipelined: 0, ..virtualized() },
        Config { power: true, ..virtualized() },
        Config { abroad: true, ..single() },
    ] {
        let dir = tempfile::tempdir().unwrap();
        let [kinds, _] = hold(&format!("{config:?}"), &simulated(&config, dir.path()));
        assert!(kinds > 0, "{config:?}");
    }
}

fn simulated(config: &Config, dir: &Path) -> Trace {
    let mut world = Simulation::new(config);
    let domain = |name: &str, number, role, cpus| Domain {
        name: name.into(),
        number,
        role,
        cpus,
        ..Domain::default()
    };
    let mut domains = vec![domain("host", 1, Role::Host, config.cpus)];
    for (number, process) in world.guests() {
        let vm =
            DomainVm { host: "host".into(), pid: u32::try_from(process).unwrap(), ..DomainVm::default() };
        let name = format!("vm{}", number - 1);
        domains.push(Domain { vm: Some(vm), ..domain(&name, number, Role::Guest, config.vcpus) });
    }
    let manifest = Manifest { reference: "host".into(), domains, ..Manifest::default() };
    let mut writer = Writer::create(dir, manifest).unwrap();
    writer.sites(&[]).unwrap();
    while let Some(event) = world.next() {
        writer.event(event).unwrap();
        world.take_requests();
    }
    writer.finish().unwrap();
    Trace::open(dir).unwrap()
}

/// Requests of a client in the host to a server in a guest: each tenth is dropped and sent again, one is dropped for good and one
/// has no answer; and accesses to a disk, each third issued twice.
fn with_trouble() -> (TempDir, Trace) {
    const SECOND: u64 = 1_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let vm = Some(DomainVm { host: "host".into(), pid: 4002, cid: None });
    let host = Domain { name: "host".into(), number: 1, role: Role::Host, ..Domain::default() };
    let guest = Domain { name: "vm1".into(), number: 2, role: Role::Guest, vm, ..Domain::default() };
    let manifest = Manifest { reference: "host".into(), domains: vec![host, guest], ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    let site = |site| Site { site, carrier: Some("virtio_net".into()), ..Site::default() };
    writer.sites(&[site(1), site(2)]).unwrap();
    let (mut records, mut number) = (Vec::new(), 0);
    let mut frame = |asks: bool, at: u64, sequence: u64, dropped: bool| {
        number += 1;
        let [from, to]: [u64; 2] = if asks { [1, 2] } else { [2, 1] };
        let [source, target] = if asks { [(1, 40_000), (2, 80)] } else { [(2, 80), (1, 40_000)] };
        let (flow, other) = (from << 56 | number, to << 56 | 1_000_000 | number);
        let what = 20 << 32 | 0x0800 << 16 | 6 << 8 | 16;
        let words = vec![what, source.0, 0, target.0, 0, sequence << 32, source.1 << 16 | target.1];
        let key = |domain| vec![0x1000 * from, number, number, if domain == 1 { 4002 } else { 0 }];
        records.push((at, from, flow, Kind::Start, vec![7]));
        records.push((at + 500, from, flow, Kind::Frame, words));
        if dropped {
            records.push((at + 1_000, from, flow, Kind::Quit, vec![9, 2, 0xffff_ffff_8190_0123]));
            return;
        }
        records.push((at + 1_000, from, flow, Kind::Xin, key(from)));
        records.push((at + 5_000, to, other, Kind::Xout, key(to)));
        records.push((at + 9_000, to, other, Kind::Quit, vec![9]));
    };
    for nth in 0..120 {
        let (at, sequence) = (SECOND * (nth + 1), 100 + 20 * nth);
        let again = if nth % 10 == 3 { 200_000_000 } else { 0 };
        if again > 0 {
            frame(true, at, sequence, true);
        }
        frame(true, at + again, sequence, false);
        frame(false, at + again + 50_000 + nth * 100, 5_000 + 20 * nth, false);
    }
    frame(true, 122 * SECOND, 100 + 20 * 120, true);
    records.sort_by_key(|(time, ..)| *time);
    for (time_ns, domain, flow, kind, values) in records {
        let domain = u8::try_from(domain).unwrap();
        let (site, comm) = (domain.into(), [0; 16]);
        let record = Record { time_ns, flow, site, pid: 1, tid: 1, cpu: 0, kind, comm, values };
        writer.append(domain, i64::try_from(time_ns).unwrap(), &record).unwrap();
    }
    for nth in 0..60_i64 {
        let disk = |kind, time: i64| Event {
            object: 8 << 20,
            position: 8 * u64::try_from(nth).unwrap(),
            bytes: 4096,
            code: Access::Read.code(),
            ..Event::new(kind, 1, time, 0, 7)
        };
        let at = (nth + 1) * 1_000_000_000;
        let mut tell = |kind, time| writer.event(disk(kind, time)).unwrap();
        tell(EventKind::DiskQueue, at);
        tell(EventKind::DiskIssue, at + 1_000);
        if nth % 3 == 0 {
            tell(EventKind::DiskIssue, at + 900_000);
        }
        tell(EventKind::DiskComplete, at + 910_000 + nth);
    }
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    (dir, trace)
}

#[test]
fn all_commands_say_the_same_where_frames_were_dropped_and_disks_asked_again() {
    let (_dir, trace) = with_trouble();
    assert_eq!(hold("with trouble", &trace), [3, 1]);
    let spec = Spec::Exchange(Some(80), None);
    let (vary, _) = Variation::of(&trace, &spec).unwrap();
    assert_eq!((vary.requests, vary.outcome.unused.all()), (120, 1));
    assert!(vary.times.p99_ns > 200_000_000, "{:?}", vary.times);
    // A disk has a request since it was issued for the last time, whichever says so.
    let spec: Spec = "between:disk_queue..disk_complete".parse().unwrap();
    let mut device = 0;
    explain(&trace, &spec, &mut |one, _| {
        let steps = one.steps.iter().filter(|step| step.spent == xweave_model::TimeState::Device);
        device += steps.map(|step| step.to.abs_diff(step.from)).sum::<u64>();
    });
    let usage = Usage::of(&trace);
    let disks = usage.objects.iter().filter(|(key, _)| key.kind() == UsageKind::Disk);
    assert_eq!(device, disks.map(|(_, of)| of.device_ns).sum::<u64>());
}
