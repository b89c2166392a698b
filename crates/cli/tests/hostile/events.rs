//! Events: of kinds that nobody asked for, with names without end, and as many as may wait.

use std::{
    io,
    path::Path,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use xweave_synthetic::agent::{Done, Moment, Voice, by, clock};
use xweave_trace::Trace;
use xweave_wire::{
    event::{Event, Kind},
    message,
};

use crate::stage::{Domain, Ended, Recording, record, types_beside};

/// How soon the controller obeys Ctrl-C.
const OBEYED: Duration = Duration::from_secs(2);

/// How long anything may take that has no deadline of its own, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Events of one message: nearly the longest that is taken.
const BATCH: u64 = 24_000;

/// What the probes' C names of a kernel, whichever of them are used (`bpf/events/`).
const NAMED: &str = "
    struct notifier { void *first; };
    struct task_struct { int pid; int tgid; char comm[16]; unsigned long nvcsw; struct notifier preempt_notifiers; };
    struct gendisk { int major; int first_minor; };
    struct block_device { struct gendisk *bd_disk; };
    struct bvec_iter { unsigned long bi_sector; unsigned bi_size; };
    struct bio { unsigned bi_opf; struct bvec_iter bi_iter; struct block_device *bi_bdev; };
    struct request_queue { struct gendisk *disk; };
    struct request {
        struct request_queue *q; unsigned cmd_flags; unsigned long __sector; unsigned __data_len; struct bio *bio;
    };
    struct in6_addr { union { unsigned u6_addr32[4]; } in6_u; };
    struct sock_common {
        unsigned short skc_family; struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
        unsigned skc_daddr, skc_rcv_saddr; unsigned short skc_num, skc_dport; unsigned char skc_state;
    };
    struct sock {
        struct sock_common __sk_common; unsigned short sk_protocol; unsigned sk_ack_backlog, sk_max_ack_backlog;
    };
    struct sk_buff {
        unsigned char *head; unsigned short network_header, transport_header; struct sock *sk;
    };
    /* In an order in which clang does not leave one that is pointed to undefined. */
    int of_disk(struct gendisk *disk, struct block_device *device, struct request_queue *queue) {
        return disk->major + !device->bd_disk + !queue->disk;
    }
    int of_accesses(struct bio *bio, struct request *request) { return bio->bi_opf + request->cmd_flags; }
    int of_sockets(struct sock *sock, struct sk_buff *buffer) { return sock->sk_protocol + !buffer->head; }
";

/// Of a kernel that has a place for some of the probes of `--events sched`: switches, forks and threads' names. It has none
/// for those of threads that end.
static TYPES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    // include/trace/events/sched.h and task.h.
    let tracepoints = [
        (
            "sched_switch",
            "_Bool preempt, struct task_struct *task, struct task_struct *next, unsigned int state",
        ),
        ("sched_process_fork", "struct task_struct *task, struct task_struct *child"),
        ("task_rename", "struct task_struct *task, const char *comm"),
    ];
    let traced = |(name, arguments): (&str, &str)| {
        format!(
            "typedef void (*btf_trace_{name})(void *data, {arguments});\n\
             int __traceiter_{name}(void *data, {arguments}) {{ return task->pid; }}\n\
             int register_{name}(btf_trace_{name} probe) {{ return !probe; }}\n"
        )
    };
    let all = tracepoints.map(traced).concat();
    types_beside("int length; struct item *next;", &format!("{NAMED}{all}"))
});

/// Whose agent does this while it records.
fn domain(name: &'static str, mut act: impl FnMut(&mut Voice) -> io::Result<()> + Send + 'static) -> Domain {
    let script = by(move |moment, voice| {
        if voice.recording && matches!(moment, Moment::Tick) {
            act(voice)?;
        }
        Ok(Done::Nothing)
    });
    let mut domain = Domain::new(name, script);
    domain.btf = TYPES.clone();
    domain
}

/// Sends these.
fn send(voice: &mut Voice, events: impl Iterator<Item = Event>) -> io::Result<()> {
    let mut bytes = Vec::new();
    events.for_each(|event| event.encode(&mut bytes));
    voice.event(message::Event::Events(bytes))
}

fn event(kind: Kind, name: &str) -> Event {
    let mut event = Event::new(kind, clock().mono_ns, 0, 1);
    event.name[..name.len()].copy_from_slice(name.as_bytes());
    event
}

/// A host whose events are honest: a thread's name and some switches at each tick.
fn host() -> Domain {
    let mut nth = 0;
    domain("host", move |voice| {
        nth += 1;
        let thread = event(Kind::Thread, &format!("worker-{}", nth % 100));
        send(voice, [thread, event(Kind::Switch, "")].into_iter())
    })
}

/// Such a guest beside it.
fn beside(act: impl FnMut(&mut Voice) -> io::Result<()> + Send + 'static, arguments: &str) -> Recording {
    record(vec![host(), domain("vm1", act)], arguments)
}

/// Asserts that all of the host's is there, whatever the guest did.
fn assert_host_is_whole(ended: &Ended) {
    assert_eq!(ended.records("host"), 5000);
    let trace = Trace::open(&ended.path("trace")).unwrap();
    let mut events = trace.events();
    let (mut named, mut switches) = (0, 0);
    while let Some(event) = events.next() {
        match event.kind {
            Kind::Thread if event.domain == 1 => {
                assert!(events.names().text(event.name).starts_with("worker-"));
                named += 1;
            }
            Kind::Switch if event.domain == 1 => switches += 1,
            _ => {}
        }
    }
    // What another sent may be such that its files are not read: rows that take hardly a bit, for one.
    let of_host = |file: &Path| file.file_name().unwrap().to_str().unwrap().starts_with("host-");
    assert!(!events.damaged().iter().any(|damaged| of_host(&damaged.file)), "{:?}", events.damaged());
    assert!(named > 20 && named == switches, "{named} names of threads, {switches} switches");
}

