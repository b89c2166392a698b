//! A made-up trace of packets from a guest through the host into another guest, as it would be on
//! kernels with debug information.

use std::path::Path;

use xweave_trace::{
    Clock, Domain, DomainVm, DropReason, Manifest, Method, Role, Site, Symbol, Trace, Writer,
};
use xweave_wire::record::{Kind, Record};

const NAMES: [&str; 3] = ["host", "vm1", "vm2"];

/// (domain, microseconds after the start, kind, function, file, line)
type Step = (u8, f64, Kind, &'static str, &'static str, u32);

const STEPS: [Step; 13] = [
    (2, 0.0, Kind::Start, "__alloc_skb", "net/core/skbuff.c", 661),
    (2, 3.4, Kind::Hop, "tcp_sendmsg_locked", "net/ipv4/tcp.c", 1062),
    (2, 72.4, Kind::Hop, "__dev_queue_xmit", "net/core/dev.c", 4310),
    (2, 130.8, Kind::Hop, "start_xmit", "drivers/net/virtio_net.c", 3062),
    (2, 131.9, Kind::Xin, "virtqueue_add_outbuf", "drivers/virtio/virtio_ring.c", 2271),
    (1, 182.5, Kind::Xout, "vhost_get_vq_desc", "drivers/vhost/vhost.c", 2490),
    (1, 194.9, Kind::Hop, "tun_get_user", "drivers/net/tun.c", 1728),
    (1, 310.4, Kind::Hop, "__netif_receive_skb_core", "net/core/dev.c", 5502),
    (1, 352.2, Kind::Hop, "br_handle_frame", "net/bridge/br_input.c", 323),
    (1, 468.4, Kind::Xin, "vhost_add_used_and_signal_n", "drivers/vhost/vhost.c", 2610),
    (3, 562.6, Kind::Xout, "virtqueue_get_buf_ctx", "drivers/virtio/virtio_ring.c", 2374),
    (3, 595.5, Kind::Hop, "napi_gro_receive", "net/core/gro.c", 627),
    (3, 640.0, Kind::Quit, "kfree_skb_reason", "net/core/skbuff.c", 1213),
];

fn domain(name: &str, number: u8, pid: Option<u32>) -> Domain {
    let vm = pid.map(|pid| DomainVm { host: "host".into(), pid, cid: None });
    let role = if vm.is_some() { Role::Guest } else { Role::Host };
    Domain { name: name.into(), number, role, vm, ..Domain::default() }
}

/// A host whose kernel names one reason to drop packets, and one place.
#[allow(dead_code, reason = "each test program compiles this anew, and not all ask for it")]
pub fn with_drops() -> Manifest {
    let symbol = Symbol { address: 0xabc, function: "__udp4_lib_rcv".into(), offset: 0x1f, module: None };
    let reason = DropReason { value: 3, name: "<NO>_SOCKET".into() };
    let host = Domain { drop_reasons: vec![reason], symbols: vec![symbol], ..domain("host", 1, None) };
    Manifest { domains: vec![host], ..Manifest::default() }
}

/// Writes the trace: `count` packets; every seventh is dropped on its way. Without `lines` there
/// is no debug information.
#[allow(dead_code, reason = "each test program compiles this anew, and not all ask for it")]
pub fn write(dir: &Path, count: u64, lines: bool) -> Trace {
    let mut writer = begin(dir, lines);
    packets(&mut writer, count);
    writer.finish().expect("room");
    Trace::open(dir).expect("what was just written")
}

/// Begins the trace, with the sites of the packets' steps.
pub fn begin(dir: &Path, lines: bool) -> Writer {
    let clock = |(name, error_ns): (&str, u64)| {
        let method = if error_ns == 0 { Method::Reference } else { Method::TscOffset };
        Clock { domain: name.into(), method, error_ns, ..Clock::default() }
    };
    let manifest = Manifest {
        reference: "host".into(),
        domains: vec![domain("host", 1, None), domain("vm1", 2, Some(4002)), domain("vm2", 3, Some(4003))],
        clocks: [("host", 0), ("vm1", 180), ("vm2", 210)].into_iter().map(clock).collect(),
        ..Manifest::default()
    };
    let mut writer = Writer::create(dir, manifest).expect("a new directory");
    let sites: Vec<Site> = (1..)
        .zip(&STEPS)
        .map(|(site, &(domain, _, kind, function, file, line))| Site {
            site,
            domain: NAMES[usize::from(domain) - 1].into(),
            aspect: "virtio-net".into(),
            function: function.into(),
            file: lines.then(|| file.into()),
            line: lines.then_some(line),
            action: kind.name().into(),
            xflow: Some("virtio_tx".into()),
            carrier: matches!(kind, Kind::Xin | Kind::Xout).then(|| "virtqueue".into()),
            ..Site::default()
        })
        .collect();
    writer.sites(&sites).expect("room");
    writer
}

