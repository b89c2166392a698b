//! Why requests vary, and what can be done about it.

use xweave_model::{Offender, Stretch};
use xweave_vary::{
    Cause,
    cause::{Kind, Remedied, Remedy, Whom},
    settings::{Setting, Stand, What},
    variation::{Evidence, Found, Gain, Segment, Shares, Spikes, Times},
};

use super::{Sentence, causes, objects, places};
use crate::number::{self, span};

/// An object that had more of a cause's time than this is why; of one that had less than `PART` nothing is said.
const MOST: f64 = 0.5;
const PART: f64 = 0.1;

/// That some requests took much less than the median.
pub fn quicker(quicker: u64, of: u64) -> Sentence {
    let share = quicker as f64 / of.max(1) as f64;
    Sentence::new(format!(
        "{} of {} took less than two thirds of that median.",
        number::percent(share),
        number::counted(of, "request", "requests")
    ))
}

/// That requests vary little; `but_for_one`, if one of them took much longer.
pub fn steady(but_for_one: bool) -> Sentence {
    let they = if but_for_one { "But for one, they" } else { "They" };
    Sentence::new(format!("{they} vary little: no cause is named."))
}

/// Why no cause is named, though requests vary: the one with the `largest` share, a tenth at least, may be none.
pub fn none_named(largest: Option<&Found>, requests: u64) -> Sentence {
    Sentence::new(match largest {
        Some(found) => format!(
            "No cause is surely a tenth of the variation. The largest: {}, {} of the variance; {} are too few to be sure.",
            cause(&found.cause),
            of_variance(&found.shares),
            number::counted(requests, "request", "requests")
        ),
        None => "No cause is a tenth of the variation: it is spread over many.".to_owned(),
    })
}

/// A share of the variance, and between which bounds it is: `57 % (50 to 66)`.
fn of_variance(shares: &Shares) -> String {
    let [low, high] = shares.variance_bounds;
    format!("{} ({:.0} to {:.0})", number::percent(shares.share_of_variance), 100.0 * low, 100.0 * high)
}

/// The segment with the largest share of the variance; that it has it is only said if it is sure.
pub fn widest(of: &Segment, requests: u64) -> Sentence {
    let (place, meaning) = (places::stretch(&of.stretch), places::meaning(&of.stretch));
    let place = format!("{place}{}", meaning.map_or_else(String::new, |meaning| format!(" ({meaning})")));
    Sentence::new(match of.shares.is_sure_of_variance() {
        true => {
            let tail = number::percent(of.shares.share_of_tail);
            let tail = match of.shares.is_sure_of_tail() {
                true => format!(", {tail} of what makes the slowest slow"),
                false => String::new(),
            };
            let variance = number::percent(of.shares.share_of_variance);
            format!("Where it varies most: {place}: {variance} of the variance{tail}.")
        }
        false => format!(
            "{} are too few to be sure where it varies: {place} has {} of the variance.",
            number::counted(requests, "request", "requests"),
            of_variance(&of.shares)
        ),
    })
}

/// Where the largest part of a cause's time was, which is that share of it.
pub fn mostly_at(at: &Stretch, share: f64) -> Sentence {
    let place = places::stretch(at);
    Sentence::new(match share > MOST {
        true => format!("Mostly at: {place}."),
        false => format!("Longest at: {place} ({}).", number::percent(share)),
    })
}

/// Who had that share of a cause's time: `, because of nginx`; empty if that is next to nothing.
pub fn because_of(who: &Offender, share: f64) -> Sentence {
    let who = objects::offender(who);
    Sentence::new(match share {
        _ if share > MOST => format!(", because of {who}"),
        _ if share >= PART => format!(", in part because of {who}"),
        _ => String::new(),
    })
}

