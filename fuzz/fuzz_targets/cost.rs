//! [`xweave_fuzzing::cost`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{cost, target};

fuzz_target!(init: target::write_seeds("cost"), |input: &[u8]| cost::run(input));
