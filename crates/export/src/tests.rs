//! What was written is decoded by the same schema, and held against the trace.

use std::collections::HashMap;

use perfetto_trace_proto::{
    DebugAnnotation, Trace as Decoded, TracePacket, TrackDescriptor, TrackEvent,
    debug_annotation::Value,
    ftrace_event::Event as Ftrace,
    trace_packet::{Data, OptionalTrustedPacketSequenceId},
    track_descriptor::StaticOrDynamicName,
    track_event::{NameField, Type},
};
use prost::Message as _;
use xweave_flow::{Flows, Join};
use xweave_model::explain;
use xweave_synthetic::{Config, Simulation};
use xweave_trace::{
    Clock, ClockBreak, Domain, DomainVm, EventLoss, Manifest, Method, Role, Site, Trace, Writer,
    event::{Event, Kind},
};
use xweave_wire::record::{Kind as Does, Record};

use super::*;
use crate::packets::{Arg, Label};

/// Every sign that a terminal or a page may obey, and far too long.
const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{202e}</script><img src=x onerror=alert(1)>";

const EVENTS: usize = 8_000;

fn manifest(name: &str) -> Manifest {
    let vm = Some(DomainVm { host: "host".into(), pid: 183, cid: None });
    let host = Domain { name: "host".into(), number: 1, cpus: 3, ..Domain::default() };
    let guest = Domain { name: name.into(), number: 2, role: Role::Guest, vm, cpus: 3, ..Domain::default() };
    let other = Domain { name: "vm2".into(), number: 3, ..Domain::default() };
    let breaks = vec![ClockBreak { after_ns: Some(5_000), before_ns: Some(9_000), detail: HOSTILE.into() }];
    let clock =
        Clock { domain: name.into(), method: Method::TscOffset, error_ns: 604, breaks, ..Clock::default() };
    let lost = EventLoss { domain: name.into(), kind: "switch".into(), dropped: 7, missed: 1 };
    let mut manifest = Manifest {
        reference: "host".into(),
        start_ns: 1_000,
        end_ns: 90_000_000,
        domains: vec![guest, host, other],
        clocks: vec![clock],
        ..Manifest::default()
    };
    manifest.loss.events = vec![lost];
    manifest
}

/// Packets of the guest's, put on a ring and taken off it in the host; their names are the same text.
fn flows(writer: &mut Writer, guest: &str, name: &str, count: u64) {
    let site = |site, domain: &str, function: &str, carrier: Option<&str>| Site {
        site,
        domain: domain.into(),
        function: function.into(),
        file: Some(name.into()),
        line: Some(7),
        xflow: Some(name.into()),
        carrier: carrier.map(Into::into),
        ..Site::default()
    };
    let sites = [
        site(1, guest, "start_xmit", None),
        site(2, guest, "virtqueue_add", Some("virtio")),
        site(3, "host", "vhost_get_vq_desc", Some("virtio")),
        site(4, "host", name, None),
    ];
    writer.sites(&sites).unwrap();
    let mut comm = [0; 16];
    comm.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    for packet in 1..=count {
        let at = 1_000_000 + packet * 700;
        let (here, there) = (2 << 56 | packet, 1 << 56 | packet);
        let key = |peer| vec![0x4000, packet, packet, peer];
        let records = [
            (2, here, 1, Does::Start, 0, vec![0xbeef]),
            (2, here, 2, Does::Xin, 400, key(0)),
            // Clocks differ a little: it comes before it was sent.
            (1, there, 3, Does::Xout, 390, key(183)),
            (1, there, 4, Does::Hop, 2_000, vec![1, 2]),
            (1, there, 4, Does::Quit, 2_100, vec![0xcafe]),
        ];
        for (domain, flow, site, kind, after, values) in records {
            let (pid, tid, time_ns) = (183, u32::from(domain), at + after);
            let record = Record { time_ns, flow, site, pid, tid, cpu: 0, kind, comm, values };
            writer.append(domain, time_ns.try_into().unwrap(), &record).unwrap();
        }
    }
}

