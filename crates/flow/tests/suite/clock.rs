//! Synthetic clocks: whatever they do, the true error is within the stated one.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "synthetic times are far from the limits"
)]

use std::collections::VecDeque;

use proptest::prelude::*;
use xweave_flow::clock::{Exchange, Timeline, vm};
use xweave_trace::Method;
use xweave_wire::message::{ClockSample, DomainInfo, Vm, XenDomain};

const HOST: u8 = 1;
const GUEST: u8 = 2;
const HZ: f64 = 2_400e6;
const SECONDS: u64 = 20;

/// A `CLOCK_MONOTONIC` that drifts, and is slewed: its rate changes now and then.
#[derive(Clone, Debug)]
struct Mono {
    base: u64,
    /// Parts per million in the periods of 2.5 seconds, one after the other.
    ppm: Vec<f64>,
}

impl Mono {
    const PERIOD: f64 = 2.5e9;

    fn at(&self, t: f64) -> u64 {
        let mut shown = t;
        for (i, ppm) in self.ppm.iter().enumerate() {
            let begun = i as f64 * Self::PERIOD;
            shown += (t - begun).clamp(0.0, Self::PERIOD) * ppm * 1e-6;
        }
        self.base + shown as u64
    }
}

/// What befalls the guest's clocks at a time, in nanoseconds of the truth.
#[derive(Clone, Debug)]
struct Jump {
    at: f64,
    /// By so much its `CLOCK_MONOTONIC` steps, in nanoseconds.
    mono: f64,
    /// And its TSC: KVM shows another offset then.
    tsc: i64,
    /// So long before it did not run, in nanoseconds: nothing was read or recorded.
    paused: f64,
}

impl Jump {
    /// Paused, and its clock with it, but not its TSC: what QEMU's `stop` and `cont` do.
    fn pause(at: f64, seconds: f64) -> Self {
        Self { at, mono: -seconds * 1e9, tsc: 0, paused: seconds * 1e9 }
    }

    /// Its TSC was written. Its clock goes with that, if it goes by the TSC: but never back, kernels see to it.
    fn written(at: f64, ticks: i64) -> Self {
        Self { at, mono: (ticks as f64 / HZ * 1e9).max(0.0), tsc: ticks, paused: 0.0 }
    }

    /// The same, where KVM tells kvm-clock of it.
    fn written_unseen(at: f64, ticks: i64) -> Self {
        Self { at, mono: 0.0, tsc: ticks, paused: 0.0 }
    }

    /// Stopped here and continued elsewhere: both stood still meanwhile.
    fn migrated(at: f64, seconds: f64) -> Self {
        Self { at, mono: -seconds * 1e9, tsc: -(seconds * HZ) as i64, paused: seconds * 1e9 }
    }
}

/// A host with machines, of which the guest is the first.
#[derive(Clone, Debug)]
struct World {
    host: Mono,
    guest: Mono,
    host_tsc: u64,
    vms: Vec<Vm>,
    /// Per sample: how long before and after, in nanoseconds.
    brackets: Vec<(f64, f64)>,
    trips: Vec<(f64, f64)>,
    /// The controller's TSC when it is not the host's.
    elsewhere: Option<u64>,
    /// Whether the host does not know the guest's machine.
    unknown: bool,
    /// What befalls the guest, in the order of times.
    jumps: Vec<Jump>,
    /// When the guest sends so much that its answers come so many times later, and its times are to be known soon.
    busy: Option<(std::ops::Range<f64>, f64)>,
}

impl World {
    fn tsc(&self, domain: u8, t: f64) -> u64 {
        let host = self.host_tsc + (t / 1e9 * HZ) as u64;
        if domain == HOST { host } else { vm::guest_tsc(&self.vms[0], self.offset(t), host) }
    }

    fn until(&self, t: f64) -> impl Iterator<Item = &Jump> {
        self.jumps.iter().filter(move |jump| jump.at <= t)
    }

