//! All domains on one time line.

use std::collections::BTreeMap;

use xweave_trace::{Clock, Method};
use xweave_wire::message::{ClockSample, Facts, Vm};

use super::{
    Exchange, Stamp,
    map::{Bracket, Map, Spacing},
    vm::{self, Found, Sighting},
};

/// Samples come several a second, with brackets of some ten nanoseconds.
const SAMPLES: Spacing = Spacing { least_ns: 100_000_000, most_ns: 1_000_000_000 };

/// Exchanges come about once a second, with brackets of some ten microseconds.
const EXCHANGES: Spacing = Spacing { least_ns: 500_000_000, most_ns: 4_000_000_000 };

/// Exchanges that are kept to find a guest's machine: the tightest.
const SIGHTINGS: usize = 64;

/// Ticks by which a sighting may be missed: processors' counters may differ a little.
const SLACK: u64 = 2_000;

/// Processors of a guest whose TSCs differ by more than this have no common TSC.
const MOST_SPREAD: u64 = 1_000_000;

/// Brings the times of all domains onto one line, while the recording goes on.
///
/// Feed it what agents report ([`Timeline::facts`], [`Timeline::sample`], [`Timeline::exchange`]),
/// let it [`Timeline::settle`] once, then convert: what [`Timeline::horizon`] covers is final.
/// Times of one domain keep their order.
///
/// ```
/// use xweave_flow::clock::Timeline;
/// use xweave_wire::message::ClockSample;
///
/// let mut timeline = Timeline::new(1);
/// for i in 1..9u64 {
///     let (mono_ns, tsc) = (i * 250_000_000, i * 500_000_000);
///     timeline.sample(1, ClockSample { tsc_before: tsc - 20, mono_ns, tsc_after: tsc + 20, real_ns: 0 });
/// }
/// timeline.settle();
/// assert_eq!(timeline.to_reference(1, 5).map(|stamp| (stamp.ns, stamp.error_ns)), Some((5, 0)));
/// ```
pub struct Timeline {
    reference: u8,
    controller: Option<u8>,
    controller_hz: u64,
    domains: BTreeMap<u8, State>,
}

/// What is known of one domain's clock.
struct State {
    /// Its clock and its own TSC.
    own: Map,
    /// Its clock and the controller's TSC.
    hub: Map,
    /// The tightest exchanges.
    kept: Vec<Exchange>,
    exchanges: u64,
    tsc_hz: u64,
    vms: Vec<Vm>,
    xen_pv: bool,
    pinned: Option<u32>,
    way: Option<Way>,
    /// Largest error of what was converted.
    worst: Option<u64>,
}

/// How a domain's times get onto the line.
enum Way {
    TscOffset(Vm),
    /// With a machine that changes nothing.
    CommonTsc(Vm),
    /// With the reason why not by the TSC.
    Exchange(String),
}

impl State {
    fn new() -> Self {
        Self {
            own: Map::new(SAMPLES),
            hub: Map::new(EXCHANGES),
            kept: Vec::new(),
            exchanges: 0,
            tsc_hz: 0,
            vms: Vec::new(),
            xen_pv: false,
            pinned: None,
            way: None,
            worst: None,
        }
    }
}

impl Timeline {
    /// An empty time line: the `CLOCK_MONOTONIC` of the domain with that number.
    pub fn new(reference: u8) -> Self {
        Self { reference, controller: None, controller_hz: 0, domains: BTreeMap::new() }
    }

    /// The controller runs in that domain and so reads that domain's TSC: one round trip less to
    /// doubt in each exchange.
    pub fn controller_in(&mut self, domain: u8) {
        self.controller = Some(domain);
    }

    /// The rate of the controller's TSC, for a controller that runs in none of the domains.
    pub fn controller_hz(&mut self, hz: u64) {
        self.controller_hz = hz;
    }

