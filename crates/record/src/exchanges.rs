//! Whole recordings with agents that say anything at any time, valid and not: a recording ends, keeps its own, and
//! lets nobody write elsewhere.

use std::{
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use xweave_synthetic::agent::{self, Done, Moment, Script, Voice};
use xweave_trace::Trace;
use xweave_wire::{
    event,
    message::{
        BackEnd, ClockSample, DomainInfo, Event, EventLoss, Failure, FailureKind, FromAgent, FunctionClone,
        LeftOut, Loss, ModuleInfo, Processor, Reply, SHARED_PAGES, Shared, SiteAddress, SiteLoss,
        SkippedSite, Symbol, Unloaded, Vm,
    },
    pages::{CachedFile, LookedAt, Run},
    record::Kind,
};

use crate::{
    Budget, Until,
    pace::Pace,
    scripted::{self, Agent, EVENTS},
};

/// Messages of agents in one run of the test.
const EXCHANGES: u64 = 1_000_000;

/// No recording takes longer: deadlines are short in tests.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What is waited for is over soon, so that thousands of recordings are made.
const SHORT: Pace = Pace {
    hello: Duration::from_millis(50),
    answer: Duration::from_millis(50),
    answers: Duration::from_secs(60),
    hook: Duration::from_millis(1),
    round: Duration::from_millis(20),
    grace: Duration::from_millis(2),
    identity: Duration::from_millis(200),
    farewell: Duration::from_millis(100),
};

/// Numbers that a seed makes (splitmix64).
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.below(8)).unwrap()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn text(&mut self) -> String {
        let words =
            ["", "6.12.0", "../../../evil", "\u{1b}]0;x\u{7}", "tun", "00ff", "a b", "/tmp/evil", "\u{202e}"];
        let mut text = words[usize::try_from(self.below(words.len() as u64)).unwrap()].to_owned();
        if self.one_in(20) {
            text = text.repeat(500);
        }
        text
    }

    fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(10),
            1 => u64::MAX - self.below(3),
            2 => agent::clock().mono_ns,
            _ => self.next(),
        }
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let most = if self.one_in(50) { 5000 } else { 4 };
        (0..self.below(most)).map(|_| one(self)).collect()
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.list(|chance| chance.next().to_le_bytes()[0])
    }
}

/// An agent that departs from the honest one whenever chance says so.
struct Any {
    chance: Chance,
    /// One message in so many is not an honest agent's.
    odds: u64,
    exchanges: Arc<AtomicU64>,
}

impl Script for Any {
    fn at(&mut self, moment: Moment<'_>, voice: &mut Voice) -> io::Result<Done> {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        if !self.chance.one_in(self.odds) {
            // An honest agent says something whenever it may.
            if voice.recording && matches!(moment, Moment::Tick) {
                for _ in 0..self.chance.below(200) {
                    self.exchanges.fetch_add(1, Ordering::Relaxed);
                    voice.event(Event::Clock(agent::clock()))?;
                    voice.send_records(1)?;
                    voice.event(Event::Events(events(&mut self.chance, false)))?;
                }
            }
            return Ok(Done::Nothing);
        }
        match self.chance.below(12) {
            0 => return Ok(Done::Leave),
            1 => return Ok(Done::All),
            2 => voice.raw(&self.chance.next().to_le_bytes())?,
            3 => {
                let bytes = self.chance.bytes();
                voice.raw(&bytes)?;
            }
            _ => {
                for _ in 0..=self.chance.below(3) {
                    self.exchanges.fetch_add(1, Ordering::Relaxed);
                    let message = self.message(voice);
                    voice.say(&message)?;
                }
            }
        }
        Ok(if self.chance.one_in(2) { Done::Nothing } else { Done::All })
    }
}

