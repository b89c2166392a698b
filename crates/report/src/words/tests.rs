//! Nothing depends on how something is said: documents of traces, with the words as they are and with others.

use std::{
    cell::Cell,
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    path::Path,
};

use serde_json::{Value, json};
use xweave_flow::{Flows, Join};
use xweave_model::{Comparison, Contrast, Spec, Usage};
use xweave_synthetic::{Config, Simulation};
use xweave_trace::{
    Domain, DomainVm, Event, Manifest, Role, Site, Trace, Writer,
    manifest::{Nic, Settings},
};
use xweave_vary::Variation;
use xweave_wire::record::{Kind, Record};

use crate::{document, page::Contents};

thread_local! {
    /// Whether sentences are others.
    static OTHERS: Cell<bool> = const { Cell::new(false) };
}

/// What other words begin with: nothing else does.
const MARK: char = '§';

/// The words, or others, the same for the same ones. They take as much room: lists are cut to what there is.
pub(super) fn reworded(words: String) -> String {
    if !OTHERS.get() {
        return words;
    }
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    let mut other = MARK.to_string();
    for nth in 0..words.len().saturating_sub(other.len()) as u64 {
        let random = (hasher.finish() ^ nth).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59;
        other.push(char::from(b"abcdefghijklmnopqrstuvwxyz      "[random as usize]));
    }
    other
}

fn with_other_words<T>(run: impl FnOnce() -> T) -> T {
    OTHERS.set(true);
    let result = run();
    OTHERS.set(false);
    result
}

/// That two values are the same but for words, which have changed somewhere. How many these are.
fn differing(one: &Value, other: &Value, at: &str) -> usize {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = |of: &serde_json::Map<String, Value>| of.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(one), keys(other), "{at}");
            one.iter().map(|(key, value)| differing(value, &other[key], &format!("{at}.{key}"))).sum()
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len(), "{at}");
            let pairs = one.iter().zip(other).enumerate();
            pairs.map(|(nth, (one, other))| differing(one, other, &format!("{at}[{nth}]"))).sum()
        }
        (Value::String(one), Value::String(other)) if one != other => {
            assert!(other.contains(MARK), "{at}: {one} became {other}");
            1
        }
        _ => {
            assert_eq!(one, other, "{at}");
            0
        }
    }
}

/// A host with guests, and a server's requests among the flows from it to one of them.
fn written(dir: &Path, config: &Config) -> Trace {
    let mut world = Simulation::new(config);
    let (_, process) = world.guests().find(|(number, _)| *number == 2).unwrap();
    let settings = Settings {
        halt_poll_ns: Some(0),
        governors: vec!["powersave".into()],
        ksm_run: Some(1),
        swappiness: Some(60),
        nics: vec![Nic { name: "eth0".into(), queues: 1 }],
    };
    let domain = |name: &str, number| Domain {
        name: name.into(),
        number,
        cpus: 3,
        settings: settings.clone(),
        ..Domain::default()
    };
    let mut manifest = Manifest { reference: "host".into(), ..Manifest::default() };
    manifest.domains.push(domain("host", 1));
    for (number, process) in world.guests() {
        let vm = Some(DomainVm { host: "host".into(), pid: u32::try_from(process).unwrap(), cid: None });
        let guest = domain(&format!("vm{number}"), number);
        manifest.domains.push(Domain { vm, role: Role::Guest, ..guest });
    }
    let mut writer = Writer::create(dir, manifest).unwrap();
    flows(&mut writer, process);
    while let Some(event) = world.next() {
        let name = writer.name(world.names().text(event.name));
        writer.event(Event { name, ..event }).unwrap();
    }
    writer.finish().unwrap();
    Trace::open(dir).unwrap()
}

