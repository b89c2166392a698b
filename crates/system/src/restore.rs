//! Restoring settings that processes have left changed.

use std::io;

use crate::{
    fast_attach, knobs, ksm,
    settings_journal::{FOLDER, Journal, StaleSetting, is_mine, is_root},
};

/// All journals: of fast attaching, of experiments, and of KSM.
fn journals() -> [Journal; 4] {
    [fast_attach::journal(), knobs::journal(), ksm::journal(), ksm::nodes_journal()]
}

/// Restores the settings that killed processes have left changed, and returns them. Returns none unless this process is root.
pub fn restore_settings() -> Vec<StaleSetting> {
    if !is_root() {
        return Vec::new();
    }
    let restored = journals().map(|journal| {
        journal.restore().unwrap_or_else(|error| {
            let path = format!("{FOLDER}/{}", journal.name);
            vec![StaleSetting { path, value: String::new(), failed: Some(error.to_string()) }]
        })
    });
    restored.concat()
}

/// Releases all settings that this process holds changed, before it exits without unwinding: one result for each journal, with
/// the settings that were restored. Empty unless this process is root.
pub fn release_settings() -> Vec<io::Result<Vec<StaleSetting>>> {
    if !is_root() {
        return Vec::new();
    }
    journals().iter().map(|journal| journal.release(is_mine)).collect()
}