/// What the times of requests would be without a cause; nothing, if none of them would be shorter.
pub fn gain(of: Gain, times: Times) -> Option<Sentence> {
    let left = |what: &str, now: u64, gain: i64| {
        let shorter = (gain > 0).then(|| [now, now.saturating_sub(gain.unsigned_abs())].map(span));
        match shorter.filter(|[now, left]| now != left) {
            Some([now, left]) => (true, format!("{what} {now} → {left}")),
            None => (false, format!("{what} not shorter")),
        }
    };
    let remedied = match of.remedied {
        Remedied::Gone => "Without it",
        Remedied::Steady => "If it did not vary",
    };
    let (p99, p50) = (left("p99", times.p99_ns, of.p99_ns), left("p50", times.p50_ns, of.p50_ns));
    (p99.0 || p50.0).then(|| Sentence::new(format!("{remedied}: {}, {}.", p99.1, p50.1)))
}

/// How much of the variance is in requests that stand out.
pub fn spikes(of: Spikes) -> Sentence {
    let requests = |n| number::counted(n, "request", "requests");
    Sentence::new(match of.spikes {
        0 => "No request stands out from those around it.".to_owned(),
        _ => format!(
            "{} ({} that {} out from those around {}): {} of the variance.",
            number::counted(of.spikes, "spike", "spikes"),
            requests(of.requests),
            if of.requests == 1 { "stands" } else { "stand" },
            if of.requests == 1 { "it" } else { "them" },
            number::percent(of.share_of_variance)
        ),
    })
}

/// Who was kept: `vCPUs of vm1`, `sipserver in vm1`, `host`.
fn whom(of: &Whom) -> String {
    match of {
        Whom::Group(group) => objects::group(group).to_string(),
        Whom::GroupIn(group, domain) => format!("{} in {}", objects::group(group), objects::domain(domain)),
        Whom::Domain(domain) => objects::domain(domain).to_string(),
        Whom::Requests => "requests".to_owned(),
    }
}

/// What kept requests: `vCPUs of vm1 were halted, and had to be woken`.
pub fn cause(of: &Cause) -> Sentence {
    let whom = whom(&of.whom);
    Sentence::new(match of.kind {
        Kind::VcpuHalted => format!("{whom} were halted, and had to be woken"),
        Kind::VcpuPreempted => format!("{whom} waited for a CPU of their host"),
        Kind::VcpuThrottled => format!("{whom} were kept from their CPU, by a quota or another limit"),
        Kind::VcpuExits => format!("{whom} were out of the guest: the hypervisor worked for them"),
        Kind::BackendLate => format!("{whom} waited for a CPU"),
        Kind::InterruptLate => format!("interrupts were late in {whom}"),
        Kind::SocketQueue => format!("the socket's queue: {whom} ran before it read the request"),
        Kind::BatchArrival => "requests came in batches, and waited for each other".to_owned(),
        Kind::RunQueue => format!("{whom} waited for a CPU"),
        Kind::OwnThreads => format!("{whom} waited for a CPU that other threads of the same process had"),
        Kind::CpuWaking => format!("{whom} waited for a CPU that was idle to wake up"),
        Kind::CpuFrequency => format!("{whom} ran on CPUs below their highest frequency"),
        Kind::Throttled => format!("{whom} was kept from its CPU, by a quota or another limit"),
        Kind::Futex => format!("a futex in {whom}"),
        Kind::KernelLock => format!("a lock of the kernel in {whom}"),
        Kind::Stopped => format!("{whom} was stopped"),
        Kind::SwapIn => format!("pages of {whom} were swapped out"),
        Kind::PageFault => format!("pages of files had to be read in {whom}"),
        Kind::Disk => format!("disks of {whom}"),
        Kind::Qdisc => format!("a queueing discipline of {whom} held frames back"),
        Kind::Neigh => format!("{whom} waited for the link-layer address of the next hop (ARP, NDP)"),
        Kind::SendQueue => format!("TCP of {whom} held back what it was to send"),
        Kind::Retransmit => format!("lost and sent again, {whom}"),
        Kind::Network => format!("in transit, {whom}"),
        Kind::Interrupts => format!("interrupts and softirqs of {whom} ran"),
        Kind::Running => format!("{whom} ran"),
        Kind::Waiting => format!("{whom} waited"),
        Kind::Unknown => format!("no event tells what {whom} did"),
    })
}

