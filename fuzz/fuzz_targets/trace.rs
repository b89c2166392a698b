//! [`xweave_fuzzing::trace`] with libFuzzer.
#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use xweave_fuzzing::{target, trace};

/// Message of the last panic, printed if the panic leaves the reader.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

fn initialize() {
    target::write_seeds("trace");
    // The reader catches panics of the Parquet library; libFuzzer's hook would end the process at once.
    std::panic::set_hook(Box::new(|panic| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
}

fuzz_target!(init: initialize(), |input: &[u8]| {
    if catch_unwind(AssertUnwindSafe(|| trace::run(input))).is_err() {
        eprintln!("{}", LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner));
        std::process::abort();
    }
});