    /// The guest's tsc-offset.
    fn offset(&self, t: f64) -> i64 {
        self.until(t).fold(self.vms[0].tsc_offsets[0], |offset, jump| offset.wrapping_add(jump.tsc))
    }

    fn vms(&self, t: f64) -> Vec<Vm> {
        let mut vms = self.vms.clone();
        vms[0].tsc_offsets.fill(self.offset(t));
        vms[usize::from(self.unknown)..].to_vec()
    }

    fn runs(&self, t: f64) -> bool {
        !self.jumps.iter().any(|jump| t > jump.at - jump.paused - 3e6 && t < jump.at + 3e6)
    }

    fn mono(&self, domain: u8, t: f64) -> u64 {
        if domain == HOST {
            return self.host.at(t);
        }
        let stepped: f64 = self.until(t).map(|jump| jump.mono).sum();
        self.guest.at(t).saturating_add_signed(stepped as i64)
    }

    fn hub(&self, t: f64) -> u64 {
        // Another machine's counter: another origin and a slightly different rate.
        self.elsewhere.map_or_else(|| self.tsc(HOST, t), |base| base + (t / 1e9 * HZ * 1.000_03) as u64)
    }

    fn sample(&self, domain: u8, t: f64, i: usize) -> ClockSample {
        let (before, after) = self.brackets[i % self.brackets.len()];
        ClockSample {
            tsc_before: self.tsc(domain, t - before),
            mono_ns: self.mono(domain, t),
            tsc_after: self.tsc(domain, t + after),
            real_ns: 0,
        }
    }

    fn is_busy(&self, t: f64) -> Option<f64> {
        self.busy.as_ref().filter(|(time, _)| time.contains(&t)).map(|(_, later)| *later)
    }

    fn exchange(&self, domain: u8, t: f64, i: usize) -> Exchange {
        let later = self.is_busy(t).filter(|_| domain == GUEST).unwrap_or(1.0);
        let (before, after) = self.trips[i % self.trips.len()];
        let (before, after) = (before, after * later);
        let (b, a) = self.brackets[i % self.brackets.len()];
        Exchange {
            sent_tsc: self.hub(t - before - b),
            sample: self.sample(domain, t, i),
            received_tsc: self.hub(t + after + a),
        }
    }

    fn begin(&self) -> Timeline {
        let mut timeline = Timeline::new(HOST);
        timeline.facts(HOST, &facts(self.vms(0.0)));
        timeline.facts(GUEST, &facts(Vec::new()));
        if self.elsewhere.is_none() {
            timeline.controller_in(HOST);
        }
        for i in 0..12 {
            let t = 1e9 + i as f64 * 0.11e9;
            timeline.exchange(HOST, self.exchange(HOST, t, i));
            timeline.exchange(GUEST, self.exchange(GUEST, t + 3e6, i + 1));
        }
        timeline.settle();
        timeline
    }