impl Any {
    fn message(&mut self, voice: &Voice) -> FromAgent {
        let chance = &mut self.chance;
        match chance.below(23) {
            0 => FromAgent::Event(Event::Weaving { done: chance.small(), total: chance.small() }),
            1 => FromAgent::Event(Event::Records(records(chance, voice))),
            2 => match chance.below(2) {
                0 => FromAgent::Event(Event::Events(chance.bytes())),
                _ => FromAgent::Event(Event::Events(events(chance, true))),
            },
            3 => FromAgent::Event(Event::Clock(sample(chance))),
            4 => FromAgent::Reply(Reply::DomainInfo(Box::new(facts(chance)))),
            5 => FromAgent::Reply(Reply::Btf(chance.bytes())),
            6 => FromAgent::Reply(Reply::Code(chance.bytes())),
            7 => FromAgent::Reply(Reply::Clock(sample(chance))),
            8 => FromAgent::Reply(Reply::Woven(woven(chance))),
            9 => FromAgent::Reply(Reply::Done),
            10 => FromAgent::Reply(Reply::Loss(loss(chance))),
            11 => FromAgent::Reply(Reply::Stopped(loss(chance))),
            12 => FromAgent::Event(Event::Records(chance.bytes())),
            13 => FromAgent::Reply(Reply::Stopped(Loss::default())),
            14 => FromAgent::Reply(Reply::Vms(chance.list(vm))),
            15 => FromAgent::Reply(Reply::Symbols(chance.list(symbol))),
            16 => FromAgent::Reply(Reply::Shared(shared(chance))),
            17 => FromAgent::Reply(Reply::LookedAt(LookedAt {
                files: chance.number(),
                whole: chance.number().is_multiple_of(2),
                cut: Some(chance.text()),
            })),
            18 if chance.number().is_multiple_of(2) => {
                FromAgent::Reply(Reply::Watching { watches: true, reason: Some(chance.text()) })
            }
            18 => FromAgent::Reply(Reply::XenMarked { reason: Some(chance.text()) }),
            19 => FromAgent::Reply(Reply::XenGuests {
                domids: chance.list(|chance| u16::try_from(chance.small()).ok()),
                reason: Some(chance.text()),
            }),
            21 => FromAgent::Event(Event::Xentrace(chance.bytes())),
            20 => FromAgent::Event(Event::Cached(chance.list(cached_file))),
            _ => FromAgent::Reply(Reply::Failed(Failure {
                kind: FailureKind::Unsupported,
                message: chance.text(),
            })),
        }
    }
}

fn shared(chance: &mut Chance) -> Shared {
    let count = [0, 1, SHARED_PAGES][usize::try_from(chance.below(3)).unwrap()];
    let pages = (0..count).map(|_| u64::from(chance.small()) << (12 * chance.below(5))).collect();
    let reason = (chance.below(2) == 0).then(|| chance.text());
    Shared { pages, reason, emulated: chance.below(2) == 0 }
}

fn records(chance: &mut Chance, voice: &Voice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..chance.below(20) {
        let mut record = voice.record(number);
        match chance.below(6) {
            0 => record.flow = chance.number(),
            1 => record.site = chance.small(),
            2 => record.time_ns = chance.number(),
            3 => {
                record.kind = Kind::from_byte(u8::try_from(chance.below(9)).unwrap()).unwrap();
                record.values = (0..chance.below(8)).map(|_| chance.number()).collect();
            }
            _ => {}
        }
        record.encode(&mut bytes);
    }
    bytes
}

fn events(chance: &mut Chance, any: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..chance.below(20) {
        let kind = match chance.below(8) {
            0 if any => event::Kind::of(u8::try_from(chance.below(29)).unwrap()).unwrap(),
            1 => event::Kind::Thread,
            _ => EVENTS[usize::try_from(chance.below(2)).unwrap()],
        };
        let time = if any && chance.one_in(4) { chance.number() } else { agent::clock().mono_ns };
        let mut event = event::Event::new(kind, time, 0, chance.small());
        event.name[..8].copy_from_slice(&chance.next().to_le_bytes());
        event.encode(&mut bytes);
    }
    bytes
}

