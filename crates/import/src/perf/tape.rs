//! Records one after the other, from the file or from what is packed in records.

use xweave_bytes::read_le;

use super::kind;
use crate::{
    error::Error,
    input::{Cursor, Input},
};

/// What is read at once, in bytes.
const WINDOW: usize = 1 << 20;

/// The most that a record has.
const RECORD: usize = 1 << 16;

/// A record: its kind and length, and where in the file it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub at: u64,
    pub kind: u32,
    pub len: u64,
}

/// Goes through the records of a file.
pub(crate) struct Tape<'a> {
    input: &'a Input,
    /// Where in the file the window begins, and where the records end.
    base: u64,
    end: u64,
    window: Vec<u8>,
    /// The current record, without its header, in the window.
    body: (usize, usize),
    /// Where the next one is.
    next: u64,
}

impl<'a> Tape<'a> {
    pub(crate) fn new(input: &'a Input, begin: u64, end: u64) -> Self {
        Self { input, base: begin, end: end.min(input.len()), window: Vec::new(), body: (0, 0), next: begin }
    }

    /// The content of the current record.
    pub(crate) fn body(&self) -> &[u8] {
        self.window.get(self.body.0..self.body.1).unwrap_or_default()
    }

    /// Goes on to the next record; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, Error> {
        let at = self.next;
        if at >= self.end {
            return Ok(None);
        }
        let mut offset = usize::try_from(at - self.base).unwrap_or(usize::MAX);
        if offset.saturating_add(RECORD) > self.window.len()
            && self.base + (self.window.len() as u64) < self.end
        {
            let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
            self.window.resize(left.min(WINDOW), 0);
            self.input.read(at, &mut self.window)?;
            (self.base, offset) = (at, 0);
        }
        let rest = self.window.get(offset..).unwrap_or_default();
        let Some((kind, len)) = header(rest) else {
            return Err(Error::damaged(at, "a record that is cut off"));
        };
        if len < 8 || len > rest.len() {
            return Err(Error::damaged(at, format!("a record of {len} bytes, with {} left", rest.len())));
        }
        self.body = (offset + 8, offset + len);
        self.next = at + len as u64;
        // These say how much follows that is no record.
        let behind = match kind {
            kind::TRACING_DATA => u64::from(Cursor::new(self.body(), at + 8).u32()?).next_multiple_of(8),
            kind::AUXTRACE => Cursor::new(self.body(), at + 8).u64()?,
            _ => 0,
        };
        self.next = self.next.saturating_add(behind);
        Ok(Some(Record { at, kind, len: len as u64 }))
    }
}

/// The kind and the length of the record that these bytes begin with.
#[inline]
pub(crate) fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let head = bytes.first_chunk::<8>()?;
    Some((read_le(head, 0)?, usize::from(read_le::<u16>(head, 6)?)))
}
