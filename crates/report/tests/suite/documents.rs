//! The JSON documents, byte for byte: programs read them.

use crate::{
    made_up,
    objects::{disk, key},
};
use std::{
    collections::BTreeMap, os::unix::process::ExitStatusExt as _, path::Path, process::ExitStatus,
    time::Duration,
};

use serde::Serialize;
use xweave_access as access;
use xweave_aspect::{Diagnostic, Severity};
use xweave_document::{
    explain::Explain,
    lab::Worlds,
    sites::{AccessDirection, AccessLevel, AccessSite, BaseAddress, Sites},
};
use xweave_flow::{Flows, Join, Wanted};
use xweave_import::import::Imported;
use xweave_model::{Comparison, Spec, Usage, explain, parts::Totals, usage::Figures};
use xweave_report::document::{
    self, check, compare, doctor, explain as explained, flows, fmt, import, record, sites,
};
use xweave_trace::{
    Clock, Domain, Exit, Manifest, Method, Trace, Writer,
    event::{Event, Kind, State},
};
use xweave_weave::{Absent, Action, Counts, Events, SiteInfo, Skipped, Weaving, Woven};
use xweave_wire::plan::{EventPlan, EventProgram, Hook};

fn text(content: &impl Serialize) -> String {
    written(|out| document::write(out, content).unwrap())
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    let text = String::from_utf8(out).unwrap();
    let line = text.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "a document is a line");
    line.to_owned()
}

/// A document that is printed in several lines.
fn joined(text: &str) -> String {
    text.lines().map(str::trim).collect()
}

fn mistake(help: Option<&str>) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: "a.aspect".into(),
        line: 3,
        column: 7,
        message: "there is no `x`\u{9b}".into(),
        help: help.map(str::to_owned),
        snippet: None,
    }
}

#[test]
fn doctor() {
    let check =
        |name, ok, remedy| xweave_record::Check { name, ok, needed: true, found: "no".into(), remedy };
    let checks = [check("BTF", false, "CONFIG_DEBUG_INFO_BTF"), check("root", true, "")];
    assert_eq!(
        text(&doctor::build(&checks)),
        joined(
            r#"{"checks":[{"found":"no","name":"BTF","needed":true,"ok":false,
               "remedy":"CONFIG_DEBUG_INFO_BTF"},{"found":"no","name":"root","needed":true,"ok":true,
               "remedy":""}],"schema":2}"#
        )
    );
}

#[test]
fn fmt() {
    let warnings = [mistake(Some("write `y`"))];
    let files = [fmt::build_file(Path::new("b.aspect"), "execution(a) { b(); }\n", true)];
    assert_eq!(
        text(&fmt::build(files, &warnings, &[mistake(None)])),
        joined(
            r#"{"errors":[{"column":7,"file":"a.aspect","help":null,"line":3,
               "message":"there is no `x`\u009b"}],"files":[{"changed":true,"file":"b.aspect",
               "text":"execution(a) { b(); }\n"}],"schema":2,"warnings":[{"column":7,"file":"a.aspect",
               "help":"write `y`","line":3,"message":"there is no `x`\u009b"}]}"#
        )
    );
}

