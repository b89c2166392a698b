//! What `xweave vary` says of a command line, and of an experiment's blocks.
use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use xweave_guard::private::Dir;
use xweave_synthetic::scene::{Evidence, Mechanism, World};
use xweave_trace::{
    Domain, DomainVm, Manifest, Writer,
    event::{Connection, Event, Kind, Sending},
};
use xweave_vary::experiment::{
    Experiment,
    order::order,
    stored::{Block, FILE, Held, Setting, Vm, trace_name},
};
use xweave_wire::knob::Knob;

/// Exit status, what it printed, and what it complained about.
fn vary(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
    let output = command.arg("vary").args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn what_cannot_be_tried_is_refused_before_anybody_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("full")).unwrap();
    fs::write(folder.path().join("full/notes"), "mine").unwrap();
    let load = ["-o", "polling", "--", "./load.sh"];
    for (arguments, told) in [
        (
            &["--try", "halt_pol_ns=0,200000"][..],
            "there is no knob halt_pol_ns (did you mean halt_poll_ns?); there are",
        ),
        (&["--try", "halt_poll_ns=0,much"], "halt_poll_ns takes a number from 0 to 10000000, not `much`"),
        (
            &["--try", "vhost_busy_poll=0,50"],
            "the kernel takes VHOST_SET_VRING_BUSYLOOP_TIMEOUT of the process that owns",
        ),
        (&["--try", "/proc/sys/kernel/panic=0,1"], "there is no knob /proc/sys/kernel/panic; there are"),
        (&["--try", "halt_poll_ns=0,1", "--rounds", "0"], "0 is not in 1..=200"),
        (
            &["--try", "halt_poll_ns=0,1", "--domain", "host=vsock:3"],
            "host=vsock:3 is a guest of this machine",
        ),
    ] {
        let (status, printed, said) = vary(folder.path(), &[arguments, &load].concat());
        assert_eq!((status, printed.as_str()), (Some(2), ""), "{arguments:?}: {said}");
        assert!(said.contains(told) && !said.contains("reaching"), "{arguments:?}: {said}");
    }
    for (arguments, told) in [
        (
            &[][..],
            "xweave: nothing to do is named: give a trace (xweave vary DIR), settings to try (xweave vary --try halt_poll_ns=0,200000 -o DIR",
        ),
        (&["full"], "xweave: full is not a trace: it has no trace.json"),
        (&["--try", "halt_poll_ns=0,1", "--", "true"], "--output <DIR>"),
        (
            &["--try", "halt_poll_ns=0,1", "-o", "full", "--", "true"],
            "xweave: full is not empty: give another -o DIR",
        ),
    ] {
        let (status, printed, said) = vary(folder.path(), arguments);
        assert_eq!((status, printed.as_str()), (Some(2), ""), "{arguments:?}: {said}");
        assert!(said.contains(told) && !said.contains("reaching"), "{arguments:?}: {said}");
    }
    assert!(!folder.path().join("polling").exists());
}

#[test]
fn the_help_names_every_knob_and_why_there_is_none_of_vhost() {
    let (status, help, _) = vary(Path::new("."), &["--help"]);
    assert_eq!(status, Some(0));
    for knob in Knob::ALL {
        assert!(help.contains(&format!("  {knob} ")), "{knob}");
    }
    assert!(help.contains("vhost's busy polling is none of them: QEMU sets it when it starts"), "{help}");
}

const MS: i64 = 1_000_000;

