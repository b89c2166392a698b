//! Target `import`: any file that claims to be of another tool becomes events in the order of their times, or an error
//! with the position of the damage. The input is one file, or two of one recording.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use xweave_import::{Input, Options, Sink, decode};
use xweave_trace::{
    Event,
    event::{Name, Names},
};

use crate::parts::{join_parts, split_parts};

/// Checks that domains and times are in order, and that names are known.
#[derive(Default)]
struct CheckedSink {
    names: Names,
    domain: u8,
    last: i64,
}

impl Sink for CheckedSink {
    fn name(&mut self, text: &str) -> Name {
        self.names.give(text)
    }

    fn event(&mut self, event: Event) -> Result<(), xweave_import::Error> {
        if event.domain != self.domain {
            assert!(event.domain > self.domain, "domains follow one another");
            (self.domain, self.last) = (event.domain, i64::MIN);
        }
        assert!(event.time_ns >= self.last, "{event:?} after {}", self.last);
        assert!(event.name.index() < self.names.all().count());
        self.last = event.time_ns;
        Ok(())
    }
}

/// The files that an input consists of. The second is empty if there is one only.
pub fn split_files(input: &[u8]) -> [&[u8]; 2] {
    split_parts(input)
}

/// Runs the target.
pub fn run(input: &[u8]) {
    let [one, other] = split_files(input);
    let mut files = vec![(PathBuf::from("one"), Input::of(one.to_vec()))];
    if !other.is_empty() {
        files.push((PathBuf::from("other"), Input::of(other.to_vec())));
    }
    // Records of Xen need not contain the frequency of the TSC.
    let options = Options { cpu_hz: Some(2_400_000_000), ..Options::default() };
    if let Err(error) = decode(files, &options, &mut CheckedSink::default()) {
        assert!(!error.to_string().is_empty());
    }
}

/// Makes seeds: small files recorded by perf, trace-cmd and xentrace.
pub fn make_seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/data");
    let recorded = ["bash-v6.dat", "guest.dat", "packed.data", "pipe.data", "busy.xt"].map(|name| {
        let packed = std::fs::read(folder.join(format!("{name}.zst"))).expect("a recorded file");
        let mut content = Vec::new();
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(&packed[..]).expect("a compressed file");
        decoder.read_to_end(&mut content).expect("a compressed file");
        content
    });
    let both = join_parts(&[recorded[2].clone(), recorded[1].clone()]);
    recorded.into_iter().chain([both]).collect()
}