#[test]
fn check() {
    let site = |number, offset, hook| SiteInfo {
        site: number,
        aspect: "a.aspect".into(),
        aspect_line: 2,
        clause: "reads".into(),
        action: Action::Advice,
        hook,
        function: "vfs_read".into(),
        module: None,
        offset,
        file: None,
        line: None,
        xflow: None,
        carrier: None,
        values: Vec::new(),
    };
    let skipped = Skipped {
        clause: "reads".into(),
        function: "vfs_write".into(),
        module: None,
        offset: 0,
        reason: "inlined".into(),
    };
    let counts = Counts { clause: "reads".into(), every: 5, first: 2, function: 1 };
    let domain = Woven {
        domain: "vm1".into(),
        plan: xweave_wire::plan::Plan::default(),
        sites: vec![site(1, 0, Hook::Entry), site(2, 31, Hook::Instruction)],
        drop_reasons: Vec::new(),
        line_sources: Vec::new(),
        skipped: vec![skipped],
        absent: vec![Absent { clause: "reads".into(), name: "old_read".into() }],
        counts: vec![counts],
        inlined: Vec::new(),
    };
    let found = Weaving { domains: vec![domain], warnings: vec![mistake(None)] };
    let probe = EventProgram {
        name: "sched_switch".into(),
        hook: Hook::Tracepoint,
        function: "sched_switch".into(),
        module: None,
        kind: Kind::Switch,
    };
    let plan = EventPlan { object: Vec::new(), programs: vec![probe], buffer: 0 };
    let events = [("vm1", Events { plan: Some(plan), left_out: vec!["no\u{9b} such".into()] })];
    assert_eq!(
        text(&check::build(&found, &events, &[])),
        joined(
            r#"{"absent":[{"domain":"vm1","function":"old_read","name":"reads"}],
               "advice":[{"action":"advice","domain":"vm1","file":"a.aspect","functions":["vfs_read",
               "vfs_read"],"line":2,"name":"reads","places":["vfs_read","vfs_read+0x1f"],
               "probe_us":[0.06,0.99],"probes":1,"sites":{"every":5,"first":2,"function":1},"woven":2}],
               "errors":[],"events":[{"domain":"vm1","left_out":["no\u009b such"],"probes":1}],"schema":2,
               "skipped":[{"domain":"vm1","function":"vfs_write","name":"reads",
               "reason":"inlined"}],"warnings":[{"column":7,"file":"a.aspect","help":null,"line":3,
               "message":"there is no `x`\u009b"}]}"#
        )
    );
    let tables = [xweave_report::check::table(&found), xweave_report::check::table_of_events(&events)];
    assert_eq!(tables.concat() + &xweave_report::check::closing(&found, &events), "\
vm1        reads                    advice  vfs_read, vfs_read+0x1f  (a.aspect:2)
                                            2 join points: every 5, first 2, function 1
                                            1 probes of instructions, 0.06 to 0.99 µs each time one is passed; \
functions' hooks are calls
vm1        reads                    skipped vfs_write: inlined
vm1        reads                    without old_read: this kernel has none
vm1        no\\u{9b} such
2 join points and 1 event probe in 1 domain
");
}

#[test]
fn import() {
    let file = Imported {
        name: "vm1".into(),
        file: "vm1.dat".into(),
        events: 9,
        lost: 1,
        gaps: 0,
        late: (0, 0),
        cpus: 2,
        groups: std::collections::BTreeSet::new(),
        guests: vec![],
    };
    let outcome = xweave_import::Outcome {
        outside: 3,
        events: 9,
        lost: 1,
        domains: vec![file],
        kinds: BTreeMap::from([("wake", 4), ("switch", 5)]),
        unknown: BTreeMap::from([("kvm_entry".to_owned(), 2)]),
        warnings: vec!["the clock is not known".into()],
        damage: Vec::new(),
    };
    assert_eq!(
        text(&import::build(Path::new("trace"), &outcome)),
        joined(
            r#"{"damage":[],"domains":[{"events":9,"file":"vm1.dat","lost":1,"name":"vm1"}],"events":9,
               "kinds":{"switch":5,"wake":4},"lost":1,"outside":3,"schema":2,"trace":"trace","unknown":{"kvm_entry":2},
               "warnings":["the clock is not known"]}"#
        )
    );
    assert_eq!(
        xweave_report::import::summary(Path::new("trace"), &outcome),
        "\
vm1: 9 events of vm1.dat, 1 were lost
  switch            5
  wake              4
other, by their names:
  kvm_entry            2
trace: 9 events
"
    );
}

#[test]
fn record() {
    let exit = Some(Exit::Lost { reason: "it was reset".into() });
    let domain = Domain { name: "vm1".into(), number: 1, exit, ..Domain::default() };
    let clock = Clock { domain: "vm1".into(), method: Method::TscOffset, error_ns: 90, ..Clock::default() };
    let manifest = Manifest {
        records: 7,
        events: 1,
        lost: 2,
        domains: vec![domain],
        clocks: vec![clock],
        ..Manifest::default()
    };
    let outcome = xweave_record::Outcome {
        told: 0,
        trace: "trace".into(),
        manifest,
        left_out: vec![xweave_record::LeftOut { domain: "vm2".into(), reason: "silent".into() }],
        skipped: Vec::new(),
        warnings: Vec::new(),
        command: Some(ExitStatus::from_raw(3 << 8)),
        settings: Vec::new(),
        sites: 4,
        weaving: Duration::from_millis(2),
        unweaving: Duration::from_micros(5),
    };
    assert_eq!(
        text(&record::build(&outcome)),
        joined(
            r#"{"attach_ns":2000000,"clocks":[{"detail":"","domain":"vm1","error_ns":90,"exchanges":0,
               "method":"tsc-offset","samples":0}],"command_status":3,"detach_ns":5000,
               "domains":[{"boot_id":"","build_id":"","cpus":0,"exit":{"reason":"it was reset",
               "status":"lost"},"hostname":"","kernel":"","name":"vm1","number":1,"role":"host","tsc_hz":0,
               "vendor":""}],
               "events":1,"left_out":[{"domain":"vm2","reason":"silent"}],"loss":{"events":[],"flows":[],"sites":[],"unattributed":0,"unwritten":0},"lost":2,
               "records":7,"schema":2,"sites":4,"trace":"trace","warnings":[]}"#
        )
    );
    assert_eq!(
        xweave_report::recording::closing(&outcome, None),
        "7 records and 1 events of vm1 in trace; 2 lost\n"
    );
}

