//! [`xweave_fuzzing::btf`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{btf, target};

fuzz_target!(init: target::write_seeds("btf"), |input: &[u8]| btf::run(input));
