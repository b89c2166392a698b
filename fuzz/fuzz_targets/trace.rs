//! Any files in a trace directory are read, or named as damaged: no panic leaves the reader, and no batch is
//! larger than what it promises. The input is the manifest, the sites, and a segment of records.
#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use xweave_fuzz::{parts, scratch, seeds};
use xweave_trace::Trace;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = scratch().join("trace");
    std::fs::create_dir_all(folder.join("records")).expect("a folder in memory");
    folder
});

/// What the last panic said, for when it leaves the reader.
static SAID: Mutex<String> = Mutex::new(String::new());

fn init() {
    seeds::write(seeds::trace);
    // The reader catches the Parquet library's panics; libFuzzer's hook would end the process at once.
    std::panic::set_hook(Box::new(|panic| {
        *SAID.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
}

fuzz_target!(init: init(), |data: &[u8]| {
    if catch_unwind(AssertUnwindSafe(|| read(parts(data)))).is_err() {
        eprintln!("{}", SAID.lock().unwrap_or_else(PoisonError::into_inner));
        std::process::abort();
    }
});

fn read([manifest, sites, records]: [&[u8]; 3]) {
    for (name, bytes) in [("trace.json", manifest), ("sites.parquet", sites), ("records/0.parquet", records)]
    {
        std::fs::write(FOLDER.join(name), bytes).expect("memory can be written to");
    }
    let Ok(trace) = Trace::open(&FOLDER) else { return };
    let _ = trace.manifest().loss.total();
    let _ = trace.sites_damaged().map(ToString::to_string);
    for site in trace.sites().iter().take(64) {
        assert!(trace.site(site.site).is_some());
    }
    // Some bytes can stand for millions of equal rows; batches are what keeps them from filling the memory.
    for batch in trace.batches().take(8).flatten() {
        assert!(batch.len() <= 64 << 10);
    }
}
