//! The document of `xweave lab list`.

use serde::Serialize;

/// The document.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Worlds<'a, W> {
    /// Worlds of the lab; each has its name and state, and what the description that its `up` stored contains.
    pub worlds: &'a [W],
}
