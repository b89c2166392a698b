//! A woven plan: what it is made of, how it stands, what it has lost.

use std::{
    collections::{HashMap, HashSet},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use xweave_bytes::read_le;
use xweave_wire::{
    message::{Loss, Shared, SharingGuest, SiteLoss, SkippedSite},
    plan::Plan,
};

use crate::{
    addresses::Addresses,
    attach::{Link, Links, Watch, attach},
    error::Error,
    hook::{Hooked, Part},
    load::{Loaded, load, program_info},
    objects::{Objects, buckets},
    prototype::Mistyped,
    rings, shared,
    stand_in::Target,
};

/// How a recording stands; `enum xw_state` of the prelude.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum State {
    Off = 0,
    On = 1,
    Draining = 2,
}

/// An attached program whose omissions count.
struct Counted {
    /// The number of the first clause's site.
    site: u32,
    place: u32,
    /// None where it has been counted with an earlier place.
    program: Option<Arc<OwnedFd>>,
    link: Link,
    /// What the kernel had left out before the recording began.
    before: u64,
}

impl Counted {
    fn left_out(&self, links: &Links) -> Result<u64, Error> {
        let program = self.program.as_ref().map(|program| program_info(program.as_fd())).transpose()?;
        let by_link = links.missed(&self.link).map_err(libbpf_rs::Error::from)?;
        Ok(program.map_or(0, |info| info.recursion_misses) + by_link)
    }
}

/// A woven plan. Dropping it unweaves.
pub(crate) struct Woven {
    counted: Vec<Counted>,
    links: Links,
    /// What spares jump into: goes after the links.
    targets: Vec<Target>,
    /// By place in the plan.
    sites: Vec<u32>,
    objects: Objects,
    rings: Vec<MapHandle>,
    last_bucket: u32,
    /// Whether the host is told what buffers carry.
    shares: bool,
    /// Whether all guests that are recorded are believed what they tell.
    hears_all: bool,
    /// Whether a process of the host emulates this guest's network devices.
    emulated: bool,
    pub(crate) skipped: Vec<SkippedSite>,
}