fn sample(chance: &mut Chance) -> ClockSample {
    ClockSample {
        tsc_before: chance.number(),
        mono_ns: chance.number(),
        tsc_after: chance.number(),
        real_ns: chance.number(),
    }
}

fn vm(chance: &mut Chance) -> Vm {
    Vm {
        pid: chance.small(),
        comm: chance.text(),
        name: chance.text(),
        tsc_offsets: chance.list(|chance| chance.number().cast_signed()),
        tsc_scaling: (chance.number(), chance.small() * 20),
        cid: Some(chance.small()),
        back_ends: chance.list(|chance| match chance.small() % 5 {
            0 => BackEnd::VhostNet,
            1 => BackEnd::EmulatedNet,
            2 => BackEnd::VhostUser,
            3 => BackEnd::Vdpa,
            _ => BackEnd::Vfio,
        }),
    }
}

fn facts(chance: &mut Chance) -> DomainInfo {
    let module = |chance: &mut Chance| ModuleInfo {
        name: chance.text(),
        btf_sha256: chance.text(),
        build_id: chance.text(),
    };
    DomainInfo {
        build_id: chance.text(),
        boot_id: chance.text(),
        hostname: chance.text(),
        modules: chance.list(module),
        vms: chance.list(vm),
        vendor: chance.text(),
        processors: chance.list(|chance| Processor { cpu: chance.small(), apic_id: chance.small() }),
        tsc_hz: chance.number(),
        ..agent::facts("6.12.0")
    }
}

fn woven(chance: &mut Chance) -> xweave_wire::message::Woven {
    xweave_wire::message::Woven {
        sites: chance.list(|chance| SiteAddress { site: chance.small(), address: chance.number() }),
        skipped: chance.list(|chance| SkippedSite { site: chance.small(), reason: chance.text() }),
        left_out: chance.list(|chance| LeftOut {
            function: chance.text(),
            kind: event::Kind::Switch,
            reason: chance.text(),
        }),
        clones: chance.list(|chance| FunctionClone { site: chance.small(), name: chance.text() }),
    }
}

fn symbol(chance: &mut Chance) -> Symbol {
    let module = if chance.one_in(2) { Some(chance.text()) } else { None };
    Symbol { address: chance.number(), function: chance.text(), offset: chance.number(), module }
}

fn cached_file(chance: &mut Chance) -> CachedFile {
    CachedFile {
        path: chance.text(),
        size: chance.number(),
        modified_ns: chance.number().cast_signed(),
        inode: chance.number(),
        runs: chance.list(|chance| Run { first: chance.number(), pages: chance.small() }),
        contents: chance.list(Chance::number),
        frames: chance.list(Chance::number),
    }
}

fn loss(chance: &mut Chance) -> Loss {
    Loss {
        sites: chance.list(|chance| SiteLoss {
            site: chance.small(),
            dropped: chance.number(),
            missed: chance.number(),
            table_full: chance.number(),
            faults: chance.number(),
            overwritten: chance.number(),
        }),
        flows: chance.list(|chance| (chance.number(), chance.number())),
        unattributed: chance.number(),
        events: chance.list(|chance| EventLoss {
            kind: event::Kind::Switch,
            dropped: chance.number(),
            missed: chance.number(),
        }),
        unloaded: chance.list(|chance| Unloaded { module: chance.text(), sites: chance.small() }),
    }
}

/// What one recording came to.
struct Came {
    recorded: bool,
    rows: usize,
    events: usize,
}