/// What can be done, on kernels of today.
pub fn remedy(of: Remedy) -> Sentence {
    Sentence::new(match of {
        Remedy::RecordElsewhere => {
            "it was recorded with --background, which ranks xweave within its own autogroup and cgroup: turn autogroups off \
             where that was (sysctl kernel.sched_autogroup_enabled=0), give xweave another CPU (taskset, cpuset), or record \
             less (fewer groups of events, --where)"
        }
        Remedy::RecordInBackground => {
            "record with --background, so that xweave takes only what is left of these CPUs, or less (fewer groups of \
             events, --where)"
        }
        Remedy::HaltPolling => {
            "let KVM poll before it halts a vCPU: /sys/module/kvm/parameters/halt_poll_ns of the host, or the guest's own \
             haltpoll (cpuidle_haltpoll.force=1)"
        }
        Remedy::CpuForEachVcpu => {
            "give each vCPU a CPU of its own: several of them ran on one (virsh vcpupin, taskset)"
        }
        Remedy::OthersOffVcpus => {
            "keep others off the vCPUs' CPUs: pin these (virsh vcpupin, taskset), and the others elsewhere (cpuset)"
        }
        Remedy::VmQuota => {
            "see whether the VM's cgroup was throttled (nr_throttled of its cpu.stat), and raise its quota (cpu.max; virsh \
             schedinfo vcpu_quota); else see what kept the vCPUs from an idle CPU (core scheduling, RT throttling)"
        }
        Remedy::CpuForBackend => {
            "give vhost's thread a CPU that is not the vCPUs' (virsh emulatorpin, taskset of vhost-PID)"
        }
        Remedy::SpreadInterrupts => {
            "spread interrupts over more queues (ethtool -L), or coalesce less (ethtool -C)"
        }
        Remedy::MoreReaders => {
            "read the socket in more threads (SO_REUSEPORT), or let each do less between two requests"
        }
        Remedy::FindBatches => "see who sends them in batches: they come so where they are first seen",
        Remedy::CpuForThread => {
            "give the thread a CPU of its own, or a higher priority (chrt); in a guest, give it more vCPUs"
        }
        Remedy::FewerThreads => {
            "let fewer of these threads run at once: where they are of one process, a pool of workers, not a thread for each request"
        }
        Remedy::ShallowIdle => {
            "forbid deep idle states (cpupower idle-set -D 0, or PM QoS: hold /dev/cpu_dma_latency at 0), after trying it: \
             xweave vary --try idle_poll=off,on"
        }
        Remedy::HighestFrequency => {
            "let the CPUs run at their highest frequency (cpupower frequency-set -g performance)"
        }
        Remedy::Quota => {
            "see whether its cgroup was throttled (nr_throttled of its cpu.stat), and raise its quota (cpu.max); else see what \
             kept it from an idle CPU (core scheduling, RT throttling)"
        }
        Remedy::ShorterLock => "hold the lock for a shorter time, or divide it: the holder is named",
        Remedy::Continue => "let it go on (kill -CONT), and find who stops it",
        Remedy::Memory => {
            "give the machine more memory, or take less from it (balloon); mlockall in the server"
        }
        Remedy::TouchFiles => {
            "touch the files before requests come (vmtouch, MAP_POPULATE), or give more memory"
        }
        Remedy::SeeDiskUsers => "see who uses the disk: xweave explain DIR --machines",
        Remedy::SeeQdisc => {
            "see which rate or delay the discipline is set to, and how long its queue is: tc -s qdisc show dev DEVICE"
        }
        Remedy::SeeNeigh => {
            "see how old addresses become before they are asked for again (ip -s neigh; net.ipv4.neigh.*.gc_stale_time), and why \
             the answer is late; or make the entry permanent (ip neigh replace ADDRESS lladdr MAC dev DEVICE nud permanent)"
        }
        Remedy::NoDelay => {
            "set TCP_NODELAY at the sender, or let it write each message in one call: the rest waits for an acknowledgement, \
             which the receiver delays"
        }
        Remedy::NoCork => "let the sender end MSG_MORE or TCP_CORK as soon as the message is complete",
        Remedy::ReceiveWindow => {
            "let the receiver read sooner, or give its sockets more room (net.ipv4.tcp_rmem, SO_RCVBUF)"
        }
        Remedy::FindDrops => "find what drops it: queues of devices and sockets that are too short",
        Remedy::FindEmulatedDevice => {
            "find the device that is emulated byte by byte (a serial console, IDE, VGA), and let the guest use it less, or a \
             virtio device instead"
        }
        Remedy::BackGuestMemory => {
            "let the guest's memory be there before it is used (prealloc=on, huge pages), and keep KSM, swap and balloons \
             from it"
        }
        Remedy::InterruptsOffVcpus => {
            "keep the host's interrupts and timers off the vCPUs' CPUs (irqaffinity, isolcpus, nohz_full)"
        }
        Remedy::SeeExits => "see which exits: xweave explain DIR --machines",
    })
}

