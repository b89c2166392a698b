//! Transactions of whole traces: found, named, and their parts summed up.

use tempfile::TempDir;
use xweave_model::{
    Delay, DomainRef, Explained, Objects, Spec,
    connection::Refused,
    delay::DelayKind,
    explain,
    objects::{Cause, Reason},
    parts::Totals,
    sequence::sequence,
};
use xweave_trace::{
    Disk, Domain, Manifest, Trace, Writer,
    event::{Connection, Event, Kind, Refusal, State},
};

use crate::notation;

/// The client's end of a connection between domain 1 and the server in domain 2.
fn client(port: u64) -> Connection {
    Connection(3 << 32 | port << 16 | 80)
}

struct Recorded {
    writer: Writer,
    time: i64,
}

impl Recorded {
    fn begin(dir: &TempDir) -> Self {
        let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
        let mut domains = vec![domain("vm1", 1), domain("vm2", 2)];
        domains[0].disks = vec![Disk { name: "vda".into(), major: 254, minor: 0 }];
        let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
        for (domain, tid, name) in [(1, 7, "ab"), (2, 9, "nginx")] {
            let name = writer.name(name);
            let told =
                Event { other: tid, object: tid.into(), name, ..Event::new(Kind::Thread, domain, 0, 0, 0) };
            writer.event(told).unwrap();
        }
        Self { writer, time: 0 }
    }

    /// So much later, in a domain's only processor, above a thread.
    fn event(&mut self, after: i64, kind: Kind, domain: u8, tid: u32, with: impl FnOnce(&mut Event)) {
        self.time += after;
        let mut event = Event::new(kind, domain, self.time, 0, tid);
        with(&mut event);
        self.writer.event(event).unwrap();
    }

    fn of_socket(&mut self, after: i64, kind: Kind, end: Connection, code: i32) {
        let (domain, tid) = if end.remote_port() == 80 { (1, 7) } else { (2, 9) };
        self.event(after, kind, domain, tid, |event| (event.position, event.code) = (end.0, code));
    }

    fn switch(&mut self, after: i64, domain: u8, from: u32, state: State, to: u32) {
        self.event(after, Kind::Switch, domain, from, |event| (event.other, event.code) = (to, state.code()));
    }

    /// An interrupt wakes the domain's thread, which goes on.
    fn woken(&mut self, after: i64, domain: u8, tid: u32, by: impl FnOnce(&mut Self)) {
        self.event(after, Kind::IrqEnter, domain, 0, |_| ());
        by(self);
        self.event(0, Kind::Wake, domain, 0, |event| event.other = tid);
        self.event(1, Kind::IrqExit, domain, 0, |_| ());
        self.switch(2, domain, 0, State::Runnable, tid);
    }

    /// A connection, whose request is refused at first or not; a request that takes `work`; closing.
    fn transaction(&mut self, end: Connection, refused: bool, work: i64) {
        self.of_socket(10, Kind::Socket, end, 2);
        if refused {
            let code = Refusal::AcceptQueue.code();
            self.event(5, Kind::SynDrop, 2, 0, |event| {
                (event.position, event.code, event.bytes) = (end.peer().0, code, 6);
            });
        }
        self.switch(5, 1, 7, State::Sleeping, 0);
        if refused {
            self.event(1_000_000, Kind::Retransmit, 1, 0, |event| (event.position, event.code) = (end.0, 2));
        }
        self.woken(20, 2, 9, |this| this.of_socket(0, Kind::Socket, end.peer(), 1));
        self.of_socket(5, Kind::Accept, end.peer(), 0);
        self.switch(5, 2, 9, State::Sleeping, 0);
        self.woken(10, 1, 7, |this| this.of_socket(0, Kind::Socket, end, 1));
        self.of_socket(10, Kind::Send, end, 0);
        self.switch(5, 1, 7, State::Sleeping, 0);
        self.woken(20, 2, 9, |_| ());
        self.of_socket(1, Kind::Receive, end.peer(), 0);
        self.of_socket(work, Kind::Send, end.peer(), 0);
        self.switch(5, 2, 9, State::Sleeping, 0);
        // The other end may have closed (CLOSE_WAIT) before what it sent is received.
        self.woken(15, 1, 7, |this| this.of_socket(0, Kind::Socket, end, 8));
        self.of_socket(2, Kind::Receive, end, 0);
        self.of_socket(10, Kind::Socket, end, 4);
        self.of_socket(10, Kind::Socket, end, 7);
        self.of_socket(0, Kind::Socket, end.peer(), 7);
    }
}

