//! [`xweave_fuzzing::aspect_xml`] with libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{aspect_xml, target};

fuzz_target!(init: target::write_seeds("aspect_xml"), |input: &[u8]| aspect_xml::run(input));