    /// What an agent said of its domain. The reference's virtual machines are those that guests are
    /// looked for among.
    pub fn facts(&mut self, domain: u8, facts: &Facts) {
        let state = self.state(domain);
        state.tsc_hz = facts.tsc_hz;
        state.own.set_nominal_hz(facts.tsc_hz);
        state.vms.clone_from(&facts.vms);
        state.xen_pv = facts.xen_pv;
    }

    /// That domain is the virtual machine of that process: known by another way, as its vsock
    /// address. It must still fit the exchanges.
    pub fn pin_vm(&mut self, domain: u8, pid: u32) {
        self.state(domain).pinned = Some(pid);
    }

    /// The clocks of a domain.
    pub fn sample(&mut self, domain: u8, sample: ClockSample) {
        let ClockSample { tsc_before, mono_ns, tsc_after, .. } = sample;
        self.state(domain).own.add(Bracket { before: tsc_before, mono_ns, after: tsc_after });
    }

    /// The clocks of a domain, and the controller's around them. Some ten per domain before
    /// [`Timeline::settle`] tell virtual machines apart; then one a second follows drift.
    pub fn exchange(&mut self, domain: u8, exchange: Exchange) {
        self.sample(domain, exchange.sample);
        let state = self.state(domain);
        let Exchange { sent_tsc, sample, received_tsc } = exchange;
        state.hub.add(Bracket { before: sent_tsc, mono_ns: sample.mono_ns, after: received_tsc });
        state.exchanges += 1;
        state.kept.push(exchange);
        if state.kept.len() > SIGHTINGS {
            let width = |e: &Exchange| e.received_tsc.wrapping_sub(e.sent_tsc);
            state.kept.sort_by_key(width);
            state.kept.truncate(SIGHTINGS / 2);
        }
    }

    /// Decides by which way each domain's times get onto the line, for domains where that has not
    /// been decided. A decision stays: what was converted before must not move.
    pub fn settle(&mut self) {
        let inside = self.controller.and_then(|at| self.domains.get(&at));
        let nominal = inside.map_or(self.controller_hz, |state| state.tsc_hz);
        let numbers: Vec<u8> = self.domains.keys().copied().collect();
        for &number in &numbers {
            self.state(number).hub.set_nominal_hz(nominal);
        }
        for number in numbers {
            if number != self.reference && self.domains[&number].way.is_none() {
                let way = self.decide(number);
                self.state(number).way = Some(way);
            }
        }
    }

    /// Up to which of its times a domain's records are converted finally, in nanoseconds of its own
    /// `CLOCK_MONOTONIC`. None while that is not known.
    pub fn horizon(&self, domain: u8) -> Option<u64> {
        if domain == self.reference {
            return Some(u64::MAX);
        }
        let state = self.domains.get(&domain)?;
        let reference = self.domains.get(&self.reference)?;
        // The time in this domain when the reference's map was last final; two nanoseconds less,
        // as each map rounds.
        let horizon = match state.way.as_ref()? {
            Way::TscOffset(machine) | Way::CommonTsc(machine) => {
                let (offset, _) = vm::offset(machine)?;
                let until = |host| Some(state.own.mono(vm::guest_tsc(machine, offset, host))?.0 - 2);
                joint(state.own.horizon()?, &reference.own, until)?
            }
            Way::Exchange(_) => {
                let until = |tick| Some(self.hub(domain)?.mono(tick)?.0 - 2);
                joint(self.hub(domain)?.horizon()?, self.hub(self.reference)?, until)?
            }
        };
        u64::try_from(horizon).ok()
    }

    /// A domain's time on the common line. None before [`Timeline::settle`], for a domain that was
    /// never heard of, and where there are too few samples for any answer.
    ///
    /// Beyond the horizon the answer is an extrapolation: its error grows, and it may change.
    pub fn to_reference(&mut self, domain: u8, mono_ns: u64) -> Option<Stamp> {
        let mono = i64::try_from(mono_ns).ok()?;
        let stamp = self.convert(domain, mono)?;
        let state = self.state(domain);
        state.worst = state.worst.max(Some(stamp.error_ns));
        Some(stamp)
    }

