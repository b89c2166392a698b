//! Requests that are no transactions, by why: what is said of the others is not said of these.

use xweave_flow::Incomplete;

/// Numbers of requests that are no transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    /// A frame of it was dropped, and not seen to be sent again.
    pub dropped: u64,
    /// Records of it were lost.
    pub lost: u64,
    /// A frame of it was not followed from its beginning to its end.
    pub unseen: u64,
    /// It had no answer, and none can come any more; of datagrams, none came.
    pub unanswered: u64,
    /// It had no answer when the recording ended.
    pub open: u64,
}

impl Unused {
    /// The number of all of them.
    pub fn all(&self) -> u64 {
        let Self { dropped, lost, unseen, unanswered, open } = *self;
        [dropped, lost, unseen, unanswered, open].into_iter().fold(0, u64::saturating_add)
    }

    /// Adds a request of which a frame is not known, for that reason, or that has no answer.
    pub(crate) fn add(&mut self, lacks: Option<Incomplete>) {
        let number = match lacks {
            Some(Incomplete::Dropped) => &mut self.dropped,
            Some(Incomplete::Lost) => &mut self.lost,
            Some(_) => &mut self.unseen,
            None => &mut self.unanswered,
        };
        *number += 1;
    }
}
