//! How long frames waited in queueing disciplines.

use rustc_hash::FxHashMap;
use xweave_replay::between;
use xweave_trace::event::{Event, Names};

use super::Accounting;
use crate::{
    held::{Holder, QdiscId, WaitingFrames},
    usage::{Figures, UsageObject},
};

/// The queueing disciplines of all domains.
#[derive(Debug, Default)]
pub(super) struct QdiscUse {
    waiting: WaitingFrames,
    /// The place of each one's figures, and until when frames were seen to wait in it.
    used: FxHashMap<QdiscId, (usize, i64)>,
}

impl QdiscUse {
    /// Forgets the frames that wait in a domain of which events were lost.
    pub(super) fn lose(&mut self, domain: u8) {
        self.waiting.lose(domain);
    }
}

impl Accounting {
    pub(super) fn enqueue(&mut self, event: &Event) {
        self.qdiscs.waiting.enqueue(event);
    }

    pub(super) fn dequeue(&mut self, event: &Event, names: &Names) {
        let Some(frame) = self.qdiscs.waiting.dequeue(event) else { return };
        let Holder::Qdisc(qdisc) = frame.holder else { return };
        let (place, until) = match self.qdiscs.used.get(&qdisc) {
            Some(used) => *used,
            None => {
                let [kind, device] = [qdisc.kind, qdisc.device].map(|name| names.text(name).to_owned());
                (self.place(event.domain, UsageObject::Qdisc { kind, device }), i64::MIN)
            }
        };
        // Of frames that wait at once, each moment counts once.
        let from = frame.from.max(until);
        self.qdiscs.used.insert(qdisc, (place, until.max(frame.to)));
        if let Some(history) = &mut self.history {
            history.time(place, from, frame.to);
        }
        self.figures[place].add(&Figures {
            time_ns: between(from, frame.to),
            count: 1,
            wait_ns: between(frame.from, frame.to),
            ..Figures::default()
        });
    }
}
