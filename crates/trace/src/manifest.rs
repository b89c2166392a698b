//! `trace.json`: what was recorded where, how exact its times are, and what is missing.
//!
//! Reading tolerates fields it does not know and fills in those that are absent, so that older and
//! newer traces of the same schema stay readable, and other programs can write one with little.

mod bounds;
mod settings;
mod tsc;

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use xweave_wire::{bounded::list, message, record::XEN_DOMAIN};

use crate::SCHEMA;
pub(crate) use bounds::NAME;
pub use settings::{Nic, Settings};
pub use tsc::TscLine;

/// The whole of `trace.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// [`SCHEMA`] of the xweave that wrote it.
    pub schema: u32,
    /// Version of the xweave that wrote it.
    pub xweave: String,
    /// When the recording began, in nanoseconds since 1970.
    pub created_ns: u64,
    /// Whether the recording came to its end. A killed controller leaves `false`.
    pub complete: bool,
    /// The command line that made the recording.
    #[serde(deserialize_with = "list::<{ bounds::ARGUMENTS }, _, _>")]
    pub command: Vec<String>,
    /// The domain whose `CLOCK_MONOTONIC` is the time line of all records.
    pub reference: String,
    /// When recording began, on that time line, in nanoseconds.
    pub start_ns: i64,
    /// When it ended; while it goes on, when the manifest was last written.
    pub end_ns: i64,
    /// The running kernels that were woven.
    #[serde(deserialize_with = "list::<{ bounds::DOMAINS }, _, _>")]
    pub domains: Vec<Domain>,
    /// How each domain's times came onto the time line.
    #[serde(deserialize_with = "list::<{ bounds::DOMAINS }, _, _>")]
    pub clocks: Vec<Clock>,
    /// What was woven.
    #[serde(deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub aspects: Vec<Aspect>,
    /// Where the key of a message is that its events tell, as `record --key` was given it; none if they tell no keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether what recorded it had CPUs only where no other thread wanted them, as `record --background` has it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// What else there is to know, for people: losses that cannot be known, places that could not be woven.
    #[serde(deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub warnings: Vec<String>,
    /// What could not be recorded.
    pub loss: Loss,
    /// How many records the closed segments hold.
    pub records: u64,
    /// How many events they hold.
    pub events: u64,
    /// How many records and events are missing: [`Loss::total`].
    pub lost: u64,
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            xweave: env!("CARGO_PKG_VERSION").to_owned(),
            created_ns: 0,
            complete: false,
            command: Vec::new(),
            reference: String::new(),
            start_ns: 0,
            end_ns: 0,
            domains: Vec::new(),
            clocks: Vec::new(),
            aspects: Vec::new(),
            key: None,
            background: false,
            warnings: Vec::new(),
            loss: Loss::default(),
            records: 0,
            events: 0,
            lost: 0,
        }
    }
}

impl Manifest {
    /// Until when something was stored, in nanoseconds since 1970; none if nothing was. A killed recording has what came
    /// until then.
    pub fn stored_until_ns(&self) -> Option<u64> {
        let stored = self.records > 0 || self.events > 0;
        let took = self.end_ns.checked_sub(self.start_ns).and_then(|took| u64::try_from(took).ok());
        took.filter(|_| stored).map(|took| self.created_ns.saturating_add(took))
    }
}

/// A running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Domain {
    /// Its name: `host`, `vm1`.
    pub name: String,
    /// The top byte of the local flow IDs that it makes. From 1, unique in the trace.
    pub number: u8,
    /// What it is to the others.
    pub role: Role,
    /// `uname -n`.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// GNU build ID of its kernel, in hex; empty if it has none.
    pub build_id: String,
    /// Differs after every boot.
    pub boot_id: String,
    /// Processors on line.
    pub cpus: u32,
    /// Of a guest, the same with their APIC IDs: the numbers of its vCPUs. Empty if they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub processors: Vec<message::Processor>,
    /// Their vendor, as CPUID says; empty if it is not known.
    pub vendor: String,
    /// Rate of its TSC, in Hz; 0 if unknown or unusable.
    pub tsc_hz: u64,
    /// Which virtual machine it is, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<DomainVm>,
    /// Which of Xen's domains it is, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xen: Option<DomainXen>,
    /// Of a host, the virtual machines that it ran when the recording began, recorded or not.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub vms: Vec<VmName>,
    /// Its disks, where they are known.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub disks: Vec<message::Disk>,
    /// How settings of it stood that may cost requests time, when the recording began.
    #[serde(skip_serializing_if = "Settings::is_unknown")]
    pub settings: Settings,
    /// The processes that recorded it; empty if they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub recorders: Vec<u32>,
    /// The groups of events that were recorded of it; empty if there are none, or if that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub events: Vec<String>,
    /// Why its kernel drops packets: names of the numbers that records of dropped flows have.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub drop_reasons: Vec<message::DropReason>,
    /// Which functions dropped them, by the addresses that these records have.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub symbols: Vec<message::Symbol>,
    /// How its part of the recording ended; absent while it goes on.
    #[serde(skip_serializing_if = "Option::is_none", alias = "ended")]
    pub exit: Option<Exit>,
}

