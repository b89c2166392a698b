//! [`xweave_fuzzing::aspect`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::aspect;

fuzz_target!(|input: &[u8]| aspect::run(input));
