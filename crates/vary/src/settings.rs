//! Settings of host and guests that cost requests time: how much, in these requests, and what to set instead. Where one cost
//! none, or where it is not known how it stands, nothing is said.

use std::collections::BTreeMap;

use xweave_model::{ObjectGroup, Objects, Offender, TimeState, objects::Reason};
use xweave_trace::{Domain, manifest::Settings};

use crate::{
    cause::{Cause, Kind},
    requests::{Dimension, Request, Requests},
};

/// KVM is not let poll for longer, in nanoseconds: [`xweave_wire::knob::Knob::form`] takes no more.
const LONGEST_POLL: u64 = 10_000_000;

/// What to try where KVM does not poll, in nanoseconds: what kernels for x86 have by default (`KVM_HALT_POLL_NS_DEFAULT` of
/// arch/x86/include/asm/kvm_host.h, Linux 6.12).
const POLL: u64 = 200_000;

/// What cost no more than one part of so many of the requests' time cost nothing: each CPU has a timer's interrupts.
const NOTHING: u64 = 1000;

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum What {
    /// On which CPUs KVM's timer threads (`kvm-pit`) run.
    KvmPit,
    /// On which CPUs interrupts and softirqs are handled.
    Interrupts,
    /// `halt_poll_ns`.
    HaltPolling,
    /// The cpufreq governor.
    Governor,
    /// How many queues a guest's network device has.
    Queues,
    /// `vm.swappiness`.
    Swappiness,
    /// `/sys/kernel/mm/ksm/run`.
    Ksm,
}

impl What {
    /// Returns the name in documents.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a setting may have cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Which.
    pub what: What,
    /// Whose.
    pub domain: String,
    /// Nanoseconds of all requests.
    pub ns: u64,
    /// How many requests had any of it.
    pub requests: u64,
}

/// A setting that cost requests time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Which.
    pub what: What,
    /// The domain whose it is.
    pub domain: String,
    /// How it stood.
    pub now: Stand,
    /// What it cost all requests, in nanoseconds.
    pub ns: u64,
    /// How many requests it cost any.
    pub requests: u64,
}

/// How a setting stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// On the CPUs of vCPUs.
    VcpusCpus,
    /// KVM polled for so long.
    HaltPolling {
        /// In nanoseconds.
        now_ns: u64,
        /// What to try instead.
        try_ns: u64,
    },
    /// With these governors.
    Governors(Vec<String>),
    /// One queue.
    OneQueue {
        /// For so many CPUs.
        cpus: u32,
    },
    /// With this swappiness.
    Swappiness(u64),
    /// On.
    On,
}

impl What {
    /// The setting that such time may be about, the domain whose it is, and which share of the time it is.
    fn of(dimension: &Dimension, objects: &Objects) -> Option<(Self, String, f64)> {
        let such = &dimension.such;
        let kind = Cause::of(dimension).0.kind;
        let by_group = such.by();
        let by_group = by_group.as_ref().and_then(Offender::objects);
        let by = |thread: &str| by_group.is_some_and(|by| by.is_named(thread));
        let by_pit = matches!(by_group, Some(ObjectGroup::Pit { .. }));
        let takes_cpu = matches!(such.spent, TimeState::Ready | TimeState::Preempted);
        let preempts = kind == Kind::VcpuPreempted && takes_cpu;
        let domain = such.domain.one()?;
        let own = |what| Some((what, domain.to_owned(), 1.0));
        if takes_cpu && by("ksmd") {
            return own(Self::Ksm);
        }
        if preempts && by_pit {
            return own(Self::KvmPit);
        }
        let above_vcpu =
            matches!(such.group, ObjectGroup::Vcpus { .. }) && such.reason == Some(Reason::Interrupted);
        if preempts && by("ksoftirqd") || above_vcpu {
            return own(Self::Interrupts);
        }
        if let Some((_, share)) = Cause::of_frequency(dimension) {
            let host = objects.host(domain).unwrap_or(domain);
            return Some((Self::Governor, host.to_owned(), share));
        }
        match kind {
            Kind::VcpuHalted => own(Self::HaltPolling),
            Kind::SwapIn => own(Self::Swappiness),
            // Behind others in the one queue that its thread serves, or it was not let serve them.
            Kind::BackendLate if takes_cpu => Some((Self::Queues, served(dimension)?.to_owned(), 1.0)),
            Kind::SocketQueue if dimension.before_its_turn() => {
                Some((Self::Queues, served(dimension)?.to_owned(), 1.0))
            }
            _ => None,
        }
    }
}

