//! What the index says of calls that are inlined, of a program of which the source says where they are.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::process::Command;

use xweave_access::{Index, Source};

const SOURCE: &str = "
volatile int sink;
int asked(int x) { sink = x; return x + 1; }
int once(int x) { return asked(x) * 2; }
int thrice(int x) { return asked(x) + asked(x + 1) + asked(x + 2); }
int a(int x) { return asked(x) * 3; }
int b(int x) { return asked(x) * 4; }
int c(int x) { return asked(x) * 5; }
__attribute__((section(\".init.text\"))) int boots(int x) { return asked(x) * 6; }
int never(int x) { return x + sink; }
__attribute__((section(\".init.text\"))) int boots_too(int x) { return never(x) * 6; }
";

fn index(options: &[&str]) -> Index {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("source.c"), folder.path().join("program.o"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.arg("-O2").args(options).arg("-c").arg(&source).arg("-o").arg(&program);
    assert!(gcc.status().unwrap().success());
    Source { file: Some(program), base: None, btf_only: false }.make().unwrap()
}

fn told(index: &Index, function: &str) -> Option<(u32, u32, String)> {
    let inlined = index.inlined(function, |module| module.is_none())?;
    Some((inlined.calls, inlined.functions, inlined.into.join(" ")))
}

#[test]
fn calls_that_no_entry_sees_are_counted_with_where_they_are() {
    let index = index(&["-g"]);
    // The one with most calls first; what runs only at boot is not counted.
    assert_eq!(told(&index, "asked"), Some((7, 5, "thrice once a b".to_owned())));
    for function in ["never", "thrice", "boots", "no_such_function"] {
        assert_eq!(told(&index, function), None, "{function}");
    }
    let kept = Index::from_bytes("kept", index.bytes().to_vec()).unwrap();
    assert_eq!(told(&kept, "asked"), told(&index, "asked"));
}

#[test]
fn without_inlining_or_debug_information_nothing_is_claimed() {
    assert_eq!(told(&index(&["-g", "-fno-inline"]), "asked"), None);
    assert_eq!(told(&index(&["-gbtf"]), "asked"), None);
}

#[test]
fn damage_does_no_harm() {
    let whole = index(&["-g"]).bytes().to_vec();
    for at in 0..whole.len() {
        for bit in [0, 4, 7] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let Ok(index) = Index::from_bytes("damaged", bytes) else { continue };
            for name in index.function_names() {
                let into = index.inlined(name, |_| true).map_or(0, |inlined| inlined.into.len());
                assert!(into <= 4);
            }
        }
    }
}