impl Domain {
    /// What crossings on its host's side call it ([`CarrierKey::peer`](xweave_wire::record::CarrierKey::peer)), each with the
    /// host's name: as far as is known.
    pub fn peers(&self) -> impl Iterator<Item = (&str, u64)> {
        let vm = self.vm.iter().map(|vm| (vm.host.as_str(), u64::from(vm.pid)));
        let xen = self.xen.iter().flat_map(|xen| {
            let numbers = [Some(xen.domid), xen.since].into_iter().flatten();
            numbers.map(|domid| (xen.host.as_str(), XEN_DOMAIN | u64::from(domid)))
        });
        vm.chain(xen)
    }

    /// A domain as its agent describes it.
    pub fn new(name: &str, number: u8, role: Role, facts: &message::DomainInfo) -> Self {
        Self {
            name: name.to_owned(),
            number,
            role,
            hostname: facts.hostname.clone(),
            kernel: facts.kernel.clone(),
            build_id: facts.build_id.clone(),
            boot_id: facts.boot_id.clone(),
            cpus: facts.cpus,
            processors: if role == Role::Guest { facts.processors.clone() } else { Vec::new() },
            vendor: facts.vendor.clone(),
            tsc_hz: facts.tsc_hz,
            vm: None,
            xen: None,
            vms: facts.vms.iter().map(|vm| VmName { pid: vm.pid, name: vm.name.clone() }).collect(),
            disks: facts.disks.clone(),
            settings: Settings::from(&facts.settings),
            recorders: facts.recorders.clone(),
            events: Vec::new(),
            drop_reasons: Vec::new(),
            symbols: Vec::new(),
            exit: None,
        }
    }
}

/// What a domain is to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It runs the others.
    #[default]
    Host,
    /// It is run by a host.
    Guest,
}

/// Which virtual machine of which host a domain is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DomainVm {
    /// Name of the domain that runs it.
    pub host: String,
    /// The process there that runs it: what crossings on the host's side call `peer`.
    pub pid: u32,
    /// The context ID of its vsock device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cid: Option<u32>,
}

/// Which domain of Xen a guest is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DomainXen {
    /// Name of the domain that serves its devices.
    pub host: String,
    /// Its number: what crossings on the host's side call `peer`, plus 2³².
    pub domid: u16,
    /// Its number at the end, where that is another: it was restored from a file meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u16>,
}

/// A virtual machine of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VmName {
    /// The process that runs it.
    pub pid: u32,
    /// What its user calls it (QEMU's `-name`); empty if that is not known.
    pub name: String,
}

/// How a domain's part of the recording ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase", from = "ExitWritten")]
pub enum Exit {
    /// As asked: all that its buffers held was received.
    Stopped,
    /// Its agent went away; what it had not yet sent is missing.
    Lost {
        /// What was seen of it.
        reason: String,
    },
}

/// [`Exit`] as it is in a file: schema 1 called it `ended`, and its status `how`.
#[derive(Deserialize)]
struct ExitWritten {
    #[serde(alias = "how")]
    status: ExitStatus,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExitStatus {
    Stopped,
    Lost,
}

impl From<ExitWritten> for Exit {
    fn from(written: ExitWritten) -> Self {
        match written.status {
            ExitStatus::Stopped => Self::Stopped,
            ExitStatus::Lost => Self::Lost { reason: written.reason },
        }
    }
}

/// How a domain's times came onto the time line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Its name.
    pub domain: String,
    /// By which way.
    pub method: Method,
    /// No time of this domain outside of its breaks is farther than this from the truth, in nanoseconds.
    pub error_ns: u64,
    /// Clock samples that were used.
    pub samples: u64,
    /// Exchanges with the controller that were used.
    pub exchanges: u64,
    /// How it came to this, in words: after the last break, if there is one.
    pub detail: String,
    /// Where its clock jumped, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<ClockBreak>,
    /// Of the reference, if Xen runs it: what the machine's TSC was when, for what Xen itself records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tsc: Option<TscLine>,
}

