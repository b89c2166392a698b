//! What lies between two places: events, functions and advice, joined by what both tell.

use xweave_model::{Outcome, Spec, explain};
use xweave_trace::{
    Domain, DomainVm, EventLoss, Manifest, Site, Trace, Writer,
    event::{Connection, Event, Kind, Sending, State},
};
use xweave_wire::record::{Kind as RecordKind, Record};

use crate::notation;

/// A trace of a host and its guest: their events and records, by the places that these passed.
struct Recorded {
    dir: tempfile::TempDir,
    writer: Writer,
}

const HOST: u8 = 1;
const VM1: u8 = 2;
const VM2: u8 = 3;

/// Function, advice and hook of the sites 1 to 4, of all domains.
const SITES: [(&str, &str, &str); 4] = [
    ("vfs_read", "reading", "fentry"),
    ("vfs_read", "has_read", "fexit"),
    ("submit", "submitting", "fentry"),
    ("done", "doing", "fentry"),
];

impl Recorded {
    fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
        let vm = Some(DomainVm { host: "host".into(), pid: 50, cid: None });
        let domains = vec![domain("host", HOST), Domain { vm, ..domain("vm1", VM1) }, domain("vm2", VM2)];
        let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
        let site = |(number, (function, advice, hook)): (u32, (&str, &str, &str))| Site {
            site: number,
            domain: "vm1".into(),
            function: function.into(),
            advice: advice.into(),
            action: "advice".into(),
            hook: Some(hook.into()),
            ..Site::default()
        };
        let sites: Vec<_> = (1..).zip(SITES).map(site).collect();
        writer.sites(&sites).unwrap();
        Self { dir, writer }
    }

    fn event(
        &mut self,
        time: i64,
        kind: Kind,
        (domain, cpu, tid): (u8, u32, u32),
        with: impl FnOnce(&mut Event),
    ) {
        let mut event = Event::new(kind, domain, time, cpu, tid);
        with(&mut event);
        self.writer.event(event).unwrap();
    }

    fn record(&mut self, time: i64, site: u32, tid: u32, flow: u64, values: &[u64]) {
        let record = Record {
            time_ns: 0,
            flow,
            site,
            pid: tid,
            tid,
            cpu: 0,
            kind: RecordKind::Hop,
            comm: [0; 16],
            values: values.to_vec(),
        };
        self.writer.append(VM1, time, &record).unwrap();
    }

    fn lose(&mut self, time: i64, cpu: u32, from: i64, to: i64) {
        let ago = |moment: i64| (time - moment).unsigned_abs();
        let lost = |event: &mut Event| (event.position, event.object, event.bytes) = (ago(from), ago(to), 5);
        self.event(time, Kind::Lost, (VM1, cpu, 0), lost);
        let of_vm1 = EventLoss { domain: "vm1".into(), dropped: 5, ..EventLoss::default() };
        self.writer.manifest_mut().loss.events = vec![of_vm1];
    }

    /// `FROM-TO: NS STATE OBJECT, …` of each transaction, in the order of their ends.
    fn explained(self, spec: &str) -> (Vec<String>, Outcome) {
        self.writer.finish().unwrap();
        let trace = Trace::open(self.dir.path()).unwrap();
        let mut all = Vec::new();
        let outcome = explain(&trace, &spec.parse::<Spec>().unwrap(), &mut |found, objects| {
            let told: Vec<_> =
                notation::parts_of(&found).iter().map(|part| notation::part(part, objects)).collect();
            all.push(format!("{}-{}: {}", found.start_ns, found.start_ns + found.total_ns, told.join(", ")));
        });
        (all, outcome)
    }

    fn told(self, spec: &str) -> Vec<String> {
        self.explained(spec).0
    }
}

/// Requests of two threads to one disk, the second one done first; one that is never issued; one of another disk.
fn disks() -> Recorded {
    let mut of = Recorded::begin();
    let disk = |which: u32, sector: u64| {
        move |event: &mut Event| {
            (event.object, event.position, event.bytes, event.other) = (254 << 20, sector, 4096, which);
        }
    };
    of.event(100, Kind::DiskQueue, (VM1, 0, 7), disk(11, 80));
    of.event(150, Kind::DiskQueue, (VM1, 1, 8), disk(12, 800));
    of.event(160, Kind::DiskQueue, (VM1, 1, 8), disk(13, 8000));
    of.event(170, Kind::DiskQueue, (VM2, 1, 8), disk(11, 80));
    of.event(200, Kind::DiskIssue, (VM1, 0, 9), disk(11, 80));
    of.event(300, Kind::DiskIssue, (VM1, 0, 9), disk(12, 800));
    of.event(450, Kind::DiskComplete, (VM1, 1, 0), disk(12, 800));
    of.event(600, Kind::DiskComplete, (VM1, 0, 0), disk(11, 80));
    of
}

