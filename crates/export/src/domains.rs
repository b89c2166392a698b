//! What a trace was recorded of: a machine of the viewer's for each domain, and a group of tracks.
//!
//! The viewer counts machines from 0 and tells them by these numbers: they are those of the domains' order, and the
//! groups' names have them. Arrows go between tracks of one machine only, so the steps of flows in any domain are on
//! tracks of the first.

use std::{collections::HashMap, io};

use perfetto_trace_proto::{ClockSnapshot, SystemInfo, Utsname, clock_snapshot::Clock, trace_packet::Data};
use xweave_trace::{Clock as DomainClock, Domain, Method, Role, Trace};

use crate::packets::{MachineId, Packets, Track, shown};

/// `BuiltinClock` of Perfetto's schema.
mod clock {
    pub(super) const REALTIME: u32 = 1;
    pub(super) const MONOTONIC: u32 = 3;
    pub(super) const BOOTTIME: u32 = 6;
}

/// Groups of the viewer's, in their order, behind those of the domains.
pub(crate) const FLOWS_RANK: i32 = 300;
pub(crate) const TRANSACTIONS_RANK: i32 = 301;

/// A domain, as the viewer has it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub machine: MachineId,
    /// The group of its tracks.
    pub group: Track,
}

/// The domains of a trace.
pub(crate) struct Domains {
    places: HashMap<u8, Place>,
    numbers: HashMap<String, u8>,
}

impl Domains {
    /// Tells of the machines, of their clocks, and begins the groups.
    pub(crate) fn begin(trace: &Trace, packets: &mut Packets<'_>) -> io::Result<Self> {
        let manifest = trace.manifest();
        let mut all: Vec<&Domain> = manifest.domains.iter().collect();
        all.sort_by_key(|domain| domain.name != manifest.reference);
        let (mut places, mut numbers) = (HashMap::new(), HashMap::new());
        for (at, domain) in (0_i32..).zip(&all) {
            let clock = manifest.clocks.iter().find(|clock| clock.domain == domain.name);
            let machine = (at > 0).then(|| u32::from(domain.number));
            packets.write(machine, None, Data::SystemInfo(system(domain, clock)))?;
            packets.write(machine, Some(manifest.start_ns), Data::ClockSnapshot(clocks(trace)))?;
            let name = format!("{} (machine {at}): {}", domain.name, error(clock));
            let group = packets.named(None, &name, Some(described(domain, clock)), at)?;
            places.insert(domain.number, Place { machine, group });
            numbers.insert(domain.name.clone(), domain.number);
            packets.counts.domains += 1;
        }
        Ok(Self { places, numbers })
    }

    /// A domain by its number.
    pub(crate) fn place(&self, number: u8) -> Option<Place> {
        self.places.get(&number).copied()
    }

    /// A domain by its name.
    pub(crate) fn named(&self, name: &str) -> Option<Place> {
        self.place(*self.numbers.get(name)?)
    }
}

/// How far a domain's times may be from the truth.
pub(crate) fn error(clock: Option<&DomainClock>) -> String {
    match clock {
        None => "clock error unknown".to_owned(),
        Some(clock) if clock.method == Method::Reference => "the trace's clock".to_owned(),
        Some(clock) => format!("clock error ≤ {} ns", clock.error_ns),
    }
}

fn described(domain: &Domain, clock: Option<&DomainClock>) -> String {
    let is = if domain.role == Role::Host { "host" } else { "guest" };
    let detail = clock.map(|clock| format!("; {}", clock.detail)).unwrap_or_default();
    shown(&format!("{is} {}, Linux {}: {}{detail}", domain.hostname, domain.kernel, error(clock)))
}

/// The viewer's table of machines has a kernel's version: here that says which domain it is.
fn system(domain: &Domain, clock: Option<&DomainClock>) -> SystemInfo {
    let utsname = Utsname {
        sysname: Some("Linux".to_owned()),
        release: Some(shown(&domain.kernel)),
        version: Some(shown(&format!("{}: {}", domain.name, error(clock)))),
        machine: Some("x86_64".to_owned()),
    };
    SystemInfo { utsname: Some(utsname), num_cpus: Some(domain.cpus), ..Default::default() }
}

/// All times of a trace are those of one clock. The viewer takes that to go on while the machine sleeps, and tells the time
/// of the day by it.
fn clocks(trace: &Trace) -> ClockSnapshot {
    let start = crate::packets::time(trace.manifest().start_ns);
    let created = trace.manifest().created_ns;
    let reads = |clock_id, ns| Clock { clock_id: Some(clock_id), timestamp: Some(ns), ..Default::default() };
    let clocks = [(clock::MONOTONIC, start), (clock::BOOTTIME, start), (clock::REALTIME, created)];
    ClockSnapshot {
        clocks: clocks.into_iter().map(|(clock, ns)| reads(clock, ns)).collect(),
        ..Default::default()
    }
}
