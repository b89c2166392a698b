//! By which way a domain's times get onto the line, and whether they still may.

use xweave_wire::message::Vm;

use super::{
    Exchange, Timeline,
    epoch::{Epoch, NoTsc, Way},
    map::Bracket,
    timeline::{MOST_EPOCHS, State},
    vm::{self, Found, Sighting},
};

/// Ticks by which a sighting may be missed: processors' counters may differ a little.
const SLACK: u64 = 2_000;

/// Processors of a guest whose TSCs differ by more than this have no common TSC.
const MOST_SPREAD: u64 = 1_000_000;

/// Epochs that a domain's TSC may end before the TSC is left alone.
const MOST_BY_TSC: usize = 16;

/// How often in one break a clock may contradict its TSC before the TSC is left alone.
const ATTEMPTS_BY_TSC: u32 = 3;

impl Timeline {
    pub(super) fn decide(&self, domain: u8) -> Way {
        let xen = [domain, self.reference].iter().all(|at| self.domains.get(at).is_some_and(|s| s.xen_pv));
        let found = self.trust(domain).and_then(|()| {
            if xen {
                self.common_tsc(domain).map(Way::CommonTsc)
            } else {
                self.find_vm(domain).map(Way::TscOffset)
            }
        });
        found.unwrap_or_else(Way::Exchange)
    }

    /// Whether a domain's TSC is looked at, or why not even that.
    fn trust(&self, domain: u8) -> Result<(), NoTsc> {
        let Some(state) = self.domains.get(&domain) else { return Ok(()) };
        let by_tsc = |epoch: &&Epoch| epoch.way.as_ref().is_some_and(|way| way.machine().is_some());
        let times = state.epochs.iter().filter(by_tsc).count();
        if state.epochs.len() > MOST_EPOCHS {
            return Err(NoTsc::ClockJumped(MOST_EPOCHS));
        }
        if times >= MOST_BY_TSC {
            return Err(NoTsc::Jumped(times));
        }
        if state.attempts >= ATTEMPTS_BY_TSC { Err(NoTsc::Contradicted) } else { Ok(()) }
    }

    /// A machine that changes nothing, if the domain's TSC is the reference's, or why it cannot be.
    fn common_tsc(&self, domain: u8) -> Result<Vm, NoTsc> {
        let same = vm::unchanged();
        match vm::identify(std::iter::once(&same), &self.sightings(domain)?, SLACK) {
            Found::One(_) => Ok(same),
            _ => Err(NoTsc::Emulated),
        }
    }

    /// The virtual machine that a domain is, or why that cannot be told.
    fn find_vm(&self, domain: u8) -> Result<Vm, NoTsc> {
        let sightings = self.sightings(domain)?;
        let (state, reference) = self.both(domain)?;
        // One without offsets fits nothing, which says nothing of the guest.
        let (with_offsets, without): (Vec<&Vm>, Vec<&Vm>) =
            reference.vms.iter().partition(|vm| !vm.tsc_offsets.is_empty());
        let pinned = state.pinned.filter(|pid| without.iter().all(|vm| vm.pid != *pid));
        let all = with_offsets.iter().copied().filter(|vm| pinned.is_none_or(|pid| pid == vm.pid));
        let vm = match vm::identify(all, &sightings, SLACK) {
            Found::One(vm) => vm.clone(),
            Found::Several(n) => return Err(NoTsc::Several(n)),
            Found::None => {
                return Err(pinned.map_or(NoTsc::NoneOf(with_offsets.len()), NoTsc::NotOf));
            }
        };
        match vm::offset(&vm) {
            Some((_, spread)) if spread <= MOST_SPREAD => Ok(vm),
            _ => Err(NoTsc::Differ),
        }
    }

    fn both(&self, domain: u8) -> Result<(&State, &State), NoTsc> {
        self.domains.get(&domain).zip(self.domains.get(&self.reference)).ok_or(NoTsc::NoReference)
    }

