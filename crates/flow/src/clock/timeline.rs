//! All domains on one time line.

use std::collections::BTreeMap;

use xweave_trace::{Clock, ClockBreak, Method, TscLine};
use xweave_wire::message::{ClockSample, DomainInfo, Vm, XenDomain};

use super::{
    Exchange, Stamp,
    epoch::{Epoch, Way},
    map::{Bracket, Map, along},
    vm,
};

/// Epochs that a domain may have. A clock that jumps more often is no longer looked at: no error of it is bounded then.
pub(super) const MOST_EPOCHS: usize = 64;

/// The same of attempts to begin an epoch: a clock may contradict itself before enough is known of it to use it.
const MOST_ATTEMPTS: u32 = 32;

/// Points of the reference's TSC that are told: the manifest, which has them, is written each second.
const MOST_POINTS: usize = 512;

/// Exchanges by which it is decided anew which virtual machine a domain is.
const FRESH_EXCHANGES: usize = 8;

/// Brings the times of all domains onto one line, while the recording goes on.
///
/// Feed it what agents report ([`Timeline::facts`], [`Timeline::sample`], [`Timeline::exchange`],
/// [`Timeline::vms`]), let it [`Timeline::settle`] once, then convert: what [`Timeline::horizon`] covers is
/// final. Times of one domain keep their order.
///
/// Nothing is final before it has been checked: by an exchange with the domain, one with the reference, and for a
/// virtual machine by [`Timeline::vms`]. So ask for these about once a second. Where one of them contradicts what
/// was known, [`Timeline::wants_exchange`] and [`Timeline::wants_vms`] say what is to be asked for at once.
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
    pub(super) reference: u8,
    pub(super) controller: Option<u8>,
    pub(super) domains: BTreeMap<u8, State>,
    controller_hz: u64,
    settled: bool,
    finished: bool,
    /// Until when the offsets of virtual machines were what they are taken for, in the reference's nanoseconds.
    vms_checked: Option<i64>,
}

/// What is known of one domain's clock.
pub(super) struct State {
    /// One after the other; never empty.
    pub(super) epochs: Vec<Epoch>,
    /// How often the last one was begun anew, before enough was known of it to use it.
    pub(super) attempts: u32,
    pub(super) vms: Vec<Vm>,
    pub(super) xen_pv: bool,
    pub(super) pinned: Option<u32>,
    exchanges: u64,
    tsc_hz: u64,
    /// Largest error of what was converted, but for breaks.
    worst: Option<u64>,
}

impl State {
    fn new(reference: usize) -> Self {
        Self {
            epochs: vec![Epoch::new(reference, None)],
            attempts: 0,
            vms: Vec::new(),
            xen_pv: false,
            pinned: None,
            exchanges: 0,
            tsc_hz: 0,
            worst: None,
        }
    }

    pub(super) fn current(&self) -> &Epoch {
        &self.epochs[self.epochs.len() - 1]
    }

    fn current_mut(&mut self) -> &mut Epoch {
        let last = self.epochs.len() - 1;
        &mut self.epochs[last]
    }

    /// The last epoch of which it is decided how its times get onto the line.
    fn decided(&self) -> Option<&Epoch> {
        self.epochs.iter().rfind(|epoch| epoch.way.is_some())
    }
}

