//! What a file says besides what it means, for the printer: comments, and empty lines.

use std::collections::HashMap;

use crate::diagnostic::Span;

/// What is around the items of a file.
#[derive(Debug, Default)]
pub(crate) struct Trivia {
    around: HashMap<Span, ItemTrivia>,
    /// At the end of the file.
    pub end: Vec<String>,
    /// The first comment that has no place around an item.
    pub lost: Option<Span>,
}

/// What is around an item. The items of flows are in it as well.
#[derive(Debug, Default)]
pub(crate) struct ItemTrivia {
    /// Comments, and empty lines.
    pub above: Vec<String>,
    /// At the end of its last line.
    pub beside: Option<String>,
    /// In a flow, after its last clause.
    pub below: Vec<String>,
}

impl Trivia {
    /// Around the item with this place.
    pub(crate) fn at(&mut self, item: Span) -> &mut ItemTrivia {
        self.around.entry(item).or_default()
    }

    /// Around the item with this place, if there is anything.
    pub(crate) fn of(&self, item: Span) -> Option<&ItemTrivia> {
        self.around.get(&item)
    }

    /// A comment has no place.
    pub(crate) fn lose(&mut self, comment: Option<Span>) {
        self.lost = self.lost.or(comment);
    }
}