#[test]
fn lab() {
    let worlds = [BTreeMap::from([("name", "kvm")])];
    assert_eq!(text(&Worlds { worlds: &worlds }), r#"{"schema":2,"worlds":[{"name":"kvm"}]}"#);
}

#[test]
fn sites() {
    let coverage =
        access::Coverage { instructions: 9, memory_instructions: 4, typed: 3, ..Default::default() };
    let binding = |name, place| access::Binding { name, target: false, type_: "struct sock *".into(), place };
    let bindings = [
        binding("sk", access::Place::Register { register: access::Register::Rdi, add: 0 }),
        binding("skb", access::Place::Memory { register: access::Register::Rsp, add: -8 }),
        binding("n", access::Place::Constant(7)),
    ];
    let site = AccessSite {
        function: "tcp_ack",
        module: None,
        offset: 31,
        address: 0xffff_ffff_8100_001f,
        structure: "sk_buff",
        member: "len",
        access: AccessDirection::Read,
        certain: true,
        levels: vec![AccessLevel { type_: "struct sk_buff", start: 112, end: 116, overlay: false }],
        base: Some(BaseAddress { register: "rbx", add: -16 }),
        file: Some("net/ipv4/tcp_input.c"),
        line: Some(3700),
        bindings: bindings.iter().map(sites::build_binding).collect(),
    };
    let line = written(|out| document::write_line(out, &site).unwrap());
    assert_eq!(
        line,
        joined(
            r#"{"access":"read","address":18446744071578845215,"base":{"add":-16,"register":"rbx"},
               "bindings":[{"name":"sk","place":{"add":0,"dereference":false,"register":"rdi"},
               "type":"struct sock *"},{"name":"skb","place":{"add":-8,"dereference":true,"register":"rsp"},
               "type":"struct sock *"},{"name":"n","place":{"constant":7},"type":"struct sock *"}],
               "certain":true,"file":"net/ipv4/tcp_input.c","function":"tcp_ack","levels":[{"end":116,
               "overlay":false,"start":112,"type":"struct sk_buff"}],"line":3700,"member":"len","module":null,
               "offset":31,"struct":"sk_buff"}"#
        )
    );
    let coverage_text = joined(
        r#""coverage":{"instructions":9,"memory_instructions":4,
           "reasons":{"arithmetic":0,"global":0,"indirect_call":0,
           "join":0,"loaded":0,"outside":0,"parameter":0,"result":0,
           "stack":0,"unknown":0,"untyped":0},"typed":3,"unresolved":0}"#,
    );
    let document = text(&Sites { coverage: sites::build_coverage(coverage), sites: vec![site] });
    assert_eq!(document, format!(r#"{{{coverage_text},"schema":2,"sites":[{line}]}}"#));
    let reason = access::Reason::ALL[0];
    let unresolved = [access::Unresolved { function: "tcp_ack", offset: 4, address: 20, reason }];
    let line = r#"{"address":20,"function":"tcp_ack","offset":4,"reason":"stack"}"#;
    let document = text(&sites::build_all_unresolved(coverage, &unresolved));
    assert_eq!(document, format!(r#"{{{coverage_text},"schema":2,"unresolved":[{line}]}}"#));
}

#[test]
fn flows() {
    let dir = tempfile::tempdir().unwrap();
    let of_one = Flows::of(&made_up::write(&dir.path().join("one"), 1, true));
    let of_one = written(|out| flows::write(out, &of_one).unwrap());
    let beginnings = [
        r#"{"schema":2,"summary":{"flows":1,"complete":1,"crossed":1,"records":13,"lost":0,
           "negative_gaps":0,"clock_error_ns":210,"clock_breaks":0,"recording_complete":true,"stored_until_ns":0,
           "overwritten":0,"lost_unattributed":0,"uncounted_sites":0,"unreadable":0,"set_down":0,"damaged":[],"incomplete":{"lost":0,"no_start":0,
           "unmatched":0,"dropped":0,"no_end":0},"elsewhere":[],"dropped":[],"carriers":[{"carrier":"virtqueue","crossings":2,"told":0,"unmatched_xin":0,
           "unmatched_xout":0,"strangers":0,"superseded":0,"refused":0,"contradicted":0,"negative_gaps":0}],"found":[]}"#,
        r#""kinds":[{"name":"virtio_tx, vm1 → vm2","flows":1,"complete":1,"p50_ns":640000,"p99_ns":640000,"max_ns":640000}]"#,
        r#""places":[{"kind":"virtio_tx, vm1 → vm2","domain":"vm1","place":"stack and driver","place_kind":"stack_and_driver","flows":1,
           "p50_ns":131900,"p99_ns":131900,"max_ns":131900,"share":0.20609375,"taker":null}"#,
        r#""segments":[{"kind":"virtio_tx, vm1 → vm2","from":"vm1:__alloc_skb","to":"vm1:tcp_sendmsg_locked","count":1,"min_ns":3400,
           "p50_ns":3400,"p99_ns":3400,"max_ns":3400,"main":true}"#,
        r#""sites":[{"site":1,"domain":"vm1","aspect":"virtio-net","advice":"","function":"__alloc_skb",
           "module":null,"action":"start","xflow":"virtio_tx","carrier":null,"records":1,"dropped":0,
           "missed":0,"table_full":0,"overwritten":0}"#,
        r#""flows":[{"id":144115188075855873,"name":"virtio_tx","kind":"virtio_tx, vm1 → vm2","frame":null,"parents":[],"start_ns":1000000000,
           "end_ns":1000640000,"complete":true,"incomplete":null,"dropped":null,"drops":0,"lost":0,
           "crossings":2,"copies":1,"locals":[144115188075855873,72057594037927937,216172782113783809],"hops":[{"t_ns":1000000000,
           "domain":"vm1","function":"__alloc_skb","offset":0,"module":null,"file":"net/core/skbuff.c",
           "line":661,"cpu":1,"pid":200,"tid":200,"comm":"iperf3","kind":"start","site":1,"on_path":true,
           "values":[18446612686364999680]}"#,
    ];
    let places = beginnings.map(|text| of_one.find(&joined(text)));
    assert!(places[0] == Some(0) && places.is_sorted() && !places.contains(&None), "{places:?}: {of_one}");
}

