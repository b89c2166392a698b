//! A page has at most so much of everything, however large a trace is and whatever is in it.

use std::io;

use serde::Serialize;
use xweave_document::{parts::Cause, value::Cut};

use super::written::write;

/// Room for things that are offered one after the other, the most important first.
pub(super) struct Budget {
    bytes: usize,
}

impl Budget {
    pub(super) fn of(bytes: usize) -> Self {
        Self { bytes }
    }

    /// Takes a thing's room, as it is written in a page, and returns whether there was enough. Of a larger one no more is
    /// serialised than there is room for.
    pub(super) fn admit(&mut self, thing: &impl Serialize) -> bool {
        let mut room = Room(self.bytes);
        // With the comma behind it.
        let left = write(&mut room, thing).ok().and_then(|()| room.0.checked_sub(1));
        left.inspect(|left| self.bytes = *left).is_some()
    }
}

/// Takes so many bytes, and keeps none.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Cuts a list: to no more than `most` entries, and to those that take no more than so many bytes. It is cut off, and never
/// has holes.
pub(super) fn cut<T: Serialize>(
    list: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    most: usize,
    bytes: usize,
) -> Cut<T> {
    let list = list.into_iter();
    let mut budget = Budget::of(bytes);
    Cut { of: list.len(), all: list.take(most).take_while(|entry| budget.admit(entry)).collect() }
}

/// Cuts a list of causes as [`cut`] does, and of each the objects behind it to `most`.
pub(super) fn cut_causes(mut causes: Vec<Cause>, most: usize, bytes: usize) -> Cut<Cause> {
    causes.iter_mut().for_each(|cause| cause.by.truncate(most));
    cut(causes, most, bytes)
}
