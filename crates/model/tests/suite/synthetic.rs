//! Breakdowns, held against the truth that a simulated machine writes down.

use std::collections::{BTreeMap, BTreeSet};

use xweave_model::{
    Cause, CpuId, Guest, Loss, Machine, Object, Piece, Spec, ThreadId, TimeState, breakdown, disk::DiskId,
    transaction::Finder, wait::WaitedFor,
};
use xweave_synthetic::{Config, Outside, Part, Processor, Simulation, Transaction, Who};
use xweave_trace::{
    Event,
    event::{Kind, Names},
};

/// Whose time it was, what it was spent on, and who had the CPU; of a lock, not who held it.
type Key = (Object, TimeState, Option<ThreadId>);
type Parts = BTreeMap<Key, i64>;

/// A part may be wrong by a twentieth or, if that is more, by so many nanoseconds.
const ALLOWED: i64 = 50_000;

fn id(who: Who) -> ThreadId {
    ThreadId { domain: who.domain, tid: who.tid }
}

fn thread(who: Who) -> Object {
    Object::Thread(id(who))
}

fn unnamed(object: Object) -> Object {
    match object {
        Object::Lock { address, .. } => Object::Lock { address, holder: ThreadId { domain: 0, tid: 0 } },
        Object::Link { from, to, .. } => Object::Link { from, to, service: 0 },
        other => other,
    }
}

/// The truth in the model's words: what events of the thread's domain can tell.
fn truth(transaction: &Transaction) -> Parts {
    let mut parts = Parts::new();
    let disk = |domain, device| Object::Disk(DiskId { domain, device });
    let holder = ThreadId { domain: 0, tid: 0 };
    for (part, ns) in &transaction.parts {
        let had = match *part {
            Part::Ready { had, .. } | Part::Outside(_, Outside::Ready(had)) => Some(had),
            _ => None,
        };
        let (object, spent) = match *part {
            Part::Running(who) | Part::Slow(who) => (thread(who), TimeState::Running),
            Part::Interrupted(Processor { domain, cpu }) => {
                (Object::Interrupts(CpuId { domain, cpu }), TimeState::Running)
            }
            Part::Ready { who, had } if had.tid == 0 => (thread(who), TimeState::Waking),
            Part::Ready { who, .. } => (thread(who), TimeState::Ready),
            Part::DiskQueue(domain, device) => (disk(domain, device), TimeState::Queue),
            // The disk was done, and nothing has told so yet.
            Part::DiskDevice(domain, device) | Part::DiskCompletion(domain, device, true) => {
                (disk(domain, device), TimeState::Device)
            }
            Part::DiskCompletion(domain, device, false) => (disk(domain, device), TimeState::Completion),
            Part::Throttled(who) => (thread(who), TimeState::Throttled),
            Part::Lock { address, .. } => (Object::Lock { address, holder }, TimeState::Lock),
            Part::Sleep(who) | Part::Late(who) => (thread(who), TimeState::Waiting),
            Part::Flight { from, to } => (Object::Link { from, to, service: 0 }, TimeState::Network),
            Part::Outside(Processor { domain, cpu }, outside) => {
                let spent = match outside {
                    Outside::Ready(had) if had.tid != 0 => TimeState::Preempted,
                    Outside::Ready(_) => TimeState::Waking,
                    Outside::Throttled => TimeState::Throttled,
                    Outside::Halted => TimeState::Halted,
                    Outside::Working | Outside::Interrupted => TimeState::Exit,
                };
                (Object::Vcpu(CpuId { domain, cpu }), spent)
            }
        };
        *parts.entry((object, spent, had.filter(|had| had.tid != 0).map(id))).or_default() += ns;
    }
    parts
}

fn told(pieces: &[Piece]) -> Parts {
    let mut parts = Parts::new();
    for piece in pieces {
        let had = match piece.cause {
            Some(Cause::Had(had) | Cause::HadByOwn(had)) => Some(had),
            _ => None,
        };
        *parts.entry((unnamed(piece.object), piece.spent, had)).or_default() += piece.to - piece.from;
    }
    parts
}

