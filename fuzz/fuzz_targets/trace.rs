//! Any files in a trace directory are read, or named as damaged: no panic leaves the reader, no batch is larger than
//! what it promises, there are no more rows than a recording of that size can have, and no text is one that a terminal
//! obeys. The input is the manifest, the sites, a segment of records, and one of events.
#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use xweave_fuzz::{parts, scratch, seeds};
use xweave_trace::Trace;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = scratch().join("trace");
    for of in ["records", "events"] {
        std::fs::create_dir_all(folder.join(of)).expect("a folder in memory");
    }
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

/// Rows that need not have a byte each in a file, as the reader has it.
const FREE: usize = 2 << 20;

fn read([manifest, sites, records, events]: [&[u8]; 4]) {
    for (name, bytes) in [
        ("trace.json", manifest),
        ("sites.parquet", sites),
        ("records/0.parquet", records),
        ("events/0-1.parquet", events),
    ] {
        std::fs::write(FOLDER.join(name), bytes).expect("memory can be written to");
    }
    let trace = match Trace::open(&FOLDER) {
        Ok(trace) => trace,
        Err(error) => return shown(&error.to_string()),
    };
    let _ = trace.manifest().loss.total();
    trace.manifest().domains.iter().for_each(|domain| shown(&domain.name));
    trace.sites_damaged().into_iter().for_each(|damaged| shown(&damaged.to_string()));
    for site in trace.sites().iter().take(64) {
        assert!(trace.site(site.site).is_some());
        shown(&site.function);
    }
    // Some bytes can stand for millions of equal rows: some tell as much as all.
    let mut rows = 0;
    for part in trace.parts().take(64) {
        match part {
            Ok(part) => {
                assert!(part.rows.len() <= 8 << 10);
                rows += part.rows.len();
                part.rows.first().into_iter().for_each(|row| shown(&row.comm()));
            }
            Err(damaged) => shown(&damaged.to_string()),
        }
    }
    assert!(rows <= records.len() + FREE);
    let mut all = trace.events();
    assert!(all.by_ref().take(8 * (16 << 10)).count() <= events.len() + FREE);
    all.names().all().for_each(shown);
    all.damaged().iter().for_each(|damaged| shown(&damaged.to_string()));
}

/// Nothing is left in a text that a terminal obeys.
fn shown(text: &str) {
    assert_eq!(xweave_text::lines(text), text);
}
