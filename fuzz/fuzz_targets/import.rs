//! Any file that claims to be of another tool becomes events in the order of their times, or an error that says where
//! it is damaged. The input is one file, or two of one recording.
#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use xweave_fuzz::{parts, seeds};
use xweave_import::{Input, Options, Sink, decode};
use xweave_trace::{
    Event,
    event::{Name, Names},
};

/// Holds events against what they promise.
#[derive(Default)]
struct Checked {
    names: Names,
    domain: u8,
    last: i64,
}

impl Sink for Checked {
    fn name(&mut self, text: &str) -> Name {
        self.names.give(text)
    }

    fn event(&mut self, event: Event) -> Result<(), xweave_import::Error> {
        if event.domain != self.domain {
            assert!(event.domain > self.domain, "domains are told one after the other");
            (self.domain, self.last) = (event.domain, i64::MIN);
        }
        assert!(event.time_ns >= self.last, "{event:?} after {}", self.last);
        assert!(event.name.index() < self.names.all().count());
        self.last = event.time_ns;
        Ok(())
    }
}

fuzz_target!(init: seeds::write(seeds::import), |data: &[u8]| {
    let [one, other] = parts(data);
    let mut files = vec![(PathBuf::from("one"), Input::of(one.to_vec()))];
    if !other.is_empty() {
        files.push((PathBuf::from("other"), Input::of(other.to_vec())));
    }
    // Records of Xen's need not tell how fast the TSC counts.
    let options = Options { cpu_hz: Some(2_400_000_000), ..Options::default() };
    if let Err(error) = decode(files, &options, &mut Checked::default()) {
        assert!(!error.to_string().is_empty());
    }
});
