//! Recorded files, and a place to import them to.

pub mod damage;
pub mod lttng;
pub mod xentrace;

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use xweave_import::{Error, Options, Outcome};
use xweave_model::Usage;
use xweave_trace::Trace;

/// A recorded file's content.
pub fn unpacked(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("{name}.zst"));
    let packed = fs::read(path).unwrap();
    let mut content = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(&packed[..]).unwrap().read_to_end(&mut content).unwrap();
    content
}

/// A directory that goes away.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where the trace is made.
    pub fn dir(&self) -> PathBuf {
        self.0.path().join("trace")
    }

    /// A file with that content.
    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A recorded file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.write(name, &unpacked(name))
    }

    pub fn try_import(&self, files: &[PathBuf]) -> Result<Outcome, Error> {
        xweave_import::import(files, &self.dir(), &Options { force: true, ..Options::default() })
    }

    pub fn import(&self, files: &[PathBuf]) -> (Outcome, Trace) {
        let outcome = self.try_import(files).unwrap();
        let trace = Trace::open(&self.dir()).unwrap();
        check_vcpus(&Usage::of(&trace));
        (outcome, trace)
    }
}

/// Checks that no vCPU was in two states at a time, in whatever trace.
fn check_vcpus(usage: &Usage) {
    for (domain, of) in usage.vms() {
        let (states, span) = (usage.vcpu_states(domain, of), usage.spans[domain]);
        assert!(states.total_ns() <= states.vcpus * span, "{of:?}: {states:?} in {span}");
    }
}
