//! English: what the crates below this one find, in words. Nothing reads these back: a [`Sentence`] can be shown and written into
//! a document, and no more. What is named elsewhere are kinds of flows, frames and parts of exchanges (`xweave_flow`) and reasons
//! of exits, by the names that kernels and Xen have for them.
//!
//! [`objects`] names objects, [`places`] where flows and requests are; [`causes`] says why time was spent, [`changes`] what
//! is another in a second trace, [`variation`] why requests vary and what can be done.

pub mod causes;
pub mod changes;
pub mod objects;
pub mod places;
mod sentence;
pub mod unused;
pub mod variation;

pub use sentence::Sentence;

#[cfg(test)]
mod tests;
