//! A page has at most so much of everything, however large a trace is and whatever is in it.

use std::io;

use serde::Serialize;
use serde_json::{Value, json};

use super::written::written;

/// Room for things that are offered one after the other, the most important first.
pub(super) struct Budget {
    bytes: usize,
}

impl Budget {
    pub(super) fn of(bytes: usize) -> Self {
        Self { bytes }
    }

    /// The thing as a value, if there is room for it.
    pub(super) fn admit(&mut self, thing: &impl Serialize) -> Option<Value> {
        let value = value_within(thing, self.bytes)?;
        // As it is written: what is escaped there takes more room.
        self.bytes = self.bytes.checked_sub(written(&value).len() + 1)?;
        Some(value)
    }

    /// The first of the things that there is room for: a list is cut off, and never has holes.
    pub(super) fn first<T: Serialize>(&mut self, things: impl IntoIterator<Item = T>) -> Vec<Value> {
        things.into_iter().map_while(|thing| self.admit(&thing)).collect()
    }
}

/// The thing as a value, if it takes no more than so many bytes in JSON. Of one that takes more nothing is built: a value takes
/// many times the memory of what it was made of.
pub(super) fn value_within(thing: &impl Serialize, bytes: usize) -> Option<Value> {
    serde_json::to_writer(Room(bytes), thing).ok()?;
    serde_json::to_value(thing).ok()
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

/// A part of the document: the first of its list, and how long that is.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cut {
    /// How many there are.
    of: usize,
    /// The first of them.
    all: Vec<Value>,
}

/// The first of a list that are no more than so many and there is room for.
pub(super) fn cut<T: Serialize>(list: &[T], most: usize, bytes: usize) -> Cut {
    Cut { of: list.len(), all: Budget::of(bytes).first(list.iter().take(most)) }
}

/// An object with the first of its lists, of each no more than so many and that there is room for; of who is behind an
/// entry, no more than of entries.
pub(super) fn cut_lists(object: &impl Serialize, lists: &[(&str, usize)], bytes: usize) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    for (name, most) in lists {
        let Some(list) = object.get_mut(*name).and_then(Value::as_array_mut) else { continue };
        for by in list.iter_mut().filter_map(|entry| entry.get_mut("by")?.as_array_mut()) {
            by.truncate(*most);
        }
        object[*name] = json!(cut(list, *most, bytes));
    }
    object
}