/// Writes what is recorded of so many packets.
pub fn packets(writer: &mut Writer, count: u64) {
    for packet in 0..count {
        let begun = 1_000_000_000 + packet * 2_000_000;
        let slower = 1.0 + ((packet * 7) % 10) as f64 / 20.0;
        for (site, &(domain, after, kind, ..)) in (1..).zip(&STEPS) {
            if packet % 7 == 6 && domain == 3 {
                continue;
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "some hundred microseconds"
            )]
            let time_ns = begun + (after * slower * 1e3) as u64;
            let peer = match (domain, site) {
                (1, 0..=8) => 4002,
                (1, _) => 4003,
                _ => 0,
            };
            let values = match kind {
                Kind::Xin | Kind::Xout => vec![u64::from(site / 8), packet % 65_536, packet % 256, peer],
                Kind::Start | Kind::Quit => vec![0xffff_8881_0000_0000 + packet * 256],
                _ => vec![packet],
            };
            let thread = ["vhost-4002", "iperf3", "swapper/0"][usize::from(domain) - 1];
            let mut comm = [0; 16];
            comm[..thread.len()].copy_from_slice(thread.as_bytes());
            let tid = 100 * u32::from(domain);
            let flow = (u64::from(domain) << 56) | (packet + 1);
            let record = Record { time_ns, flow, site, pid: tid, tid, cpu: 1, kind, comm, values };
            writer.append(domain, time_ns.cast_signed(), &record).expect("room");
        }
    }
}

/// Interrupts of a guest's device: domain, microseconds after the one before, kind, function, carrier, thread.
type InterruptStep = (u8, u64, Kind, &'static str, Option<&'static str>, &'static str);

const INTERRUPT: [InterruptStep; 10] = [
    (1, 0, Kind::Start, "__apic_accept_irq", None, "vhost-4003"),
    (1, 90, Kind::Hop, "sched_waking", None, "vhost-4003"),
    (1, 110, Kind::Hop, "sched_switch", None, "swapper/0"),
    (1, 60, Kind::Xin, "kvm_apic_ack_interrupt", Some("interrupt"), "CPU 0/KVM"),
    (3, 70, Kind::Xout, "__common_interrupt", Some("interrupt"), "swapper/0"),
    (3, 15, Kind::Hop, "irq_handler_entry", None, "swapper/0"),
    (3, 150, Kind::Hop, "irq_handler_exit", None, "swapper/0"),
    (3, 300, Kind::Hop, "softirq_entry", None, "swapper/0"),
    (3, 250, Kind::Hop, "sched_waking", None, "swapper/0"),
    (3, 900, Kind::Quit, "sched_switch", None, "swapper/0"),
];

/// Writes a trace of interrupts that wake a guest's thread; of each third, the vCPU's thread, which makes records itself,
/// had to be woken first.
#[allow(dead_code, reason = "each test program compiles this anew, and not all ask for it")]
pub fn interrupts(dir: &Path, count: u64) -> Trace {
    let domains = vec![domain("host", 1, None), domain("vm2", 3, Some(4003))];
    let manifest = Manifest { reference: "host".into(), domains, ..Manifest::default() };
    let mut writer = Writer::create(dir, manifest).expect("a new directory");
    let site = |(site, step): (u32, &InterruptStep)| Site {
        site,
        domain: NAMES[usize::from(step.0) - 1].into(),
        function: step.3.into(),
        xflow: Some("interrupt".into()),
        carrier: step.4.map(str::to_owned),
        values: if step.3 == "sched_waking" { vec!["pid".into()] } else { Vec::new() },
        ..Site::default()
    };
    writer.sites(&(1..).zip(&INTERRUPT).map(site).collect::<Vec<_>>()).expect("room");
    for number in 1..=count {
        let mut time_ns = 1_000_000_000 + number * 10_000_000;
        for (site, &(domain, after, kind, _, _, thread)) in (1..).zip(&INTERRUPT) {
            if number % 3 != 0 && (site == 2 || site == 3) {
                continue;
            }
            time_ns += after * (1_000 + 50 * (number % 7));
            let values = match kind {
                Kind::Xin => vec![0x41, number, number, 4003],
                Kind::Xout => vec![0x41, number, number, 0],
                Kind::Hop if site == 2 => vec![10],
                _ => vec![7],
            };
            let mut comm = [0; 16];
            comm[..thread.len()].copy_from_slice(thread.as_bytes());
            let (flow, tid) = (u64::from(domain) << 56 | number, 10 * u32::from(domain));
            let record = Record { time_ns, flow, site, pid: tid, tid, cpu: 0, kind, comm, values };
            writer.append(domain, time_ns.cast_signed(), &record).expect("room");
        }
    }
    writer.finish().expect("room");
    Trace::open(dir).expect("what was just written")
}
