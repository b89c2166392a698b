//! [`xweave_fuzzing::aspect`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{aspect, target};

fuzz_target!(init: target::write_seeds("aspect"), |input: &[u8]| aspect::run(input));
