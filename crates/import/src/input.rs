//! A file that is read here and there, a bounded piece at a time; and numbers and texts in such a piece.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use xweave_guard::private;
use xweave_text as text;

use crate::error::{Error, ErrorKind, UNDERSTOOD};

/// The most that is read at once of what describes a trace: formats, tables of names.
const PIECE: u64 = 256 << 20;

/// Bytes that can be read anywhere.
pub struct Input {
    bytes: Bytes,
    len: u64,
}

enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Input {
    /// A file, by its name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = private::open_named(path).map_err(|error| match error {
            private::Error::Io { what, error, .. } => Error::io(what, path, error),
            other => {
                let what = format!("{other}, which could be read here and there; {UNDERSTOOD}");
                Error::new(ErrorKind::Io, what).by(other)
            }
        })?;
        let there = file.metadata().map_err(|e| Error::io("read", path, e))?;
        Ok(Self { bytes: Bytes::File(file), len: there.len() })
    }

    /// What is in memory already.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u64, bytes: Bytes::Memory(bytes) }
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `buffer` with what is at `at`.
    pub(crate) fn read(&self, at: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let end = at.saturating_add(buffer.len() as u64);
        if end > self.len {
            let what = format!("it ends where {} more bytes belong", end - self.len);
            return Err(Error::damaged(self.len, what));
        }
        match &self.bytes {
            Bytes::File(file) => file.read_exact_at(buffer, at).map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => Error::damaged(at, "it became shorter while it was read"),
                _ => Error::damaged(at, format!("it cannot be read: {e}")).by(e),
            }),
            Bytes::Memory(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX);
                buffer.copy_from_slice(bytes.get(from..from + buffer.len()).unwrap_or_default());
                Ok(())
            }
        }
    }

    /// The `len` bytes at `at`.
    pub(crate) fn piece(&self, at: u64, len: u64) -> Result<Vec<u8>, Error> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            let missing = at.saturating_add(len).saturating_sub(self.len);
            return Err(Error::damaged(
                at,
                format!("of {len} bytes, {missing} are behind the end of the file"),
            ));
        }
        let fits = usize::try_from(len).ok().filter(|_| len <= PIECE);
        let Some(len) = fits else {
            return Err(Error::damaged(at, format!("{len} bytes of description: no trace has as many")));
        };
        let mut piece = vec![0; len];
        self.read(at, &mut piece)?;
        Ok(piece)
    }
}

/// Reads a piece from its beginning to its end. Numbers are little-endian.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Where in the file the first of them is.
    base: u64,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, base, at: 0 }
    }

    /// Where it is in the file.
    pub(crate) fn place(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn take(&mut self, len: u64) -> Result<&'a [u8], Error> {
        let found = usize::try_from(len).ok().and_then(|len| self.rest().get(..len));
        let found = found.ok_or_else(|| {
            let left = self.rest().len();
            Error::damaged(self.place(), format!("{len} bytes belong here, and {left} are left"))
        })?;
        self.at += found.len();
        Ok(found)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut number = [0; N];
        number.copy_from_slice(self.take(N as u64)?);
        Ok(number)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.number().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.number().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.number().map(u64::from_le_bytes)
    }

    /// A text that ends with a zero byte, fit to be shown.
    pub(crate) fn text(&mut self) -> Result<String, Error> {
        let rest = self.rest();
        let Some(len) = rest.iter().position(|&byte| byte == 0) else {
            return Err(Error::damaged(self.place(), "a text that does not end"));
        };
        self.at += len + 1;
        Ok(shown(&rest[..len]))
    }
}

/// Bytes of a text that is kept: a tracepoint's name is the longest.
const TEXT: usize = 1024;

/// A text out of a file, fit to be shown: whoever ran the threads, and made the file, chose what is in it.
pub(crate) fn shown(bytes: &[u8]) -> String {
    text::printable_bytes(bytes, TEXT)
}

/// A text without the zero bytes that end it.
pub(crate) fn trimmed(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..len]
}