    /// Runs a whole recording, converting as soon as that is final.
    fn run(&self, timeline: &mut Timeline) -> Vec<Converted> {
        let mut converted = Vec::new();
        let mut waiting: VecDeque<(f64, u64)> = VecDeque::new();
        let mut next = 2.4e9;
        let mut convert = |timeline: &mut Timeline, converted: &mut Vec<_>, now: f64| {
            while next < now.min((SECONDS as f64 - 0.3) * 1e9) {
                if self.runs(next) {
                    waiting.push_back((next, self.mono(GUEST, next)));
                }
                next += 7_654_321.0;
            }
            let horizon = timeline.horizon(GUEST);
            while let Some(&(t, mono)) = waiting.front().filter(|(_, mono)| Some(*mono) <= horizon) {
                waiting.pop_front();
                let stamp = timeline.to_reference(GUEST, mono).unwrap();
                converted.push(Converted { t, mono, ns: stamp.ns, error: stamp.error_ns, late: now - t });
            }
        };
        for i in 0..(4 * SECONDS as usize - 10) {
            let t = 2.5e9 + i as f64 * 0.25e9;
            for domain in [HOST, GUEST] {
                timeline.hurry(domain, self.is_busy(t).is_some());
            }
            self.sample_both(timeline, t, i);
            if i % 4 == 0 {
                self.exchange_both(timeline, t + 0.12e9, i);
                timeline.vms(HOST, self.vms(t + 0.14e9));
            }
            for again in 0..10u32 {
                let now = t + 0.15e9 + f64::from(again) * 8e6;
                for domain in [HOST, GUEST] {
                    if timeline.wants_exchange(domain) && (domain == HOST || self.runs(now)) {
                        timeline.exchange(
                            domain,
                            self.exchange(domain, now + f64::from(domain) * 1e6, i + again as usize),
                        );
                    }
                }
                if timeline.wants_vms(HOST) {
                    timeline.vms(HOST, self.vms(now + 4e6));
                }
            }
            convert(timeline, &mut converted, t);
        }
        timeline.finish();
        convert(timeline, &mut converted, f64::INFINITY);
        assert!(waiting.is_empty(), "{} have no place", waiting.len());
        converted
    }

    fn sample_both(&self, timeline: &mut Timeline, t: f64, i: usize) {
        timeline.sample(HOST, self.sample(HOST, t, i));
        if self.runs(t + 1e6) {
            timeline.sample(GUEST, self.sample(GUEST, t + 1e6, i + 1));
        }
    }

    /// An answer that a paused guest owes comes when it runs again.
    fn exchange_both(&self, timeline: &mut Timeline, t: f64, i: usize) {
        timeline.exchange(HOST, self.exchange(HOST, t, i));
        if self.runs(t + 0.01e9) {
            timeline.exchange(GUEST, self.exchange(GUEST, t + 0.01e9, i + 3));
        }
    }

    fn check(&self, timeline: &mut Timeline) -> Result<Vec<Converted>, TestCaseError> {
        let converted = self.run(timeline);
        prop_assert!(
            converted.len() > if self.jumps.is_empty() { 2000 } else { 1500 },
            "{} converted",
            converted.len()
        );
        let clock = timeline.clock(GUEST, "vm1").unwrap();
        let mut last = i64::MIN;
        let mut worst = None;
        for &Converted { t, mono, ns, error, .. } in &converted {
            let truth = self.mono(HOST, t).cast_signed();
            let within = clock.breaks.iter().any(|jump| jump.covers(ns));
            if error == u64::MAX {
                prop_assert!(within, "at {t}: {ns} has no bound and lies in no break: {:?}", clock.breaks);
            } else {
                // The synthetic clock itself is cut to whole nanoseconds.
                prop_assert!(
                    ns.abs_diff(truth) <= error + 1,
                    "at {t}: {ns} for {truth} is {} off, stated {error}",
                    ns.abs_diff(truth)
                );
                worst = worst.max(Some(error));
            }
            prop_assert!(ns >= last, "times keep their order");
            last = ns;
            let again = timeline.to_reference(GUEST, mono).unwrap().ns;
            prop_assert_eq!(again, ns, "what was final has moved");
        }
        prop_assert_eq!(Some(timeline.clock(GUEST, "vm1").unwrap().error_ns), worst);
        Ok(converted)
    }
}

/// A time of the guest, and what became of it.
struct Converted {
    /// The truth.
    t: f64,
    mono: u64,
    ns: i64,
    error: u64,
    /// How long after it happened it was known, in nanoseconds.
    late: f64,
}

fn facts(vms: Vec<Vm>) -> DomainInfo {
    DomainInfo { cpus: 2, privileged: true, btf: true, tsc_hz: HZ as u64, vms, ..DomainInfo::default() }
}

fn machine(pid: u32, offset: i64, tsc_scaling: (u64, u32)) -> Vm {
    Vm { pid, comm: "qemu".into(), tsc_offsets: vec![offset; 2], tsc_scaling, ..Vm::default() }
}

