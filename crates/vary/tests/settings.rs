//! Settings are told with the time that they cost, and where they cost none, or stand well, nothing is.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use xweave_model::Spec;
use xweave_trace::{
    Domain, Event, Manifest, Role, Trace, Writer,
    event::{Kind, Name, State},
    manifest::{DomainVm, Nic, Settings},
};
use xweave_vary::{
    Variation,
    settings::{Setting, Stand, What},
};

const HOST: u8 = 1;
const VM1: u8 = 2;
const REQUESTS: i64 = 60;

/// Threads of the host: a vCPU, its vhost thread, its timer's, a server, and others.
const VCPU: u32 = 53;
const VHOST: u32 = 60;
const PIT: u32 = 61;
const KSOFTIRQD: u32 = 62;
const KSMD: u32 = 63;
const CRON: u32 = 64;
const SERVER: u32 = 65;

/// A thread of the guest.
const GUEST: u32 = 7;

/// A trace in the making.
struct Told {
    writer: Writer,
    begin: Name,
    end: Name,
}

impl Told {
    fn tell(
        &mut self,
        time: i64,
        kind: Kind,
        (domain, cpu, tid): (u8, u32, u32),
        fill: impl FnOnce(&mut Event),
    ) {
        let mut event = Event::new(kind, domain, time, cpu, tid);
        fill(&mut event);
        self.writer.event(event).unwrap();
    }

    fn switch(&mut self, time: i64, domain: u8, cpu: u32, from: u32, state: State, to: u32) {
        self.tell(time, Kind::Switch, (domain, cpu, from), |event| {
            (event.other, event.code) = (to, state.code());
        });
    }

    fn mark(&mut self, time: i64, domain: u8, tid: u32, ends: bool) {
        let name = if ends { self.end } else { self.begin };
        let cpu = if domain == HOST { 1 } else { 0 };
        self.tell(time, Kind::Other, (domain, cpu, tid), |event| event.name = name);
    }

    /// The vCPU comes out of the guest, or goes in again.
    fn vcpu(&mut self, time: i64, kind: Kind) {
        self.tell(time, kind, (HOST, 0, VCPU), |_| ());
    }
}

/// How each request is kept, from a time on for so many nanoseconds.
type Keep = fn(&mut Told, i64, i64);

/// What settings cost requests of a domain, each kept for some microseconds; and how long that was in all.
fn told(of: u8, standing: [Settings; 2], keep: Keep) -> (Vec<Setting>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let [host, guest] = standing;
    let events = vec!["sched".to_owned(), "power".to_owned()];
    let domain = |name: &str, number, role, settings| Domain {
        name: name.into(),
        number,
        role,
        settings,
        cpus: 4,
        events: events.clone(),
        ..Domain::default()
    };
    let vm = Some(DomainVm { host: "host".into(), pid: 50, cid: None });
    let domains =
        vec![domain("host", HOST, Role::Host, host), Domain { vm, ..domain("vm1", VM1, Role::Guest, guest) }];
    let mut writer =
        Writer::create(dir.path(), Manifest { reference: "host".into(), domains, ..Manifest::default() })
            .unwrap();
    writer.sites(&[]).unwrap();
    let [begin, end] = ["begin", "end"].map(|name| writer.name(name));
    let mut told = Told { writer, begin, end };
    let threads = [
        (VCPU, 50, "CPU 0/KVM"),
        (VHOST, 60, "vhost-50"),
        (PIT, 61, "kvm-pit/50"),
        (KSOFTIRQD, 62, "ksoftirqd/0"),
        (KSMD, 63, "ksmd"),
        (CRON, 64, "cron"),
        (SERVER, 65, "server"),
    ];
    for (tid, process, name) in threads {
        let name = told.writer.name(name);
        told.tell(0, Kind::Thread, (HOST, 0, 0), |event| {
            (event.other, event.object, event.name) = (tid, process, name);
        });
    }
    told.tell(1, Kind::CpuFrequency, (HOST, 0, 0), |event| event.bytes = 3_000_000);
    told.switch(2, HOST, 0, 0, State::Runnable, VCPU);
    told.switch(2, HOST, 1, 0, State::Runnable, SERVER);
    told.vcpu(3, Kind::VmEnter);
    told.switch(4, VM1, 0, 0, State::Runnable, GUEST);
    let mut all = 0;
    for nth in 1..=REQUESTS {
        let (time, long) = (nth * 1_000_000, 10_000 * (1 + nth % 7));
        let tid = if of == HOST { SERVER } else { GUEST };
        told.mark(time, of, tid, false);
        keep(&mut told, time + 1_000, long);
        told.mark(time + 3_000 + long, of, tid, true);
        all += u64::try_from(long).unwrap();
    }
    told.writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let spec: Spec = "between:begin..end".parse().unwrap();
    let (found, _) = Variation::of(&trace, &spec).unwrap();
    assert_eq!(found.requests, REQUESTS.unsigned_abs());
    (found.settings, all)
}

