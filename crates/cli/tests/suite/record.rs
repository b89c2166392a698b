//! What `xweave record` says of a command line before it asks anybody.
use std::{fs, path::Path, process::Command};

/// Runs it in a folder, as a usage error. Gives what it said.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
    command.arg("record").args(arguments).current_dir(folder).env("XWEAVE_CACHE", folder.join("cache"));
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

#[test]
fn who_names_nothing_to_record_is_told_of_aspects_and_events() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        refused(folder.path(), &["-o", "trace"]),
        "xweave: nothing to record is named: give an aspect (xweave record virtio-net …, a file, or -e 'TEXT'), event \
         groups (--events sched,block,net,vm), or both\n"
    );
}

#[test]
fn the_help_names_all_aspects_of_the_library() {
    let output = Command::new(env!("CARGO_BIN_EXE_xweave")).args(["record", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let paragraph =
        help.split("one of the library's: ").nth(1).and_then(|rest| rest.split('.').next()).unwrap();
    let named: Vec<_> = paragraph.split(',').map(str::trim).collect();
    assert_eq!(named, xweave_aspect::library_names().collect::<Vec<_>>());
}

#[test]
fn the_output_is_looked_at_before_aspects_are_read_or_anybody_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("trace")).unwrap();
    fs::write(folder.path().join("trace/notes"), "mine").unwrap();
    let said = refused(folder.path(), &["no-such.aspect", "--domain", "vm1=false", "-o", "trace"]);
    assert!(said.contains("trace is no trace and has other files in it (notes)"), "{said}");
    assert!(!said.contains("reaching"), "{said}");
    let said = refused(folder.path(), &["no-such.aspect", "-o", "fresh"]);
    assert!(said.contains("no-such.aspect") && !folder.path().join("fresh").exists(), "{said}");
}

#[test]
fn domains_whose_addresses_contradict_their_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let events = ["--events", "sched", "-o", "trace"];
    let said = refused(folder.path(), &[&events[..], &["--domain", "host=vsock:3"]].concat());
    assert!(said.starts_with("xweave: host=vsock:3 is a guest of this machine"), "{said}");
    let two = ["--domain", "vm1=vsock:3", "--domain", "vm2=vsock:3"];
    let said = refused(folder.path(), &[&events[..], &two].concat());
    assert!(said.starts_with("xweave: vm1 and vm2 are one kernel (both have the CID 3)"), "{said}");
}

#[test]
fn a_duration_is_read_in_all_its_forms_also_beside_a_command() {
    let folder = tempfile::tempdir().unwrap();
    for duration in ["500ms", "10s", "2m", "1.5", "1h"] {
        let said =
            refused(folder.path(), &["no-such.aspect", "-o", "t", "--duration", duration, "--", "true"]);
        assert!(said.contains("no-such.aspect"), "{duration}: {said}");
    }
    let said = refused(folder.path(), &["virtio-net", "-o", "t", "--duration", "10y"]);
    assert!(said.contains("`10y` is not a duration: write 500ms, 10s or 2m"), "{said}");
}