fn mono() -> impl Strategy<Value = Mono> {
    (0u64..1 << 50, -40.0..40.0f64, proptest::collection::vec(-15.0..15.0f64, 10)).prop_map(
        |(base, drift, slews)| Mono { base, ppm: slews.into_iter().map(|slew| drift + slew).collect() },
    )
}

fn world() -> impl Strategy<Value = World> {
    let tight = (15.0..60.0f64, 15.0..60.0f64);
    let wide = (15.0..900_000.0f64, 15.0..900_000.0f64);
    let bracket = prop_oneof![7 => tight, 1 => wide];
    let trip = (6_000.0..90_000.0f64, 6_000.0..90_000.0f64);
    (
        mono(),
        mono(),
        1u64 << 35..1 << 45,
        any::<i64>(),
        prop_oneof![Just((1u64, 0u32)), Just((3 << 46, 48)), Just((0x1_4000_0000, 32))],
        proptest::collection::vec(bracket, 23),
        proptest::collection::vec(trip, 17),
        proptest::option::of(1u64 << 30..1 << 50),
    )
        .prop_map(|(host, guest, host_tsc, offset, scaling, brackets, trips, elsewhere)| {
            let other = machine(200, offset.wrapping_add(5_000_000_000), scaling);
            let third = machine(300, offset.wrapping_sub(9_000_000_000), (1, 0));
            let vms = vec![machine(100, offset, scaling), other, third];
            World {
                host,
                guest,
                host_tsc,
                vms,
                brackets,
                trips,
                elsewhere,
                unknown: false,
                jumps: Vec::new(),
                busy: None,
            }
        })
}

/// One jump of the guest's clocks, in the middle of a recording.
fn jump() -> impl Strategy<Value = Jump> {
    let at = 8e9..12e9f64;
    // From a millisecond up.
    let ticks = ((-3.0..0.6f64), any::<bool>()).prop_map(|(digits, back)| {
        let ticks = 10f64.powf(digits) * HZ;
        if back { -ticks as i64 } else { ticks as i64 }
    });
    prop_oneof![
        (at.clone(), 0.01..5.0f64).prop_map(|(at, seconds)| Jump::pause(at, seconds)),
        (at.clone(), 0.01..5.0f64).prop_map(|(at, seconds)| Jump::migrated(at, seconds)),
        (at.clone(), ticks.clone()).prop_map(|(at, ticks)| Jump::written(at, ticks)),
        (at, ticks).prop_map(|(at, ticks)| Jump::written_unseen(at, ticks)),
    ]
}

