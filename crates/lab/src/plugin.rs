//! Plugins of the QEMU that emulates the host's CPUs. They are compiled when xweave is built.

use crate::error::{At, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A plugin of QEMU's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    /// Makes patched code visible to all emulated CPUs.
    PatchedCode,
    /// Has emulated CPUs leave idle as slowly as real ones leave a deep idle state.
    DeepIdle {
        /// Exit latency, and the shortest time after which a CPU is in such a state.
        latency: Duration,
    },
}

impl Plugin {
    /// Writes the plugin into QEMU's working folder, and returns the argument of `-plugin`.
    pub fn install(self, folder: &Path) -> Result<String> {
        let (file, library) = self.library();
        let path = folder.join(file);
        fs::write(&path, library).at("write", &path)?;
        Ok(match self {
            Self::PatchedCode => format!("./{file}"),
            Self::DeepIdle { latency } => format!("./{file},latency={}", latency.as_nanos()),
        })
    }

    /// Returns the name of its file, and what is in it.
    fn library(self) -> (&'static str, &'static [u8]) {
        match self {
            Self::PatchedCode => {
                ("patched_code.so", include_bytes!(concat!(env!("OUT_DIR"), "/patched_code.so")))
            }
            Self::DeepIdle { .. } => {
                ("deep_idle.so", include_bytes!(concat!(env!("OUT_DIR"), "/deep_idle.so")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_written_and_named_with_their_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let latency = Duration::from_micros(1500);
        for (plugin, file, argument) in [
            (Plugin::PatchedCode, "patched_code.so", "./patched_code.so"),
            (Plugin::DeepIdle { latency }, "deep_idle.so", "./deep_idle.so,latency=1500000"),
        ] {
            assert_eq!(plugin.install(folder.path()).unwrap(), argument);
            assert!(fs::read(folder.path().join(file)).unwrap().starts_with(b"\x7fELF"), "{file}");
        }
    }
}
