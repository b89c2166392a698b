//! What the simulated machine tells is what a kernel could tell, and its truth sums to the whole.

use std::collections::HashMap;

use xweave_synthetic::{Config, Outside, Part, Simulation};
use xweave_trace::event::Kind;

fn check(config: &Config) {
    let mut world = Simulation::new(config);
    let mut before = 0;
    let mut current: HashMap<(u8, u32), u32> = HashMap::new();
    let mut frames: HashMap<(u8, u32), Vec<(bool, u64)>> = HashMap::new();
    let mut idle: HashMap<(u8, u32), i32> = HashMap::new();
    let mut kinds = std::collections::BTreeMap::new();
    for event in world.by_ref() {
        assert!(event.time_ns >= before, "{event:?}");
        before = event.time_ns;
        *kinds.entry(event.kind).or_insert(0u64) += 1;
        let cpu = (event.domain, event.cpu);
        let here = current.entry(cpu).or_default();
        let above = frames.entry(cpu).or_default();
        if event.kind != Kind::Thread {
            assert_eq!(*here, event.tid, "{event:?}");
        }
        match event.kind {
            Kind::Switch => {
                assert!(!idle.contains_key(&cpu), "who is idle comes out of that first: {event:?}");
                assert!(above.is_empty(), "interrupts do not switch: {event:?}");
                assert!(event.other != event.tid, "{event:?}");
                *here = event.other;
            }
            Kind::IrqEnter => {
                assert!(above.iter().all(|(hard, _)| !hard), "hard ones wait for each other: {event:?}");
                above.push((true, event.object));
            }
            Kind::SoftirqEnter => {
                assert!(above.is_empty(), "soft ones interrupt nothing but threads: {event:?}");
                above.push((false, event.object));
            }
            Kind::CpuIdle if event.code > 0 => {
                assert_eq!((*here, above.len()), (0, 0), "{event:?}");
                assert!(idle.insert(cpu, event.code).is_none(), "{event:?}");
            }
            Kind::CpuIdle => assert!(idle.remove(&cpu).is_some(), "{event:?}"),
            Kind::IrqExit => assert_eq!(above.pop(), Some((true, event.object))),
            Kind::SoftirqExit => assert_eq!(above.pop(), Some((false, event.object))),
            _ => {}
        }
    }
    println!("{kinds:?}");
    let made = world.take_transactions();
    assert!(made.len() >= config.transactions);
    for one in &made {
        assert_eq!(one.parts.values().sum::<i64>(), one.to - one.from);
    }
    let mut spent: HashMap<&str, (i64, usize)> = HashMap::new();
    for (part, ns) in made.iter().flat_map(|one| &one.parts) {
        let name = match part {
            Part::Running(_) => "running",
            Part::Slow(_) => "slow",
            Part::Interrupted(_) => "interrupted",
            Part::Ready { .. } => "ready",
            Part::DiskQueue(..) => "disk queue",
            Part::DiskDevice(..) => "disk",
            Part::DiskCompletion(..) => "completion",
            Part::Throttled(_) => "throttled",
            Part::Lock { .. } => "lock",
            Part::Sleep(_) => "sleep",
            Part::Late(_) => "late",
            Part::Flight { .. } => "flight",
            Part::Outside(_, Outside::Ready(_)) => "preempted",
            Part::Outside(_, Outside::Throttled) => "vCPU throttled",
            Part::Outside(_, Outside::Halted) => "halted",
            Part::Outside(_, Outside::Working) => "exit",
            Part::Outside(_, Outside::Interrupted) => "host interrupt",
        };
        let entry = spent.entry(name).or_default();
        *entry = (entry.0 + ns, entry.1 + 1);
    }
    println!("{} transactions, {spent:?}", made.len());
    // Everything that there is to find happens.
    let guests = ["flight", "preempted", "halted", "exit", "host interrupt", "vCPU throttled"];
    let all = [
        "running",
        "interrupted",
        "ready",
        "disk queue",
        "disk",
        "completion",
        "lock",
        "sleep",
        "late",
        "throttled",
    ];
    let wanted = all.iter().chain(guests.iter().take(if config.guests > 0 { guests.len() } else { 0 }));
    let wanted = wanted.chain(config.power.then_some(&"slow"));
    for part in wanted {
        assert!(spent.get(part).is_some_and(|(ns, _)| *ns > 0), "no {part}");
    }
}

#[test]
fn one_domain_is_consistent() {
    check(&Config { transactions: 2_000, ..Config::single(1) });
}

#[test]
fn a_host_with_guests_is_consistent() {
    check(&Config { transactions: 2_000, ..Config::virtualized(2) });
}

#[test]
fn a_host_that_saves_power_is_consistent() {
    check(&Config { transactions: 2_000, power: true, ..Config::virtualized(4) });
}

#[test]
fn the_same_number_gives_the_same_events() {
    let config = Config { transactions: 50, ..Config::virtualized(3) };
    assert!(Simulation::new(&config).eq(Simulation::new(&config)));
}
