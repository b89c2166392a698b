//! What people see of what the machines did.

use std::collections::BTreeMap;

use xweave_model::{
    ExitReason, Interrupt, ObjectGroup, Usage, UsageObject,
    usage::{Figures, Waited},
};
use xweave_report::{View, machines};

use crate::objects::{disk, disk_user, exits, key, process, qemu, threads, vcpu, vcpus};

const MS: u64 = 1_000_000;

/// A host of two CPUs with two virtual machines, one of which keeps the other from running, and one guest.
fn usage() -> Usage {
    let mut usage = Usage { span_ns: 2000 * MS, events: 12_345, ..Usage::default() };
    usage.spans = BTreeMap::from([("host".into(), 2000 * MS), ("vm1".into(), 1900 * MS)]);
    usage.cpus = BTreeMap::from([("host".into(), 2), ("vm1".into(), 1)]);
    let busy = |cpus: &[(u32, u64)]| cpus.iter().map(|(cpu, ms)| (*cpu, ms * MS)).collect();
    usage.busy =
        BTreeMap::from([("host".into(), busy(&[(0, 1960), (1, 944)])), ("vm1".into(), busy(&[(0, 500)]))]);
    let mut add =
        |domain: &str, object: UsageObject, [time, count, bytes, written, wait, device]: [u64; 6]| {
            let (time_ns, wait_ns, device_ns) = (time * MS, wait * MS, device * MS);
            let figures = Figures { time_ns, count, bytes, written, wait_ns, device_ns, distance: 0 };
            usage.objects.insert(key(domain, object), figures);
        };
    let recorder = || ObjectGroup::Recorder;
    add("host", UsageObject::Process(vcpus("vm1")), [900, 400, 0, 0, 1200, 0]);
    add("host", UsageObject::Process(vcpus("web1")), [1800, 300, 0, 0, 100, 0]);
    add("host", process("bash"), [4, 3, 0, 0, 1, 0]);
    add("host", UsageObject::Process(recorder()), [200, 9, 0, 0, 300, 0]);
    add("host", vcpu(0, "vm1"), [800, 1512, 0, 0, 150, 0]);
    add("host", vcpu(0, "web1"), [1700, 70, 0, 0, 20, 0]);
    add("host", vcpu(1, "web1"), [50, 7, 0, 0, 900, 0]);
    add("host", exits(ExitReason::Io, "vm1"), [60, 1400, 0, 0, 0, 0]);
    add("host", exits(ExitReason::Halt, "vm1"), [10, 112, 0, 0, 0, 0]);
    add("host", disk("nvme0n1"), [400, 100, 6 << 20, 4 << 20, 50, 900]);
    add("host", disk_user(qemu("vm1"), "nvme0n1"), [300, 80, 5 << 20, 4 << 20, 0, 0]);
    add("host", disk_user(threads("bash"), "nvme0n1"), [100, 20, 1 << 20, 0, 0, 0]);
    add("host", UsageObject::Service(None), [0, 12, 418, 0, 0, 0]);
    add("host", UsageObject::Service(Some(80)), [0, 40, 9000, 0, 0, 0]);
    let tbf = UsageObject::Qdisc { kind: "tbf".into(), device: "vnet3".into() };
    add("host", tbf, [500, 90, 0, 0, 4500, 0]);
    add("host", UsageObject::Locks(recorder()), [16_000, 850, 0, 0, 16_000, 0]);
    add("host", UsageObject::Interrupt(Interrupt::Timer), [5, 800, 0, 0, 0, 0]);
    add("vm1", process("postgres"), [500, 90, 0, 0, 30, 0]);
    add("vm1", UsageObject::Peer(Some(5432)), [0, 20, 4096, 0, 70, 0]);
    let waited = |who, by, ms: u64| Waited { domain: "host".into(), who, by, ns: ms * MS };
    usage.waited = vec![
        waited(vcpus("vm1"), vcpus("web1"), 1000),
        waited(vcpus("vm1"), recorder(), 150),
        waited(vcpus("vm1"), threads("bash"), 1),
        waited(vcpus("web1"), vcpus("vm1"), 90),
    ];
    usage
}