/// The guest whose device the thread serves that took the time.
fn served(dimension: &Dimension) -> Option<&str> {
    match &dimension.such.group {
        ObjectGroup::Vhost { guest } => Some(guest),
        _ => None,
    }
}

/// What settings may have cost these requests.
pub(crate) fn costs(requests: &Requests, all: &[Request], objects: &Objects) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::new();
    let mut of = Vec::with_capacity(requests.dimensions().len());
    for dimension in requests.dimensions() {
        of.push(What::of(dimension, objects).map(|(what, domain, share)| {
            let known = costs.iter().position(|cost| (cost.what, &cost.domain) == (what, &domain));
            let place = known.unwrap_or_else(|| {
                costs.push(Cost { what, domain, ns: 0, requests: 0 });
                costs.len() - 1
            });
            (place, share)
        }));
    }
    for request in all {
        let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
        for (number, ns) in requests.parts(request) {
            if let Some((place, share)) = of[*number as usize] {
                *sums.entry(place).or_default() += *ns as f64 * share;
            }
        }
        for (place, sum) in sums {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "rounded, and from 0 on"
            )]
            let ns = sum.round().max(0.0) as u64;
            costs[place].ns = costs[place].ns.saturating_add(ns);
            costs[place].requests += u64::from(ns > 0);
        }
    }
    costs.retain(|cost| cost.ns > 0);
    costs
}

/// The settings that cost requests time, the most first. `whole_ns` is all time of these; `domains` tell how settings stand.
pub fn settings(costs: &[Cost], whole_ns: u64, domains: &[Domain]) -> Vec<Setting> {
    let setting = |cost: &Cost| {
        let domain = domains.iter().find(|domain| domain.name == cost.domain)?;
        let Cost { what, ns, requests, .. } = *cost;
        Some(Setting { what, domain: domain.name.clone(), now: stands(what, domain)?, ns, requests })
    };
    let mut all: Vec<Setting> =
        costs.iter().filter(|cost| cost.ns > whole_ns / NOTHING).filter_map(setting).collect();
    all.sort_by(|one, other| {
        other.ns.cmp(&one.ns).then_with(|| (one.what, &one.domain).cmp(&(other.what, &other.domain)))
    });
    all
}

/// How a setting stands; none if it is not known, or can do no more.
fn stands(what: What, domain: &Domain) -> Option<Stand> {
    let Settings { halt_poll_ns, governors, ksm_run, swappiness, nics } = &domain.settings;
    match what {
        What::KvmPit => Some(Stand::VcpusCpus),
        What::Interrupts => (domain.cpus != 1).then_some(Stand::VcpusCpus),
        What::HaltPolling => {
            let now_ns = (*halt_poll_ns).filter(|now| *now < LONGEST_POLL)?;
            let try_ns = if now_ns == 0 { POLL } else { now_ns.saturating_mul(2).min(LONGEST_POLL) };
            Some(Stand::HaltPolling { now_ns, try_ns })
        }
        What::Governor => {
            let slow = governors.iter().any(|governor| governor != "performance");
            slow.then(|| Stand::Governors(governors.clone()))
        }
        What::Queues => {
            let one = !nics.is_empty() && nics.iter().all(|nic| nic.queues <= 1) && domain.cpus > 1;
            one.then_some(Stand::OneQueue { cpus: domain.cpus })
        }
        What::Swappiness => (*swappiness).filter(|now| *now > 0).map(Stand::Swappiness),
        What::Ksm => (*ksm_run == Some(1)).then_some(Stand::On),
    }
}