    /// What is known of a domain's TSC by that of the reference, or why nothing is.
    fn sightings(&self, domain: u8) -> Result<Vec<Sighting>, NoTsc> {
        let (state, reference) = self.both(domain)?;
        let epoch = state.current();
        if epoch.own.used() == 0 || reference.current().own.used() == 0 {
            return Err(NoTsc::Unusable);
        }
        let sightings: Vec<_> = epoch.kept.iter().filter_map(|exchange| self.sighting(exchange)).collect();
        if sightings.is_empty() {
            return Err(NoTsc::NoSightings);
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
            let reference = self.domains.get(&self.reference)?.current();
            let (sent, sent_error) = reference.hub.mono(sent_tsc)?;
            let (received, received_error) = reference.hub.mono(received_tsc)?;
            let earliest = sent.checked_sub_unsigned(sent_error)?;
            let latest = received.checked_add_unsigned(received_error)?;
            // The reading of the reference's own clocks is exact beside a round trip; twice its
            // error still covers it.
            let (first, first_error) = reference.own.tick(earliest)?;
            let (last, last_error) = reference.own.tick(latest)?;
            let ticks = |ns: u64| ns.saturating_mul(16);
            (first.wrapping_sub(ticks(first_error)), last.wrapping_add(ticks(last_error)))
        };
        Some(Sighting { host, guest: (sample.tsc_before, sample.tsc_after) })
    }

    /// Whether a domain's times, or others', are made of what its clock and its TSC say of each other.
    fn goes_by_tsc(&self, domain: u8) -> bool {
        let by_tsc = |state: &State| state.current().way.as_ref().is_some_and(|way| way.machine().is_some());
        if self.controller == Some(domain) {
            return true;
        }
        if domain == self.reference {
            return self.domains.values().any(by_tsc);
        }
        let undecided = |state: &State| state.current().way.is_none() && state.attempts < ATTEMPTS_BY_TSC;
        self.domains.get(&domain).is_some_and(|state| by_tsc(state) || undecided(state))
    }

    /// How a reading of a domain's clocks contradicts what was known of them.
    pub(super) fn jump_of_sample(&self, domain: u8, own: &Bracket) -> Option<String> {
        let epoch = self.domains.get(&domain)?.current();
        if !epoch.bounded || !self.goes_by_tsc(domain) {
            return None;
        }
        let ns = epoch.own.contradiction(own, epoch.spread())?;
        Some(format!("its clock stepped by {} against its TSC", seconds(ns)))
    }

    /// How an exchange contradicts what was known of a domain's clocks.
    pub(super) fn jump_of_exchange(&self, domain: u8, exchange: &Exchange) -> Option<String> {
        let state = self.domains.get(&domain)?;
        let epoch = state.current();
        if !epoch.bounded {
            return None;
        }
        if let Some(machine) = epoch.way.as_ref().and_then(Way::machine) {
            let sighting = self.sighting(exchange)?;
            return (!vm::fits(machine, &sighting, SLACK)).then(|| {
                let (offset, _) = vm::offset(machine).unwrap_or_default();
                format!("its TSC is no longer the host's and the offset {offset}")
            });
        }
        if self.controller == Some(domain) {
            return None;
        }
        let ns = epoch.hub.contradiction(&exchange.hub(), 0)?;
        Some(format!("its clock stepped by {} against the controller's", seconds(ns)))
    }

    /// How what the reference says of its virtual machines now contradicts what was known of a domain's.
    pub(super) fn jump_of_vm(&self, domain: u8, vms: &[Vm]) -> Option<String> {
        let epoch = self.domains.get(&domain)?.current();
        let Some(Way::TscOffset(known)) = &epoch.way else { return None };
        let same = |vm: &&Vm| vm::offset(vm) == vm::offset(known) && vm.tsc_scaling == known.tsc_scaling;
        let mut of_process = vms.iter().filter(|vm| vm.pid == known.pid).peekable();
        let Some(now) = of_process.peek().copied() else {
            return Some(format!("the virtual machine of process {} is no longer there", known.pid));
        };
        if of_process.any(|vm| same(&vm)) {
            return None;
        }
        let offset = |vm| vm::offset(vm).map_or("none".to_owned(), |(offset, _)| offset.to_string());
        Some(format!("its tsc-offset was changed from {} to {}", offset(known), offset(now)))
    }
}

/// As people read it, with a sign.
fn seconds(ns: i64) -> String {
    format!("{:+.6} s", ns as f64 / 1e9)
}
