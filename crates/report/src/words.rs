//! English: what the crates below this one find, in words. Only here are their types turned into sentences, and nothing reads
//! these back: a [`Sentence`] can be shown and written into a document, and no more.
//!
//! [`objects`] names objects, [`places`] where flows and requests are; [`causes`] says why time was spent, [`changes`] what
//! is another in a second trace, [`variation`] why requests vary and what can be done.

pub mod causes;
pub mod changes;
pub mod objects;
pub mod places;
mod sentence;
pub mod variation;

pub use sentence::Sentence;

#[cfg(test)]
mod tests;