impl Woven {
    /// Loads and attaches all of a plan, or nothing; but of the instructions that a program serves, those that
    /// can be hooked suffice.
    pub(crate) fn weave<'p>(
        plan: &'p Plan,
        addresses: &Addresses<'p>,
        watch: &Watch<'_>,
    ) -> Result<Self, Error> {
        let sites: Vec<u32> = plan
            .programs
            .iter()
            .flat_map(|program| &program.sites)
            .flat_map(|site| site.site..site.site + site.clauses)
            .collect();
        make_room(sites.len());
        let objects = Objects::load(plan, sites.len())?;
        let rings = rings::fill_table(&objects.map(rings::TABLE)?, plan.buffer)?;
        let (links, counted, skipped, targets) = Default::default();
        let mut woven = Self {
            counted,
            links,
            targets,
            sites,
            objects,
            rings,
            last_bucket: buckets(plan) - 1,
            shares: false,
            hears_all: false,
            emulated: false,
            skipped,
        };
        woven.set_state(State::Off)?;
        let Loaded { hooked: loaded, targets } = load(&woven.objects, plan, addresses)?;
        woven.targets = targets;
        let mistyped = Mistyped::of(plan, addresses);
        let attached = attach(&loaded, &mistyped, plan.serial_attach, watch)?;
        woven.links = attached.links;
        woven.skipped = attached.skipped;
        let mut seen = HashSet::new();
        woven.counted = loaded
            .into_iter()
            .zip(attached.by_hook)
            .filter(|(hooked, _)| hooked.part == Part::Main)
            .filter_map(|(Hooked { site, place, program, .. }, link)| {
                let program = seen.insert(program.as_raw_fd()).then_some(program);
                Some(Counted { site: site.site, place, program, link: link?, before: 0 })
            })
            .collect();
        Ok(woven)
    }

    /// The ring buffers, one for each CPU.
    pub(crate) fn take_rings(&mut self) -> Vec<MapHandle> {
        std::mem::take(&mut self.rings)
    }

    /// Turns recording on and off.
    pub(crate) fn set_state(&mut self, state: State) -> Result<(), Error> {
        if matches!(state, State::On) {
            for counted in &mut self.counted {
                counted.before = counted.left_out(&self.links)?;
            }
        }
        // `struct xw_config` of the prelude.
        let flags = [self.shares, self.hears_all, self.emulated].map(u32::from);
        let config = [state as u32, self.last_bucket].into_iter().chain(flags);
        let value: Vec<u8> = config.flat_map(u32::to_le_bytes).collect();
        self.objects.map("xw_config")?.update(&0u32.to_le_bytes(), &value, MapFlags::ANY)?;
        Ok(())
    }

    /// Has the host told, from the recording's beginning on, what buffers carry; says where, if anything that is woven
    /// tells it. `emulated`: a process of the host emulates this guest's network devices.
    pub(crate) fn share(&mut self, secret: [u64; 2], emulated: bool) -> Shared {
        self.emulated = emulated && shared::has_virtio_net();
        let nothing = Shared { emulated: self.emulated, ..Shared::default() };
        match self.objects.find_map(shared::TABLE).map(|table| shared::prepare(&table, secret)) {
            Some(Ok(pages)) => {
                self.shares = true;
                Shared { pages, ..nothing }
            }
            Some(Err(error)) => Shared { reason: Some(error.to_string()), ..nothing },
            None => nothing,
        }
    }

    /// Believes guests what they say of their buffers, from the recording's beginning on. `all`: no others are recorded.
    /// `emulators`: the processes that emulate network devices of such. `domids`: their numbers, where they are Xen's.
    pub(crate) fn listen_to(
        &mut self,
        guests: &[SharingGuest],
        all: bool,
        emulators: &[u32],
        domids: &[u16],
    ) -> Result<(), Error> {
        self.hears_all = all;
        if let Some(table) = self.objects.find_map(shared::GUESTS) {
            shared::listen_to(&table, guests)?;
        }
        if let Some(table) = self.objects.find_map(shared::EMULATORS) {
            shared::follow(&table, emulators)?;
        }
        if let Some(table) = self.objects.find_map(shared::XEN_GUESTS) {
            let domids: Vec<u32> = domids.iter().copied().map(u32::from).collect();
            shared::follow(&table, &domids)?;
        }
        Ok(())
    }

    /// What has been lost up to now.
    pub(crate) fn loss(&self) -> Result<Loss, Error> {
        let mut by_site: HashMap<u32, SiteLoss> = HashMap::new();
        let (mut unattributed, mut dropped) = (0, 0);
        let mut spare_runs: HashMap<u32, u64> = HashMap::new();
        let tallies = self.objects.map("xw_tallies")?;
        for (place, &site) in (0u32..).zip(&self.sites) {
            for cpu in tallies.lookup_percpu(&place.to_le_bytes(), MapFlags::ANY)?.unwrap_or_default() {
                let entry = by_site.entry(site).or_insert(SiteLoss { site, ..SiteLoss::default() });
                // `struct xw_tally` of the prelude.
                entry.dropped += word(&cpu, 0);
                entry.table_full += word(&cpu, 8);
                unattributed += word(&cpu, 16);
                *spare_runs.entry(place).or_default() += word(&cpu, 24);
                entry.missed += word(&cpu, 32);
                entry.faults += word(&cpu, 40);
                entry.overwritten += word(&cpu, 48);
                dropped += word(&cpu, 0);
            }
        }
        for counted in &self.counted {
            let left_out = counted.left_out(&self.links)?.saturating_sub(counted.before);
            let spare_runs = spare_runs.get(&counted.place).copied().unwrap_or(0);
            let empty = SiteLoss { site: counted.site, ..SiteLoss::default() };
            by_site.entry(counted.site).or_insert(empty).missed += left_out.saturating_sub(spare_runs);
        }
        let flows = if dropped > 0 { self.lossy_flows()? } else { Vec::new() };
        let lost = |site: &SiteLoss| *site != SiteLoss { site: site.site, ..SiteLoss::default() };
        let mut sites: Vec<_> = by_site.into_values().filter(lost).collect();
        sites.sort_by_key(|site| site.site);
        Ok(Loss { sites, flows, unattributed, ..Loss::default() })
    }

    /// Local flow IDs that lost records, with how many.
    fn lossy_flows(&self) -> Result<Vec<(u64, u64)>, Error> {
        let table = self.objects.map("xw_lossy_flows")?;
        let slots = table.lookup_batch(table.max_entries(), MapFlags::ANY, MapFlags::ANY)?;
        let flows = slots.map(|(_, slot)| (word(&slot, 0), word(&slot, 8)));
        Ok(flows.filter(|(flow, _)| *flow != 0).collect())
    }

    /// Takes all hooks away.
    pub(crate) fn unweave(&mut self) {
        self.links.clear();
        self.targets.clear();
    }
}

/// Each hook is held by a descriptor or five, of which a process is allowed a thousand.
fn make_room(sites: usize) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives in this frame.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return;
    }
    let wanted = 5 * sites as u64 + 256;
    if limit.rlim_cur < wanted {
        let raised = libc::rlimit { rlim_cur: wanted, rlim_max: limit.rlim_max.max(wanted) };
        // SAFETY: as above. Where it is not allowed, opening says what is missing.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    read_le(bytes, at).unwrap_or(0)
}