/// All stand so that they may cost something.
fn badly() -> [Settings; 2] {
    let host = Settings {
        halt_poll_ns: Some(0),
        governors: vec!["powersave".into()],
        ksm_run: Some(1),
        swappiness: Some(60),
        nics: Vec::new(),
    };
    let guest = Settings { nics: vec![Nic { name: "eth0".into(), queues: 1 }], ..Settings::default() };
    [host, guest]
}

/// None can cost anything that another value would not.
fn well() -> [Settings; 2] {
    let host = Settings {
        halt_poll_ns: Some(10_000_000),
        governors: vec!["performance".into()],
        ksm_run: Some(0),
        swappiness: Some(0),
        nics: Vec::new(),
    };
    let guest = Settings { nics: vec![Nic { name: "eth0".into(), queues: 4 }], ..Settings::default() };
    [host, guest]
}

/// What keeps a request costs as much as it kept all, or a share of that, and is the only one that is told; where it stands
/// well, or that is not known, none is.
#[track_caller]
fn costs(of: u8, keep: Keep, what: What, whose: &str, now: Stand, share: f64) {
    let (settings, all) = told(of, badly(), keep);
    let [of_one] = &settings[..] else { panic!("{settings:?}") };
    let Setting { what: is, domain, now: stands, ns, requests, .. } = of_one;
    assert_eq!((*is, domain.as_str(), stands), (what, whose, &now), "{settings:?}");
    let expected = all as f64 * share;
    assert!((*ns as f64 - expected).abs() <= 20.0 * REQUESTS as f64, "{ns} instead of {expected}");
    assert_eq!(*requests, REQUESTS.unsigned_abs());
    // Threads and interrupts are where they are, whatever else is known.
    if !matches!(what, What::KvmPit | What::Interrupts) {
        for standing in [well(), Default::default()] {
            assert_eq!(told(of, standing, keep).0, []);
        }
    }
}

fn preempted(told: &mut Told, time: i64, long: i64, by: u32) {
    told.vcpu(time - 1, Kind::VmExit);
    told.switch(time, HOST, 0, VCPU, State::Runnable, by);
    told.switch(time + long, HOST, 0, by, State::Sleeping, VCPU);
    told.vcpu(time + long + 1, Kind::VmEnter);
}

#[test]
fn what_no_setting_has_to_do_with_is_no_settings() {
    assert_eq!(told(VM1, badly(), |_, _, _| ()).0, []);
    assert_eq!(told(HOST, badly(), |_, _, _| ()).0, []);
    assert_eq!(told(VM1, badly(), |told, time, long| preempted(told, time, long, CRON)).0, []);
}

#[test]
fn kvms_timer_thread_on_a_vcpus_cpu() {
    costs(
        VM1,
        |told, time, long| preempted(told, time, long, PIT),
        What::KvmPit,
        "host",
        Stand::VcpusCpus,
        1.0,
    );
}