impl Timeline {
    /// An empty time line: the `CLOCK_MONOTONIC` of the domain with that number.
    pub fn new(reference: u8) -> Self {
        Self {
            reference,
            controller: None,
            domains: BTreeMap::new(),
            controller_hz: 0,
            settled: false,
            finished: false,
            vms_checked: None,
        }
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
    pub fn facts(&mut self, domain: u8, facts: &DomainInfo) {
        let state = self.state(domain);
        state.tsc_hz = facts.tsc_hz;
        state.current_mut().own.set_nominal_hz(facts.tsc_hz);
        state.vms.clone_from(&facts.vms);
        state.xen_pv = facts.xen == Some(XenDomain::Pv);
    }

    /// That domain is the virtual machine of that process: known by another way, as its vsock
    /// address. It must still fit the exchanges.
    pub fn pin_vm(&mut self, domain: u8, pid: u32) {
        self.state(domain).pinned = Some(pid);
    }

    /// The clocks of a domain.
    pub fn sample(&mut self, domain: u8, sample: ClockSample) {
        let own = Bracket::of(&sample);
        if self.state(domain).current().is_before(own.mono_ns) {
            return;
        }
        if let Some(jump) = self.jump_of_sample(domain, &own) {
            self.begin_anew(domain, &jump);
        }
        self.state(domain).current_mut().own.add(own);
    }

    /// The clocks of a domain, and the controller's around them. Some ten per domain before
    /// [`Timeline::settle`] tell virtual machines apart; then one a second follows drift, and what jumps.
    pub fn exchange(&mut self, domain: u8, exchange: Exchange) {
        let state = self.state(domain);
        state.exchanges += 1;
        let Ok(mono) = i64::try_from(exchange.sample.mono_ns) else { return };
        let jump = self.jump_of_sample(domain, &exchange.own());
        if let Some(jump) = jump.or_else(|| self.jump_of_exchange(domain, &exchange)) {
            self.begin_anew(domain, &jump);
        }
        self.state(domain).current_mut().add(exchange, mono);
        self.decide_anew();
    }

    /// The virtual machines that a domain's hypervisor runs now. They matter if it is the reference: where the offset of
    /// one is another than it was, the clock of the domain that it is has jumped.
    pub fn vms(&mut self, domain: u8, vms: Vec<Vm>) {
        if domain != self.reference {
            return;
        }
        let numbers: Vec<u8> = self.domains.keys().copied().collect();
        for &number in &numbers {
            if let Some(jump) = self.jump_of_vm(number, &vms) {
                self.begin_anew(number, &jump);
            }
        }
        for number in numbers {
            self.state(number).current_mut().vms_read = true;
        }
        let reference = self.state(domain);
        reference.vms = vms;
        // They were read after the last exchange was answered.
        self.vms_checked = self.state(domain).current().checked;
        self.decide_anew();
    }

    /// Whether so much waits for a domain's times to become final that these are to be less exact, and sooner: one that
    /// sends as much as its connection bears answers late, and readings that took long say little.
    pub fn hurry(&mut self, domain: u8, on: bool) {
        let epoch = self.state(domain).current_mut();
        epoch.own.hurry(on);
        epoch.hub.hurry(on);
    }

    /// Decides by which way each domain's times get onto the line, for domains where that has not
    /// been decided. A decision stays for as long as nothing contradicts it.
    pub fn settle(&mut self) {
        self.settled = true;
        let nominal = self.nominal_hz();
        let numbers: Vec<u8> = self.domains.keys().copied().collect();
        for &number in &numbers {
            self.state(number).current_mut().hub.set_nominal_hz(nominal);
        }
        let checked = self.domains.get(&self.reference).and_then(|reference| reference.current().checked);
        self.vms_checked = self.vms_checked.or(checked);
        for number in numbers {
            if number != self.reference && self.state(number).current().way.is_none() {
                let way = self.decide(number);
                self.state(number).current_mut().way = Some(way);
            }
        }
    }

    /// Whether an exchange with a domain is needed as soon as may be: its clock has jumped.
    pub fn wants_exchange(&self, domain: u8) -> bool {
        let Some(epoch) = self.domains.get(&domain).map(State::current) else { return false };
        self.settled
            && epoch.jump.is_some()
            && epoch.kept.len() < FRESH_EXCHANGES
            && (domain == self.reference || epoch.way.is_none())
    }

    /// Whether the virtual machines of a domain's hypervisor are needed as soon as may be.
    pub fn wants_vms(&self, domain: u8) -> bool {
        let waits = |state: &State| {
            let epoch = state.current();
            epoch.jump.is_some() && epoch.way.is_none() && !epoch.vms_read
        };
        let waiting = self.domains.iter().any(|(number, state)| *number != self.reference && waits(state));
        self.settled && domain == self.reference && waiting
    }

    /// Up to which of its times a domain's records are converted finally, in nanoseconds of its own
    /// `CLOCK_MONOTONIC`. None while that is not known.
    pub fn horizon(&self, domain: u8) -> Option<u64> {
        if domain == self.reference {
            return Some(u64::MAX);
        }
        let epochs = &self.domains.get(&domain)?.epochs;
        let (epoch, earlier) = epochs.split_last()?;
        let horizon = if self.finished {
            self.convert(domain, 0).map(|_| i64::MAX)
        } else {
            let begun =
                |until: &i64| epoch.jump.is_none() || epoch.first.is_some_and(|first| *until >= first);
            self.final_until(domain, epoch).filter(begun)
        };
        let earlier = earlier.last().and_then(|epoch| self.final_until(domain, epoch));
        u64::try_from(horizon.max(earlier)?).ok()
    }

    /// A domain's time on the common line. None before [`Timeline::settle`], for a domain that was
    /// never heard of, and where there are too few samples for any answer.
    ///
    /// Beyond the horizon the answer is an extrapolation: its error grows, and it may change.
    pub fn to_reference(&mut self, domain: u8, mono_ns: u64) -> Option<Stamp> {
        let mono = i64::try_from(mono_ns).ok()?;
        let stamp = self.convert(domain, mono)?;
        let state = self.state(domain);
        if stamp.error_ns < u64::MAX {
            state.worst = state.worst.max(Some(stamp.error_ns));
        }
        Some(stamp)
    }

    /// No more samples will come: everything converts finally now. A last sample of each domain
    /// after its last record keeps the records' end from being extrapolated.
    pub fn finish(&mut self) {
        let numbers: Vec<u8> = self.domains.keys().copied().collect();
        for number in numbers {
            // Too little is known since the last jump.
            let unknown = self.domains[&number].current().jump.is_some() && !self.is_confirmed(number);
            let epoch = self.state(number).current_mut();
            epoch.bounded &= !unknown;
        }
        self.settle();
        for state in self.domains.values_mut() {
            state.current_mut().finish();
        }
        self.finished = true;
    }

    /// Which of the reference's virtual machines a domain is, or was before its clock jumped, once settled.
    pub fn vm(&self, domain: u8) -> Option<&Vm> {
        let epochs = &self.domains.get(&domain)?.epochs;
        epochs.iter().rev().find_map(|epoch| match &epoch.way {
            Some(Way::TscOffset(vm)) => Some(vm),
            _ => None,
        })
    }

    /// What the reference's TSC was when, if it is that of a machine which Xen runs, and its clock did not jump.
    fn tsc(&self) -> Option<TscLine> {
        let state =
            self.domains.get(&self.reference).filter(|state| state.xen_pv && state.epochs.len() == 1)?;
        let (points, error_ns) = state.current().own.points(MOST_POINTS)?;
        Some(TscLine { error_ns, points })
    }

    /// The manifest's entry for a domain's clock. Its error is the largest of what was converted;
    /// of what could be, if nothing was; `u64::MAX` if too little is known for any bound. What is within its breaks is
    /// left out of that.
    pub fn clock(&self, domain: u8, name: &str) -> Option<Clock> {
        let state = self.domains.get(&domain)?;
        let entry = |method, error_ns, detail: String| Clock {
            domain: name.to_owned(),
            method,
            error_ns,
            samples: state.epochs.iter().map(|epoch| epoch.own.used()).sum(),
            exchanges: state.exchanges,
            detail,
            breaks: self.breaks(domain, state),
            tsc: None,
        };
        if domain == self.reference {
            let clock = entry(Method::Reference, 0, "the time line itself".to_owned());
            return Some(Clock { tsc: self.tsc(), ..clock });
        }
        let epoch = state.decided()?;
        let reference = self.reference_of(epoch)?;
        let bound = || Some(epoch.own.bound()?.saturating_add(reference.own.bound()?));
        Some(match epoch.way.as_ref()? {
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
                let hubs = (self.hub(domain, epoch), self.hub(self.reference, reference));
                let bound = || Some(hubs.0.bound()?.saturating_add(hubs.1.bound()?));
                entry(Method::Exchange, state.worst.or_else(bound).unwrap_or(u64::MAX), why.to_string())
            }
        })
    }

