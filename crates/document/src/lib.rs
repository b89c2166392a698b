//! JSON documents as structures: what each command prints with `--json`, and what the page shows.
//!
//! Only data. The crates that find something out have types of their own, and `crates/report` converts these into the
//! structures here; nothing else is serialised for a document. Each field's comment is its description: the page's types in
//! `web/src/document.ts` and the tables of keys in `docs/` are generated from them by this crate's tests.
//!
//! Modules: a command's document is in the module of its name ([`doctor`], [`sites`], [`check`], [`fmt`], [`record`],
//! [`records`], [`flows`] with [`exchange`], [`explain`] with [`parts`], [`divided`] and [`lives`], [`machines`], [`compare`],
//! [`contrast`], [`vary`] with [`experiment`], [`import`], [`export`], [`latency`], [`merge`], [`lab`], [`cost`]); [`failure`] is that of any
//! command that fails. [`page`] is the page's document. [`value`] has what fields are made of.

pub mod check;
pub mod compare;
pub mod contrast;
pub mod cost;
pub mod diagnostic;
pub mod divided;
pub mod doctor;
pub mod exchange;
pub mod experiment;
pub mod explain;
pub mod export;
pub mod failure;
pub mod flows;
pub mod fmt;
pub mod import;
pub mod lab;
pub mod latency;
pub mod lives;
pub mod machines;
pub mod merge;
pub mod page;
pub mod parts;
pub mod record;
pub mod records;
pub mod sites;
#[cfg(test)]
mod tests;
pub mod value;
pub mod vary;

use serde::Serialize;

/// Version of the documents. It is incremented when a program that reads older documents would misread new ones.
pub const SCHEMA: u32 = 2;

/// A document: `schema`, and the members of its content.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Document<'a, T: Serialize> {
    schema: u32,
    #[serde(flatten)]
    content: &'a T,
}

impl<'a, T: Serialize> Document<'a, T> {
    /// Creates the document of a content, which has to be serialised as an object.
    pub fn new(content: &'a T) -> Self {
        Self { schema: SCHEMA, content }
    }
}