#[test]
fn softirqs_and_interrupts_on_a_vcpus_cpu() {
    let by_thread: Keep = |told, time, long| preempted(told, time, long, KSOFTIRQD);
    costs(VM1, by_thread, What::Interrupts, "host", Stand::VcpusCpus, 1.0);
    let above: Keep = |told, time, long| {
        told.tell(time, Kind::IrqEnter, (HOST, 0, VCPU), |event| event.object = 30);
        told.tell(time + 500, Kind::IrqExit, (HOST, 0, VCPU), |event| event.object = 30);
        told.tell(time + 500, Kind::SoftirqEnter, (HOST, 0, VCPU), |event| event.object = 3);
        told.tell(time + long, Kind::SoftirqExit, (HOST, 0, VCPU), |event| event.object = 3);
        told.vcpu(time + long + 1, Kind::VmExit);
        told.vcpu(time + long + 2, Kind::VmEnter);
    };
    costs(VM1, above, What::Interrupts, "host", Stand::VcpusCpus, 1.0);
}

#[test]
fn pages_that_are_compared_on_a_vcpus_cpu() {
    costs(VM1, |told, time, long| preempted(told, time, long, KSMD), What::Ksm, "host", Stand::On, 1.0);
}

/// Until it is woken, and until it runs: half of the time each.
#[test]
fn halts_that_are_not_polled_through() {
    let halted: Keep = |told, time, long| {
        told.switch(time - 10, VM1, 0, GUEST, State::Sleeping, 0);
        // EXIT_REASON_HLT of VMX.
        told.tell(time - 9, Kind::VmExit, (HOST, 0, VCPU), |event| event.code = 12);
        told.switch(time - 8, HOST, 0, VCPU, State::Sleeping, 0);
        told.tell(time, Kind::Wake, (VM1, 1, 0), |event| event.other = GUEST);
        told.tell(time + long / 2, Kind::Wake, (HOST, 2, 0), |event| event.other = VCPU);
        told.switch(time + long, HOST, 0, 0, State::Runnable, VCPU);
        told.vcpu(time + long + 1, Kind::VmEnter);
        told.switch(time + long + 2, VM1, 0, 0, State::Runnable, GUEST);
    };
    costs(VM1, halted, What::HaltPolling, "host", Stand::HaltPolling { now_ns: 0, try_ns: 200_000 }, 1.0);
}

#[test]
fn a_governor_that_lowers_the_frequency() {
    let slow: Keep = |told, time, long| {
        told.tell(time, Kind::CpuFrequency, (HOST, 3, 0), |event| event.bytes = 1_000_000);
        told.tell(time + long, Kind::CpuFrequency, (HOST, 3, 0), |event| event.bytes = 3_000_000);
    };
    // The guest does not know, and its host's governor it is.
    costs(VM1, slow, What::Governor, "host", Stand::Governors(vec!["powersave".into()]), 2.0 / 3.0);
}

#[test]
fn one_queue_whose_thread_waits_for_a_cpu() {
    let late: Keep = |told, time, long| {
        told.switch(time - 10, HOST, 1, SERVER, State::Sleeping, 0);
        told.switch(time - 5, HOST, 2, 0, State::Runnable, CRON);
        told.tell(time, Kind::Wake, (HOST, 3, 0), |event| (event.other, event.object) = (VHOST, 3));
        told.switch(time + long, HOST, 2, CRON, State::Sleeping, VHOST);
        told.tell(time + long + 5, Kind::Wake, (HOST, 2, VHOST), |event| {
            (event.other, event.object) = (SERVER, 2)
        });
        told.switch(time + long + 7, HOST, 1, 0, State::Runnable, SERVER);
        told.switch(time + long + 9, HOST, 2, VHOST, State::Sleeping, 0);
    };
    costs(HOST, late, What::Queues, "vm1", Stand::OneQueue { cpus: 4 }, 1.0);
}

#[test]
fn memory_that_was_swapped_out() {
    let swapped: Keep = |told, time, long| {
        told.switch(time, HOST, 1, SERVER, State::Blocked, 0);
        told.tell(time + long, Kind::Wake, (HOST, 1, 0), |event| event.other = SERVER);
        told.switch(time + long + 1, HOST, 1, 0, State::Runnable, SERVER);
        told.tell(time + long + 2, Kind::SwapIn, (HOST, 1, SERVER), |event| {
            (event.bytes, event.code) = (long.unsigned_abs() + 5, 1);
        });
    };
    costs(HOST, swapped, What::Swappiness, "host", Stand::Swappiness(60), 1.0);
}
