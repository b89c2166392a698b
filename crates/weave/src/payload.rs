//! A key in the payload: where it is in a message, as people write it and as `bpf/events/key.h` reads it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// How much of a message is looked through: `XW_PAYLOAD` of `bpf/events/key.h`.
const LOOKED: u32 = 1024;

/// The most bytes of a key that count: `XW_KEY_MOST` there.
const MOST: u32 = 64;

/// The longest name of a line: four words, which are compared at once.
const NAME: usize = 32;

/// Where the key of a message is: what `record --key` is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayloadKey {
    /// `line:NAME`: what stands behind that name (of letters in either case) and a colon at the beginning of a line that is
    /// not the first, as the headers of SIP and HTTP have it.
    Line(String),
    /// `first-line`: all of it.
    FirstLine,
    /// `bytes:OFFSET+LENGTH`: so many bytes from there, whatever they are.
    Bytes {
        /// From the message's beginning.
        offset: u32,
        /// How many.
        length: u32,
    },
}

/// A text that says of no key where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no key: {why}. Write line:NAME (line:Call-ID: what stands behind that at the beginning of a line), \
     first-line, or bytes:OFFSET+LENGTH (bytes:12+8)"
)]
pub struct NoKey {
    text: String,
    why: String,
}

impl FromStr for PayloadKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let wrong = |why: String| NoKey { text: text.to_owned(), why };
        match text.split_once(':') {
            None if text == "first-line" => Ok(Self::FirstLine),
            Some(("line", name)) => {
                // What else ends a name is not part of it, and case is told of ASCII's letters alone.
                let is_of_name = |byte: u8| byte.is_ascii_graphic() && !b":=\"\\".contains(&byte);
                if name.is_empty() || name.len() > NAME {
                    Err(wrong(format!("a name has 1 to {NAME} characters")))
                } else if !name.bytes().all(is_of_name) {
                    Err(wrong("a name has letters, digits and signs like - and _".to_owned()))
                } else {
                    Ok(Self::Line(name.to_owned()))
                }
            }
            Some(("bytes", place)) => {
                let numbers = place.split_once('+').map(|(offset, length)| (offset.parse(), length.parse()));
                let Some((Ok(offset), Ok(length))) = numbers else {
                    return Err(wrong("it has no two numbers".to_owned()));
                };
                if !(1..=MOST).contains(&length) {
                    Err(wrong(format!("a key has 1 to {MOST} bytes")))
                } else if offset > LOOKED - length {
                    Err(wrong(format!("the first {LOOKED} bytes of a message are looked at")))
                } else {
                    Ok(Self::Bytes { offset, length })
                }
            }
            _ => Err(wrong("there is no such place".to_owned())),
        }
    }
}

impl fmt::Display for PayloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(name) => write!(f, "line:{name}"),
            Self::FirstLine => f.write_str("first-line"),
            Self::Bytes { offset, length } => write!(f, "bytes:{offset}+{length}"),
        }
    }
}

impl PayloadKey {
    /// `struct xw_key_place` of `bpf/events/key.h`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (mut name, mut masks) = ([0u8; NAME], [0u8; NAME]);
        let words = match self {
            Self::Line(text) => {
                for ((letter, mask), byte) in name.iter_mut().zip(&mut masks).zip(text.bytes()) {
                    (*letter, *mask) = (byte | 0x20, 0xff);
                }
                [1, 0, u32::try_from(text.len()).unwrap_or(u32::MAX), 0]
            }
            // Until the line ends.
            Self::FirstLine => [0; 4],
            Self::Bytes { offset, length } => [0, *offset, *length, 0],
        };
        words.into_iter().flat_map(u32::to_le_bytes).chain(name).chain(masks).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        for text in ["line:Call-ID", "line:i", "first-line", "bytes:0+1", "bytes:960+64"] {
            assert_eq!(text.parse::<PayloadKey>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", "no such place"),
            ("Call-ID", "no such place"),
            ("line:", "1 to 32 characters"),
            ("line:a b", "letters"),
            ("line:a\"b", "letters"),
            ("line:é", "letters"),
            ("bytes:5", "two numbers"),
            ("bytes:0+0", "1 to 64 bytes"),
            ("bytes:961+64", "first 1024 bytes"),
            ("bytes:4294967295+64", "first 1024 bytes"),
        ] {
            let error = text.parse::<PayloadKey>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn names_are_compared_in_lower_case() {
        let bytes = PayloadKey::Line("X-Call-Ident".to_owned()).encode();
        assert_eq!(bytes.len(), 16 + 2 * NAME);
        assert_eq!(bytes[..16], [1, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[16..29], b"x-call-ident\0");
        assert_eq!(
            bytes[48..61],
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]
        );
        let bytes = PayloadKey::Bytes { offset: 12, length: 8 }.encode();
        assert_eq!(bytes[..12], [0, 0, 0, 0, 12, 0, 0, 0, 8, 0, 0, 0]);
    }
}