#[test]
fn flows_one_by_one_are_the_same_document() {
    let dir = tempfile::tempdir().unwrap();
    let trace = made_up::write(&dir.path().join("many"), 20, true);
    let whole = written(|out| flows::write(out, &Flows::of(&trace)).unwrap());
    let streamed = |most| {
        written(|out| {
            let mut document = flows::Stream::begin(out, most).unwrap();
            let wanted = Wanted { of: &|_| true, kept: Some(0) };
            let all = Flows::each(&trace, Join::of(&trace), wanted, |flow| document.flow(&flow)).unwrap();
            document.end(&all).unwrap();
        })
    };
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(read(&streamed(usize::MAX)), read(&whole));
    let some = read(&streamed(3));
    assert_eq!(some["flows"].as_array().unwrap()[..], read(&whole)["flows"].as_array().unwrap()[..3]);
    assert_eq!(some["summary"], read(&whole)["summary"]);
}

#[test]
fn compare() {
    let usage = |seconds: u64| {
        let key = key("vm1", disk("254:0"));
        let time_ns = seconds * 1_000_000_000;
        let figures = Figures { time_ns, device_ns: time_ns, count: 5, bytes: 4096, ..Figures::default() };
        Usage { objects: [(key, figures)].into(), span_ns: time_ns, ..Usage::default() }
    };
    let compared = Comparison::of(&usage(5), &usage(60));
    assert_eq!(
        written(|out| compare::write(out, &compared).unwrap()),
        joined(
            r#"{"schema":2,"span_ns":[5000000000,60000000000],"difference_ns":55000000000,"events":[0,0],
               "objects":[{"object":"disk 254:0",
               "kind":"disk","domain":"vm1","time_ns":[5000000000,60000000000],"count":[5,5],
               "bytes":[4096,4096],"wait_ns":[0,0],"device_ns":[5000000000,60000000000],"seek_bytes":[0,0]}],
               "findings":[{"what":"service","domain":"vm1","object":"disk 254:0","kind":"disk",
               "explained_ns":55000000000,"changed_ns":55000000000,"may_be_idle":false,
               "text":"disk 254:0: a request takes 12.000 s instead of 1.000 s: not for how far apart and how large they are: it is the disk, or what else uses it"}]}"#
        )
    );
}