/// Numbers that are likely to go wrong.
fn odd() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..5,
        (0u64..5).prop_map(|n| u64::MAX - n),
        (0u64..9).prop_map(|n| (i64::MAX.cast_unsigned() - 4) + n),
        any::<u64>(),
        // A clock that goes on as clocks do.
        (0u64..100).prop_map(|n| n * 100_000_000),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_jump_is_a_break_and_beside_it_the_error_is_within_its_bound(
        mut world in world(), jump in jump(), unknown in any::<bool>()
    ) {
        world.unknown = unknown;
        world.jumps = vec![jump.clone()];
        let mut timeline = world.begin();
        world.check(&mut timeline)?;
        let clock = timeline.clock(GUEST, "vm1").unwrap();
        prop_assert_eq!(clock.method, if unknown { Method::Exchange } else { Method::TscOffset });
        if unknown && jump.mono == 0.0 {
            // What does not go by the TSC is not touched by it.
            prop_assert!(clock.breaks.is_empty(), "{:?}", clock);
            return Ok(());
        }
        if unknown && jump.mono.abs() < 5e6 && clock.breaks.is_empty() {
            // A rate may have made so much between exchanges seconds apart: it is within the bound, as was checked.
            return Ok(());
        }
        prop_assert_eq!(clock.breaks.len(), 1, "{:?}", clock);
        let (before, after) = (world.mono(HOST, jump.at - jump.paused), world.mono(HOST, jump.at));
        // A small step is seen when readings contradict it; until then times are within their bounds, as was checked.
        let seen_ns = if unknown && jump.mono.abs() < 5e6 { 250_000_000 } else { 0 };
        for truth in [before, after] {
            let covered = [0, seen_ns].iter().any(|later| clock.breaks[0].covers(truth.cast_signed() + later));
            prop_assert!(covered, "{:?}: {truth}", clock.breaks);
        }
        prop_assert!(clock.breaks[0].before_ns.is_some() && clock.breaks[0].after_ns.is_some(), "{:?}", clock);
        let length = clock.breaks[0].before_ns.unwrap() - clock.breaks[0].after_ns.unwrap();
        // An exchange that is wide tells little; where all are for a while, so is the break.
        let longest = if unknown { 6.5e9 } else { 3.2e9 };
        prop_assert!((length as f64) < jump.paused + longest, "{:?} of {length} ns", clock.breaks);
    }

    #[test]
    fn a_small_step_is_no_break_and_within_the_bound(
        mut world in world(), at in 8e9..12e9f64, micros in -30.0..30.0f64
    ) {
        // What KVM does to kvm-clock now and then; beyond the slews of the synthetic clocks.
        world.guest.ppm.fill(3.0);
        world.jumps = vec![Jump { at, mono: micros * 1e3, tsc: 0, paused: 0.0 }];
        let mut timeline = world.begin();
        world.check(&mut timeline)?;
        prop_assert!(timeline.clock(GUEST, "vm1").unwrap().breaks.is_empty());
    }

    #[test]
    fn two_small_steps_soon_after_each_other_are_within_the_bound(
        mut world in world(), at in 8e9..12e9f64, back in any::<bool>(),
        steps in proptest::collection::vec((3e7..3e8f64, 0.0..20.0f64), 1..3)
    ) {
        // All one way: of a clock that steps there and back between two readings, nothing is seen. Nor are more steps in
        // a row: they look like a rate.
        let back = if back { -1.0 } else { 1.0 };
        world.guest.ppm.fill(3.0);
        let mut at = at;
        let jump = |&(after, micros): &(f64, f64)| {
            at += after;
            Jump { at, mono: back * micros * 1e3, tsc: 0, paused: 0.0 }
        };
        world.jumps = steps.iter().map(jump).collect();
        let mut timeline = world.begin();
        world.check(&mut timeline)?;
    }

    #[test]
    fn the_times_of_a_busy_guest_are_less_exact_and_not_late(
        mut world in world(), later in 1e2..5e3f64, unknown in any::<bool>()
    ) {
        world.unknown = unknown;
        let busy = 6e9..16e9;
        world.busy = Some((busy.clone(), later));
        let mut timeline = world.begin();
        let converted = world.check(&mut timeline)?;
        for one in converted.iter().filter(|one| busy.contains(&one.t) && one.t < busy.end - 4e9) {
            prop_assert!(one.late < 4e9, "at {}: known after {} ns", one.t, one.late);
        }
        prop_assert!(timeline.clock(GUEST, "vm1").unwrap().breaks.is_empty());
    }

    #[test]
    fn whatever_a_guest_says_of_its_clocks_it_moves_no_other(
        world in world(), said in proptest::collection::vec((odd(), odd(), odd(), any::<u8>()), 1..400)
    ) {
        const OTHER: u8 = 3;
        let mut timeline = world.begin();
        let mut alone = world.begin();
        let mut said = said.into_iter();
        for i in 0..40 {
            let t = 2.5e9 + i as f64 * 0.25e9;
            for timeline in [&mut timeline, &mut alone] {
                world.sample_both(timeline, t, i);
                world.exchange_both(timeline, t + 0.02e9, i);
                timeline.vms(HOST, world.vms(t + 0.03e9));
            }
            for (tsc, mono_ns, width, kind) in said.by_ref().take(10) {
                let sample = ClockSample { tsc_before: tsc, mono_ns, tsc_after: tsc.wrapping_add(width), real_ns: 0 };
                let sent = world.hub(t + 0.05e9);
                match kind {
                    0..100 => timeline.sample(OTHER, sample),
                    _ => timeline.exchange(OTHER, Exchange { sent_tsc: sent, sample, received_tsc: sent + 90_000 }),
                }
                timeline.vms(OTHER, vec![machine(100, 5, (1, 0))]);
                let _ = (timeline.horizon(OTHER), timeline.to_reference(OTHER, mono_ns));
                let _ = (timeline.clock(OTHER, "vm2"), timeline.wants_exchange(OTHER));
            }
            timeline.settle();
        }
        for timeline in [&mut timeline, &mut alone] {
            timeline.finish();
        }
        for mono in [0, 1, u64::MAX, i64::MAX.cast_unsigned()] {
            let _ = (timeline.horizon(OTHER), timeline.to_reference(OTHER, mono), timeline.clock(OTHER, "vm2"));
        }
        for i in 0..1000 {
            let mono = world.mono(GUEST, 2.5e9 + f64::from(i) * 9e6);
            prop_assert_eq!(timeline.to_reference(GUEST, mono), alone.to_reference(GUEST, mono));
        }
        prop_assert_eq!(timeline.clock(GUEST, "vm1"), alone.clock(GUEST, "vm1"));
    }

    #[test]
    fn by_tsc_offset_the_error_is_within_its_bound(world in world()) {
        let mut timeline = world.begin();
        prop_assert_eq!(timeline.vm(GUEST).map(|vm| vm.pid), Some(100), "{:?}", timeline.clock(GUEST, "vm1"));
        world.check(&mut timeline)?;
        prop_assert_eq!(timeline.clock(GUEST, "vm1").unwrap().method, Method::TscOffset);
    }

    #[test]
    fn by_exchange_the_error_is_within_its_bound(mut world in world()) {
        // The guest's machine is not among those that the host knows.
        world.unknown = true;
        let mut timeline = world.begin();
        prop_assert!(timeline.vm(GUEST).is_none());
        world.check(&mut timeline)?;
        prop_assert_eq!(timeline.clock(GUEST, "vm1").unwrap().method, Method::Exchange);
    }
}

