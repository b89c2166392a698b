//! Worlds whose truth is known: a host, mostly with a guest, in which one mechanism delays some of the requests to a server.
//!
//! A [`World`] is composed of a number, a [`Mechanism`] and an [`Evidence`]: the same three give the same world. It has some
//! hundred requests, each a script of the events that the kernels' probes write on its way: the client's send, the wakeup of
//! vhost, the vCPU's halt and entry, the guest's interrupt and softirq, the server's receive, and back. In some requests the
//! mechanism strikes, for so long that it is nearly all of the variance. So what an analysis names first has to be one of the
//! mechanism's [truths](Mechanism::truths), or nothing.
//!
//! Modules: `stage` has CPUs, vCPUs and what an event is put on, `threads` who there is, `mechanism` the mechanisms and their
//! truths, `path` the way of a request, `service` what the server does, `delivery` and `condition` waits that others end than those
//! who were waited for, `fanout` a server that asks several others, `backend` what its disk and timers do in the host, `limits` what
//! may not go on, `frames` records of frames (`on_way`), `compose` puts requests one after the other, `decoy` what has nothing to do with them,
//! `evidence` takes out what a recording does not have, `listing` prints events.
//!
//! ```
//! use xweave_synthetic::scene::{Evidence, Mechanism, World};
//!
//! let world = World::compose(1, Mechanism::VcpuPreempted, Evidence::Native);
//! assert!(world.requests() >= 60 && !world.list().is_empty());
//! ```

mod backend;
mod compose;
mod condition;
mod decoy;
mod delivery;
mod evidence;
mod fanout;
mod frames;
mod holds;
mod limits;
mod listing;
mod mechanism;
mod on_way;
mod path;
mod service;
mod stage;
mod threads;

use std::path::Path;

use xweave_trace::{
    Clock, Domain, DomainVm, Error, EventLoss, Loss, Manifest, Role, Writer,
    event::{Event, Kind, Names},
};

use xweave_wire::record::Record;

use self::{
    compose::Asked,
    mechanism::Where,
    path::{PORT, Scene},
    stage::{GUEST, HOST, Stage, host},
    threads::{QEMU, VCPUS},
};
pub use self::{
    evidence::Evidence,
    mechanism::{Mechanism, Truth},
};
use crate::random::Random;

/// A world, and what was recorded of it.
#[derive(Debug)]
pub struct World {
    events: Vec<Event>,
    /// Of frames, and the domain of each.
    records: Vec<(u8, Record)>,
    datagrams: bool,
    names: Names,
    asked: Asked,
    evidence: Evidence,
    /// Both ends are in the host's kernel.
    local: bool,
    /// How far apart the clocks may be, in nanoseconds.
    error_ns: u64,
}

impl World {
    /// Composes the world of a number: a mechanism in it, and what is recorded.
    pub fn compose(number: u64, mechanism: Mechanism, evidence: Evidence) -> Self {
        let salt = (mechanism as u64) << 8 | evidence as u64;
        let mut random = Random::new(number.wrapping_mul(0x9e37_79b9).wrapping_add(salt << 40));
        let local = match mechanism.place() {
            Where::Guest => false,
            Where::Local => true,
            Where::Any => !evidence.needs_guest() && random.percent(40),
        };
        let several = mechanism.has_other_clients();
        let blocking = !several && random.percent(50);
        let (polls, error_ns) = ([0, 50_000, 200_000][random.place(3)], [0, 150, 900][random.place(3)]);
        let in_qemu = random.percent(50);
        let begin = 1_000_000_000;
        let mut stage = Stage::new(random);
        stage.polls = if matches!(mechanism, Mechanism::VcpuHalted) { 0 } else { polls };
        let server = if local { HOST } else { GUEST };
        for (domain, tid, process, name) in threads::all(server, in_qemu) {
            let name = stage.names.give(&name);
            let event = Event::new(Kind::Thread, domain, begin, 0, 0);
            stage.events.push(Event { other: tid, object: process.into(), name, ..event });
        }
        if !local {
            for (thread, home) in VCPUS.into_iter().zip([host(1), host(3)]) {
                stage.add_vcpu(thread, home, begin + 10_000);
            }
        }
        let mut scene = Scene::new(stage, local, blocking);
        let datagrams = !mechanism.needs_stream() && evidence != Evidence::Imported;
        scene.datagrams = datagrams && scene.stage.random.percent(25);
        if mechanism == Mechanism::Netem {
            scene.qdisc = "netem";
        }
        scene.translated = matches!(mechanism, Mechanism::NatPreempted | Mechanism::NatVhostWaits);
        if mechanism == Mechanism::IrqVcpuPreempted {
            scene.irq_home = scene.beside;
        }
        scene.start_threads(mechanism, begin + 2_000_000);
        let asked = scene.run_requests(mechanism, blocking, begin + 4_000_000);
        let records = if evidence.has_frames() && !mechanism.needs_stream() {
            scene.frames.records
        } else {
            Vec::new()
        };
        let datagrams = scene.datagrams;
        let Stage { mut random, mut events, names, .. } = scene.stage;
        let error = if evidence == Evidence::Imported { 0 } else { error_ns };
        let skew = random.between(-error, error + 1);
        for event in events.iter_mut().filter(|event| event.domain == GUEST) {
            event.time_ns += skew;
        }
        let mut records = records;
        for (_, record) in records.iter_mut().filter(|(domain, _)| *domain == GUEST) {
            record.time_ns = record.time_ns.saturating_add_signed(skew);
        }
        records.sort_by_key(|(_, record)| record.time_ns);
        events.sort_by_key(|event| event.time_ns);
        let events = evidence.of(events, &mut random);
        let error_ns = if evidence == Evidence::Imported { u64::MAX } else { error_ns.unsigned_abs() };
        Self { events, records, datagrams, names, asked, evidence, local, error_ns }
    }