    /// No more samples will come: everything converts finally now. A last sample of each domain
    /// after its last record keeps the records' end from being extrapolated.
    pub fn finish(&mut self) {
        for state in self.domains.values_mut() {
            state.own.finish();
            state.hub.finish();
        }
    }

    /// Which of the reference's virtual machines a domain is, once settled.
    pub fn vm(&self, domain: u8) -> Option<&Vm> {
        match self.domains.get(&domain)?.way.as_ref()? {
            Way::TscOffset(vm) => Some(vm),
            Way::CommonTsc(_) | Way::Exchange(_) => None,
        }
    }

    /// The manifest's entry for a domain's clock. Its error is the largest of what was converted;
    /// of what could be, if nothing was; `u64::MAX` if too little is known for any bound.
    pub fn clock(&self, domain: u8, name: &str) -> Option<Clock> {
        let state = self.domains.get(&domain)?;
        let entry = |method, error_ns, detail: String| Clock {
            domain: name.to_owned(),
            method,
            error_ns,
            samples: state.own.used(),
            exchanges: state.exchanges,
            detail,
        };
        if domain == self.reference {
            return Some(entry(Method::Reference, 0, "the time line itself".to_owned()));
        }
        let reference = self.domains.get(&self.reference)?;
        let bound = || Some(state.own.bound()? + reference.own.bound()?);
        Some(match state.way.as_ref()? {
            Way::CommonTsc(_) => {
                let detail = "Xen lets both read the machine's TSC".to_owned();
                entry(Method::CommonTsc, state.worst.or_else(bound).unwrap_or(u64::MAX), detail)
            }
            Way::TscOffset(vm) => {
                let (offset, _) = vm::offset(vm)?;
                let detail = format!("the machine of process {} ({}), tsc-offset {offset}", vm.pid, vm.comm);
                entry(Method::TscOffset, state.worst.or_else(bound).unwrap_or(u64::MAX), detail)
            }
            Way::Exchange(why) => {
                let bound = || Some(self.hub(domain)?.bound()? + self.hub(self.reference)?.bound()?);
                entry(Method::Exchange, state.worst.or_else(bound).unwrap_or(u64::MAX), why.clone())
            }
        })
    }

    fn state(&mut self, domain: u8) -> &mut State {
        self.domains.entry(domain).or_insert_with(State::new)
    }

    /// The map between a domain's clock and the controller's TSC.
    fn hub(&self, domain: u8) -> Option<&Map> {
        let state = self.domains.get(&domain)?;
        Some(if self.controller == Some(domain) { &state.own } else { &state.hub })
    }

    fn convert(&self, domain: u8, mono: i64) -> Option<Stamp> {
        if domain == self.reference {
            return Some(Stamp { ns: mono, error_ns: 0 });
        }
        let state = self.domains.get(&domain)?;
        match state.way.as_ref()? {
            Way::TscOffset(machine) | Way::CommonTsc(machine) => {
                let (offset, spread) = vm::offset(machine)?;
                let (tick, guest_error) = state.own.tick(mono)?;
                let host = vm::host_tsc(machine, offset, tick)?;
                let (ns, host_error) = self.domains.get(&self.reference)?.own.mono(host)?;
                // A tick is at most some nanoseconds on any machine that has a TSC.
                let spread = spread.saturating_mul(2);
                Some(Stamp { ns, error_ns: guest_error + host_error + spread + 2 })
            }
            Way::Exchange(_) => {
                let (tick, error) = self.hub(domain)?.tick(mono)?;
                let (ns, reference_error) = self.hub(self.reference)?.mono(tick)?;
                Some(Stamp { ns, error_ns: error + reference_error + 2 })
            }
        }
    }

    fn decide(&self, domain: u8) -> Way {
        let xen = [domain, self.reference].iter().all(|at| self.domains.get(at).is_some_and(|s| s.xen_pv));
        let found = if xen {
            self.common_tsc(domain).map(Way::CommonTsc)
        } else {
            self.find_vm(domain).map(Way::TscOffset)
        };
        found.unwrap_or_else(Way::Exchange)
    }

