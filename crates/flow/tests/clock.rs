//! Synthetic clocks: whatever they do, the true error is within the stated one.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "synthetic times are far from the limits"
)]

use proptest::prelude::*;
use xweave_flow::clock::{Exchange, Timeline, vm};
use xweave_trace::Method;
use xweave_wire::message::{ClockSample, Facts, Vm};

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
}

impl World {
    fn tsc(&self, domain: u8, t: f64) -> u64 {
        let host = self.host_tsc + (t / 1e9 * HZ) as u64;
        if domain == HOST { host } else { vm::guest_tsc(&self.vms[0], self.vms[0].tsc_offsets[0], host) }
    }

    fn mono(&self, domain: u8, t: f64) -> u64 {
        if domain == HOST { self.host.at(t) } else { self.guest.at(t) }
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

    fn exchange(&self, domain: u8, t: f64, i: usize) -> Exchange {
        let (before, after) = self.trips[i % self.trips.len()];
        let (b, a) = self.brackets[i % self.brackets.len()];
        Exchange {
            sent_tsc: self.hub(t - before - b),
            sample: self.sample(domain, t, i),
            received_tsc: self.hub(t + after + a),
        }
    }

    fn begin(&self) -> Timeline {
        let mut timeline = Timeline::new(HOST);
        timeline.facts(HOST, &facts(self.vms[usize::from(self.unknown)..].to_vec()));
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

    /// Runs a whole recording, converting as soon as that is final: times, in the guest's order.
    fn run(&self, timeline: &mut Timeline) -> Vec<(f64, u64, i64, u64)> {
        let mut converted = Vec::new();
        let mut next = 2.4e9;
        let mut convert = |timeline: &mut Timeline, converted: &mut Vec<_>| {
            while next < (SECONDS as f64 - 0.3) * 1e9 {
                let mono = self.mono(GUEST, next);
                if timeline.horizon(GUEST).is_none_or(|horizon| mono > horizon) {
                    break;
                }
                let stamp = timeline.to_reference(GUEST, mono).unwrap();
                converted.push((next, mono, stamp.ns, stamp.error_ns));
                next += 7_654_321.0;
            }
        };
        for i in 0..(4 * SECONDS as usize - 10) {
            let t = 2.5e9 + i as f64 * 0.25e9;
            timeline.sample(HOST, self.sample(HOST, t, i));
            timeline.sample(GUEST, self.sample(GUEST, t + 1e6, i + 1));
            if i % 4 == 0 {
                timeline.exchange(HOST, self.exchange(HOST, t + 0.12e9, i));
                timeline.exchange(GUEST, self.exchange(GUEST, t + 0.13e9, i + 3));
            }
            convert(timeline, &mut converted);
        }
        timeline.finish();
        convert(timeline, &mut converted);
        converted
    }

    fn check(&self, timeline: &mut Timeline) -> Result<(), TestCaseError> {
        let converted = self.run(timeline);
        prop_assert!(converted.len() > 2000, "{} converted", converted.len());
        let mut last = i64::MIN;
        let mut worst = 0;
        for (t, mono, ns, error) in converted {
            let truth = self.mono(HOST, t).cast_signed();
            // The synthetic clock itself is cut to whole nanoseconds.
            prop_assert!(
                ns.abs_diff(truth) <= error + 1,
                "at {t}: {ns} for {truth} is {} off, stated {error}",
                ns.abs_diff(truth)
            );
            prop_assert!(ns >= last, "times keep their order");
            last = ns;
            worst = worst.max(error);
            prop_assert_eq!(timeline.to_reference(GUEST, mono).unwrap().ns, ns, "what was final has moved");
        }
        prop_assert_eq!(timeline.clock(GUEST, "vm1").unwrap().error_ns, worst);
        Ok(())
    }
}

fn facts(vms: Vec<Vm>) -> Facts {
    Facts { cpus: 2, privileged: true, btf: true, tsc_hz: HZ as u64, vms, ..Facts::default() }
}

fn machine(pid: u32, offset: i64, tsc_scaling: (u64, u32)) -> Vm {
    Vm { pid, comm: "qemu".into(), tsc_offsets: vec![offset; 2], tsc_scaling, cid: None }
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
            World { host, guest, host_tsc, vms, brackets, trips, elsewhere, unknown: false }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

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
    }
}

#[test]
fn good_readings_give_good_bounds() {
    let world = plain();
    let mut timeline = world.begin();
    world.check(&mut timeline).unwrap();
    let clock = timeline.clock(GUEST, "vm1").unwrap();
    assert!(clock.error_ns < 400, "{clock:?}");
    assert!(clock.detail.contains("process 100"), "{clock:?}");

    let mut world = plain();
    world.vms[1].tsc_offsets = world.vms[0].tsc_offsets.clone();
    let mut timeline = world.begin();
    world.check(&mut timeline).unwrap();
    let clock = timeline.clock(GUEST, "vm1").unwrap();
    assert_eq!(clock.detail, "the tsc-offsets of 2 virtual machines fit");
    assert!(clock.error_ns < 400_000, "{clock:?}");
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
            timeline.facts(domain, &Facts { xen_pv: true, ..facts(Vec::new()) });
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
        assert_eq!(clock.error_ns < 400, method == Method::CommonTsc, "{clock:?}");
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
