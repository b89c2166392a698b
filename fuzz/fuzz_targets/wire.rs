//! [`xweave_fuzzing::wire`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{target, wire};

fuzz_target!(init: target::write_seeds("wire"), |input: &[u8]| wire::run(input));