    fn breaks(&self, domain: u8, state: &State) -> Vec<ClockBreak> {
        if domain == self.reference {
            return Vec::new();
        }
        let at = |epoch: &Epoch, mono: Option<i64>| Some(self.within(domain, epoch, mono?)?.ns);
        let after_jump =
            (0..).zip(&state.epochs).filter_map(|(nth, epoch)| Some((nth, epoch, epoch.jump.as_ref()?)));
        let made = after_jump.map(|(nth, epoch, jump): (usize, _, _)| ClockBreak {
            after_ns: nth.checked_sub(1).and_then(|nth| at(&state.epochs[nth], state.epochs[nth].ended)),
            before_ns: if epoch.bounded { at(epoch, epoch.first) } else { None },
            detail: jump.clone(),
        });
        made.collect()
    }

    fn nominal_hz(&self) -> u64 {
        let inside = self.controller.and_then(|at| self.domains.get(&at));
        inside.map_or(self.controller_hz, |state| state.tsc_hz)
    }

    fn state(&mut self, domain: u8) -> &mut State {
        let reference = self.domains.get(&self.reference).map_or(0, |state| state.epochs.len() - 1);
        self.domains.entry(domain).or_insert_with(|| State::new(reference))
    }

    /// The epoch of the reference that one of another domain is converted with.
    fn reference_of(&self, epoch: &Epoch) -> Option<&Epoch> {
        self.domains.get(&self.reference)?.epochs.get(epoch.reference)
    }