/// A discontinuity of a domain's clock: its virtual machine was paused or migrated, or its TSC was written. Records of the
/// domain that lie within are in order, and may be anywhere within: no error is stated for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockBreak {
    /// The last time that is known, in nanoseconds of the time line; absent if none was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ns: Option<i64>,
    /// The first time that is known again; absent if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_ns: Option<i64>,
    /// What was seen, in words.
    pub detail: String,
}

impl ClockBreak {
    /// Whether a time of the time line lies within.
    pub fn covers(&self, time_ns: i64) -> bool {
        self.after_ns.is_none_or(|after| time_ns >= after)
            && self.before_ns.is_none_or(|before| time_ns <= before)
    }
}

/// The ways onto the time line, the most exact first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The domain's clock is the time line.
    #[default]
    Reference,
    /// guest TSC = scaled host TSC + the offset that the hypervisor set.
    TscOffset,
    /// The domain reads the very TSC that the reference reads.
    CommonTsc,
    /// Paired readings over the controller's connection.
    Exchange,
}

/// An aspect that was woven.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Aspect {
    /// Its name.
    pub name: String,
    /// Where it was read from.
    pub file: String,
    /// SHA-256 of its text, in hex.
    pub sha256: String,
}

/// What could not be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// Per site with any loss.
    #[serde(deserialize_with = "list::<{ bounds::SITES }, _, _>")]
    pub sites: Vec<SiteLoss>,
    /// Per local flow that lost records.
    #[serde(deserialize_with = "list::<{ bounds::SITES }, _, _>")]
    pub flows: Vec<FlowLoss>,
    /// Lost records (among those of [`Loss::sites`]) whose flow could not be noted.
    pub unattributed: u64,
    /// Per domain and kind of events with any loss.
    #[serde(deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub events: Vec<EventLoss>,
    /// Records and events that arrived and could not be stored: the disk was full.
    pub unwritten: u64,
    /// Modules that went while something was woven into them, and their probes with them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub unloaded: Vec<Unloaded>,
    /// Domains whose kernels skip probes without counting how often: what their sites missed is not known.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::DOMAINS }, _, _>")]
    pub uncounted: Vec<Uncounted>,
    /// Domains of which events came too late to have their places, and have later times than their own.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<{ bounds::DOMAINS }, _, _>")]
    pub late: Vec<Late>,
}

/// Events that came when later ones of their domain had been written: they have the time of the last of those.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Late {
    /// The domain's name.
    pub domain: String,
    /// How many.
    pub events: u64,
    /// How much later than their own their times are at most, in nanoseconds.
    pub most_ns: u64,
}

/// Sites of a domain at which hits that the kernel skips cannot be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uncounted {
    /// The domain's name.
    pub domain: String,
    /// How many sites.
    pub sites: u32,
}

/// A module that was unloaded, or unloaded and loaded again, while something was woven into it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unloaded {
    /// The domain's name.
    pub domain: String,
    /// The module's.
    pub module: String,
    /// How many sites went with it.
    pub sites: u32,
}

/// What one site lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteLoss {
    /// The site.
    pub site: u32,
    /// Records for which the buffer had no room.
    pub dropped: u64,
    /// Times the kernel skipped the program.
    pub missed: u64,
    /// Flows that could not be begun or moved for want of room in the flow table (no record each).
    pub table_full: u64,
    /// Reads of the advice's C code that met memory that is not there, and gave 0 (what was stored is not right then).
    pub faults: u64,
    /// Flows that ended where nobody saw it: something began under a key that still carried them.
    pub overwritten: u64,
}

/// What was lost of one kind of events in one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventLoss {
    /// The domain's name.
    pub domain: String,
    /// The kind, as the table of events calls it; empty where what recorded them does not tell.
    pub kind: String,
    /// Events for which the buffer had no room.
    pub dropped: u64,
    /// Times the kernel skipped the probe.
    pub missed: u64,
}

/// What one local flow lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowLoss {
    /// Its local ID.
    pub flow: u64,
    /// How many records.
    pub records: u64,
    /// Which domain lost them. Where it is empty, the one that made the ID.
    pub domain: String,
}

