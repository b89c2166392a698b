//! What events tell of connections, and what of it is forgotten.

use std::collections::VecDeque;

use xweave_replay::ThreadId;
use xweave_trace::event::{Event, Refusal, Sending};

use super::{
    ALIKE, Asked, Awaited, Connections, End, EndId, Received, Refused, Sent, Woken,
    datagram::IDLE,
    tcp::{CLOSE, ESTABLISHED, LISTEN, SYN_SENT},
};
use crate::ports::is_unix;

impl Connections {
    /// Something is sent to a port, at this end or the other one: it is known which of them did that first.
    fn goes_to(&mut self, id: EndId, port: u16, event: &Event) {
        let known = |end: EndId| self.ends.get(&end).is_some_and(|end| end.sent_to.is_some());
        if known(id) || self.peer(id).is_some_and(known) {
            return;
        }
        let end = self.touch(id);
        end.sent_to = Some(port);
        end.is_unix = is_unix(event);
    }

    /// An end carries data of a stream, which nobody was seen to open if this is the first that is seen of it.
    fn streams(&mut self, id: EndId) {
        if !self.ends.get(&id).is_some_and(|end| end.stream) {
            self.ports.connect(id.domain, id.netns, id.connection);
        }
        self.touch(id).streams();
    }

    pub(super) fn touch(&mut self, id: EndId) -> &mut End {
        let alike = &mut self.alike;
        self.ends.entry(id).or_insert_with(|| {
            let alike = alike.entry(id.connection).or_default();
            if alike.len() >= ALIKE {
                alike.remove(0);
            }
            alike.push(id);
            End::default()
        })
    }

    fn remove(&mut self, id: EndId) {
        self.ends.remove(&id);
        if let Some(alike) = self.alike.get_mut(&id.connection) {
            alike.retain(|other| *other != id);
            if alike.is_empty() {
                self.alike.remove(&id.connection);
            }
        }
    }

    /// A thread sent something; events of its domain were last lost until then.
    pub(crate) fn send(&mut self, event: &Event, thread: ThreadId, lost: Option<i64>) {
        // It went on for something else than what it might receive later.
        self.unexplained.remove(&thread);
        let Some(id) = EndId::of(event) else { return };
        let sending = Sending::of(event.code);
        if matches!(sending, Sending::Over | Sending::Begins) {
            self.goes_to(id, id.connection.remote_port(), event);
            self.asks(id, event.time_ns, lost);
        }
        let end = self.touch(id);
        match sending {
            // What it began with was not sent at all.
            Sending::Cancels => {
                if let Some(at) = end.sent.iter().rposition(|sent| sent.thread == thread)
                    && let Some(none) = end.sent.remove(at)
                {
                    let bytes = end.sent.get(at).map_or(end.bytes, |next| next.place) - none.place;
                    end.sent.range_mut(at..).for_each(|sent| sent.place -= bytes);
                    end.bytes -= bytes;
                }
            }
            Sending::Shortens => {
                // Nobody sends between, unless several threads do at once.
                let last = end.sent.back().map_or(0, |sent| sent.place);
                end.bytes = end.bytes.saturating_sub(event.bytes).max(last);
            }
            Sending::Over | Sending::Begins => {
                let (over, place) = (sending == Sending::Over, end.bytes);
                end.sent.push_back(Sent { time: event.time_ns, thread, over, place });
                end.bytes = end.bytes.saturating_add(event.bytes);
                if over {
                    // Other tools tell of streams only.
                    self.streams(id);
                } else {
                    self.datagram_sent(id, event, place);
                }
            }
        }
    }

    /// An end sends something. If it has received something since it last did, or that may have been lost, its bytes are counted
    /// anew: some may not have been seen.
    fn asks(&mut self, id: EndId, time: i64, lost: Option<i64>) {
        if self.touch(id).asked.is_none_or(|asked| asked.answered || Some(asked.time) < lost) {
            let peer = self.peer(id).and_then(|peer| self.ends.get(&peer));
            let place = peer.map_or(0, |peer| peer.bytes);
            self.touch(id).asked = Some(Asked { time, place, answered: false });
        }
    }

