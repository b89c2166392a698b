//! `xweave import`, `explain` and `compare` as they are used, on what trace-cmd and perf have recorded.

use std::{fs::File, path::Path, process::Command};

use serde_json::Value;

/// Exit status, what it printed, and what it complained about.
fn xweave(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xweave")).current_dir(folder).args(arguments).output();
    let output = output.expect("xweave runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A folder with the trace that recorded files become.
fn imported(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names {
        let packed = format!("{}/../import/tests/data/{name}.zst", env!("CARGO_MANIFEST_DIR"));
        let mut unpacked = ruzstd::decoding::StreamingDecoder::new(File::open(packed).expect("a file"))
            .expect("it is packed");
        let mut file = File::create(folder.path().join(name)).expect("a file");
        std::io::copy(&mut unpacked, &mut file).expect("room for it");
    }
    let arguments: Vec<_> = ["import"].iter().chain(names).chain(&["-o", "trace"]).copied().collect();
    let (status, _, said) = xweave(folder.path(), &arguments);
    assert_eq!(status, Some(0), "{said}");
    folder
}

/// What a guest and its host recorded at once.
fn both() -> tempfile::TempDir {
    imported(&["host.dat", "guest.dat"])
}

#[test]
fn what_a_guest_s_processor_lost_is_the_host_s() {
    let folder = both();
    let (status, printed, said) =
        xweave(folder.path(), &["explain", "trace", "--transaction", "process", "--json"]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    let transactions = document["transactions"].as_array().expect("transactions");
    assert_eq!(transactions.len(), 15);
    let mut preempted = 0;
    for transaction in transactions {
        let parts = transaction["parts"].as_array().expect("parts");
        let ns = |part: &Value| part["ns"].as_u64().expect("a time");
        assert_eq!(transaction["total_ns"], parts.iter().map(ns).sum::<u64>());
        assert_eq!(transaction["domain"], "vm1");
        let lost = |part: &&Value| part["kind"] == "vcpu" && part["state"] == "preempted";
        for part in parts.iter().filter(lost) {
            assert_eq!(part["domain"], "host");
            preempted += ns(part);
        }
    }
    let total = document["summary"]["total_ns"].as_u64().expect("a time");
    // Most of it by the other vCPU's thread, on the host's one processor.
    assert!(preempted * 10 > total, "{preempted} of {total}");
    let by_qemu = |part: &Value| part["state"] == "preempted" && part["why"] == "vCPUs of vm1 had the CPU";
    let parts = document["summary"]["parts"].as_array().expect("parts");
    assert!(parts.iter().any(by_qemu), "{parts:?}");
}

#[test]
fn a_wait_for_a_disk_is_known_by_the_interrupt_that_ends_it() {
    let explained = |name| {
        let folder = imported(&[name]);
        let (status, printed, said) =
            xweave(folder.path(), &["explain", "trace", "--transaction", "process", "--json"]);
        assert_eq!(status, Some(0), "{said}");
        let summary = serde_json::from_str::<Value>(&printed).expect("JSON")["summary"].take();
        let parts = summary["parts"].as_array().expect("parts").clone();
        let at_disk = parts.iter().filter(|part| part["kind"] == "disk" && part["state"] == "device");
        let waited = at_disk.map(|part| part["ns"].as_u64().expect("a time")).sum::<u64>();
        let accesses = ["accesses", "incomplete_ios"].map(|key| summary[key].as_u64().expect("a number"));
        (waited, accesses, said)
    };
    // All processors, and so the ends of all accesses.
    let (waited, accesses, said) = explained("system.data");
    assert_eq!((accesses, said.as_str()), ([101, 0], ""));
    assert!(waited > 1_000_000, "{waited}");
    // A program alone: interrupts came to others.
    let (waited, accesses, said) = explained("plain.data");
    assert_eq!((waited, accesses), (0, [400, 400]));
    assert!(said.contains("trace lacks the ends of 400 of 400 disk I/O requests"), "{said}");
}

#[test]
fn where_no_kind_is_asked_for_the_document_has_the_machines_that_the_terminal_shows() {
    let folder = both();
    let told = |arguments: &[&str]| -> Value {
        let (status, printed, said) = xweave(folder.path(), arguments);
        assert_eq!((status, said.as_str()), (Some(0), ""));
        serde_json::from_str(&printed).expect("JSON")
    };
    let document = told(&["explain", "trace", "--json"]);
    assert_eq!(document["transaction"], "process");
    assert!(document["transactions"].as_array().is_some_and(|all| !all.is_empty()));
    let mut machines = told(&["explain", "trace", "--machines", "--json"]);
    machines.as_object_mut().expect("an object").remove("schema");
    assert_eq!(document["machines"], machines);
    // Who asks for a kind is told of that.
    let of_kind = told(&["explain", "trace", "--transaction", "process", "--json"]);
    assert!(of_kind.get("machines").is_none());
}

#[test]
fn one_transaction_is_shown_step_by_step_and_as_a_diagram() {
    let folder = both();
    let explain = |arguments: &[&str]| {
        let all: Vec<_> =
            ["explain", "trace", "--transaction", "process:dd"].iter().chain(arguments).copied().collect();
        xweave(folder.path(), &all)
    };
    let (status, table, _) = explain(&[]);
    assert_eq!(status, Some(0));
    assert!(table.contains("The slowest:") && table.contains("disk 254:0"), "{table}");
    let (status, steps, _) = explain(&["--id", "1"]);
    assert_eq!(status, Some(0));
    assert!(steps.starts_with("1 dd/") && steps.contains("device"), "{steps}");
    let (status, diagram, _) = explain(&["--id", "1", "--mermaid"]);
    assert_eq!(status, Some(0));
    assert!(diagram.starts_with("sequenceDiagram\n") && diagram.contains("as vm1: disk 254:0"), "{diagram}");
}

#[test]
fn what_cannot_be_explained_is_told_with_what_to_do() {
    let folder = both();
    let told = |arguments: &[&str]| {
        let (status, printed, said) = xweave(folder.path(), arguments);
        assert_eq!(printed, "");
        (status, said)
    };
    for (arguments, status, words) in [
        (&["explain", "nowhere"][..], 2, "is not a trace"),
        (&["explain", "trace", "--transaction", "lives"], 2, "is no kind of transaction"),
        (
            &["explain", "trace", "--transaction", "connect:80"],
            1,
            "has no transactions of the kind connect:80",
        ),
        (&["explain", "trace", "--transaction", "connect:80"], 1, "in it; it has: process:"),
        (
            &["explain", "trace", "--transaction", "between:disk_isue..disk_complete"],
            1,
            "did you mean disk_issue",
        ),
        (&["explain", "trace", "--transaction", "between:switch@vm9..wake"], 1, "there is no domain vm9"),
        (
            &["explain", "trace", "--transaction", "between:a..b,by=v9"],
            2,
            "`v9` joins nothing: write by=thread",
        ),
        (&["explain", "trace", "--transaction", "process", "--id", "99"], 1, "has no transaction 99"),
        (&["explain", "trace", "--mermaid"], 2, "--id"),
        (&["compare", "trace", "nowhere"], 2, "is not a trace"),
    ] {
        let (found, said) = told(arguments);
        assert!(found == Some(status) && said.contains(words), "{arguments:?}: {found:?}: {said}");
    }
}

#[test]
fn slow_transactions_are_compared_with_typical_ones_if_there_are_enough() {
    let folder = both();
    let compare = |arguments: &[&str]| {
        let all: Vec<_> = ["compare", "trace"].iter().chain(arguments).copied().collect();
        xweave(folder.path(), &all)
    };
    let (status, printed, said) = compare(&["--transaction", "process"]);
    assert_eq!((status, printed.as_str()), (Some(1), ""));
    assert!(
        said.contains("trace has 15 of the kind process: to compare them it takes at least 40"),
        "{said}"
    );
    let (status, _, said) = compare(&["--transaction", "request:81"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("trace has no transactions of the kind request:81"), "{said}");
    let (status, _, said) = compare(&[]);
    assert_eq!(status, Some(2));
    assert!(said.contains("Give a second directory"), "{said}");
    let kind = "between:switch..switch";
    let (status, table, said) = compare(&["--transaction", kind]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    assert!(table.starts_with(&format!("Slow transactions ({kind}) took ")), "{table}");
    let (status, printed, _) = compare(&["trace", "--transaction", kind, "--json"]);
    assert_eq!(status, Some(0));
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((&document["transaction"], &document["difference_ns"]), (&kind.into(), &0.into()));
}

#[test]
fn several_points_divide_the_time_of_transactions() {
    let folder = imported(&["system.data"]);
    let points = ["--points", "disk_queue,disk_issue,disk_complete"];
    let explain = |arguments: &[&str]| {
        let all: Vec<_> = ["explain", "trace"].iter().chain(&points).chain(arguments).copied().collect();
        xweave(folder.path(), &all)
    };
    let (status, table, said) = explain(&["--by", "size"]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    assert!(table.contains(" of the time lies between disk_") && table.contains("KiB – "), "{table}");
    let (status, printed, _) = explain(&["--json"]);
    assert_eq!(status, Some(0));
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    let all = |of: &str| document[of].as_array().expect("a list").clone();
    let sum =
        |of: &[Value], key: &str| of.iter().map(|one| one[key].as_u64().expect("a number")).sum::<u64>();
    assert_eq!(sum(&all("intervals"), "total_ns"), document["summary"]["total_ns"]);
    assert_eq!(sum(&all("sizes"), "transactions"), document["summary"]["transactions"]);
    assert_eq!(document["points"][2]["point"], "disk_complete");
    for transaction in all("transactions") {
        let times = transaction["points_ns"].as_array().expect("times").len();
        assert!(times == 3 && transaction["received_bytes"].is_u64(), "{transaction}");
    }
    let (status, _, said) = xweave(folder.path(), &["explain", "trace", "--points", "disk_queue"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("write --points A,B,C"), "{said}");
}