fn events(writer: &mut Writer, most: usize) {
    let simulated = Simulation::new(&Config { transactions: usize::MAX, ..Config::virtualized(1) });
    simulated.take(most).for_each(|event| writer.event(event).unwrap());
}

/// What a trace becomes.
fn exported(trace: &Trace, spec: Option<&str>) -> (Vec<TracePacket>, Written) {
    let mut bytes = Vec::new();
    let spec = spec.map(|spec| spec.parse().unwrap());
    let written = perfetto(trace, || Join::of(trace), spec.as_ref(), &mut bytes, &mut |_| ()).unwrap();
    assert_eq!(written.counts.bytes, bytes.len() as u64);
    let decoded = Decoded::decode(&*bytes).unwrap();
    assert_eq!(written.counts.packets, decoded.packet.len() as u64);
    (decoded.packet, written)
}

/// A trace with what `write` puts into it.
fn recorded(guest: &str, write: impl FnOnce(&mut Writer)) -> (tempfile::TempDir, Trace) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&dir.path().join("trace"), manifest(guest)).unwrap();
    writer.sites(&[]).unwrap();
    write(&mut writer);
    writer.finish().unwrap();
    let trace = Trace::open(&dir.path().join("trace")).unwrap();
    (dir, trace)
}

/// A track event with its names.
struct Drawn {
    at: u64,
    track: u64,
    kind: Type,
    name: String,
    category: String,
    texts: Vec<String>,
    flows: Vec<u64>,
}

/// All track events, their numbers looked up as the viewer does it.
fn drawn(packets: &[TracePacket]) -> Vec<Drawn> {
    let mut known: HashMap<(u32, u8), HashMap<u64, String>> = HashMap::new();
    let mut all = Vec::new();
    for packet in packets {
        let Some(OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(sequence)) =
            packet.optional_trusted_packet_sequence_id
        else {
            panic!("of no sequence")
        };
        if packet.sequence_flags.unwrap_or(0) & 1 != 0 {
            known.retain(|(of, _), _| *of != sequence);
        }
        if let Some(data) = &packet.interned_data {
            let names = data.event_names.iter().map(|one| (0, one.iid, one.name.clone()));
            let categories = data.event_categories.iter().map(|one| (1, one.iid, one.name.clone()));
            let texts = data.debug_annotation_string_values.iter();
            let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
            let texts = texts.map(|one| (2, one.iid, one.str.as_ref().map(text)));
            for (what, iid, text) in names.chain(categories).chain(texts) {
                known.entry((sequence, what)).or_default().insert(iid.unwrap(), text.unwrap());
            }
        }
        let Some(Data::TrackEvent(event)) = &packet.data else { continue };
        let look = |what, iid: &u64| known[&(sequence, what)][iid].clone();
        all.push(of_event(packet.timestamp.unwrap(), event, look));
    }
    all
}

fn of_event(at: u64, event: &TrackEvent, look: impl Fn(u8, &u64) -> String) -> Drawn {
    let name = match &event.name_field {
        Some(NameField::NameIid(iid)) => look(0, iid),
        _ => String::new(),
    };
    let text = |arg: &DebugAnnotation| match &arg.value {
        Some(Value::StringValueIid(iid)) => Some(look(2, iid)),
        _ => None,
    };
    Drawn {
        at,
        track: event.track_uuid.unwrap(),
        kind: event.r#type(),
        name,
        category: event.category_iids.first().map(|iid| look(1, iid)).unwrap_or_default(),
        texts: event.debug_annotations.iter().filter_map(text).collect(),
        flows: event.flow_ids.clone(),
    }
}

