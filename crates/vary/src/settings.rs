//! Settings of host and guests that cost requests time: how much, in these requests, and what to set instead. Where one cost
//! none, or where it is not known how it stands, nothing is said.

use std::collections::BTreeMap;

use serde::Serialize;
use xweave_model::{
    Objects, TimeState,
    objects::Role,
    parts::{Is, Reason, Who},
};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Which.
    pub what: What,
    /// The domain whose it is.
    pub domain: String,
    /// In words.
    pub setting: String,
    /// How it stood.
    pub now: String,
    /// What it cost all requests, in nanoseconds.
    pub ns: u64,
    /// How many requests it cost any.
    pub requests: u64,
    /// What to set instead.
    pub remedy: String,
}

impl What {
    /// The setting that such time may be about, the domain whose it is, and which share of the time it is.
    fn of(dimension: &Dimension, objects: &Objects) -> Option<(Self, String, f64)> {
        let such = &dimension.such;
        let kind = Cause::of(dimension).0.kind;
        let by = |name: &str| such.by.as_ref().is_some_and(|by| by.name == name);
        let by_pit = matches!(&such.by, Some(Who { is: Is::Object(Role::Pit), .. }));
        let takes_cpu = matches!(such.spent, TimeState::Ready | TimeState::Preempted);
        let preempts = kind == Kind::VcpuPreempted && takes_cpu;
        let own = |what| Some((what, such.domain.clone(), 1.0));
        if takes_cpu && by("ksmd") {
            return own(Self::Ksm);
        }
        if preempts && by_pit {
            return own(Self::KvmPit);
        }
        let above_vcpu = matches!(such.role, Role::Vcpus(_)) && such.reason == Some(Reason::Interrupted);
        if preempts && by("ksoftirqd") || above_vcpu {
            return own(Self::Interrupts);
        }
        if let Some((_, share)) = Cause::of_frequency(dimension) {
            let host = objects.host(&such.domain).unwrap_or(&such.domain);
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
    match &dimension.such.role {
        Role::Vhost(guest) => Some(guest),
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
        let (setting, now, remedy) = stands(cost.what, domain)?;
        let Cost { what, ns, requests, .. } = *cost;
        Some(Setting { what, domain: domain.name.clone(), setting, now, ns, requests, remedy })
    };
    let mut all: Vec<Setting> =
        costs.iter().filter(|cost| cost.ns > whole_ns / NOTHING).filter_map(setting).collect();
    all.sort_by(|one, other| {
        other.ns.cmp(&one.ns).then_with(|| (one.what, &one.domain).cmp(&(other.what, &other.domain)))
    });
    all
}

/// What a setting is called, how it stands, and what to set instead; none if it is not known, or can do no more.
fn stands(what: What, domain: &Domain) -> Option<(String, String, String)> {
    let Settings { halt_poll_ns, governors, ksm_run, swappiness, nics } = &domain.settings;
    let told = |setting: &str, now: String, remedy: &str| Some((setting.to_owned(), now, remedy.to_owned()));
    match what {
        What::KvmPit => told(
            "CPUs of kvm-pit threads",
            "the vCPUs'".to_owned(),
            "pin them to other CPUs (taskset -p of kvm-pit/PID), or start QEMU with -global kvm-pit.lost_tick_policy=discard",
        ),
        What::Interrupts if domain.cpus == 1 => None,
        What::Interrupts => told(
            "CPUs of interrupts and softirqs",
            "the vCPUs'".to_owned(),
            "handle devices' interrupts on other CPUs (/proc/irq/N/smp_affinity, irqbalance --banirq), received packets too \
             (/sys/class/net/DEVICE/queues/rx-N/rps_cpus)",
        ),
        What::HaltPolling => {
            let now = (*halt_poll_ns).filter(|now| *now < LONGEST_POLL)?;
            let more = if now == 0 { POLL } else { now.saturating_mul(2).min(LONGEST_POLL) };
            let remedy = format!(
                "let KVM poll for longer before it halts a vCPU: xweave vary --try halt_poll_ns={now},{more}"
            );
            told("halt_poll_ns of KVM", now.to_string(), &remedy)
        }
        What::Governor => {
            let slow = !governors.is_empty() && governors.iter().any(|governor| governor != "performance");
            slow.then(|| governors.join(", "))
                .and_then(|now| told("cpufreq governor", now, "cpupower frequency-set -g performance"))
        }
        What::Queues => {
            let one = !nics.is_empty() && nics.iter().all(|nic| nic.queues <= 1) && domain.cpus > 1;
            let now = format!("1 for {} CPUs", domain.cpus);
            let remedy = "give its network device more (QEMU: -netdev tap,…,queues=N -device virtio-net-pci,…,mq=on; libvirt: \
                          <driver queues='N'/>), each with a vhost thread, and let the guest use them (ethtool -L DEVICE combined N)";
            one.then_some(()).and_then(|()| told("queues of network devices", now, remedy))
        }
        What::Swappiness => {
            let now = (*swappiness).filter(|now| *now > 0)?;
            told("vm.swappiness", now.to_string(), "sysctl vm.swappiness=0, if it cannot have more memory")
        }
        What::Ksm => (*ksm_run == Some(1)).then_some(()).and_then(|()| {
            told(
                "KSM",
                "on".to_owned(),
                "echo 0 >/sys/kernel/mm/ksm/run, or let it scan less (pages_to_scan)",
            )
        }),
    }
}