/// The parts that are wrong: which, the truth, what was told.
fn wrong(truth: &Parts, told: &Parts) -> Vec<(Key, i64, i64)> {
    let mut keys: Vec<_> = truth.keys().chain(told.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let of = |parts: &Parts, key: &Key| parts.get(key).copied().unwrap_or(0);
    let both = keys.into_iter().map(|key| (key, of(truth, &key), of(told, &key)));
    both.filter(|(_, is, says)| (is - says).abs() > ALLOWED.max(is / 20)).collect()
}

/// The parts that are wrong of a transaction: as [`wrong`]. Of what was over, which its CPU was not told of yet, the analysis may
/// know that a vCPU was late, or that nobody knows; of nothing else.
fn wrong_of(transaction: &Transaction, truth: &Parts, told: &Parts) -> Vec<(Key, i64, i64)> {
    let is_late = |part: &Part| matches!(part, Part::Late(_) | Part::DiskCompletion(.., true));
    let late: i64 = transaction.parts.iter().filter(|(part, _)| is_late(part)).map(|(_, ns)| *ns).sum();
    forgive(wrong(truth, told), late, told)
}

/// Leaves out what so much lateness explains: less of waits and disks, and more of vCPUs. Of a disk may be unknown what it did
/// until its guest took the interrupt.
fn forgive(mut wrong: Vec<(Key, i64, i64)>, late: i64, told: &Parts) -> Vec<(Key, i64, i64)> {
    let of_disks = told
        .iter()
        .filter(|((object, spent, _), _)| matches!(object, Object::Disk(_)) && *spent == TimeState::Unknown);
    let unknown: i64 = of_disks.map(|(_, ns)| *ns).sum();
    wrong.retain(|((object, spent, _), is, says)| match (object, spent) {
        (Object::Disk(_), TimeState::Unknown) => false,
        (Object::Disk(_), TimeState::Device) => says > is || is - says > late + unknown + ALLOWED,
        (Object::Thread(_), TimeState::Waiting) => says > is || is - says > late + ALLOWED,
        (Object::Vcpu(_), _) => is > says || says - is > late + ALLOWED,
        _ => true,
    });
    wrong
}

/// What the random numbers begin with: the same each time, or as the environment says.
fn random() -> u64 {
    std::env::var("XWEAVE_RANDOM").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The events of a transaction, for people who look for what went wrong.
fn told_of(events: &[Event], transaction: &Transaction) -> String {
    let these = events.iter().filter(|e| (transaction.from..=transaction.to).contains(&e.time_ns));
    these
        .map(|e| {
            let Event { time_ns, domain, kind, cpu, tid, other, object, code, .. } = e;
            format!(
                "{} {domain}: cpu {cpu} {tid} {kind} → {other} ({object:#x}, {code})\n",
                time_ns - transaction.from
            )
        })
        .collect()
}

/// No event tells when a job is put into the queue of a worker that is busy, which nobody has to wake; nor who takes a lock
/// that is free before the one who was woken for it.
///
/// Nor when a task is put into the queue of a runtime whose threads are all busy. It waits for whichever is free first, so the truth
/// is what the one did meanwhile that took it; the model tells the same and says that it may have been for others.
#[test]
fn every_part_of_ten_thousand_transactions_is_told_but_what_no_event_tells() {
    hold(&Config::single(random()), 20);
}

/// Two guests that are alike have the same addresses and ports on their loopback devices.
#[test]
fn another_guest_changes_nothing() {
    let mut world =
        Simulation::new(&Config { transactions: 3_000, abroad: false, ..Config::virtualized(random()) });
    let guests: Vec<_> = world.guests().map(|(domain, process)| Guest { domain, host: 1, process }).collect();
    let [mut all, mut alone] = [guests.clone(), guests].map(Machine::new);
    let (mut told, mut connections) = (0, [BTreeSet::new(), BTreeSet::new()]);
    while let Some(event) = world.next() {
        all.feed(&event);
        if event.domain != 3 {
            alone.feed(&event);
        }
        if let (Kind::Send, 2 | 3) = (event.kind, event.domain) {
            connections[usize::from(event.domain - 2)].insert(event.position);
        }
        for Transaction { who, from, to, .. } in world.take_transactions() {
            if who.domain == 2 {
                assert_eq!(breakdown(&all, id(who), from, to), breakdown(&alone, id(who), from, to), "{who}");
                told += 1;
            }
        }
    }
    assert!(told > 500, "{told}");
    assert!(connections[0].intersection(&connections[1]).count() > 3, "{connections:?}");
}

/// No event tells when a message came into a domain. So when who is to take it becomes busy with others meanwhile, it
/// cannot be told whether it waited for them or for the message.
#[test]
fn every_part_is_told_where_guests_are_but_what_no_event_tells() {
    hold(&Config::virtualized(random()), 40);
}

/// As `explain` finds and tells them: not what the client did meanwhile. Of several on a connection, of which a client may receive
/// the answers together, it has no truth which of them a moment was for.
#[test]
fn requests_are_told_but_what_no_event_tells() {
    requests(false, [20, 40]);
}

/// Datagrams are told of when they are received only, not whether that was waited for within the call.
#[test]
fn requests_by_datagrams_are_told_but_what_no_event_tells() {
    requests(true, [20, 40]);
}

fn requests(datagrams: bool, allowed: [usize; 2]) {
    for (config, allowed) in [Config::single(random()), Config::virtualized(random())].iter().zip(allowed) {
        let mut world = Simulation::new(&Config { pipelined: 0, datagrams, ..config.clone() });
        let guests = world.guests().map(|(domain, process)| Guest { domain, host: 1, process });
        let mut machine = Machine::new(guests.collect());
        let mut finder =
            Finder::new(&Spec::Request(None, None), &|_| None).expect("requests are found in events");
        let (mut answered, mut requests, mut fed) = (BTreeMap::new(), 0, 0);
        let mut bad = Vec::new();
        while let Some(event) = world.next() {
            machine.feed(&event);
            let found = finder.feed(&event, &machine, &Names::default());
            for request in world.take_requests() {
                answered.insert((id(request.who), request.from), request);
            }
            // Those of servers are not in question.
            let request = found
                .as_ref()
                .and_then(|found| answered.remove(&(found.thread, found.pieces.first()?.from)))
                .zip(found.as_ref());
            if let Some((request, found)) = request {
                assert_eq!(found.pieces.last().map(|piece| piece.to), Some(request.to));
                requests += 1;
                let wrong = wrong_of(&request, &truth(&request), &told(&found.pieces));
                if !wrong.is_empty() {
                    bad.push((request.who, request.from, wrong));
                }
            }
            fed += 1;
            if fed % 20_000 == 0 {
                machine.forget_before(world.oldest().min(finder.earliest().unwrap_or(i64::MAX)));
            }
        }
        println!("{requests} requests, {} wrong", bad.len());
        assert!(requests > 5_000, "{requests}");
        assert!(bad.len() <= allowed, "{} are wrong: {:#?}", bad.len(), bad.first());
    }
}

/// Loses stretches of events of single processors, and tells of them as agents do.
struct Lossy {
    random: u64,
    /// By domain and processor.
    cpus: BTreeMap<(u8, u32), Losing>,
}

/// A processor that loses events.
#[derive(Default)]
struct Losing {
    /// Until then.
    until: i64,
    /// The first and the last that it has lost and not told of.
    lost: Option<(i64, i64)>,
    count: u64,
}

impl Lossy {
    fn random(&mut self, below: u64) -> u64 {
        // Knuth's multiplicative generator; its high bits are the better ones.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// What is told of an event: it, the loss before it, or nothing.
    fn told(&mut self, event: Event) -> Vec<Event> {
        let Event { time_ns, domain, cpu, .. } = event;
        let (begins, length) = (self.random(2_000) == 0, self.random(2_000_000).cast_signed());
        let here = self.cpus.entry((domain, cpu)).or_default();
        if begins && here.lost.is_none() {
            here.until = time_ns + length;
        }
        if time_ns < here.until {
            here.lost.get_or_insert((time_ns, time_ns)).1 = time_ns;
            here.count += 1;
            return Vec::new();
        }
        let Some((first, last)) = here.lost.take() else { return vec![event] };
        let lost = Event {
            position: time_ns.abs_diff(first),
            object: time_ns.abs_diff(last),
            bytes: std::mem::take(&mut here.count),
            ..Event::new(Kind::Lost, domain, time_ns, cpu, event.tid)
        };
        vec![lost, event]
    }
}

#[test]
fn what_is_told_where_events_were_lost_is_true_or_unknown() {
    // As many as without losses, and those whose lock was not seen to be waited for: then it is what its holder did. Which ones are
    // lost is chance: with five beginnings of the random numbers 31 to 47, and 64 to 101.
    for (config, allowed) in [(Config::single(random()), 55), (Config::virtualized(random()), 110)] {
        // The same once more, for what will have been lost.
        let lossy = || Lossy { random: random(), cpus: BTreeMap::new() };
        let (mut world, mut loses) = (Simulation::new(&config), lossy());
        let told_of_losses = std::iter::from_fn(|| world.next()).flat_map(|event| loses.told(event));
        let losses = told_of_losses.filter(|event| event.kind == Kind::Lost).map(|event| Loss::new(&event));
        let losses = losses.collect();
        let mut world = Simulation::new(&config);
        let guests = world.guests().map(|(domain, process)| Guest { domain, host: 1, process });
        let mut machine = Machine::lossy(guests.collect(), losses);
        let mut lossy = lossy();
        let (mut transactions, mut affected, mut fed) = (0, 0, 0);
        let mut bad = BTreeMap::<_, usize>::new();
        let mut kept: Vec<Event> = Vec::new();
        let mut smallest: Option<(usize, String)> = None;
        while let Some(event) = world.next() {
            for event in lossy.told(event) {
                machine.feed(&event);
                kept.push(event);
            }
            for transaction in world.take_transactions() {
                let Transaction { who, from, to, .. } = transaction;
                machine.until(to);
                let pieces = breakdown(&machine, id(who), from, to);
                let told = told(&pieces);
                let truth = truth(&transaction);
                let mut wrong = wrong_of(&transaction, &truth, &told);
                wrong.retain(|((_, spent, _), is, says)| says > is && *spent != TimeState::Unknown);
                transactions += 1;
                affected += usize::from(told.keys().any(|(_, spent, _)| *spent == TimeState::Unknown));
                if let Some(((_, spent, _), ..)) = wrong.first() {
                    *bad.entry(*spent).or_default() += 1;
                    let events = told_of(&kept, &transaction);
                    let size = events.lines().count();
                    if smallest.as_ref().is_none_or(|(least, _)| size < *least) {
                        let text = format!("of {who}, {} ns:\n{wrong:#?}\n{pieces:#?}\n{events}", to - from);
                        smallest = Some((size, text));
                    }
                }
            }
            fed += 1;
            if fed % 20_000 == 0 {
                let oldest = world.oldest();
                machine.forget_before(oldest);
                kept.retain(|event| event.time_ns >= oldest);
            }
        }
        println!("{transactions} transactions, {affected} with what is unknown; wrong: {bad:?}");
        let count: usize = bad.values().sum();
        assert!(affected > 500);
        assert!(count <= allowed, "{bad:?} are wrong; the smallest {}", smallest.unwrap_or_default().1);
    }
}

/// As perf and trace-cmd record it unless they are asked for more: what a wake-up says of its context is all that tells an
/// interrupt's from a thread's.
#[test]
fn wakers_are_the_same_without_the_events_of_interrupts() {
    for config in [Config::single(random()), Config::virtualized(random())] {
        let mut world = Simulation::new(&config);
        let guests: Vec<_> =
            world.guests().map(|(domain, process)| Guest { domain, host: 1, process }).collect();
        let (mut whole, mut bare) = (Machine::new(guests.clone()), Machine::new(guests));
        let (mut transactions, mut fed) = (0, 0);
        let mut differ = BTreeMap::<_, usize>::new();
        while let Some(event) = world.next() {
            whole.feed(&event);
            if !matches!(event.kind, Kind::IrqEnter | Kind::IrqExit | Kind::SoftirqEnter | Kind::SoftirqExit)
            {
                bare.feed(&event);
            }
            for Transaction { who, from, to, .. } in world.take_transactions() {
                transactions += 1;
                let [whole, bare] = [&whole, &bare].map(|machine| {
                    let mut parts = told(&breakdown(machine, id(who), from, to));
                    let interrupts: i64 = parts
                        .extract_if(.., |(object, ..), _| matches!(object, Object::Interrupts(_)))
                        .map(|(_, ns)| ns)
                        .sum();
                    (parts, interrupts)
                });
                // What interrupts took is told of whom they came above.
                let of_vcpus = |parts: &Parts| {
                    let these = parts.iter().filter(|((object, ..), _)| matches!(object, Object::Vcpu(_)));
                    these.map(|(_, ns)| *ns).sum::<i64>()
                };
                // Without interrupts nobody knows that a vCPU was woken for a timer.
                let late = of_vcpus(&whole.0) - of_vcpus(&bare.0);
                let wrong = forgive(wrong(&bare.0, &whole.0), late, &whole.0);
                let wrong = wrong.iter().find(|((_, spent, _), is, says)| {
                    *spent != TimeState::Running || (is - says).abs() > ALLOWED + whole.1
                });
                if let Some(((_, spent, _), ..)) = wrong {
                    *differ.entry(*spent).or_default() += 1;
                }
            }
            fed += 1;
            if fed % 20_000 == 0 {
                let oldest = world.oldest();
                whole.forget_before(oldest);
                bare.forget_before(oldest);
            }
        }
        println!("{transactions} transactions; different: {differ:?}");
        // More may be told as waiting for what is not known: where a guest's processor was interrupted, and whose access an
        // interrupt ended.
        let waiting = differ.remove(&TimeState::Waiting).unwrap_or(0);
        assert!(waiting < transactions / 20 && differ.values().sum::<usize>() < transactions / 500);
    }
}

/// Breaks down each transaction when it is over; so many of them may have a wrong part.
fn hold(config: &Config, allowed: usize) {
    let mut world = Simulation::new(config);
    let guests = world.guests().map(|(domain, process)| Guest { domain, host: 1, process });
    let mut machine = Machine::new(guests.collect());
    let (mut transactions, mut parts, mut devices, mut unknown) = (0, 0, 0, 0);
    // Those that moved, those that others came before, those of which several were under way, and those with a wait for a
    // pipe, in a page fault, and in a swap-in.
    let mut said = [0; 6];
    let mut kept: Vec<Event> = Vec::new();
    let mut smallest: Option<(usize, String)> = None;
    let mut bad = BTreeMap::<_, usize>::new();
    while let Some(event) = world.next() {
        machine.feed(&event);
        kept.push(event);
        for transaction in world.take_transactions() {
            // All that happens at its last moment has been fed, or does not matter.
            let Transaction { who, from, to, .. } = transaction;
            let pieces = breakdown(&machine, id(who), from, to);
            assert_eq!(pieces.first().map(|piece| piece.from), Some(from));
            assert!(pieces.windows(2).all(|pair| pair[0].to == pair[1].from));
            assert_eq!(pieces.last().map(|piece| piece.to), Some(to));
            let truth = truth(&transaction);
            let wrong = wrong_of(&transaction, &truth, &told(&pieces));
            transactions += 1;
            parts += truth.len();
            for ((object, spent, _), ns) in told(&pieces) {
                if let (Object::Disk(_), TimeState::Device | TimeState::Unknown) = (object, spent) {
                    devices += ns;
                    unknown += if spent == TimeState::Unknown { ns } else { 0 };
                }
            }
            let says =
                |is: fn(&Cause) -> bool| pieces.iter().filter_map(|piece| piece.cause.as_ref()).any(is);
            said[0] += usize::from(says(|cause| matches!(cause, Cause::Moved(_))));
            said[1] += usize::from(says(|cause| matches!(cause, Cause::Earlier)));
            said[2] += usize::from(says(|cause| matches!(cause, Cause::Ahead(_))));
            said[3] += usize::from(says(|cause| matches!(cause, Cause::Awaited(WaitedFor::Data { .. }))));
            said[4] += usize::from(says(|cause| matches!(cause, Cause::Awaited(WaitedFor::PageOf(_)))));
            said[5] += usize::from(says(|cause| matches!(cause, Cause::Awaited(WaitedFor::Swapped))));
            if let Some(((_, spent, _), ..)) = wrong.first() {
                *bad.entry(*spent).or_default() += 1;
                let events = told_of(&kept, &transaction);
                let size = events.lines().count();
                if smallest.as_ref().is_none_or(|(least, _)| size < *least) {
                    let text = format!("of {who}, {} ns:\n{wrong:#?}\n{events}", to - from);
                    smallest = Some((size, text));
                }
            }
        }
        if kept.len() >= 20_000 {
            let oldest = world.oldest();
            machine.forget_before(oldest);
            kept.retain(|event| event.time_ns >= oldest);
        }
    }
    println!("{transactions} transactions, {parts} parts; unknown of disks: {unknown} of {devices}");
    assert!(transactions >= 10_000);
    assert!(unknown * 5 < devices);
    println!("wrong: {bad:?}; said: {said:?}");
    assert!(said.iter().all(|said| *said > 100), "{said:?}");
    let count: usize = bad.values().sum();
    assert!(count <= allowed, "{bad:?} are wrong; the smallest {}", smallest.unwrap_or_default().1);
}