#[test]
fn whose_vcpus_took_whose_time_comes_first_and_the_recorder_is_a_line() {
    let text = machines::text(&usage(), &["host", "vm1", "vm9"], false, View { width: 160, color: false });
    assert_eq!(text, "\
host, vm1, vm9: 2.000 s, 12 345 events
web1 used 45 % of host's 2 CPUs and kept vm1 waiting for 1.000 s (83 % of its waits)
host's disk nvme0n1: 4.0 MiB written, by qemu-system-x86 of vm1 100 %

host: 2 CPUs, 73 % busy
  CPUs           0: 98 %, 1: 47 %
  ran            vCPUs of web1 45 %, vCPUs of vm1 22 %, xweave itself 5 %
  waited         vCPUs of vm1 1.200 s, taken by vCPUs of web1 83 %, xweave itself 12 %
  waited         vCPUs of web1 100.00 ms, taken by vCPUs of vm1 90 %, 10 % by nobody
  web1           2 vCPUs: 1.750 s in the guest, 920.00 ms halted, 100.00 ms waiting for a CPU; 77 exits
  vm1            1 vCPU: 800.00 ms in the guest, 150.00 ms halted, 1.200 s waiting for a CPU; 1 512 exits: io 60.00 ms (1 400 ×), hlt 10.00 ms (112 ×)
  disk nvme0n1   20 % busy, 100 requests, 2.0 MiB read, 4.0 MiB written, 3.0 MiB/s; on average 500.0 µs in the queue and 9.00 ms in the device:
                 qemu-system-x86 of vm1 1.0 MiB read, 4.0 MiB written; bash 1.0 MiB read
  serves         :80 (40 messages, 8.8 KiB, 4.4 KiB/s)
  queues         tbf of vnet3 held 90 frames back for 50.00 ms on average, in all during 25 % of the time
  interrupts     timer interrupt 5.00 ms (800 ×)
  xweave itself  ran 5 %, 12 messages with its agents (418 B)

vm1: 1 CPU, 26 % busy
  ran     postgres 26 %
  waited  postgres 30.00 ms, 100 % by nobody
  asks    :5432 (20 messages, 4.0 KiB, 2.1 KiB/s, waited 70.00 ms)
");
}

#[test]
fn a_narrow_terminal_breaks_neither_words_nor_numbers() {
    let text = machines::text(&usage(), &["host", "vm1"], false, View { width: 80, color: false });
    assert_eq!(
        text,
        "\
host, vm1: 2.000 s, 12 345 events
web1 used 45 % of host's 2 CPUs and kept vm1 waiting for 1.000 s (83 % of its
waits)
host's disk nvme0n1: 4.0 MiB written, by qemu-system-x86 of vm1 100 %

host: 2 CPUs, 73 % busy
  CPUs           0: 98 %, 1: 47 %
  ran            vCPUs of web1 45 %, vCPUs of vm1 22 %, xweave itself 5 %
  waited         vCPUs of vm1 1.200 s, taken by vCPUs of web1 83 %, xweave
                 itself 12 %
  waited         vCPUs of web1 100.00 ms, taken by vCPUs of vm1 90 %, 10 % by
                 nobody
  web1           2 vCPUs: 1.750 s in the guest, 920.00 ms halted, 100.00 ms
                 waiting for a CPU; 77 exits
  vm1            1 vCPU: 800.00 ms in the guest, 150.00 ms halted, 1.200 s
                 waiting for a CPU; 1 512 exits: io 60.00 ms (1 400 ×), hlt
                 10.00 ms (112 ×)
  disk nvme0n1   20 % busy, 100 requests, 2.0 MiB read, 4.0 MiB written,
                 3.0 MiB/s; on average 500.0 µs in the queue and 9.00 ms in
                 the device: qemu-system-x86 of vm1 1.0 MiB read, 4.0 MiB
                 written; bash 1.0 MiB read
  serves         :80 (40 messages, 8.8 KiB, 4.4 KiB/s)
  queues         tbf of vnet3 held 90 frames back for 50.00 ms on average, in
                 all during 25 % of the time
  interrupts     timer interrupt 5.00 ms (800 ×)
  xweave itself  ran 5 %, 12 messages with its agents (418 B)

vm1: 1 CPU, 26 % busy
  ran     postgres 26 %
  waited  postgres 30.00 ms, 100 % by nobody
  asks    :5432 (20 messages, 4.0 KiB, 2.1 KiB/s, waited 70.00 ms)
"
    );
}