/// A block of 120 requests that take so long, two of them longer; a vCPU of process 42 halts for each, and sleeps in all but
/// so many of ten. Beside each fourth, a request to port 22 takes a hundred times as long as one that it begins with.
fn block(folder: &Path, number: u32, ns: i64, slow_ns: i64, awake: i64) {
    let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
    let vm = Some(DomainVm { host: "host".into(), pid: 42, cid: None });
    let domains = vec![domain("host", 1), Domain { vm, ..domain("vm1", 2) }];
    let manifest = Manifest { domains, ..Manifest::default() };
    let mut writer = Writer::create(&folder.join(trace_name(number)), manifest).unwrap();
    let client = Connection(9 << 32 | 40_000 << 16 | 80);
    let message = |kind, domain, time, connection: Connection| Event {
        position: connection.0,
        other: 1,
        bytes: 100,
        code: if kind == Kind::Send { Sending::Begins.code() } else { 1 },
        ..Event::new(kind, domain, time, 0, 7)
    };
    let vcpu = |kind, time| Event { other: 42, ..Event::new(kind, 1, time, 0, 50) };
    for nth in 0..120 {
        let (begin, took) = (10 * nth * MS, if nth / 2 == 30 { slow_ns } else { ns });
        let code = i32::from(nth % 10 < awake);
        for event in [
            message(Kind::Send, 1, begin, client),
            Event { bytes: 300_000, code, ..vcpu(Kind::VmHalt, begin + took / 4) },
            vcpu(Kind::VmEnter, begin + took / 3),
            message(Kind::Receive, 2, begin + took / 2, client.peer()),
            message(Kind::Send, 2, begin + took / 2 + 1, client.peer()),
            message(Kind::Receive, 1, begin + took, client),
        ] {
            writer.event(event).unwrap();
        }
        if nth % 4 == 0 {
            let shell = Connection(8 << 32 | 40_001 << 16 | 22);
            for event in [
                message(Kind::Send, 1, begin + took + 1, shell),
                message(Kind::Receive, 2, begin + took + 2, shell.peer()),
                message(Kind::Send, 2, begin + 9 * MS, shell.peer()),
                message(Kind::Receive, 1, begin + 9 * MS + 1, shell),
            ] {
                writer.event(event).unwrap();
            }
        }
    }
    writer.finish().unwrap();
}

/// Six rounds of polling and not polling: requests take a fifth less with it, the slowest as long as they do.
fn experiment(folder: &Path, change: impl FnOnce(&mut Experiment)) {
    let held = Held { knob: Knob::HaltPollNs, domain: "host".into(), vm: None, now: "200000".into() };
    let setting = |value: &str| Setting { values: vec![Some(value.to_owned())] };
    let mut experiment = Experiment {
        knobs: vec![held.clone()],
        settings: vec![setting("0"), setting("200000")],
        vms: vec![Vm { host: "host".into(), name: "web".into(), pid: 42 }],
        ..Experiment::new(Some("request:80".into()), vec!["./load.sh".into()], 7, 6)
    };
    for (round, settings) in (1..).zip(order(2, 6, 7)) {
        for setting in settings {
            let number = u32::try_from(experiment.blocks.len() + 1).unwrap();
            let drift = MS + i64::from(round) * MS / 20;
            let (ns, awake) = if setting == 0 { (drift, 0) } else { (drift * 4 / 5, 6) };
            block(folder, number, ns, 5 * MS + i64::from(number * number % 7) * MS / 10, awake);
            let read =
                vec![Held { now: experiment.settings[setting].values[0].clone().unwrap(), ..held.clone() }];
            let setting = u32::try_from(setting).unwrap();
            experiment.blocks.push(Block { number, round, setting, failed: None, read });
        }
    }
    change(&mut experiment);
    experiment.store(&Dir::create(folder).unwrap()).unwrap();
}

#[test]
fn without_a_kind_the_service_with_the_most_requests_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    experiment(folder.path(), |of| of.transaction = None);
    let (status, printed, said) = vary(folder.path(), &["."]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    assert!(printed.contains("p50 −20 % (−20 … −20 %)"), "{printed}");
    let one_line = printed.replace('\n', " ");
    assert!(one_line.contains("1 440 of the kind request:80 in 12 blocks of 6 rounds"), "{printed}");
    assert!(one_line.contains("Others, by --transaction: request:22 (30)"), "{printed}");
    let (_, printed, _) = vary(folder.path(), &[".", "--json"]);
    let document: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(document["transaction"], "request:80");
    assert_eq!(document["other_services"], json!([{ "transaction": "request:22", "requests": 30 }]));
    let (_, printed, _) = vary(folder.path(), &[".", "--transaction", "request", "--json"]);
    let document: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(document["blocks"][0]["transactions"], 150);
    assert!(document.get("other_services").is_none());
}

