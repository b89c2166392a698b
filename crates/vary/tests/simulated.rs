//! Shares, held against the truth of a simulated machine: a host and two guests whose requests wait for CPUs, disks, locks
//! and each other.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use xweave_model::{Power, Spec, explain};
use xweave_synthetic::{
    Config, Outside, Part, Simulation, Transaction,
    scene::{Evidence as Recorded, Mechanism, World},
};
use xweave_trace::{Domain, Manifest, Role, Trace, Writer, manifest::DomainVm};
use xweave_vary::{Requests, Variation, cause::Kind, each::each, shares::shares, usual, variation::Evidence};

/// What a moment is to who runs virtual machines, in the words of [`xweave_vary::cause`].
fn kind(part: &Part) -> Kind {
    match part {
        Part::Running(_) => Kind::Running,
        Part::Slow(_) => Kind::CpuFrequency,
        Part::Interrupted(_) => Kind::Interrupts,
        Part::Ready { had, .. } if had.tid == 0 => Kind::CpuWaking,
        Part::Ready { .. } => Kind::RunQueue,
        // The disk was done, and the vCPU that was to take its interrupt late: by how much, no event tells.
        Part::DiskCompletion(.., true) => Kind::Unknown,
        Part::DiskQueue(..) | Part::DiskDevice(..) | Part::DiskCompletion(..) => Kind::Disk,
        Part::Throttled(_) => Kind::Throttled,
        Part::Lock { .. } => Kind::KernelLock,
        Part::Sleep(_) | Part::Late(_) => Kind::Waiting,
        Part::Flight { .. } => Kind::Network,
        Part::Outside(_, outside) => match outside {
            Outside::Halted => Kind::VcpuHalted,
            Outside::Ready(had) if had.tid == 0 => Kind::VcpuHalted,
            Outside::Ready(_) => Kind::VcpuPreempted,
            Outside::Throttled => Kind::VcpuThrottled,
            Outside::Working | Outside::Interrupted => Kind::VcpuExits,
        },
    }
}

/// A trace of such a machine, and what is true of its clients' requests.
fn simulated(dir: &Path, config: &Config) -> (Trace, Vec<Transaction>) {
    let mut world = Simulation::new(config);
    let domain = |name: &str, number, role, cpus| Domain {
        name: name.into(),
        number,
        role,
        cpus,
        ..Domain::default()
    };
    let events = if config.power { vec!["sched".into(), "power".into()] } else { Vec::new() };
    let mut domains = vec![Domain { events, ..domain("host", 1, Role::Host, config.cpus) }];
    for (number, process) in world.guests() {
        let vm = Some(DomainVm {
            host: "host".into(),
            pid: u32::try_from(process).unwrap(),
            ..DomainVm::default()
        });
        let name = format!("vm{}", number - 1);
        domains.push(Domain { vm, ..domain(&name, number, Role::Guest, config.vcpus) });
    }
    let manifest = Manifest { reference: "host".into(), domains, ..Manifest::default() };
    let mut writer = Writer::create(dir, manifest).unwrap();
    writer.sites(&[]).unwrap();
    let mut truth = Vec::new();
    while let Some(event) = world.next() {
        writer.event(event).unwrap();
        truth.extend(world.take_requests());
    }
    writer.finish().unwrap();
    (Trace::open(dir).unwrap(), truth)
}