/// A steady world with good readings.
fn plain() -> World {
    World {
        host: Mono { base: 5_000_000_000, ppm: vec![0.0; 10] },
        guest: Mono { base: 9_000_000, ppm: vec![3.0; 10] },
        host_tsc: 1 << 40,
        vms: vec![machine(100, -(1 << 39), (1, 0)), machine(200, -(1 << 38), (1, 0))],
        brackets: vec![(20.0, 25.0), (25.0, 20.0)],
        trips: vec![(30_000.0, 40_000.0), (20_000.0, 90_000.0)],
        elsewhere: None,
        unknown: false,
        busy: None,
        jumps: Vec::new(),
    }
}

#[test]
fn good_readings_give_good_bounds() {
    let world = plain();
    let mut timeline = world.begin();
    world.check(&mut timeline).unwrap();
    let clock = timeline.clock(GUEST, "vm1").unwrap();
    assert!(clock.error_ns < 600, "{clock:?}");
    assert!(clock.detail.contains("process 100"), "{clock:?}");

    let mut world = plain();
    world.vms[1].tsc_offsets = world.vms[0].tsc_offsets.clone();
    let mut timeline = world.begin();
    world.check(&mut timeline).unwrap();
    let clock = timeline.clock(GUEST, "vm1").unwrap();
    assert_eq!(clock.detail, "the tsc-offsets of 2 virtual machines fit");
    assert!(clock.error_ns < 500_000, "{clock:?}");
}