/// Flows that go through a queue, and across a ring to the guest that this process runs.
fn flows(writer: &mut Writer, process: u64) {
    let site = |(site, domain, function, carrier): (u32, &str, &str, Option<&str>)| Site {
        site,
        domain: domain.into(),
        function: function.into(),
        xflow: Some("packet".into()),
        carrier: carrier.map(str::to_owned),
        ..Site::default()
    };
    let sites = [
        (1, "host", "tcp_skb_entail", None),
        (2, "host", "tun_net_xmit", None),
        (3, "host", "vhost_add_used", Some("virtio-net")),
        (4, "vm2", "virtnet_receive", Some("virtio-net")),
        (5, "vm2", "tcp_queue_rcv", None),
        (6, "vm2", "skb_copy_datagram_iter", None),
    ];
    writer.sites(&sites.map(site)).unwrap();
    for number in 1..=200_u64 {
        let (own, guests) = (1 << 56 | number, 2 << 56 | number);
        let steps = [
            (1, 1, own, Kind::Start, vec![7]),
            (1, 2, own, Kind::Hop, vec![7]),
            (1, 3, own, Kind::Xin, vec![0x40, number, number, process]),
            (2, 4, guests, Kind::Xout, vec![0x40, number, number, 0]),
            (2, 5, guests, Kind::Hop, vec![7]),
            (2, 6, guests, Kind::Quit, vec![7]),
        ];
        for (nth, (domain, site, flow, kind, values)) in (0..).zip(steps) {
            let time_ns = number * 1_000_000 + nth * (10_000 + number * 100);
            let record =
                Record { time_ns, flow, site, pid: 1, tid: 1, cpu: 0, kind, comm: [b'a'; 16], values };
            writer.append(domain, time_ns.cast_signed(), &record).unwrap();
        }
    }
}

fn parsed(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Value {
    let mut text = Vec::new();
    write(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// All documents of two traces in which words may matter.
fn documents([first, second]: [&Trace; 2]) -> Value {
    let spec = Spec::Request(None, None);
    let usages = [first, second].map(Usage::of);
    let comparison = Comparison::of(&usages[0], &usages[1]);
    let (varied, _) = Variation::of(second, &spec).unwrap();
    let contrasts =
        [Contrast::of_slow(second, &spec).unwrap(), Contrast::of_runs([first, second], &spec).unwrap()];
    let page = Contents::of(second, "two runs".into(), std::slice::from_ref(&spec), &|| Join::of(second));
    json!({
        "compare": parsed(|out| document::compare::write(out, &comparison)),
        "contrast": contrasts.each_ref().map(|of| parsed(|out| document::contrast::write(out, of, &spec))),
        "flows": parsed(|out| document::flows::write(out, &Flows::of(second))),
        "machines": parsed(|out| document::machines::write(out, &usages[1])),
        "page": page.against(first, "first").document(),
        "vary": parsed(|out| document::vary::write(out, &varied, None, &spec.clone().into())),
    })
}

#[test]
fn documents_findings_and_remedies_are_the_same_whatever_the_words_are() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let config = |others| Config { transactions: 400, others, power: true, ..Config::virtualized(3) };
    let traces = [written(dirs[0].path(), &config(1)), written(dirs[1].path(), &config(6))];
    let traces = traces.each_ref();
    let own = documents(traces);
    let others = with_other_words(|| documents(traces));
    for name in ["compare", "contrast", "flows", "machines", "page", "vary"] {
        let changed = differing(&own[name], &others[name], name);
        assert!(changed > 3, "{name}: {changed} of its texts are words");
    }
    // These have something to be the same.
    assert!(own["vary"]["causes"].as_array().unwrap().iter().any(|cause| !cause["remedy"].is_null()));
    assert!(!own["vary"]["settings"].as_array().unwrap().is_empty(), "{}", own["vary"]["settings"]);
    assert!(!own["compare"]["findings"].as_array().unwrap().is_empty());
    assert!(own["page"]["findings"].as_array().unwrap().iter().any(|finding| !finding["advice"].is_null()));
    let places = own["flows"]["places"].as_array().unwrap();
    assert!(places.iter().any(|place| place["place_kind"] == "ring"), "{places:?}");
}

#[test]
fn words_that_a_document_depends_on_would_be_found() {
    let one = json!({ "what": "a sentence", "kind": "disk", "list": [1, 2] });
    let reworded = |value: Value| std::panic::catch_unwind(|| differing(&one, &value, ""));
    assert_eq!(reworded(json!({ "what": "§ab", "kind": "disk", "list": [1, 2] })).unwrap(), 1);
    assert!(reworded(json!({ "what": "§ab", "kind": "other", "list": [1, 2] })).is_err());
    assert!(reworded(json!({ "what": "§ab", "kind": "disk", "list": [1] })).is_err());
}