#[test]
fn explain_is_written_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "vm1".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let mut event = |time_us: i64, kind, tid, name: &str, with: fn(&mut Event)| {
        let name = writer.name(name);
        let mut event = Event { name, ..Event::new(kind, 1, time_us * 1000, 0, tid) };
        with(&mut event);
        writer.event(event).unwrap();
    };
    event(0, Kind::Thread, 0, "client", |event| (event.other, event.object) = (7, 7));
    event(0, Kind::Thread, 0, "hog", |event| (event.other, event.object) = (9, 9));
    event(1, Kind::Switch, 0, "", |event| event.other = 7);
    for at in [10, 50] {
        event(at, Kind::Other, 7, "ask", |_| ());
        event(at + 4, Kind::Switch, 7, "", |event| (event.code, event.other) = (State::Runnable.code(), 9));
        event(at + 20, Kind::Switch, 9, "", |event| event.other = 7);
        event(at + 25, Kind::Other, 7, "answered", |_| ());
    }
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let spec: Spec = "between:ask..answered".parse().unwrap();
    let document = |wanted: Option<u64>| {
        written(|out| {
            let mut stream = explained::Stream::begin(out, &spec).unwrap();
            let mut totals = Totals::default();
            let outcome = explain(&trace, &spec, &mut |transaction, objects| {
                totals.add(&transaction, objects);
                if wanted.is_none_or(|wanted| wanted == transaction.id) {
                    let told = explained::build_transaction(&transaction, objects, wanted.is_some());
                    stream.transaction(&told).unwrap();
                }
            });
            let summary = explained::build_summary(&outcome, &totals);
            let all = Explain {
                summary,
                other_services: Vec::new(),
                sizes: Vec::new(),
                points: None,
                intervals: None,
                lives: None,
            };
            stream.end(&all, None).unwrap();
        })
    };
    let head = r#"{"schema":2,"transaction":"between:ask..answered","transactions":["#;
    let transaction = |id: u64, start_ns: u64| {
        let parts = joined(
            r#"{"count":1,"domain":"vm1","kind":"thread","ns":16000,"object":"client/7","reason":"cpu_taken","role":"program","state":"ready",
               "why":"hog/9 had the CPU"},
               {"count":2,"domain":"vm1","kind":"thread","ns":9000,"object":"client/7","role":"program","state":"running","why":null}"#,
        );
        let head = format!(r#"{{"domain":"vm1","id":{id},"name":"ask .. answered","parts":[{parts}]"#);
        (format!(r#"{head},"start_ns":{start_ns}"#), r#""total_ns":25000}"#)
    };
    let summary = joined(
        r#"{"accesses":0,"causes":[{"by":[{"ns":32000,"role":"program","who":"hog"}],"kind":"cpu_wait","ns":32000,"transactions":2,"what":"client waited for a CPU of vm1"},
           {"by":[{"ns":18000,"role":"program","who":"client"}],"kind":"running","ns":18000,"transactions":2,"what":"running in vm1"}],
           "damaged":[],"events":11,"incomplete_flows":false,"incomplete_ios":0,"late":[],"losses":[],"lost":0,
           "max_ns":25000,"outside":[],"p50_ns":25000,
           "p99_ns":25000,"parts":[{"domain":"vm1","kind":"thread","ns":32000,"object":"client",
           "reason":"cpu_taken","role":"program","state":"ready","transactions":2,"why":"hog had the CPU"},{"domain":"vm1","kind":"thread",
           "ns":18000,"object":"client","role":"program","state":"running","transactions":2,"why":null}],"total_ns":50000,
           "transactions":2,"unanswered":0,"uncertain":0,
           "unused":{"dropped":0,"lost":0,"open":0,"unanswered":0,"unseen":0},"unwritten":0},"sizes":[]}"#,
    );
    let summary = format!(r#"],"summary":{summary}"#);
    let [(one, end), (two, _)] = [transaction(1, 10_000), transaction(2, 50_000)];
    assert_eq!(document(None), format!("{head}{one},{end},{two},{end}{summary}"));
    let steps = joined(
        r#"{"depth":0,"domain":"vm1","ns":4000,"object":"client/7","state":"running","t_ns":50000,"why":null},
           {"depth":0,"domain":"vm1","ns":16000,"object":"client/7","state":"ready","t_ns":54000,
           "why":"hog/9 had the CPU"},
           {"depth":0,"domain":"vm1","ns":5000,"object":"client/7","state":"running","t_ns":70000,"why":null}"#,
    );
    assert_eq!(document(Some(2)), format!(r#"{head}{two},"steps":[{steps}],{end}{summary}"#));
}