#[test]
fn a_pinned_machine_must_fit() {
    for (pid, method) in [(100, Method::TscOffset), (200, Method::Exchange), (9, Method::Exchange)] {
        let world = plain();
        let mut timeline = Timeline::new(HOST);
        timeline.facts(HOST, &facts(world.vms.clone()));
        timeline.controller_in(HOST);
        timeline.pin_vm(GUEST, pid);
        for i in 0..12 {
            timeline.exchange(HOST, world.exchange(HOST, 1e9 + i as f64 * 2e8, i));
            timeline.exchange(GUEST, world.exchange(GUEST, 1e9 + i as f64 * 2e8, i));
        }
        timeline.settle();
        let clock = timeline.clock(GUEST, "vm1").unwrap();
        assert_eq!(clock.method, method, "{clock:?}");
        assert_eq!(timeline.clock(HOST, "host").unwrap().method, Method::Reference);
    }
}

#[test]
fn paravirtual_domains_of_xen_have_one_tsc() {
    // `tsc_mode`: native, and emulated with an offset.
    for (offset, method) in [(0, Method::CommonTsc), (-(1 << 39), Method::Exchange)] {
        let mut world = plain();
        world.vms = vec![machine(0, offset, (1, 0))];
        let mut timeline = Timeline::new(HOST);
        for domain in [HOST, GUEST] {
            timeline.facts(domain, &DomainInfo { xen: Some(XenDomain::Pv), ..facts(Vec::new()) });
        }
        timeline.controller_in(HOST);
        for i in 0..12 {
            timeline.exchange(HOST, world.exchange(HOST, 1e9 + i as f64 * 2e8, i));
            timeline.exchange(GUEST, world.exchange(GUEST, 1e9 + i as f64 * 2e8, i));
        }
        timeline.settle();
        world.check(&mut timeline).unwrap();
        assert!(timeline.vm(GUEST).is_none());
        let clock = timeline.clock(GUEST, "vm1").unwrap();
        assert_eq!(clock.method, method, "{clock:?}");
        assert_eq!(clock.error_ns < 600, method == Method::CommonTsc, "{clock:?}");
    }
}

#[test]
fn a_guest_without_a_tsc_goes_by_exchange() {
    let world = plain();
    let mut timeline = world.begin();
    for i in 0..30 {
        let mut exchange = world.exchange(7, 1e9 + i as f64 * 0.6e9, i);
        (exchange.sample.tsc_before, exchange.sample.tsc_after) = (0, 0);
        timeline.sample(HOST, world.sample(HOST, 1e9 + i as f64 * 0.6e9, i));
        timeline.exchange(7, exchange);
    }
    assert_eq!(timeline.to_reference(7, world.mono(GUEST, 3e9)), None, "not settled");
    timeline.settle();
    let stamp = timeline.to_reference(7, world.mono(GUEST, 3e9)).unwrap();
    assert!(stamp.ns.abs_diff(world.mono(HOST, 3e9).cast_signed()) <= stamp.error_ns);
    assert_eq!(timeline.clock(7, "vm7").unwrap().detail, "no TSC that can be used on both sides");
}

#[test]
fn a_short_recording_has_a_time_line_too() {
    let world = plain();
    let mut timeline = Timeline::new(HOST);
    timeline.facts(HOST, &facts(world.vms.clone()));
    timeline.facts(GUEST, &facts(Vec::new()));
    timeline.controller_in(HOST);
    for i in 0..10 {
        let t = 1e9 + i as f64 * 1e6;
        timeline.exchange(HOST, world.exchange(HOST, t, i));
        timeline.exchange(GUEST, world.exchange(GUEST, t, i));
    }
    timeline.settle();
    assert_eq!(timeline.horizon(GUEST), None);
    timeline.finish();
    let mono = world.mono(GUEST, 1.015e9);
    assert!(timeline.horizon(GUEST).unwrap() >= mono);
    let stamp = timeline.to_reference(GUEST, mono).unwrap();
    assert!(stamp.ns.abs_diff(world.mono(HOST, 1.015e9).cast_signed()) <= stamp.error_ns);
    assert!(stamp.error_ns < 200_000, "{stamp:?}");
}
