//! [`xweave_fuzzing::image`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{image, target};

fuzz_target!(init: target::write_seeds("image"), |input: &[u8]| image::run(input));
