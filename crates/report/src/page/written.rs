//! The document as text within a page.

use std::io;

use serde::Serialize;
use serde_json::{Serializer, ser::Formatter};
use xweave_text as text;

/// Largest number that a browser holds exactly, as all smaller ones.
const MOST: u64 = 1 << 53;

/// Writes a document as the content of an element: no sign in it begins another one or ends it, and none is obeyed by a
/// terminal. All of these are within strings, where they may be written as `\u…`.
pub(super) fn written(document: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Memory takes all bytes, and they are UTF-8.
    let _ = write(&mut bytes, document);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Writes a document as [`written`] has it.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(out: impl io::Write, document: &impl Serialize) -> serde_json::Result<()> {
    document.serialize(&mut Serializer::with_formatter(out, Element))
}

/// JSON for an element of a page. Numbers that a browser cannot hold exactly, and would show as others, are strings.
struct Element;

impl Formatter for Element {
    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        if value > MOST { write!(writer, "\"{value}\"") } else { write!(writer, "{value}") }
    }

    fn write_i64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        if value.unsigned_abs() > MOST { write!(writer, "\"{value}\"") } else { write!(writer, "{value}") }
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut from = 0;
        for (at, sign) in fragment.char_indices().filter(|(_, sign)| is_escaped(*sign)) {
            writer.write_all(&fragment.as_bytes()[from..at])?;
            for unit in sign.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            from = at + sign.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[from..])
    }
}

fn is_escaped(sign: char) -> bool {
    match sign {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => true,
        ' '..='~' => false,
        _ => {
            let mut bytes = [0; 4];
            let sign: &str = sign.encode_utf8(&mut bytes);
            text::printable(sign) != sign
        }
    }
}