/// Holds the shares of ten thousand requests against the truth: none is more than three points off.
/// Tells how long they were kept by what, in truth.
fn hold(config: &Config) -> (Variation, BTreeMap<Kind, f64>) {
    let dir = tempfile::tempdir().unwrap();
    let (trace, truth) = simulated(&dir.path().join("trace"), config);
    let truth: BTreeMap<(u8, i64, i64), Transaction> =
        truth.into_iter().map(|of| ((of.who.domain, of.from, of.to), of)).collect();
    let mut requests = Requests::default();
    let (mut wholes, mut parts) = (Vec::new(), BTreeMap::<Kind, Vec<f64>>::new());
    let outcome = explain(&trace, &Spec::Request(None, None), &mut |told, objects| {
        // Those of servers, of which the machine tells no truth, are not in question.
        let end = told.start_ns + told.total_ns;
        let Some(is) = truth.get(&(told.domain, told.start_ns, end)) else { return };
        requests.add(&told, objects);
        for (part, ns) in &is.parts {
            let column = parts.entry(kind(part)).or_default();
            column.resize(wholes.len() + 1, 0.0);
            column[wholes.len()] += *ns as f64;
        }
        wholes.push((is.to - is.from) as f64);
    });
    let filled = |column: &Vec<f64>| {
        let missing = wholes.len() - column.len();
        column.iter().copied().chain(std::iter::repeat_n(0.0, missing)).collect::<Vec<f64>>()
    };
    let columns: Vec<_> = parts.values().map(filled).collect();
    let is: BTreeMap<Kind, _> = parts.keys().copied().zip(shares(&wholes, &columns)).collect();
    for request in requests.all() {
        let sum: u64 = requests.parts(request).iter().map(|(_, ns)| ns).sum();
        assert_eq!(sum, request.total_ns);
    }
    let found = Variation::of_requests(&mut requests, outcome, trace.manifest()).unwrap();
    let each = each(&requests, (0..requests.all().len()).step_by(3));
    assert_eq!(each.len(), requests.all().len().div_ceil(3));
    for (each, request) in each.iter().zip(requests.all().iter().step_by(3)) {
        assert_eq!((each.id, each.start_ns, each.total_ns), (request.id, request.start_ns, request.total_ns));
        assert_eq!(each.segments_ns.iter().sum::<u64>(), each.total_ns);
        assert_eq!((each.segments_ns.len(), each.others.len()), (found.segments.len(), found.segments.len()));
    }
    assert!(found.requests >= 10_000 && found.startup.is_none(), "{} {:?}", found.requests, found.startup);
    let mut told: BTreeMap<Kind, [f64; 2]> = BTreeMap::new();
    for cause in &found.causes {
        let kind = match cause.cause.kind {
            // What the disk was waited for, the machine does not tell; and its threads are of no program.
            Kind::SwapIn | Kind::PageFault => Kind::Disk,
            Kind::OwnThreads => Kind::RunQueue,
            kind => kind,
        };
        let [of_variance, of_tail] = told.entry(kind).or_default();
        *of_variance += cause.shares.share_of_variance;
        *of_tail += cause.shares.share_of_tail;
    }
    let kinds: BTreeSet<Kind> = is.keys().chain(told.keys()).copied().collect();
    let mut wrong = Vec::new();
    for kind in kinds {
        let is = is.get(&kind).copied().unwrap_or_default();
        let [variance, tail] = told.get(&kind).copied().unwrap_or_default();
        println!("{kind:?}: {:.3} {variance:.3}, {:.3} {tail:.3}", is.of_variance, is.of_tail);
        if (is.of_variance - variance).abs() > 0.03 || (is.of_tail - tail).abs() > 0.03 {
            wrong.push((kind, is, variance, tail));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    (found, parts.into_iter().map(|(kind, ns)| (kind, ns.iter().sum())).collect())
}

fn ten_thousand() -> Config {
    Config { pipelined: 0, transactions: 16_000, ..Config::virtualized(1) }
}

#[test]
fn shares_of_ten_thousand_requests_are_within_three_points_of_the_truth() {
    let (found, _) = hold(&ten_thousand());
    assert!(found.causes.iter().all(|cause| cause.cause.kind != Kind::CpuFrequency));
}

/// Idle states that it takes long to come out of, and processors at half their frequency: of guests, those of their host.
#[test]
fn so_they_are_where_processors_save_power() {
    let (found, truth) = hold(&Config { power: true, transactions: 17_000, ..ten_thousand() });
    let powers = |kind: Kind| -> Vec<Power> {
        let of = found.causes.iter().filter(|cause| cause.cause.kind == kind);
        let powers = of.flat_map(|cause| &cause.evidence).filter_map(|evidence| match evidence {
            Evidence::Power { power, .. } => Some(*power),
            _ => None,
        });
        powers.collect()
    };
    let (waking, slow) = (powers(Kind::CpuWaking), powers(Kind::CpuFrequency));
    assert!(waking.contains(&Power::Idle(3)), "{waking:?}");
    assert!(slow.contains(&Power::Slow { khz: 1_500_000, highest: 3_000_000 }), "{slow:?}");
    // These shares are small: that the time is right says more.
    for kind in [Kind::CpuWaking, Kind::CpuFrequency] {
        let of = found.causes.iter().filter(|cause| cause.cause.kind == kind);
        let (told, is) = (of.map(|cause| cause.ns).sum::<u64>() as f64, truth[&kind]);
        println!("{kind:?}: {told} of {is}");
        assert!((told / is - 1.0).abs() < 0.1, "{kind:?}: {told} of {is}");
    }
    let vcpus = powers(Kind::VcpuHalted);
    assert!(vcpus.iter().any(|power| matches!(power, Power::Idle(_))), "{vcpus:?}");
}

/// The times are what the machine has if it is run again without quotas; other requests come then, and at other times.
#[test]
fn what_would_be_without_quotas_is_what_is() {
    let run = |config: &Config| {
        let dir = tempfile::tempdir().unwrap();
        let (trace, truth) = simulated(&dir.path().join("trace"), config);
        let truth: BTreeSet<_> = truth.into_iter().map(|of| (of.who.domain, of.from, of.to)).collect();
        let mut requests = Requests::default();
        let outcome = explain(&trace, &Spec::Request(None, None), &mut |told, objects| {
            if truth.contains(&(told.domain, told.start_ns, told.start_ns + told.total_ns)) {
                requests.add(&told, objects);
            }
        });
        Variation::of_requests(&mut requests, outcome, trace.manifest()).unwrap()
    };
    let config = ten_thousand();
    let (with, without) = (run(&config), run(&Config { quotas: false, ..config }));
    let cause = with.causes.iter().find(|cause| cause.cause.kind == Kind::VcpuThrottled).unwrap();
    let told = with.times.p99_ns.saturating_add_signed(-cause.gain.p99_ns) as f64;
    let [before, is] = [&with, &without].map(|of| of.times.p99_ns as f64);
    println!("p99 {before}, told {told}, is {is}");
    assert!(cause.gain.p99_ns > 0 && is < before && (told / is - 1.0).abs() < 0.2, "{before} {told} {is}");
}

#[test]
fn requests_that_frames_tell_of_are_looked_at_before_the_frames() {
    let dir = tempfile::tempdir().unwrap();
    World::compose(1, Mechanism::DiskThenOther, Recorded::Frames).write(dir.path()).unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let chosen = usual(&trace, 1).unwrap();
    assert_eq!(chosen.spec, Spec::Exchange(Some(80), None));
    let [(spec, count)] = &chosen.others[..] else { panic!("{:?}", chosen.others) };
    assert_eq!(*spec, Spec::Exchange(Some(81), None));
    assert_eq!(*count, explain(&trace, spec, &mut |_, _| ()).transactions);
    // Too few of one.
    assert_eq!(usual(&trace, u64::MAX).unwrap().spec, Spec::Flow(None));
}