impl Loss {
    /// Records and events that are missing: dropped, missed and unwritten.
    pub fn total(&self) -> u64 {
        let events = self.events.iter().flat_map(|loss| [loss.dropped, loss.missed]);
        events.fold(self.records(), u64::saturating_add)
    }

    /// The same of records alone; among those that are unwritten there may be events.
    pub fn records(&self) -> u64 {
        // A damaged manifest may say anything.
        let records = self.sites.iter().flat_map(|site| [site.dropped, site.missed]);
        records.fold(self.unwritten, u64::saturating_add)
    }

    /// Takes over what the agents of all domains, by their names, last reported (their totals).
    /// What could not be written stays, as no agent knows of it.
    pub fn set(&mut self, reported: &[(&str, &message::Loss)]) {
        let site = |s: &message::SiteLoss| SiteLoss {
            site: s.site,
            dropped: s.dropped,
            missed: s.missed,
            table_full: s.table_full,
            faults: s.faults,
            overwritten: s.overwritten,
        };
        let flow =
            |domain: &str, (flow, records): (u64, u64)| FlowLoss { flow, records, domain: domain.to_owned() };
        let event = |domain: &str, loss: &message::EventLoss| EventLoss {
            domain: domain.to_owned(),
            kind: loss.kind.name().to_owned(),
            dropped: loss.dropped,
            missed: loss.missed,
        };
        self.sites = listed(reported.iter().flat_map(|(_, loss)| loss.sites.iter().map(site)).collect());
        let flows = |(domain, loss): &(&'_ str, &message::Loss)| {
            loss.flows.iter().map(|&of| flow(domain, of)).collect::<Vec<_>>()
        };
        self.flows = reported.iter().flat_map(flows).collect();
        self.unattributed = reported.iter().map(|(_, loss)| loss.unattributed).fold(0, u64::saturating_add);
        let of_domain = |(domain, loss): &(&'_ str, &message::Loss)| {
            loss.events.iter().map(|loss| event(domain, loss)).collect::<Vec<_>>()
        };
        self.events = reported.iter().flat_map(of_domain).collect();
        let unloaded = |(domain, loss): &(&'_ str, &message::Loss)| {
            let of_module = |gone: &message::Unloaded| Unloaded {
                domain: (*domain).to_owned(),
                module: gone.module.clone(),
                sites: gone.sites,
            };
            loss.unloaded.iter().map(of_module).collect::<Vec<_>>()
        };
        self.unloaded = reported.iter().flat_map(unloaded).collect();
    }
}

/// Sites whose losses are told one by one. The manifest is written anew each second, and must be readable.
const LISTED: usize = 64 << 10;

/// Of more, those that lost the most, and the sum of the others as those of site 0, which there is not.
fn listed(mut sites: Vec<SiteLoss>) -> Vec<SiteLoss> {
    if sites.len() > LISTED {
        let lost = |s: &SiteLoss| s.dropped.saturating_add(s.missed).saturating_add(s.table_full);
        sites.sort_by_key(|site| Reverse(lost(site)));
        let others =
            sites.split_off(LISTED - 1).into_iter().fold(SiteLoss::default(), |sum, site| SiteLoss {
                site: 0,
                dropped: sum.dropped.saturating_add(site.dropped),
                missed: sum.missed.saturating_add(site.missed),
                table_full: sum.table_full.saturating_add(site.table_full),
                faults: sum.faults.saturating_add(site.faults),
                overwritten: sum.overwritten.saturating_add(site.overwritten),
            });
        sites.push(others);
        sites.sort_by_key(|site| site.site);
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_sites_those_that_lost_most_are_listed_and_the_sum_stays() {
        let lost = |site: u32| message::SiteLoss {
            site,
            dropped: u64::from(site % 7),
            missed: 1,
            ..Default::default()
        };
        let many = message::Loss { sites: (1..=100_000).map(lost).collect(), ..Default::default() };
        let mut loss = Loss::default();
        loss.set(&[("vm1", &many), ("vm2", &message::Loss::default())]);
        assert_eq!((loss.sites.len(), loss.sites[0].site), (LISTED, 0));
        let sum: u64 = many.sites.iter().map(|site| site.dropped + site.missed).sum();
        assert_eq!(loss.total(), sum);
        assert!(loss.sites[1..].iter().all(|site| site.dropped >= 2));
        let few = message::Loss { sites: (1..=9).map(lost).collect(), ..Default::default() };
        loss.set(&[("vm1", &few)]);
        assert_eq!(loss.sites.len(), 9);
    }
}