/// Three connections, the second of which is refused at first.
fn three() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = Recorded::begin(&dir);
    recorded.switch(1, 2, 9, State::Sleeping, 0);
    recorded.switch(1, 1, 0, State::Runnable, 7);
    for (port, refused, work) in [(40_000, false, 100), (40_001, true, 200), (40_002, false, 50_000)] {
        recorded.transaction(client(port), refused, work);
    }
    recorded.writer.finish().unwrap();
    dir
}

/// `TOTAL: NS STATE OBJECT of DOMAIN, …` of each, the largest parts first.
fn told(dir: &TempDir, spec: &str, largest: usize) -> Vec<String> {
    let mut all = Vec::new();
    let trace = Trace::open(dir.path()).unwrap();
    let outcome = explain(&trace, &spec.parse::<Spec>().unwrap(), &mut |transaction, objects| {
        all.push(line(&transaction, objects, largest));
    });
    assert_eq!((outcome.transactions, outcome.damaged.len()), (all.len() as u64, 0));
    all
}

fn line(transaction: &Explained, objects: &Objects, largest: usize) -> String {
    let part = |part: &xweave_model::parts::Part| {
        let why = match part.cause {
            None => String::new(),
            Some(Cause::Had(other) | Cause::HadByOwn(other)) => {
                format!(" ({} had the CPU)", notation::object(objects.get(other)))
            }
            Some(Cause::Refused(times, Refused { why, waiting })) => format!(" ({why:?} {times}, {waiting})"),
            Some(other) => format!(" ({other:?})"),
        };
        let domain = notation::domain(&objects.get(part.object).domain);
        format!("{} of {domain}{why}", notation::part(part, objects))
    };
    let parts: Vec<_> = notation::parts_of(transaction).iter().take(largest).map(part).collect();
    format!("{} {}: {}", transaction.name, transaction.total_ns, parts.join(", "))
}

#[test]
fn a_connect_is_told_from_asking_to_accepting_with_the_reason_of_a_delay() {
    let dir = three();
    let retransmit = "AcceptQueue 1, 6";
    assert_eq!(
        told(&dir, "connect:80", 2),
        [
            "40000 → 80 33: 25 network link :80 of vm1 → vm2, 5 running nginx/9 of vm2".to_owned(),
            format!(
                "40001 → 80 1000038: 1000010 retransmit link :80 of vm1 → vm2 ({retransmit}), \
                 20 network link :80 of vm1 → vm2"
            ),
            "40002 → 80 33: 25 network link :80 of vm1 → vm2, 5 running nginx/9 of vm2".to_owned(),
        ]
    );
    assert_eq!(told(&dir, "connect:81", 1), [""; 0]);
}

