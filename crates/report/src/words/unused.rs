//! Requests that are no transactions.

use xweave_model::Unused;

use super::Sentence;
use crate::number::{count, counted};

/// How many requests are left out, and why; nothing, if none are.
pub fn unused(of: &Unused) -> Option<Sentence> {
    let Unused { dropped, lost, unseen, unanswered, open } = *of;
    let reasons = [
        (dropped, "with frames that were dropped and not seen to be sent again"),
        (lost, "of which records were lost"),
        (unseen, "with frames that were not followed from beginning to end"),
        (unanswered, "without an answer"),
        (open, "not answered when the recording ended"),
    ];
    let reasons = reasons.into_iter().filter(|(n, _)| *n > 0);
    let reasons: Vec<_> = reasons.map(|(n, why)| format!("{} {why}", count(n))).collect();
    let more = counted(of.all(), "more request", "more requests");
    (!reasons.is_empty()).then(|| Sentence::new(format!("{more} could not be used: {}", reasons.join(", "))))
}
