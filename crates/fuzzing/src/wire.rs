//! Target `wire`: any bytes from the other end are messages or an error. Nothing panics, and no memory is allocated for a
//! length without as many bytes. A decoded message that is encoded again stays the same. The first byte of the input
//! selects the part of the protocol.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};
use xweave_wire::event::{self, decode_events};
use xweave_wire::frame::{read_from_agent, read_message, read_preamble, write_message, write_preamble};
use xweave_wire::limits;
use xweave_wire::message::{
    self, BackEnd, ClockSample, CodeParts, Disk, DomainInfo, Event, EventLoss, FromAgent, FunctionClone,
    LeftOut, ModuleInfo, Processor, Reply, Request, SHARED_PAGES, Shared, SharingGuest, SkippedSite, Vm,
    Woven, XenDomain,
};
use xweave_wire::plan::{EventPlan, EventProgram, Hook, Plan, PlanProgram, PlanSite, VariablePlace};
use xweave_wire::record::decode_batch;

use crate::samples::{create_records, create_symbol};

/// Runs the target.
pub fn run(input: &[u8]) {
    let Some((mode, data)) = input.split_first() else { return };
    match mode {
        0 => check_message::<Request>(data),
        1 => {
            check_message::<FromAgent>(data);
            check_sanitised(data);
        }
        2 => check_batch(data),
        3 => check_events(data),
        _ => check_stream(data),
    }
}

fn check_message<M: Serialize + DeserializeOwned + Debug>(data: &[u8]) {
    let length = u32::try_from(data.len()).expect("a short input");
    let framed = [&length.to_le_bytes(), data].concat();
    let Ok(message) = read_message::<M>(&mut framed.as_slice()) else { return };
    let mut again = Vec::new();
    write_message(&mut again, &message).expect("memory can be written to");
    let again: M = read_message(&mut again.as_slice()).expect("an encoded message can be decoded");
    assert_eq!(format!("{message:?}"), format!("{again:?}"));
}

/// Checks that sanitising a sanitised message changes nothing.
fn check_sanitised(data: &[u8]) {
    let length = u32::try_from(data.len()).expect("a short input");
    let framed = [&length.to_le_bytes(), data].concat();
    let Ok(message) = read_from_agent(&mut framed.as_slice(), || limits::FRAME) else { return };
    let once = format!("{message:?}");
    assert_eq!(format!("{:?}", message.checked().expect("a checked message")), once);
}

fn check_batch(data: &[u8]) {
    let (records, left) = decode_batch(data);
    let mut again = Vec::new();
    records.iter().for_each(|record| record.encode(&mut again));
    assert_eq!(again, data[..data.len() - left]);
    for record in &records {
        let _ = (record.comm(), record.carrier_key());
    }
}

fn check_events(data: &[u8]) {
    let (events, left) = decode_events(data);
    let mut once = Vec::new();
    events.iter().for_each(|event| event.encode(&mut once));
    assert_eq!(once.len() + left, data.len());
    // Fields that a kind does not use are dropped.
    let (again, none) = decode_events(&once);
    assert_eq!(none, 0);
    assert!(
        events.iter().zip(&again).all(|(one, other)| (one.name(), one.kind) == (other.name(), other.kind))
    );
    let mut twice = Vec::new();
    again.iter().for_each(|event| event.encode(&mut twice));
    assert_eq!(once, twice);
}

fn check_stream(mut data: &[u8]) {
    if read_preamble(&mut data).is_ok() {
        while read_message::<FromAgent>(&mut data).is_ok() {}
    }
}