    /// The transactions that it is about, as `--transaction` has them.
    pub fn transaction(&self) -> String {
        let kind = if self.evidence.has_frames() { "exchange" } else { "request" };
        format!("{kind}:{}", self.port())
    }

    /// The port that the requests go to.
    pub fn port(&self) -> u16 {
        u16::try_from(PORT).unwrap_or(0)
    }

    /// Number of requests.
    pub fn requests(&self) -> usize {
        self.asked.struck.len() + self.asked.typical.len()
    }

    /// Reports whether client and server are in one kernel.
    pub fn is_local(&self) -> bool {
        self.local
    }

    fn manifest(&self) -> Manifest {
        let domain = |name: &str, number, role| Domain {
            name: name.into(),
            number,
            role,
            cpus: if number == HOST { 24 } else { 2 },
            events: self.evidence.groups(number),
            ..Domain::default()
        };
        let vm = Some(DomainVm { host: "host".into(), pid: QEMU, cid: None });
        let guest = Domain { vm, ..domain("vm1", GUEST, Role::Guest) };
        let host = domain("host", HOST, Role::Host);
        let all = if self.local { vec![host] } else { vec![host, guest] };
        let domains: Vec<Domain> =
            all.into_iter().filter(|domain| self.evidence.has_domain(domain.number)).collect();
        let clock = |of: &Domain| Clock {
            domain: of.name.clone(),
            error_ns: if of.number == GUEST { self.error_ns } else { 0 },
            ..Clock::default()
        };
        let lost = domains.iter().filter(|_| self.evidence == Evidence::Lossy).map(|of| EventLoss {
            domain: of.name.clone(),
            kind: Kind::Switch.name().into(),
            dropped: 1,
            ..EventLoss::default()
        });
        let loss = Loss { events: lost.collect(), ..Loss::default() };
        let reference = domains.first().map(|of| of.name.clone()).unwrap_or_default();
        Manifest {
            reference,
            clocks: domains.iter().map(clock).collect(),
            domains,
            loss,
            ..Manifest::default()
        }
    }

    /// Writes what was recorded as a trace.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let mut writer = Writer::create(dir, self.manifest())?;
        let domains =
            [("host", HOST), ("vm1", GUEST)].into_iter().filter(|(_, number)| !self.local || *number == HOST);
        let sites = domains.flat_map(|(name, number)| frames::list_sites(name, number, self.datagrams));
        writer.sites(&sites.filter(|_| !self.records.is_empty()).collect::<Vec<_>>())?;
        for (domain, record) in &self.records {
            writer.append(*domain, record.time_ns.cast_signed(), record)?;
        }
        for event in &self.events {
            let name = writer.name(self.names.text(event.name));
            writer.event(Event { name, ..*event })?;
        }
        writer.finish()?;
        Ok(())
    }

    /// Lists what was recorded of a request that the mechanism delayed, and of one that it did not, a line for each event.
    pub fn list(&self) -> String {
        listing::list(&self.events, &self.names, &self.asked)
    }
}
