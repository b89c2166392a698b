//! [`xweave_fuzzing::dwarf`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{dwarf, target};

fuzz_target!(init: target::write_seeds("dwarf"), |input: &[u8]| dwarf::run(input));