#[test]
fn requests_to_a_disk_are_joined_whoever_issues_them_and_divided_into_queue_and_device() {
    let (told, outcome) = disks().explained("between:disk_queue..disk_issue");
    assert_eq!(told, ["100-200: 100 queue disk 254:0", "150-300: 150 queue disk 254:0"]);
    assert_eq!(outcome.passed, Some(vec![4, 2]));
    assert_eq!(
        disks().told("between:disk_queue..disk_complete"),
        [
            "150-450: 150 queue disk 254:0, 150 device disk 254:0",
            "100-600: 400 device disk 254:0, 100 queue disk 254:0"
        ]
    );
    assert_eq!(
        disks().told("between:disk_issue..disk_complete"),
        ["300-450: 150 device disk 254:0", "200-600: 400 device disk 254:0"]
    );
    assert_eq!(disks().told("between:disk_queue@vm2..disk_issue"), [""; 0]);
    // Another rule than the natural one: a thread's own.
    assert_eq!(disks().told("between:disk_queue..disk_issue,by=thread"), [""; 0]);
}

#[test]
fn what_is_sent_is_joined_with_its_being_received_in_another_domain() {
    let mut of = Recorded::begin();
    let client = Connection(3 << 32 | 40_000 << 16 | 80);
    let send = |code: Sending| {
        move |event: &mut Event| {
            (event.position, event.bytes, event.code) = (client.0, 10, code.code());
        }
    };
    let receive = |event: &mut Event| (event.position, event.bytes) = (client.peer().0, 10);
    of.event(10, Kind::Switch, (VM2, 0, 0), |event| event.other = 9);
    of.event(20, Kind::Switch, (VM2, 0, 9), |event| event.code = State::Sleeping.code());
    of.event(100, Kind::Send, (VM1, 0, 7), send(Sending::Begins));
    of.event(110, Kind::Send, (VM1, 0, 7), send(Sending::Shortens));
    of.event(150, Kind::IrqEnter, (VM2, 0, 0), |_| ());
    of.event(151, Kind::Wake, (VM2, 0, 0), |event| event.other = 9);
    of.event(152, Kind::IrqExit, (VM2, 0, 0), |_| ());
    of.event(160, Kind::Switch, (VM2, 0, 0), |event| event.other = 9);
    of.event(170, Kind::Receive, (VM2, 0, 9), receive);
    // Back again: no receiving of the first direction.
    of.event(200, Kind::Send, (VM2, 0, 9), |event| (event.position, event.bytes) = (client.peer().0, 10));
    let (told, outcome) = of.explained("between:send..receive");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("100-170: "), "{told:?}");
    assert!(told[0].contains("running") && told[0].contains("link :80"), "{told:?}");
    assert_eq!(outcome.passed, Some(vec![2, 1]));
}

#[test]
fn an_interrupt_is_joined_from_the_host_s_injecting_it_to_the_guest_s_taking_it() {
    let mut of = Recorded::begin();
    // Thread 53 of the VM's process is vCPU 1, which is told when it first enters.
    of.event(1, Kind::Thread, (HOST, 3, 0), |event| (event.other, event.object) = (53, 50));
    of.event(2, Kind::Switch, (HOST, 3, 0), |event| event.other = 53);
    of.event(3, Kind::VmEnter, (HOST, 3, 53), |event| event.object = 1);
    of.event(50, Kind::VmExit, (HOST, 3, 53), |_| ());
    of.event(60, Kind::VmInject, (HOST, 3, 53), |event| (event.object, event.position) = (1, 36));
    of.event(70, Kind::VmEnter, (HOST, 3, 53), |event| event.object = 1);
    of.event(75, Kind::IrqEnter, (VM1, 0, 5), |_| ());
    of.event(77, Kind::IrqExit, (VM1, 0, 5), |_| ());
    of.event(80, Kind::IrqEnter, (VM1, 1, 6), |event| event.object = 30);
    of.event(85, Kind::SoftirqEnter, (VM1, 1, 6), |event| event.object = 3);
    assert_eq!(
        of.told("between:vm_inject@host..irq_enter@vm1"),
        ["60-80: 10 exit vCPU 1 of vm1, 10 waiting interrupts of CPU 1"]
    );
}

