//! `xweave fmt` as it is used.

use std::{fs, path::Path, process::Command};

/// Exit status, what it printed, and what it complained about.
fn xweave(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xweave")).current_dir(folder).args(arguments).output();
    let output = output.expect("xweave runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn files_are_printed_written_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("a.aspect"), "execution(a){b();} # c").expect("a file");
    let canonical = "execution(a) { b(); } # c\n";
    assert_eq!(xweave(at, &["fmt", "a.aspect"]), (Some(0), canonical.into(), String::new()));
    let (status, names, said) = xweave(at, &["fmt", "--check", "a.aspect"]);
    assert_eq!((status, names.as_str()), (Some(1), "a.aspect\n"));
    assert!(said.contains("1 file is not in canonical form"), "{said}");
    assert_eq!(xweave(at, &["fmt", "--write", "a.aspect"]), (Some(0), "a.aspect\n".into(), String::new()));
    assert_eq!(fs::read_to_string(at.join("a.aspect")).ok().as_deref(), Some(canonical));
    assert_eq!(xweave(at, &["fmt", "--check", "a.aspect"]), (Some(0), String::new(), String::new()));
}

#[test]
fn nothing_is_lost_and_nothing_is_overwritten_by_surprise() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let lossy = "advice a # why\n execution(a) { }";
    fs::write(at.join("a.aspect"), lossy).expect("a file");
    let (status, printed, said) = xweave(at, &["fmt", "--write", "a.aspect"]);
    assert_eq!((status, printed.as_str()), (Some(1), ""));
    assert!(said.contains("a.aspect:1:10") && said.contains("would be lost"), "{said}");
    assert_eq!(fs::read_to_string(at.join("a.aspect")).ok().as_deref(), Some(lossy));

    let xml = "<advice><pointcut>execution(a)</pointcut><before>b();</before></advice>";
    fs::write(at.join("a.xml"), xml).expect("a file");
    assert_eq!(xweave(at, &["fmt", "a.xml"]), (Some(0), "execution(a) { b(); }\n".into(), String::new()));
    let (status, _, said) = xweave(at, &["fmt", "--write", "a.xml"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("xweave fmt a.xml > FILE.aspect"), "{said}");

    let (status, printed, _) = xweave(at, &["fmt", "--json", "a.xml", "a.aspect"]);
    assert_eq!(status, Some(1));
    assert!(printed.contains("\"changed\":true") && printed.contains("would be lost"), "{printed}");
}
