//! The document of `xweave doctor`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Doctor<'a> {
    /// Checks of this machine.
    pub checks: Vec<DoctorCheck<'a>>,
}

/// A check: something that recording needs, or is better with.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DoctorCheck<'a> {
    /// Name of what was checked.
    pub name: &'a str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// Whether recording is impossible without it.
    pub needed: bool,
    /// Finding, in words.
    pub found: &'a str,
    /// Command or setting that mends it; empty if nothing has to be mended.
    pub remedy: &'a str,
}