    /// A machine that changes nothing, if the domain's TSC is the reference's, or why it cannot be.
    fn common_tsc(&self, domain: u8) -> Result<Vm, String> {
        let same = vm::unchanged();
        match vm::identify(std::iter::once(&same), &self.sightings(domain)?, SLACK) {
            Found::One(_) => Ok(same),
            _ => Err("Xen emulates its TSC".to_owned()),
        }
    }

    /// The virtual machine that a domain is, or why that cannot be told.
    fn find_vm(&self, domain: u8) -> Result<Vm, String> {
        let sightings = self.sightings(domain)?;
        let (state, reference) = self.both(domain)?;
        let all = reference.vms.iter().filter(|vm| state.pinned.is_none_or(|pid| pid == vm.pid));
        let vm = match vm::identify(all, &sightings, SLACK) {
            Found::One(vm) => vm.clone(),
            Found::Several(n) => return Err(format!("the tsc-offsets of {n} virtual machines fit")),
            Found::None => {
                let n = reference.vms.len();
                return Err(match state.pinned {
                    Some(pid) => {
                        format!("the tsc-offset of the virtual machine of process {pid} does not fit")
                    }
                    None => format!("no tsc-offset fits (of {n} virtual machines)"),
                });
            }
        };
        match vm::offset(&vm) {
            Some((_, spread)) if spread <= MOST_SPREAD => Ok(vm),
            _ => Err("its processors' TSCs differ".to_owned()),
        }
    }

    fn both(&self, domain: u8) -> Result<(&State, &State), String> {
        self.domains
            .get(&domain)
            .zip(self.domains.get(&self.reference))
            .ok_or_else(|| "the reference was not heard of".to_owned())
    }

    /// What is known of a domain's TSC by that of the reference, or why nothing is.
    fn sightings(&self, domain: u8) -> Result<Vec<Sighting>, String> {
        let (state, reference) = self.both(domain)?;
        if state.own.used() == 0 || reference.own.used() == 0 {
            return Err("no TSC that can be used on both sides".to_owned());
        }
        let sightings: Vec<_> = state.kept.iter().filter_map(|exchange| self.sighting(exchange)).collect();
        if sightings.is_empty() {
            return Err("no exchanges that tell virtual machines apart".to_owned());
        }
        Ok(sightings)
    }

    /// An exchange with the controller's TSC brought to the reference's.
    fn sighting(&self, exchange: &Exchange) -> Option<Sighting> {
        let Exchange { sent_tsc, sample, received_tsc } = *exchange;
        if sample.tsc_before == 0 && sample.tsc_after == 0 {
            return None;
        }
        let host = if self.controller == Some(self.reference) {
            (sent_tsc, received_tsc)
        } else {
            let reference = &self.domains.get(&self.reference)?.own;
            let hub = self.hub(self.reference)?;
            let (sent, sent_error) = hub.mono(sent_tsc)?;
            let (received, received_error) = hub.mono(received_tsc)?;
            let earliest = sent.checked_sub_unsigned(sent_error)?;
            let latest = received.checked_add_unsigned(received_error)?;
            // The reading of the reference's own clocks is exact beside a round trip; twice its
            // error still covers it.
            let (first, first_error) = reference.tick(earliest)?;
            let (last, last_error) = reference.tick(latest)?;
            let ticks = |ns: u64| ns.saturating_mul(16);
            (first.wrapping_sub(ticks(first_error)), last.wrapping_add(ticks(last_error)))
        };
        Some(Sighting { host, guest: (sample.tsc_before, sample.tsc_after) })
    }
}

/// The earlier of a domain's own horizon and the reference's, the latter brought into the domain.
fn joint(own: i64, reference: &Map, until: impl Fn(u64) -> Option<i64>) -> Option<i64> {
    match reference.horizon()? {
        i64::MAX => Some(own),
        horizon => Some(own.min(until(reference.tick(horizon)?.0)?)),
    }
}
