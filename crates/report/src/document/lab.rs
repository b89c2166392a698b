//! What `xweave lab list --json` prints.

use serde::Serialize;

/// The document.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct List<'a, W> {
    /// The worlds, each as `xweave_lab::Listed` describes it: that crate is above this one.
    pub worlds: &'a [W],
}