#[test]
fn a_wake_up_is_joined_with_the_woken_thread_s_running() {
    let mut of = Recorded::begin();
    of.event(1, Kind::Switch, (VM1, 0, 7), |event| (event.other, event.code) = (8, State::Sleeping.code()));
    of.event(100, Kind::Wake, (VM1, 0, 8), |event| event.other = 7);
    of.event(130, Kind::Switch, (VM1, 0, 8), |event| (event.other, event.code) = (7, State::Sleeping.code()));
    assert_eq!(of.told("between:wake..switch"), ["100-130: 30 ready thread 7"]);
}

/// Calls of one function within one another, by two threads; and what the second one submits, which another does.
fn calls() -> Recorded {
    let mut of = Recorded::begin();
    for tid in [7, 8] {
        of.event(1, Kind::Switch, (VM1, 0, 0), |event| event.other = tid);
    }
    of.record(100, 1, 7, 0, &[]);
    of.record(110, 1, 8, 0, &[]);
    of.record(120, 1, 7, 0, &[]);
    of.record(130, 2, 7, 0, &[1]);
    of.record(150, 2, 8, 0, &[1]);
    of.record(160, 3, 8, 0x20, &[0, 77]);
    of.record(165, 3, 8, 0x21, &[0, 78]);
    of.record(190, 2, 7, 0, &[1]);
    of.record(210, 4, 7, 0x21, &[1, 78]);
    of.record(230, 4, 7, 0x20, &[1, 77]);
    of.event(1_000, Kind::Switch, (VM1, 0, 8), |_| ());
    of
}

fn times(told: &[String]) -> Vec<&str> {
    told.iter().filter_map(|line| line.split(':').next()).collect()
}

#[test]
fn calls_and_returns_of_one_function_are_its_calls_and_not_the_gaps_between_them() {
    let calls_of = ["120-130", "110-150", "100-190"];
    assert_eq!(times(&calls().told("between:vfs_read..vfs_read")), calls_of);
    assert_eq!(times(&calls().told("between:vfs_read:entry..vfs_read:return")), calls_of);
    assert_eq!(times(&calls().told("between:vfs_read:return..vfs_read:entry")), [""; 0]);
    // By the advice's names; the innermost call is the last that began.
    assert_eq!(times(&calls().told("between:reading..has_read")), ["120-130", "110-150"]);
    // Where one place is all there is, an end is the next one's beginning.
    assert_eq!(times(&calls().told("between:done..done")), ["210-230"]);
}

#[test]
fn records_of_several_threads_are_joined_by_their_flow_or_by_what_they_stored() {
    let across = ["165-210", "160-230"];
    assert_eq!(times(&calls().told("between:submit..done,by=v2")), across);
    assert_eq!(times(&calls().told("between:submit..doing,by=flow")), across);
    assert_eq!(times(&calls().told("between:submit..done")), [""; 0]);
    let (told, outcome) = calls().explained("between:submit..nothing");
    assert_eq!((told.len(), outcome.passed), (0, Some(vec![2, 0])));
}

#[test]
fn what_was_lost_between_two_places_leaves_the_transaction_out_and_says_so() {
    let wake = |event: &mut Event| event.other = 9;
    let switch = |event: &mut Event| event.other = 9;
    let mut of = Recorded::begin();
    of.event(100, Kind::Wake, (VM1, 0, 7), wake);
    of.event(150, Kind::Switch, (VM1, 0, 0), switch);
    of.event(200, Kind::Switch, (VM1, 0, 9), |event| event.code = State::Sleeping.code());
    of.event(300, Kind::Wake, (VM1, 0, 7), wake);
    // On another CPU: the thread may have run there, slept and been woken again.
    of.lose(350, 1, 310, 349);
    of.event(400, Kind::Switch, (VM1, 0, 0), switch);
    let (told, outcome) = of.explained("between:wake..switch");
    assert_eq!((told.len(), outcome.uncertain), (1, 1), "{told:?}");
    assert!(told[0].starts_with("100-150: "), "{told:?}");

    // Of what stays on a CPU, only that one's events could have told.
    let irq = |event: &mut Event| event.object = 36;
    let mut of = Recorded::begin();
    for (time, cpu) in [(100, 0), (300, 1)] {
        of.event(time, Kind::IrqEnter, (VM1, cpu, 0), irq);
        of.event(time + 60, Kind::IrqExit, (VM1, cpu, 0), irq);
        of.lose(time + 70, 1, time + 10, time + 20);
    }
    let (told, outcome) = of.explained("between:irq_enter..irq_exit");
    assert_eq!((told.len(), outcome.uncertain), (1, 1), "{told:?}");
    assert!(told[0].starts_with("100-160: "), "{told:?}");
}
