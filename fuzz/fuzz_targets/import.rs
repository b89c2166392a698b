//! [`xweave_fuzzing::import`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{import, target};

fuzz_target!(init: target::write_seeds("import"), |input: &[u8]| import::run(input));