    /// A thread received something; events of its domain were last lost until then.
    pub(crate) fn receive(&mut self, event: &Event, thread: ThreadId, lost: Option<i64>) {
        let Some(id) = self.given(event, thread) else { return };
        self.goes_to(id, id.connection.local_port(), event);
        let (of, oldest) = if event.code == 0 {
            self.datagram_received(id, event)
        } else {
            self.streams(id);
            (None, None)
        };
        let end = self.touch(id);
        let (time, bytes) = (event.time_ns, event.bytes);
        end.taken = end.taken.saturating_add(bytes);
        let unasked = Asked { time: i64::MAX, place: 0, answered: true };
        let asked = end.asked.get_or_insert(unasked);
        let since = if Some(asked.time) > lost { asked.time } else { i64::MAX };
        let (place, since) = (of.unwrap_or(asked.place), oldest.unwrap_or(since));
        end.received.push_back(Received { time, thread, place, bytes, asked: since });
        (asked.place, asked.answered) = (asked.place.saturating_add(bytes), true);
        let asked = end.sent.back().copied().filter(|asked| Some(asked.time) > lost);
        if let Some(asked) = asked.filter(|_| self.service(id) != id.connection.local_port()) {
            let before = self.taken.get(&thread).and_then(|taken| taken.back());
            let other = before.is_some_and(|(time, end)| *time > asked.time && *end != id);
            let answers = self.answers.entry(thread).or_default();
            answers.all = answers.all.saturating_add(1);
            answers.others = answers.others.saturating_add((asked.thread != thread || other).into());
        }
        self.taken.entry(thread).or_default().push_back((event.time_ns, id));
        if let Some(first) = self.first_taken.get_mut(&thread) {
            first.get_or_insert(event.time_ns);
        }
    }

    /// A thread begins.
    pub(crate) fn begun(&mut self, thread: ThreadId) {
        self.first_taken.insert(thread, None);
    }

    /// A thread has ended.
    pub(crate) fn ended(&mut self, thread: ThreadId) {
        self.answers.remove(&thread);
        if self.first_taken.get(&thread) == Some(&None) {
            self.first_taken.remove(&thread);
        }
    }

    /// A thread was given something: that may be what it waited for.
    fn given(&mut self, event: &Event, thread: ThreadId) -> Option<EndId> {
        let woken = self.unexplained.remove(&thread);
        let id = EndId::of(event)?;
        if let Some(woken) = woken {
            // Its time was over, and what was there was taken afterwards; unless it waited within the call.
            let only = event.code > 0 && event.time_ns - i64::from(event.code) <= woken.since;
            if only || !woken.local {
                self.explained.insert((thread, woken.over), Awaited { end: id, only });
            }
        }
        Some(id)
    }

    /// A connection was accepted: its service is known.
    pub(crate) fn accept(&mut self, event: &Event, thread: ThreadId) {
        if let Some(id) = self.given(event, thread) {
            self.touch(id).streams().service = Some(id.connection.local_port());
        }
    }

    /// TCP's state changed, while `thread` ran or below an interrupt.
    pub(crate) fn state(&mut self, event: &Event, thread: Option<ThreadId>) {
        let Some(id) = EndId::of(event) else { return };
        match (event.code, thread) {
            (LISTEN, _) => self.listeners.listen(id.domain, id.netns, id.connection.local_port()),
            (SYN_SENT, Some(thread)) => {
                // Ports are used again: it is another connection from now on.
                self.remove(id);
                let end = self.touch(id).streams();
                end.service = Some(id.connection.remote_port());
                end.sent.push_back(Sent { time: event.time_ns, thread, over: false, place: 0 });
                self.opening.insert(thread, (id, false));
                self.openers.insert(id, thread);
            }
            (ESTABLISHED | CLOSE, _) => {
                if let Some(opener) = self.openers.remove(&id)
                    && let Some((_, answered)) =
                        self.opening.get_mut(&opener).filter(|(other, _)| *other == id)
                {
                    *answered = true;
                }
                // What listened is closed without having been a connection.
                if event.code == CLOSE && id.connection.remote_port() == 0 {
                    self.listeners.close(id.domain, id.netns, id.connection.local_port());
                    return;
                }
                self.touch(id).streams().closed = (event.code == CLOSE).then_some(event.time_ns);
            }
            _ => {
                self.touch(id).streams();
            }
        }
    }

