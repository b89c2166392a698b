//! JSON documents: how what other crates have found out is turned into the structures of `xweave_document`, and how these
//! are written.
//!
//! Each command's document has a module: [`doctor`], [`sites`], [`check`], [`fmt`], [`record`], [`records`], [`flows`] (with
//! [`exchange`]), [`explain`] (with [`parts`], [`divided`] and [`lives`]), [`machines`], [`compare`], [`contrast`], [`vary`],
//! [`experiment`], [`import`], [`latency`], [`merge`]. Those of `xweave cost` and `xweave export` are built in `xweave_cost` and
//! `xweave_export`, of what these crates have.

pub mod check;
pub mod compare;
pub mod contrast;
mod diagnostic;
pub mod divided;
pub mod doctor;
pub mod exchange;
pub mod experiment;
pub mod explain;
pub mod flows;
pub mod fmt;
pub mod import;
pub mod latency;
pub mod lives;
pub mod machines;
pub mod merge;
pub mod parts;
pub mod record;
pub mod records;
pub mod sites;
pub mod vary;

use std::{
    borrow::Cow,
    io::{self, Write},
    path::Path,
};

use serde::Serialize;
use xweave_document::Document;
pub use xweave_document::SCHEMA;
use xweave_text as text;

/// Writes a document as a line, as [`write_line`] does.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, content: &impl Serialize) -> io::Result<()> {
    write_line(out, &Document::new(content))
}

/// Writes a value as a line: one of many, or what has no schema.
///
/// # Errors
/// Those of `out`.
pub fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", encode(value)?)
}

/// Writes a document of which a trace decides how large it is: as it is made, its keys in the order of their
/// declaration. Its texts are those of a trace, which were made fit to be shown when that was read.
fn stream(out: &mut impl Write, content: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Document::new(content))?;
    writeln!(out)
}

/// A value in JSON, its keys in the order of the alphabet. What a terminal would obey is in it as `\u…`, which means the
/// same to a program: JSON itself asks for that below U+0020 only.
pub(crate) fn encode(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_value(value)?.to_string();
    if let Cow::Borrowed(_) = text::printable(&text) {
        return Ok(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        let mut bytes = [0; 4];
        match text::printable(c.encode_utf8(&mut bytes)) {
            Cow::Borrowed(_) => escaped.push(c),
            Cow::Owned(_) => {
                let mut units = [0; 2];
                escaped.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    Ok(escaped)
}

/// A path as a document has it. One that is no text is shown as far as it is.
fn path(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn json_means_the_same_and_is_not_obeyed() {
        let document = json!({"a\u{9b}2J": ["x\u{1b}]0;\u{7}\n\u{202e}", "\u{7f}ü\u{e0041}\"\\"]});
        let text = encode(&document).unwrap();
        assert_eq!(text::printable(&text), text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
        assert_eq!(encode(&json!({"a": "ü"})).unwrap(), "{\"a\":\"ü\"}");
    }
}
