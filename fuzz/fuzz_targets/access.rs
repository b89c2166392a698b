//! [`xweave_fuzzing::access`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{access, target};

fuzz_target!(init: target::write_seeds("access"), |input: &[u8]| access::run(input));
