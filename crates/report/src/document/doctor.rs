//! What `xweave doctor --json` prints.

use serde::Serialize;

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct Doctor<'a> {
    /// What was looked at.
    pub checks: Vec<Check<'a>>,
}

/// One thing that recording needs, or is better with.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Check<'a> {
    /// What was looked at.
    pub name: &'a str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// Whether recording is impossible without it.
    pub needed: bool,
    /// What was found.
    pub found: &'a str,
    /// What to do about it; empty if all is well.
    pub remedy: &'a str,
}

impl<'a> Doctor<'a> {
    /// Of what was found.
    pub fn new(checks: &'a [xweave_record::Check]) -> Self {
        let check = |of: &'a xweave_record::Check| Check {
            name: of.name,
            ok: of.ok,
            needed: of.needed,
            found: &of.found,
            remedy: of.remedy,
        };
        Self { checks: checks.iter().map(check).collect() }
    }
}
