//! What a process that was taken over by what it read may do: tried in the built program.

use std::{path::Path, process::Command};

/// Exit status, what it printed, and what it complained about.
fn xweave(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xweave")).current_dir(folder).args(arguments).output();
    let output = output.expect("xweave runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn what_a_confined_process_must_not_do_it_cannot() {
    let (status, printed, said) = xweave(Path::new("/"), &["confined", "probe"]);
    assert_eq!(status, Some(0), "{printed}{said}");
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines.len() > 70, "{printed}");
    assert!(lines.iter().all(|line| line.contains(" refused  ")), "{printed}");
    // Of each way of being refused, one: so that an attempt which fails for another reason is seen.
    for (attempt, how) in [
        ("reader    read-shadow ", "Permission denied"),
        ("reader    tcp ", "Operation not permitted"),
        ("reader    bpf ", "ended for a system call"),
        ("reader    memory ", "ran out of its memory of 256 MiB"),
        ("compiler  write-tmp ", "Permission denied"),
        ("compiler  fork-bomb ", "Resource temporarily unavailable"),
        ("compiler  time ", "more than 2 s of processor time"),
    ] {
        let line = lines.iter().find(|line| line.starts_with(attempt)).expect(attempt);
        assert!(line.contains(how), "{line}");
    }
}