#[test]
fn the_answer_comes_first_then_the_figures_and_what_was_seen_of_the_setting() {
    let folder = tempfile::tempdir().unwrap();
    experiment(folder.path(), |_| {});
    let (status, printed, said) = vary(folder.path(), &["."]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    let first = printed.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(
        first.starts_with("halt_poll_ns@host 0 → 200000: p50 −20 % (−20 … −20 %); no effect seen on p99 (")
            && first.contains("would have been)")
            && first.contains("6 rounds, 97 % intervals")
            && !first.contains("CPU"),
        "{first}"
    );
    assert!(printed.contains("web  halts that did not sleep (halt_poll_ns): 0.0 % → 60 %"), "{printed}");
    assert!(printed.contains("1 440 of the kind request:80 in 12 blocks of 6 rounds"), "{printed}");

    let (status, printed, _) = vary(folder.path(), &[".", "--json"]);
    let document: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(status, Some(0));
    let effect = &document["effects"][0];
    let (p50, p99) = (&effect["p50"], &effect["p99"]);
    assert!((p50["ratio"].as_f64().unwrap() - 0.8).abs() < 1e-6, "{p50}");
    assert_eq!((&p50["seen"], &p99["seen"]), (&Value::Bool(true), &Value::Bool(false)));
    assert!(p50["low_ns"].as_i64() <= p50["difference_ns"].as_i64(), "{p50}");
    assert!(
        p50["difference_ns"].as_i64() <= p50["high_ns"].as_i64() && p50["high_ns"].as_i64() < Some(0),
        "{p50}"
    );
    assert_eq!(effect["observed"][0]["holds"], Value::Bool(true));
    assert_eq!(document["blocks"].as_array().unwrap().len(), 12);
    assert_eq!(document["blocks"][0]["transactions"], 120);
    assert_eq!(document["settings"][1]["name"], "halt_poll_ns@host=200000");
}

#[test]
fn an_experiment_that_ended_early_is_told_as_far_as_it_came_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    experiment(folder.path(), |experiment| {
        experiment.blocks.truncate(5);
        experiment.blocks[4].failed = Some("it was interrupted".to_owned());
        experiment.ended = Some("it was interrupted".to_owned());
    });
    let (status, printed, said) = vary(folder.path(), &["."]);
    assert_eq!(status, Some(1));
    assert!(printed.contains("2 rounds cannot tell an effect from chance (p99 "), "{printed}");
    assert!(printed.contains("Not counted, with its round: block 5: it was interrupted"), "{printed}");
    assert_eq!(said, "xweave: the experiment ended after 5 blocks: it was interrupted\n");
}

#[test]
fn another_kind_of_transaction_can_be_asked_for_and_one_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    experiment(folder.path(), |_| {});
    let (status, printed, said) = vary(folder.path(), &[".", "--transaction", "connect:80"]);
    assert_eq!((status, printed.as_str()), (Some(1), ""));
    assert!(
        said.contains("it has no transactions of the kind connect:80 that began and ended in it"),
        "{said}"
    );
    fs::write(folder.path().join(FILE), "{\"schema\": 1}").unwrap();
    let (status, _, said) = vary(folder.path(), &["."]);
    assert!(status == Some(1) && said.contains("experiment.json is damaged: missing field"), "{said}");
}

/// Requests to a database or somebody's shell have nothing to do with those to the web server.
#[test]
fn one_service_is_looked_at_and_the_others_are_named() {
    let folder = tempfile::tempdir().unwrap();
    World::compose(1, Mechanism::DiskThenOther, Evidence::Native)
        .write(&folder.path().join("trace"))
        .unwrap();
    for command in ["vary", "explain"] {
        let run = |arguments: &[&str]| {
            let mut program = Command::new(env!("CARGO_BIN_EXE_xweave"));
            let output =
                program.args([command, "trace"]).args(arguments).current_dir(folder.path()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let document: Value = serde_json::from_str(&run(&["--json"])).unwrap();
        assert_eq!(document["transaction"], "request:80");
        let others = document["other_services"].as_array().unwrap();
        assert_eq!((others.len(), &others[0]["transaction"]), (1, &Value::from("request:81")));
        let requests = others[0]["requests"].as_u64().unwrap();
        let told = format!(
            "Only request:80 is shown, the service with the most requests. Others, by --transaction: request:81 ({requests})\n"
        );
        let printed = run(&[]);
        assert!(printed.contains(&told), "{printed}");
        // Who asks for some is not told of others.
        let asked = run(&["--transaction", "request:80"]);
        assert_eq!(asked, printed.replace(&told, "").replace("\n\n\n", "\n\n"));
        let asked: Value = serde_json::from_str(&run(&["--transaction", "request:80", "--json"])).unwrap();
        assert!(asked.get("other_services").is_none());
    }
}