/// One recording of a host and a guest. How hostile they are is chance's to say; a host may be honest.
fn recording(seed: u64, folder: &Path, exchanges: &Arc<AtomicU64>) -> Came {
    let mut chance = Chance(seed);
    let options = scripted::options(
        folder,
        &["host", "vm1"],
        Until::Elapsed(Duration::from_millis(chance.below(30))),
        Budget { queued: 1 << 16, waiting: 1 << 20, rate: None, disk: 1 << 20 },
    );
    let odds = [u64::MAX, 200, 20, 4][usize::try_from(chance.below(4)).unwrap()];
    let of_guest = [200, 50, 10, 3][usize::try_from(chance.below(4)).unwrap()];
    let mut agent = |name, odds| {
        let chance = Chance(chance.next());
        Agent::new(name, 500, Any { chance, odds, exchanges: Arc::clone(exchanges) })
    };
    let agents = vec![agent("host", odds), agent("vm1", of_guest)];
    let outcome = scripted::record(&options, SHORT, agents, &mut |_| {});
    if outcome.is_err() {
        assert!(!options.output.exists(), "seed {seed}: what was not recorded leaves nothing");
        return Came { recorded: false, rows: 0, events: 0 };
    }
    let trace = Trace::open(&options.output).unwrap();
    let (rows, damaged) = trace.rows();
    assert!(damaged.is_empty(), "seed {seed}: {damaged:?}");
    for row in &rows {
        let own = u64::from(row.domain);
        assert!(row.flow == 0 || row.flow >> 56 == own, "seed {seed}: {row:?}");
        assert_eq!(u64::from(row.site).div_ceil(2), own, "seed {seed}: {row:?}");
    }
    let mut events = trace.events();
    let mut count = 0;
    for event in events.by_ref() {
        // What an agent tells by itself, and what its probes do.
        let own = [event::Kind::Thread, event::Kind::Lost];
        let known = own.contains(&event.kind) || EVENTS.contains(&event.kind);
        assert!(known, "seed {seed}: {event:?}");
        count += 1;
    }
    assert!(events.damaged().is_empty(), "seed {seed}: {:?}", events.damaged());
    fs::remove_dir_all(&options.output).unwrap();
    Came { recorded: true, rows: rows.len(), events: count }
}

#[test]
fn a_million_exchanges_with_any_agents_end_in_traces_or_errors() {
    // Another run tries other seeds; what failed is tried again by its own.
    let wanted = std::env::var("XWEAVE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = agent::clock().real_ns;
    let exchanges = Arc::new(AtomicU64::new(0));
    let next = AtomicU64::new(0);
    let totals = Mutex::new((0u64, 0u64, 0u64, 0u64));
    let workers = if wanted.is_some() { 1 } else { 8 };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let parent = tempfile::tempdir().unwrap();
                let folder = parent.path().join("own");
                fs::create_dir(&folder).unwrap();
                while exchanges.load(Ordering::Relaxed) < EXCHANGES {
                    let seed =
                        wanted.unwrap_or_else(|| seeds.wrapping_add(next.fetch_add(1, Ordering::Relaxed)));
                    let begun = Instant::now();
                    let came = catch_unwind(AssertUnwindSafe(|| recording(seed, &folder, &exchanges)));
                    let came =
                        came.unwrap_or_else(|_| panic!("it failed: XWEAVE_SEED={seed} makes it do so again"));
                    assert!(begun.elapsed() < TIMEOUT, "XWEAVE_SEED={seed} took {:?}", begun.elapsed());
                    let beside = fs::read_dir(parent.path()).unwrap().count();
                    let inside: Vec<_> =
                        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
                    let own = |name: &std::ffi::OsString| name == "trace" || name == "cache";
                    assert!(beside == 1 && inside.iter().all(own), "XWEAVE_SEED={seed} wrote {inside:?}");
                    let mut totals = totals.lock().unwrap();
                    totals.0 += 1;
                    totals.1 += u64::from(came.recorded);
                    totals.2 += came.rows as u64;
                    totals.3 += came.events as u64;
                    if wanted.is_some() {
                        return;
                    }
                }
            });
        }
    });
    let (recordings, recorded, rows, events) = *totals.lock().unwrap();
    println!("{recordings} recordings, {recorded} of them with a trace, {rows} records, {events} events");
    if wanted.is_none() {
        // Agents that are all refused at once would prove nothing.
        assert!(
            recorded > recordings / 20 && rows > recordings && events > recordings,
            "{recorded} of {recordings}, {rows} records, {events} events"
        );
    }
}