#[test]
fn what_the_server_did_while_a_request_was_lost_is_not_to_blame() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = Recorded::begin(&dir);
    let end = client(40_000);
    recorded.switch(1, 2, 0, State::Runnable, 9);
    recorded.of_socket(9, Kind::Socket, end, 2);
    recorded.event(5, Kind::SynDrop, 2, 0, |event| {
        (event.position, event.code) = (end.peer().0, Refusal::TimeWait.code());
    });
    recorded.of_socket(1000, Kind::Retransmit, end, 2);
    recorded.of_socket(20, Kind::Socket, end.peer(), 1);
    recorded.of_socket(300, Kind::Accept, end.peer(), 0);
    recorded.writer.finish().unwrap();
    let retransmit = "TimeWait 1, 0";
    assert_eq!(
        told(&dir, "connect", 3),
        [format!(
            "40000 → 80 1325: 1005 retransmit link :80 of vm1 → vm2 ({retransmit}), 300 running nginx/9 of vm2, \
             20 network link :80 of vm1 → vm2"
        )]
    );
    // The same of all of them.
    let (trace, mut totals) = (Trace::open(dir.path()).unwrap(), Totals::default());
    explain(&trace, &"connect".parse().unwrap(), &mut |transaction, objects| {
        totals.add(&transaction, objects)
    });
    let delay = |kind, domain| Delay { kind, domain, whom: None, awaited: None };
    let network = delay(DelayKind::Network, DomainRef::Between("vm1".into(), "vm2".into()));
    assert_eq!(totals.reason(&network), Some((&Reason::Refused(Refusal::TimeWait), 1005)));
    assert_eq!(totals.reason(&delay(DelayKind::Running, DomainRef::One("vm2".into()))), None);
}

#[test]
fn a_request_is_told_as_the_client_s_with_what_the_server_did() {
    let told = told(&three(), "request", 1);
    assert_eq!(
        told,
        [
            "40000 → 80 154: 101 running nginx/9 of vm2",
            "40001 → 80 254: 201 running nginx/9 of vm2",
            "40002 → 80 50054: 50001 running nginx/9 of vm2",
        ]
    );
}

#[test]
fn a_sequence_s_requests_are_finished() {
    let trace = three();
    let trace = Trace::open(trace.path()).unwrap();
    let mut checked = 0;
    explain(&trace, &Spec::Request(Some(80), None), &mut |transaction, objects| {
        let mut waiting = Vec::new();
        let mut words = Vec::new();
        for message in sequence(&transaction) {
            match message.basic {
                xweave_model::sequence::Basic::Request => waiting.push((message.from, message.to)),
                xweave_model::sequence::Basic::Finish => {
                    assert_eq!(waiting.pop(), Some((message.to, message.from)), "who asked goes on");
                }
                _ => {}
            }
            words.push(format!(
                "{} {}",
                message.basic.name(),
                notation::group(&objects.get(message.to).group)
            ));
        }
        assert!(waiting.is_empty());
        assert_eq!(words, ["Request nginx", "Accept nginx", "Finish ab", "Resume ab"]);
        checked += 1;
    });
    assert_eq!(checked, 3);
}

#[test]
fn a_process_s_life_is_what_it_did_and_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = Recorded::begin(&dir);
    recorded.switch(1, 1, 0, State::Runnable, 7);
    let dd = recorded.writer.name("dd");
    recorded.event(9, Kind::Fork, 1, 7, |event| (event.other, event.object, event.name) = (8, 8, dd));
    recorded.switch(10, 1, 7, State::Sleeping, 8);
    recorded.event(30, Kind::DiskQueue, 1, 8, |event| (event.object, event.bytes) = (254 << 20, 4096));
    recorded.event(0, Kind::DiskIssue, 1, 8, |event| (event.object, event.bytes) = (254 << 20, 4096));
    recorded.switch(1, 1, 8, State::Blocked, 0);
    recorded.woken(60, 1, 8, |this| {
        this.event(0, Kind::DiskComplete, 1, 0, |event| (event.object, event.bytes) = (254 << 20, 4096));
    });
    recorded.event(20, Kind::Exit, 1, 8, |_| ());
    recorded.writer.finish().unwrap();
    let expected = "dd/8 124: 60 device disk vda of vm1, 51 running dd/8 of vm1, 10 ready dd/8 of vm1 (ab/7 had the CPU)";
    assert_eq!(told(&dir, "process:dd", 3), [expected]);
    assert_eq!(told(&dir, "process:cat", 3), [""; 0]);
}