    /// The map between a domain's clock and the controller's TSC.
    fn hub<'e>(&self, domain: u8, epoch: &'e Epoch) -> &'e Map {
        if self.controller == Some(domain) { &epoch.own } else { &epoch.hub }
    }

    /// Ends a domain's epoch, as its clock has jumped. If it is the reference's, all others end with it.
    fn begin_anew(&mut self, domain: u8, jump: &str) {
        if domain != self.reference {
            return self.end_epoch(domain, jump);
        }
        let numbers: Vec<u8> = self.domains.keys().copied().filter(|number| *number != domain).collect();
        let jump_of_others = format!("the reference: {jump}");
        // While what they are converted with is as it was.
        for &number in &numbers {
            self.end_epoch(number, &jump_of_others);
        }
        self.end_epoch(domain, jump);
        self.vms_checked = None;
        let reference = &self.domains[&domain];
        let (at, bounded) = (reference.epochs.len() - 1, reference.current().bounded);
        for number in numbers {
            let epoch = self.state(number).current_mut();
            (epoch.reference, epoch.bounded) = (at, epoch.bounded && bounded);
        }
    }

    fn end_epoch(&mut self, domain: u8, jump: &str) {
        let confirmed = self.is_confirmed(domain);
        let nominal = self.nominal_hz();
        let bounded = self.domains.get(&self.reference).is_none_or(|reference| reference.current().bounded);
        // Either nothing of it has become final, or nothing that has will change.
        self.state(domain).current_mut().finish();
        let state = &self.domains[&domain];
        let current = state.current();
        let ended = if domain == self.reference { current.checked } else { self.verified(domain, current) };
        let earlier = state.epochs.iter().rev().nth(1).and_then(|earlier| earlier.ended);
        let mut next = Epoch::new(current.reference, Some(jump.to_owned()));
        next.own.set_nominal_hz(state.tsc_hz);
        next.hub.set_nominal_hz(nominal);
        if let (true, Some(ended)) = (confirmed, ended.max(earlier)) {
            self.state(domain).current_mut().ended = Some(ended);
            let floor = self.within(domain, self.domains[&domain].current(), ended).map(|stamp| stamp.ns);
            let state = self.state(domain);
            if let Some(floor) = floor {
                state.current_mut().ceiling = floor;
                next.floor = floor;
            }
            state.attempts = 0;
            state.epochs.push(next);
        } else {
            // Nothing of it was final: the break that it was to end goes on.
            let state = self.state(domain);
            let current = state.current_mut();
            next.floor = current.floor;
            next.jump = current.jump.take().or(next.jump);
            *current = next;
            state.attempts = state.attempts.saturating_add(1);
        }
        let state = self.state(domain);
        let often = state.epochs.len() > MOST_EPOCHS || state.attempts >= MOST_ATTEMPTS;
        state.current_mut().bounded = bounded && !often;
    }

    /// Decides for those whose clocks have jumped, once enough was read since.
    fn decide_anew(&mut self) {
        let fresh = |state: &State| state.current().kept.len() >= FRESH_EXCHANGES;
        if !self.settled || !self.domains.get(&self.reference).is_some_and(fresh) {
            return;
        }
        let ready = |state: &State| {
            let epoch = state.current();
            epoch.way.is_none() && epoch.jump.is_some() && epoch.vms_read && fresh(state)
        };
        let others = self.domains.iter().filter(|(number, _)| **number != self.reference);
        let ready: Vec<u8> = others.filter(|(_, state)| ready(state)).map(|(number, _)| *number).collect();
        for number in ready {
            let way = self.decide(number);
            self.state(number).current_mut().way = Some(way);
        }
    }

    /// Whether enough is known of a domain's epoch to bound errors in it. All that became final is of such epochs.
    fn is_confirmed(&self, domain: u8) -> bool {
        let epoch = self.domains[&domain].current();
        if domain == self.reference {
            return epoch.checked.is_some() && (epoch.own.is_proven() || epoch.hub.is_proven());
        }
        let Some(way) = &epoch.way else { return false };
        let map = if way.machine().is_some() { &epoch.own } else { self.hub(domain, epoch) };
        let verified = self.verified(domain, epoch).zip(epoch.first);
        map.is_proven() && verified.is_some_and(|(until, first)| until >= first)
    }

    /// Until when more readings will not change how an epoch's times convert, in the domain's nanoseconds.
    fn final_until(&self, domain: u8, epoch: &Epoch) -> Option<i64> {
        let reference = self.reference_of(epoch)?;
        let (own, of_reference) = match epoch.way.as_ref()?.machine() {
            Some(_) => (epoch.own.horizon()?, reference.own.horizon()?),
            None => (self.hub(domain, epoch).horizon()?, self.hub(self.reference, reference).horizon()?),
        };
        let horizon = match of_reference {
            i64::MAX => own,
            ns => own.min(self.in_domain(domain, epoch, ns)?),
        };
        match epoch.ended {
            Some(ended) => Some(horizon.min(ended)),
            None if epoch.bounded => Some(horizon.min(self.verified(domain, epoch)?)),
            None => Some(horizon),
        }
    }

    /// Until when nothing has contradicted an epoch, in the domain's nanoseconds.
    fn verified(&self, domain: u8, epoch: &Epoch) -> Option<i64> {
        let reference = self.reference_of(epoch)?;
        let (own, of_reference) = match epoch.way.as_ref()?.machine() {
            Some(_) => (epoch.own.last()?, reference.own.last()?),
            None => (self.hub(domain, epoch).last()?, self.hub(self.reference, reference).last()?),
        };
        let of_reference = self.in_domain(domain, epoch, of_reference.min(reference.checked?))?;
        let verified = own.min(epoch.checked?).min(of_reference);
        match epoch.way.as_ref()? {
            Way::TscOffset(_) => Some(verified.min(self.in_domain(domain, epoch, self.vms_checked?)?)),
            Way::CommonTsc(_) | Way::Exchange(_) => Some(verified),
        }
    }

    /// A time of the reference in a domain; two nanoseconds less, as each map rounds.
    fn in_domain(&self, domain: u8, epoch: &Epoch, ns: i64) -> Option<i64> {
        let reference = self.reference_of(epoch)?;
        let (mono, _) = if let Some(machine) = epoch.way.as_ref()?.machine() {
            let (offset, _) = vm::offset(machine)?;
            epoch.own.mono(vm::guest_tsc(machine, offset, reference.own.tick(ns)?.0))?
        } else {
            let tick = self.hub(self.reference, reference).tick(ns)?.0;
            self.hub(domain, epoch).mono(tick)?
        };
        Some(mono.saturating_sub(2))
    }

    fn convert(&self, domain: u8, mono: i64) -> Option<Stamp> {
        if domain == self.reference {
            return Some(Stamp { ns: mono, error_ns: 0 });
        }
        let epochs = &self.domains.get(&domain)?.epochs;
        let over = |epoch: &Epoch| epoch.ended.is_some_and(|ended| ended < mono);
        let at = epochs.partition_point(over).min(epochs.len() - 1);
        let (epoch, earlier) = (&epochs[at], at.checked_sub(1).map(|at| &epochs[at]));
        if epoch.jump.is_none() || epoch.first.is_some_and(|first| mono >= first) {
            return self.within(domain, epoch, mono);
        }
        let unbounded = |stamp: Stamp| Stamp { error_ns: u64::MAX, ..stamp };
        let Some(earlier) = earlier else { return self.within(domain, epoch, mono).map(unbounded) };
        let begins = epoch.first.and_then(|first| Some((first, self.within(domain, epoch, first)?.ns)));
        match begins {
            Some((first, first_ns)) => {
                let ended = earlier.ended?;
                let ended_ns = self.within(domain, earlier, ended)?.ns;
                let ns = along(mono, ended, ended_ns, first - ended, first_ns.saturating_sub(ended_ns));
                Some(Stamp { ns, error_ns: u64::MAX })
            }
            // Nothing was heard of it after the jump, and nothing will be.
            None if self.finished => self.within(domain, earlier, mono).map(unbounded),
            None => None,
        }
    }

    /// A time by an epoch's maps, whether or not it lies in the epoch.
    fn within(&self, domain: u8, epoch: &Epoch, mono: i64) -> Option<Stamp> {
        let reference = self.reference_of(epoch)?;
        let (ns, error) = if let Some(machine) = epoch.way.as_ref()?.machine() {
            let (offset, spread) = vm::offset(machine)?;
            let (tick, guest_error) = epoch.own.tick(mono)?;
            let (ns, host_error) = reference.own.mono(vm::host_tsc(machine, offset, tick)?)?;
            // A tick is at most some nanoseconds on any machine that has a TSC.
            (ns, guest_error.saturating_add(host_error).saturating_add(spread.saturating_mul(2)))
        } else {
            let (tick, error) = self.hub(domain, epoch).tick(mono)?;
            let (ns, reference_error) = self.hub(self.reference, reference).mono(tick)?;
            (ns, error.saturating_add(reference_error))
        };
        Some(epoch.stamp(ns, error.saturating_add(2)))
    }
}