#[test]
fn events_that_nobody_asked_for_are_refused() {
    let sends = |kind| move |voice: &mut Voice| send(voice, [event(kind, "")].into_iter());
    // Of one kind more than the kernel has a place for; and any, where none are recorded.
    let ended = beside(sends(Kind::Exit), "--events sched --duration 2s").end_within(PATIENCE);
    ended.said(1, &["domain vm1 was lost", "cut off", "an event of kind exit, which is not in its plan"]);
    assert_host_is_whole(&ended);

    let guest = domain("vm1", sends(Kind::Thread));
    let ended = record(vec![Domain::honest("host"), guest], "--duration 2s").end_within(PATIENCE);
    ended.said(1, &["domain vm1 was lost", "an event of kind thread, which is not in its plan"]);
    assert_eq!((ended.records("host"), ended.manifest()["events"].as_u64()), (5000, Some(0)));

    // What its plan has, and the threads that an agent tells by itself.
    let ended = beside(sends(Kind::Fork), "--events sched --duration 1s").end_within(PATIENCE);
    ended.said(0, &["10000 records"]);
    assert_host_is_whole(&ended);
}

/// A guest whose threads all have names of their own.
fn names_without_end() -> impl FnMut(&mut Voice) -> io::Result<()> + Send {
    let mut nth = 0u64;
    move |voice| {
        for _ in 0..10 {
            let first = event(Kind::Thread, "");
            let names = (nth..nth + BATCH).map(|nth| {
                let mut event = first;
                event.name.copy_from_slice(format!("{nth:016x}").as_bytes());
                event
            });
            send(voice, names)?;
            nth += BATCH;
        }
        Ok(())
    }
}

#[test]
fn names_without_end_cost_neither_memory_nor_the_hosts_events() {
    let begun = Instant::now();
    let ended = beside(names_without_end(), "--events sched --duration 12s").end_within(PATIENCE);
    println!("{:?}", begun.elapsed());
    ended.said(0, &["note: vm1: ", "stored without a name: they had more than 65536 different ones"]);
    assert_eq!(ended.output.matches("without a name").count(), 1, "{}", ended.output);
    let warnings = &ended.manifest()["warnings"];
    assert!(
        warnings.as_array().unwrap().iter().any(|said| said.as_str().unwrap().contains("without a name"))
    );
    ended.within_budget();
    assert_host_is_whole(&ended);
}

#[test]
fn names_without_end_do_not_keep_ctrl_c_waiting() {
    let mut recording = beside(names_without_end(), "--events sched");
    recording.wait_for("recording");
    recording.go_on(Duration::from_secs(8));
    recording.interrupt();
    recording.wait_for("unweaving");
    recording.interrupt();
    let ended = recording.end_within(OBEYED);
    ended.within_budget();
    assert_host_is_whole(&ended);
}

/// A guest that sends so many events, and meanwhile does not read its clocks; and whether it has.
fn events_beyond_the_clocks(
    count: u64,
) -> (impl FnMut(&mut Voice) -> io::Result<()> + Send, Arc<AtomicBool>) {
    let sent = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&sent);
    // Its clocks are known by then.
    let mut begun = None;
    let act = move |voice: &mut Voice| {
        let begun = *begun.get_or_insert_with(Instant::now);
        if begun.elapsed() < Duration::from_secs(2) || told.load(Ordering::Relaxed) {
            return Ok(());
        }
        for _ in 0..count / BATCH {
            let one = event(Kind::Thread, "worker");
            // In no order at all.
            send(voice, (0..BATCH).map(|nth| Event { time_ns: one.time_ns - nth * 7919 % 10_007, ..one }))?;
        }
        told.store(true, Ordering::Relaxed);
        Ok(())
    };
    (act, sent)
}

/// Records until so many have come.
fn record_beyond_the_clocks(count: u64) -> Recording {
    let (act, sent) = events_beyond_the_clocks(count);
    let mut recording = beside(act, "--events sched");
    recording.wait_for("recording");
    let deadline = Instant::now() + PATIENCE;
    while !sent.load(Ordering::Relaxed) && Instant::now() < deadline {
        recording.go_on(Duration::from_millis(50));
    }
    recording
}

/// Nearly all that may wait: 40 bytes each, of 256 MiB.
const MANY: u64 = 6_600_000;

#[test]
fn all_that_may_wait_is_held_once() {
    let mut recording = record_beyond_the_clocks(MANY);
    // Until they are written.
    recording.go_on(Duration::from_secs(6));
    recording.interrupt();
    let ended = recording.end_within(PATIENCE);
    ended.said(0, &["10000 records"]);
    println!("at most {} MiB of memory", ended.peak >> 20);
    // What waits, what is queued, and a message with what it is decoded to: SECURITY.md.
    assert!(ended.peak < 384 << 20, "{} MiB", ended.peak >> 20);
    assert_host_is_whole(&ended);
    assert!(ended.manifest()["events"].as_u64().unwrap() >= MANY / BATCH * BATCH);
}

#[test]
fn much_to_be_written_does_not_keep_the_second_ctrl_c_waiting() {
    let mut recording = record_beyond_the_clocks(MANY);
    recording.interrupt();
    recording.go_on(Duration::from_millis(100));
    recording.interrupt();
    let ended = recording.end_within(OBEYED);
    ended.within_budget();
    assert_host_is_whole(&ended);
}