/// What speaks for a cause.
pub fn evidence(of: &Evidence) -> Sentence {
    Sentence::new(match of {
        Evidence::Total { ns, requests, of } => format!("{} in {requests} of {of} requests", span(*ns)),
        Evidence::Tail { slowest, mean_in_tail_ns, mean_typically_ns } => {
            let [tail, usual] = [mean_in_tail_ns, mean_typically_ns].map(|ns| span(*ns));
            format!("{tail} in the mean of the slowest {slowest}, {usual} of typical ones")
        }
        Evidence::By(offenders) => {
            let share =
                |(who, share): &(_, f64)| format!("{} {:.0} %", objects::offender(who), share * 100.0);
            format!("by {}", offenders.iter().map(share).collect::<Vec<_>>().join(", "))
        }
        Evidence::Spikes { longer, of } => {
            format!("in {longer} of {of} spikes more than twice as long as typically")
        }
        Evidence::Power { power, requests, p50_ns } => {
            format!(
                "{} in {requests} requests, for {} in half of these",
                causes::power(*power),
                span(*p50_ns)
            )
        }
    })
}

/// The name of a setting: `halt_poll_ns of KVM`.
pub fn setting(of: What) -> Sentence {
    Sentence::new(match of {
        What::KvmPit => "CPUs of kvm-pit threads",
        What::Interrupts => "CPUs of interrupts and softirqs",
        What::HaltPolling => "halt_poll_ns of KVM",
        What::Governor => "cpufreq governor",
        What::Queues => "queues of network devices",
        What::Swappiness => "vm.swappiness",
        What::Ksm => "KSM",
    })
}

/// How a setting stood.
pub fn stand(of: &Stand) -> Sentence {
    Sentence::new(match of {
        Stand::VcpusCpus => "the vCPUs'".to_owned(),
        Stand::HaltPolling { now_ns, .. } => now_ns.to_string(),
        Stand::Governors(governors) => governors.join(", "),
        Stand::OneQueue { cpus } => format!("1 for {cpus} CPUs"),
        Stand::Swappiness(now) => now.to_string(),
        Stand::On => "on".to_owned(),
    })
}

/// What to set instead.
pub fn setting_remedy(of: &Setting) -> Sentence {
    let remedy = match of.what {
        What::KvmPit => {
            "pin them to other CPUs (taskset -p of kvm-pit/PID), or start QEMU with -global kvm-pit.lost_tick_policy=discard"
        }
        What::Interrupts => {
            "handle devices' interrupts on other CPUs (/proc/irq/N/smp_affinity, irqbalance --banirq), received packets too \
             (/sys/class/net/DEVICE/queues/rx-N/rps_cpus)"
        }
        What::HaltPolling => {
            let polls = "let KVM poll for longer before it halts a vCPU";
            let Stand::HaltPolling { now_ns, try_ns } = of.now else { return Sentence::new(polls) };
            return Sentence::new(format!("{polls}: xweave vary --try halt_poll_ns={now_ns},{try_ns}"));
        }
        What::Governor => "cpupower frequency-set -g performance",
        What::Queues => {
            "give its network device more (QEMU: -netdev tap,…,queues=N -device virtio-net-pci,…,mq=on; libvirt: \
             <driver queues='N'/>), each with a vhost thread, and let the guest use them (ethtool -L DEVICE combined N)"
        }
        What::Swappiness => "sysctl vm.swappiness=0, if it cannot have more memory",
        What::Ksm => "echo 0 >/sys/kernel/mm/ksm/run, or let it scan less (pages_to_scan)",
    };
    Sentence::new(remedy)
}
