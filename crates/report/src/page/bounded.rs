//! A page has at most so much of everything, however large a trace is and whatever is in it.

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
        let value = serde_json::to_value(thing).ok()?;
        // As it is written: what is escaped there takes more room.
        self.bytes = self.bytes.checked_sub(written(&value).len() + 1)?;
        Some(value)
    }

    /// The first of the things that there is room for: a list is cut off, and never has holes.
    pub(super) fn first<T: Serialize>(&mut self, things: impl IntoIterator<Item = T>) -> Vec<Value> {
        things.into_iter().map_while(|thing| self.admit(&thing)).collect()
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
