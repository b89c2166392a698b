//! JSON documents: what every one of them has besides its content.

use serde::Serialize;

/// The version of the documents: raised when a program that reads the older ones would misread. 2 is the first that is
/// written into them.
pub const SCHEMA: u32 = 2;

/// A document: `schema`, and the content's members beside it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Document<'a, T: Serialize> {
    schema: u32,
    #[serde(flatten)]
    content: &'a T,
}

impl<'a, T: Serialize> Document<'a, T> {
    /// Of a content that is an object.
    pub fn new(content: &'a T) -> Self {
        Self { schema: SCHEMA, content }
    }
}
