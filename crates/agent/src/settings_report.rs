//! Reports to standard error about settings of the kernel: which could not be restored, or changed.

use std::io;

use xweave_system::{StaleSetting, fast_attach::FastAttach, restore};
use xweave_text::printable;

use crate::output::tell;

/// Restores what killed processes have left changed, and reports settings that could not be restored.
pub(crate) fn restore_settings() {
    report_failed(&restore::restore_settings());
}

/// Releases the settings that this process holds changed, before it exits without unwinding.
pub(crate) fn release_settings() {
    for restored in restore::release_settings() {
        match restored {
            Ok(stale) => report_failed(&stale),
            Err(error) => {
                tell(&format!("the kernel's settings are not restored: {error}; run `xweave doctor`"));
            }
        }
    }
}

/// Makes attaching and detaching fast until the result is dropped; reports why that is not possible.
pub(crate) fn begin_fast_attach() -> Option<FastAttach> {
    let report = |error: &io::Error| {
        tell(&format!(
            "attaching and detaching is slower, because kernel settings could not be changed: {error}"
        ));
    };
    FastAttach::begin().inspect_err(report).ok()
}

fn report_failed(stale: &[StaleSetting]) {
    for StaleSetting { path, value, failed } in stale {
        if let Some(reason) = failed {
            tell(&format!("{} is not restored to `{}`: {reason}", printable(path), printable(value)));
        }
    }
}