#[test]
fn where_nothing_waits_it_says_so() {
    let text = machines::text(&Usage::default(), &["host"], false, View { width: 80, color: false });
    assert_eq!(text, "host: 0 ns, 0 events\nNothing waited for a CPU for 1 % of the time.\n");
}

#[test]
fn who_writes_to_which_disk_is_answered_before_the_tables() {
    let mut usage = usage();
    let mut add = |object: UsageObject, bytes: u64, written: u64| {
        let figures = Figures { count: 9, time_ns: MS, bytes, written, ..Figures::default() };
        usage.objects.insert(key("vm1", object), figures);
    };
    add(disk("vda"), 12 << 20, 10 << 20);
    for (name, mib) in [("postgres", 8), ("jbd2", 1), ("kworker", 1)] {
        add(disk_user(threads(name), "vda"), (mib + 1) << 20, mib << 20);
    }
    // Another one's that ends alike.
    add(disk_user(threads("sh"), "dm-vda"), 99 << 20, 99 << 20);
    add(disk("vdb"), 1 << 20, 0);
    add(disk_user(threads("cat"), "vdb"), 1 << 20, 0);
    let head = |width| {
        let text = machines::text(&usage, &["host", "vm1"], false, View { width, color: false });
        let lines = text.lines().skip(if width < 100 { 3 } else { 2 });
        lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        head(160),
        [
            "vm1's disk vda: 10 MiB written, by postgres 80 %, jbd2 10 %, kworker 10 %",
            "host's disk nvme0n1: 4.0 MiB written, by qemu-system-x86 of vm1 100 %",
            "vm1's disk vdb: 1.0 MiB read, by cat 100 %",
        ]
    );
    assert_eq!(head(80), head(160));
    for nth in 0..9 {
        let key = key("vm1", disk(&format!("sd{nth}")));
        usage.objects.insert(key, Figures { bytes: 5, written: 5, ..Figures::default() });
    }
    let text = machines::text(&usage, &["host", "vm1"], false, View { width: 80, color: false });
    assert!(text.contains("\nand 6 other disks below\n"), "{text}");
    assert!(text.contains("other disks: --all\n"), "{text}");
    let all = machines::text(&usage, &["host", "vm1"], true, View { width: 80, color: false });
    assert!(!all.contains("--all") && (0..9).all(|nth| all.contains(&format!("sd{nth} "))), "{all}");
}

#[test]
fn of_many_cpus_the_busiest_are_told() {
    let mut usage = usage();
    let cpus = (0..12).map(|cpu| (cpu, u64::from(cpu) * 100 * MS)).collect();
    usage.busy.insert("host".into(), cpus);
    let text = machines::text(&usage, &["host"], false, View { width: 160, color: false });
    let told = "CPUs           11: 55 %, 10: 50 %, 9: 45 %, 8: 40 %, 7: 35 %, 6: 30 %, 5: 25 %, 4: 20 %, 4 more down to 0 %\n";
    assert!(text.contains(told), "{text}");
    let all = machines::text(&usage, &["host"], true, View { width: 160, color: false });
    assert!(all.contains("0: 0 %, 1: 5 %, 2: 10 %") && all.contains("11: 55 %\n"), "{all}");
}