    /// TCP has sent something again.
    pub(crate) fn repeat(&mut self, event: &Event) {
        if let Some(id) = EndId::of(event) {
            let began = event.time_ns.saturating_sub_unsigned(event.bytes);
            let repeats = &mut self.touch(id).repeats;
            // An end sends one after the other.
            repeats.push_back((repeats.back().map_or(began, |(last, _)| began.max(*last)), event.cpu));
        }
    }

    /// TCP did not answer.
    pub(crate) fn refuse(&mut self, event: &Event) {
        if let Some(id) = EndId::of(event) {
            let refused = Refused { why: Refusal::of(event.code), waiting: event.bytes };
            self.touch(id).refused.push_back((event.time_ns, refused));
        }
    }

    /// A wait of a thread is over, by something `local` that has not come by the network, or otherwise.
    pub(crate) fn woken(&mut self, thread: ThreadId, since: i64, over: i64, local: bool) {
        if let Some((end, true)) = self.opening.get(&thread).copied() {
            self.opening.remove(&thread);
            self.explained.insert((thread, over), Awaited { end, only: true });
        } else {
            self.unexplained.insert(thread, Woken { since, over, local });
        }
    }

    /// What a thread last waited for was no connection.
    pub(crate) fn waited_for_another(&mut self, thread: ThreadId) {
        self.unexplained.remove(&thread);
    }

    /// How many ends and waits are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.ends.len()
            + self.openers.len()
            + self.explained.len()
            + self.unexplained.len()
            + self.taken.len()
            + self.first_taken.len()
            + self.answers.len()
            + self.listeners.len()
    }

    /// Forgets what was over before this time.
    pub(crate) fn forget_before(&mut self, time: i64) {
        self.explained.retain(|(_, over), _| *over >= time);
        self.unexplained.retain(|_, woken| woken.over >= time);
        self.taken.retain(|_, taken| {
            forget_first(taken, |(taken, _)| *taken < time);
            !taken.is_empty()
        });
        self.first_taken.retain(|_, first| first.is_none_or(|first| first >= time));
        self.ends.retain(|_, end| {
            // The last that was sent may be what somebody receives later.
            while end.sent.len() > 1 && end.sent[1].time < time {
                end.sent.pop_front();
            }
            forget_first(&mut end.received, |received| received.time < time);
            forget_first(&mut end.repeats, |(repeated, _)| *repeated < time);
            forget_first(&mut end.refused, |(refused, _)| *refused < time);
            let idle = end.received.is_empty()
                && end.sent.back().is_none_or(|sent| sent.time < time.saturating_sub(IDLE));
            // Ports that were closed, or never open, may be asked for, in vain.
            let asked = !end.refused.is_empty() || !end.repeats.is_empty();
            asked || end.closed.is_none_or(|closed| closed >= time) && (end.stream || !idle)
        });
        let ends = &self.ends;
        self.alike.retain(|_, alike| {
            alike.retain(|id| ends.contains_key(id));
            !alike.is_empty()
        });
        self.openers.retain(|id, _| ends.contains_key(id));
    }
}

/// Forgets the first of what is in order of time, as far as it is over.
fn forget_first<T>(all: &mut VecDeque<T>, is_over: impl Fn(&T) -> bool) {
    let over = all.partition_point(is_over);
    all.drain(..over);
}