/// Makes seeds: requests, messages of agents, a batch of records, one of events, and a stream.
pub fn make_seeds() -> Vec<Vec<u8>> {
    let encode = |first, message: Result<Vec<u8>, postcard::Error>| {
        [vec![first], message.expect("messages can be encoded")].concat()
    };
    let site = PlanSite {
        optional: true,
        site: 1,
        clauses: 2,
        function: "kfree_skb".into(),
        module: Some("tun".into()),
        btf_id: 300,
        offset: 4,
        places: vec![VariablePlace { register: Some(9), add: -8, load: true }],
        arguments: 3,
    };
    let program = PlanProgram {
        object: 0,
        name: "p0".into(),
        hook: Hook::ProbeReturn,
        saver: Some("s0".into()),
        tracepoint: 0,
        sites: vec![site],
        origin: "a.aspect:3".into(),
    };
    let plan = Plan {
        domain: 1,
        objects: vec![vec![0x7f, 0x45]],
        programs: vec![program],
        buffer: 4096,
        flow_table: 9,
        serial_attach: true,
        events: Some(EventPlan {
            object: vec![0x7f, 0x45],
            programs: vec![EventProgram {
                name: "sched_switch".into(),
                hook: Hook::Tracepoint,
                function: "sched_switch".into(),
                module: None,
                kind: event::Kind::Switch,
            }],
            buffer: 4096,
        }),
    };
    let facts = DomainInfo {
        agent: "0.1.0".into(),
        hostname: "vm1".into(),
        kernel: "6.12".into(),
        build_id: "00ff".into(),
        boot_id: "1".into(),
        cpus: 2,
        processors: vec![Processor { cpu: 1, apic_id: 4 }],
        vendor: "GenuineIntel".into(),
        privileged: true,
        btf: true,
        btf_sha256: "02".into(),
        modules: vec![ModuleInfo { name: "tun".into(), btf_sha256: "00".into(), build_id: "01".into() }],
        tsc_hz: 1 << 31,
        vms: vec![Vm {
            pid: 7,
            comm: "qemu".into(),
            name: "web1".into(),
            tsc_offsets: vec![-5],
            tsc_scaling: (1, 0),
            cid: Some(3),
            back_ends: vec![BackEnd::VhostNet, BackEnd::Vfio],
        }],
        disks: vec![Disk { name: "vda".into(), major: 254, minor: 0 }],
        xen: Some(XenDomain::Pvh),
        recorders: vec![70, 69],
        settings: message::Settings {
            halt_poll_ns: Some(200_000),
            governors: vec!["performance".into()],
            ksm_run: Some(1),
            swappiness: Some(60),
            nics: vec![message::Nic { name: "eth0".into(), queues: 2 }],
        },
    };
    let clock = ClockSample { tsc_before: 1, mono_ns: 2, tsc_after: 3, real_ns: 4 };
    let mut batch = Vec::new();
    create_records().iter().for_each(|record| record.encode(&mut batch));
    let mut events = Vec::new();
    for kind in event::Kind::ALL {
        event::Event { code: -1, name: *b"kworker/0:1\0\0\0\0\0", ..event::Event::new(kind, 9, 1, 7) }
            .encode(&mut events);
    }
    let left_out =
        LeftOut { function: "tcp_connect".into(), kind: event::Kind::Socket, reason: "none".into() };
    let lost = EventLoss { kind: event::Kind::Send, dropped: 1, missed: 2 };
    let skipped = SkippedSite { site: 4, reason: "no instruction begins there".into() };
    let agents = [
        FromAgent::Reply(Reply::DomainInfo(Box::new(facts))),
        FromAgent::Event(Event::Clock(clock)),
        FromAgent::Event(Event::Weaving { done: 1, total: 9 }),
        FromAgent::Reply(Reply::Woven(Woven {
            sites: Vec::new(),
            skipped: vec![skipped],
            left_out: vec![left_out],
            clones: vec![FunctionClone { site: 7, name: "f.part.0".into() }],
        })),
        FromAgent::Reply(Reply::Symbols(vec![create_symbol()])),
        FromAgent::Reply(Reply::Shared(Shared {
            pages: vec![0x1234_5000; SHARED_PAGES],
            ..Shared::default()
        })),
        FromAgent::Reply(Reply::Loss(message::Loss { events: vec![lost], ..message::Loss::default() })),
        FromAgent::Event(Event::Events(events.clone())),
        FromAgent::Event(Event::Xentrace(vec![3, 0xf0, 1, 0x20])),
        FromAgent::Event(Event::Records(batch.clone())),
    ];
    let parts = CodeParts { kernel: true, modules: vec!["tun".into()] };
    let guest = SharingGuest { domain: 2, secret: [1, 2], pages: vec![0x1234_5000; SHARED_PAGES] };
    let requests = [
        Request::Btf(Some("tun".into())),
        Request::Code(parts),
        Request::Weave(Box::new(plan)),
        Request::Share { secret: [1, 2], emulated: true },
        Request::XenMark(Some([1, 2])),
        Request::XenGuests(vec![[1, 2]]),
        Request::Guests { guests: vec![guest], all: true, emulators: vec![2114], domids: vec![1] },
    ];
    let mut stream = vec![4];
    write_preamble(&mut stream).expect("memory can be written to");
    for message in &agents {
        write_message(&mut stream, message).expect("memory can be written to");
    }
    let requests = requests.iter().map(|message| encode(0, postcard::to_stdvec(message)));
    let agents = agents.iter().map(|message| encode(1, postcard::to_stdvec(message)));
    requests.chain(agents).chain([[vec![2], batch].concat(), [vec![3], events].concat(), stream]).collect()
}