fn tracks(packets: &[TracePacket]) -> HashMap<u64, &TrackDescriptor> {
    let tracks = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackDescriptor(track)) => Some((track.uuid.unwrap(), track)),
        _ => None,
    });
    tracks.collect()
}

fn named(track: &TrackDescriptor) -> &str {
    match &track.static_or_dynamic_name {
        Some(StaticOrDynamicName::Name(name)) => name,
        _ => "",
    }
}

/// Every slice that begins ends, no earlier; on each track, one behind or in the other.
fn assert_slices_are_closed(packets: &[TracePacket]) {
    let tracks = tracks(packets);
    let mut open: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut last: HashMap<u64, u64> = HashMap::new();
    for event in drawn(packets).iter().filter(|event| event.kind != Type::Instant) {
        let track = named(tracks[&event.track]);
        let before = last.insert(event.track, event.at).unwrap_or(0);
        assert!(event.at >= before, "{track}: {} after {before}", event.at);
        let open = open.entry(event.track).or_default();
        match event.kind {
            Type::SliceBegin => open.push(event.at),
            Type::SliceEnd => assert!(open.pop().is_some(), "{track}: an end without a beginning"),
            other => panic!("{other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty));
}

#[test]
fn flows_have_arrows_from_each_record_of_their_paths_to_the_next() {
    let (_dir, trace) = recorded("vm1", |writer| flows(writer, "vm1", "packet", 30));
    let (packets, written) = exported(&trace, None);
    let flows = Flows::of(&trace);
    assert_eq!((flows.flows().len(), flows.summary().crossed), (30, 30));
    let drawn = drawn(&packets);
    let whole: Vec<_> = drawn.iter().filter(|event| event.category == "flow").collect();
    assert_eq!((whole.len(), written.counts.flows), (30, 30));
    let mut steps = 0;
    for flow in flows.flows() {
        let path: Vec<_> = flows.hops(flow).filter(|hop| hop.on_path).collect();
        let arrows: Vec<_> = drawn.iter().filter(|event| event.flows.contains(&flow.id)).collect();
        assert_eq!(arrows.len(), path.len());
        assert!(path.iter().zip(&arrows).all(|(hop, event)| hop.function == event.name));
        // Each on a track of its thread, in the group of its domain: the path leads from one group to another.
        let tracks = tracks(&packets);
        let group = |event: &Drawn| named(tracks[&tracks[&event.track].parent_uuid.unwrap()]).to_owned();
        assert_eq!(group(arrows[0]), "vm1 (machine 1): clock error ≤ 604 ns");
        assert_eq!(group(arrows[path.len() - 1]), "host (machine 0): clock error unknown");
        steps += path.len() as u64 - 1;
    }
    assert_eq!((written.counts.arrows, written.counts.hops), (steps, 150));
    assert_slices_are_closed(&packets);
}

#[test]
fn scheduling_is_told_as_ftrace_tells_it_by_machine() {
    let (_dir, trace) = recorded("vm1", |writer| events(writer, EVENTS));
    let (packets, written) = exported(&trace, None);
    let mut told: HashMap<(u32, &str), u64> = HashMap::new();
    let mut interrupts: HashMap<(u32, u32, bool), i64> = HashMap::new();
    for packet in &packets {
        let Some(Data::FtraceEvents(bundle)) = &packet.data else { continue };
        let machine = packet.machine_id.unwrap_or(0);
        let times: Vec<_> = bundle.event.iter().map(|event| event.timestamp.unwrap()).collect();
        assert!(times.is_sorted());
        for event in &bundle.event {
            let mut nested = |soft, by| {
                let depth = interrupts.entry((machine, bundle.cpu.unwrap(), soft)).or_default();
                *depth += by;
                assert!(*depth >= 0);
            };
            let what = match event.event.as_ref().unwrap() {
                Ftrace::SchedSwitch(_) => "switch",
                Ftrace::SchedWaking(_) => "wake",
                Ftrace::IrqHandlerEntry(_) => {
                    nested(false, 1);
                    "interrupt"
                }
                Ftrace::SoftirqEntry(_) => {
                    nested(true, 1);
                    "interrupt"
                }
                Ftrace::IrqHandlerExit(_) => {
                    nested(false, -1);
                    continue;
                }
                Ftrace::SoftirqExit(_) => {
                    nested(true, -1);
                    continue;
                }
                _ => continue,
            };
            *told.entry((machine, what)).or_default() += 1;
        }
    }
    assert!(interrupts.values().all(|depth| *depth == 0));
    let mut recorded: HashMap<(u32, &str), u64> = HashMap::new();
    for event in trace.events() {
        let what = match event.kind {
            Kind::Switch => "switch",
            Kind::Wake => "wake",
            Kind::IrqEnter | Kind::SoftirqEnter => "interrupt",
            _ => continue,
        };
        // The reference domain is the viewer's own machine.
        let machine = if event.domain == 1 { 0 } else { event.domain.into() };
        *recorded.entry((machine, what)).or_default() += 1;
    }
    assert_eq!(told, recorded);
    let in_all =
        |what| recorded.iter().filter(|((_, of), _)| *of == what).map(|(_, count)| *count).sum::<u64>();
    let counts = &written.counts;
    assert_eq!(
        [counts.switches, counts.wakeups, counts.interrupts],
        ["switch", "wake", "interrupt"].map(in_all)
    );
    assert_slices_are_closed(&packets);
}

#[test]
fn vcpus_are_below_the_threads_that_run_them_and_are_in_their_guests_or_not() {
    let enter =
        |at, cpu: u64, tid| Event { object: cpu, other: 183, ..Event::new(Kind::VmEnter, 1, at, 0, tid) };
    let exit = |at, tid| Event { code: 0x78, ..Event::new(Kind::VmExit, 1, at, 0, tid) };
    let halt = |at, tid, bytes| Event { bytes, ..Event::new(Kind::VmHalt, 1, at, 0, tid) };
    let lost = Event { bytes: 3, position: 40, object: 10, ..Event::new(Kind::Lost, 1, 3_000, 0, 9) };
    let (_dir, trace) = recorded("vm1", |writer| {
        let events = [
            enter(1_000, 0, 50),
            exit(1_300, 50),
            halt(1_900, 50, 500),
            enter(2_000, 0, 50),
            lost,
            // Whether it was inside until then is not known.
            exit(3_100, 50),
            enter(3_200, 0, 50),
        ];
        events.into_iter().for_each(|event| writer.event(event).unwrap());
    });
    let (packets, written) = exported(&trace, None);
    let tracks = tracks(&packets);
    let vcpu = tracks.values().find(|track| named(track) == "vCPU 0 of vm1").unwrap();
    let thread = tracks[&vcpu.parent_uuid.unwrap()].thread.as_ref().unwrap();
    assert_eq!((thread.pid, thread.tid), (Some(183), Some(50)));
    let all = drawn(&packets);
    let on_it: Vec<_> = all.iter().filter(|event| Some(event.track) == vcpu.uuid).collect();
    let told: Vec<_> = on_it.iter().map(|event| (event.at, &*event.name)).collect();
    assert_eq!(
        told,
        [
            (1_000, "in guest"),
            (1_300, ""),
            (1_300, "exit: hlt"),
            (1_400, "halted"),
            (1_900, ""),
            (2_000, ""),
            (3_100, "exit: hlt"),
            (3_200, ""),
            (3_200, "in guest"),
            (3_200, ""),
        ]
    );
    assert_eq!((written.counts.in_guest, written.counts.exits, written.counts.losses), (2, 2, 1));
    let loss = all.iter().find(|event| event.category == "lost").unwrap();
    assert_eq!((loss.at, &*loss.name), (2_960, "3 events lost"));
    assert_slices_are_closed(&packets);
}

#[test]
fn transactions_have_the_time_and_the_parts_that_explain_gives_them() {
    let (_dir, trace) = recorded("vm1", |writer| events(writer, EVENTS));
    let (packets, written) = exported(&trace, Some("request"));
    let (mut count, mut steps) = (0, 0);
    explain(&trace, &"request".parse().unwrap(), &mut |transaction, _| {
        (count, steps) = (count + 1, steps + transaction.steps.len() as u64);
    });
    assert!(count > 10);
    assert_eq!((written.counts.transactions, written.counts.steps), (count, steps));
    let drawn = drawn(&packets);
    let of = |category: &str| drawn.iter().filter(|event| event.category == category).count() as u64;
    assert_eq!((of("transaction"), of("part")), (count, steps));
    assert_slices_are_closed(&packets);
}

#[test]
fn what_is_uncertain_is_to_be_seen() {
    let (_dir, trace) = recorded("vm1", |writer| flows(writer, "vm1", "packet", 1));
    let (packets, written) = exported(&trace, None);
    let drawn = drawn(&packets);
    let told = |category: &str| -> Vec<(u64, &str)> {
        let these = drawn.iter().filter(|event| event.category == category);
        these.map(|event| (event.at, &*event.name)).collect()
    };
    let broken = "clock break: times within are uncertain";
    assert_eq!(told("clock"), [(1_000, "clock error ≤ 604 ns"), (5_000, broken)]);
    assert_eq!(told("lost"), [(90_000_000, "0 records and 8 events lost")]);
    assert_eq!(written.counts.clock_breaks, 1);
}

#[test]
fn no_name_is_obeyed_or_longer_than_a_name() {
    let name = HOSTILE.repeat(100);
    let (_dir, trace) = recorded("vm1", |writer| {
        flows(writer, "vm1", &name, 5);
        events(writer, 2_000);
    });
    let (packets, _) = exported(&trace, Some("flow"));
    let harmless = |text: &str| {
        assert!(text.len() <= 256, "{} bytes", text.len());
        assert_eq!(xweave_text::printable(text), text);
    };
    for event in drawn(&packets) {
        harmless(&event.name);
        event.texts.iter().for_each(|text| harmless(text));
    }
    for track in tracks(&packets).values() {
        harmless(named(track));
        track.description.iter().for_each(|text| harmless(text));
    }
}

#[test]
fn a_sequence_that_has_named_very_much_begins_anew_and_names_what_follows_once_more() {
    let mut bytes = Vec::new();
    let mut out = Packets::new(&mut bytes);
    let track = out.named(None, "track", None, 0).unwrap();
    for number in 0..70_000 {
        let name = format!("name {}", number / 2);
        let text = format!("text {number}");
        let args = [("text", Arg::Text(&text))];
        out.instant(track, number, &Label { name: &name, category: "c", args: &args, flow: None }).unwrap();
    }
    out.finish().unwrap();
    let packets = Decoded::decode(&*bytes).unwrap().packet;
    let begun = packets.iter().filter(|packet| packet.sequence_flags.unwrap_or(0) & 1 != 0).count();
    assert_eq!(begun, 2);
    let drawn = drawn(&packets);
    assert!(drawn.iter().zip(0..).all(|(event, number): (_, u64)| {
        event.name == format!("name {}", number / 2) && event.texts == [format!("text {number}")]
    }));
}

#[test]
fn what_cannot_be_written_is_an_error_also_amid_transactions() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (_dir, trace) = recorded("vm1", |writer| events(writer, EVENTS));
    let (_, written) = exported(&trace, Some("request"));
    let bytes = usize::try_from(written.counts.bytes).unwrap();
    let spec = "request".parse().unwrap();
    for room in [0, bytes / 2, bytes - 10_000, bytes - 1] {
        let failed = perfetto(&trace, || Join::of(&trace), Some(&spec), &mut Full(room), &mut |_| ());
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
