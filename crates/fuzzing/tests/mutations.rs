//! Each fuzz target with its seeds and with mutations of them, the same ones every time. `make fuzz` looks for more.
//!
//! `XWEAVE_INPUT=FILE` runs one input only, `XWEAVE_MUTATIONS=N` another number of mutations.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

use std::collections::BTreeSet;
use std::path::Path;

use xweave_fuzzing::check::find_failure;
use xweave_fuzzing::target::{TARGETS, Target};

fn check_target(name: &str) {
    let mut target = *Target::find(name).unwrap();
    if let Some(file) = std::env::var_os("XWEAVE_INPUT") {
        return (target.run)(&std::fs::read(file).unwrap());
    }
    if let Some(number) = std::env::var_os("XWEAVE_MUTATIONS") {
        target.mutations = number.to_str().unwrap().parse().unwrap();
    }
    let (seeds, words) = (target.load_seeds(), target.load_words());
    if let Some(failure) = find_failure(&target, &seeds, &words, Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        panic!("{failure}");
    }
    println!("{} seeds, {} mutations", seeds.len(), target.mutations);
}

/// Defines a test for each target.
macro_rules! test_targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check_target(stringify!($name));
        })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

test_targets! { access aspect aspect_xml btf cost dwarf image import trace wire }

#[test]
fn each_program_in_fuzz_is_a_tested_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let programs: BTreeSet<_> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(programs, TARGETS.map(|target| target.name.to_owned()).into());
    assert_eq!(programs, TESTED.iter().map(|name| (*name).to_owned()).collect());
}
