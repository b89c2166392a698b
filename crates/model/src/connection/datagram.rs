//! Requests and answers that are datagrams: which answer is to which request, and what stays without one.
//!
//! Events do not name the protocol. What is no stream, as TCP's states, an `accept` or a call to receive that has a
//! duration would show, is taken to be datagrams: of these, reception is told without one.
//!
//! Nothing of what they carry is read, so their order has to tell: an end answers, and is answered, in the order of the
//! requests. Datagrams may be lost. Where both ends are seen, what was received of what was sent tells which; else a
//! request that is [`LATE`] and has a younger one behind it is taken to be lost, as who asks again waits that long.

use std::collections::VecDeque;

use xweave_trace::event::Event;

use super::{Connections, End, EndId};

/// What is older than this, in nanoseconds, and has younger ones behind it, was lost: who asks again does so after half
/// a second or more, and what arrives is mostly received sooner.
const LATE: i64 = 500_000_000;

/// Who asks gives up after this time, in nanoseconds.
pub(crate) const GIVEN_UP: i64 = 10_000_000_000;

/// An end of which nothing is seen for so long, in nanoseconds, is forgotten, unless it is a stream's: no event tells that a
/// socket of datagrams is closed.
pub(crate) const IDLE: i64 = 60_000_000_000;

/// An end has no more requests under way, and no more answers: of more, the oldest is taken to be lost.
const MOST: usize = 1 << 12;

/// Datagrams on their way from one end to the other are no more: a socket's buffer holds about so many.
const ON_THE_WAY: usize = 1 << 8;

/// A request that is under way at an end.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// When this end sent or received it.
    time: i64,
    bytes: u64,
    /// Its place among what was sent by the end that asks, if that is known.
    place: Option<u64>,
}

/// A request that was answered, as one end has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// When this end sent or received the request, in nanoseconds.
    pub asked: i64,
    /// When it received or sent the answer.
    pub time: i64,
    /// How much the request was, in bytes.
    pub bytes: u64,
    /// How many are still under way, and since when.
    pub left: Option<(usize, i64)>,
}

/// The requests of an end that asks, or that is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges {
    requests: VecDeque<Request>,
    /// Places of answers that this end has sent, and of the requests that they are to.
    answers: VecDeque<(u64, u64)>,
    /// What the other end sent from this place on has not been received.
    next: u64,
    last: Option<Answered>,
}

impl Exchanges {
    fn ask(&mut self, request: Request) {
        self.give_up(|first, all| all >= MOST || first.time < request.time.saturating_sub(GIVEN_UP));
        self.requests.push_back(request);
    }

    /// An answer: to the request at this place, if that is known; else to the first that may not be lost. Gives that, and since
    /// when the oldest has been under way that it may be to.
    fn answer(&mut self, time: i64, place: Option<u64>) -> Option<(Request, i64)> {
        let at = |all: &VecDeque<Request>| all.iter().position(|request| request.place == place);
        let mut before = match place {
            Some(_) => at(&self.requests)?,
            None => self.requests.len().checked_sub(1)?,
        };
        self.give_up(|first, _| {
            let lost = before > 0 && first.time < time.saturating_sub(LATE);
            before = before.saturating_sub(1);
            lost
        });
        let oldest = self.requests.front()?.time;
        let at = if place.is_some() { at(&self.requests)? } else { 0 };
        let request = self.requests.remove(at)?;
        let left = self.requests.front().map(|first| (self.requests.len(), first.time));
        self.last = Some(Answered { asked: request.time, time, bytes: request.bytes, left });
        Some((request, oldest))
    }

    /// Gives up requests from the first on, as long as they are such; their number is the second argument.
    fn give_up(&mut self, mut lost: impl FnMut(&Request, usize) -> bool) {
        while let Some(first) = self.requests.front()
            && lost(first, self.requests.len())
        {
            self.requests.pop_front();
        }
    }

    /// The place of the request that the answer at a place is to.
    fn request_of(&self, answer: u64) -> Option<u64> {
        self.answers.iter().rev().find(|(place, _)| *place == answer).map(|(_, request)| *request)
    }
}

impl End {
    /// It is known to be one of a stream from now on.
    pub(super) fn streams(&mut self) -> &mut Self {
        self.stream = true;
        self.exchanges = None;
        self
    }

    /// What was sent at an end since a place, until a time: place, bytes, and when. Of more than may be on their way, the last.
    fn datagrams(&self, since: u64, until: i64) -> impl Iterator<Item = (u64, u64, i64)> + '_ {
        let end = self.sent.partition_point(|sent| sent.time <= until);
        let first = self.sent.partition_point(|sent| sent.place < since);
        let first = first.max(end.saturating_sub(ON_THE_WAY)).min(end);
        (first..end).map(|at| {
            let next = self.sent.get(at + 1).map_or(self.bytes, |next| next.place);
            let sent = &self.sent[at];
            (sent.place, next.saturating_sub(sent.place), sent.time)
        })
    }
}

impl Connections {
    /// Whether a connection is one of datagrams, as far as is known: nothing shows that it is a stream.
    pub fn is_of_datagrams(&self, end: EndId) -> bool {
        self.ends.get(&end).is_some_and(|seen| seen.exchanges.is_some()) && !self.is_stream(end)
    }

    /// The request that an end has answered, or got the answer to, by a datagram at this time.
    pub fn answered(&self, end: EndId, time: i64) -> Option<Answered> {
        self.ends.get(&end)?.exchanges.as_ref()?.last.filter(|answered| answered.time == time)
    }

    /// Whether a connection is known to be a stream, by either of its ends.
    pub fn is_stream(&self, end: EndId) -> bool {
        let stream = |end: EndId| self.ends.get(&end).is_some_and(|end| end.stream);
        stream(end) || self.peer(end).is_some_and(stream)
    }

    /// What may be a datagram is sent; its place among what the end has sent.
    pub(super) fn datagram_sent(&mut self, id: EndId, event: &Event, place: u64) {
        if self.is_stream(id) {
            return;
        }
        let asked = self.serves(id);
        let exchanges = self.exchanges(id);
        if asked {
            if let Some((Request { place: Some(request), .. }, _)) = exchanges.answer(event.time_ns, None) {
                if exchanges.answers.len() >= MOST {
                    exchanges.answers.pop_front();
                }
                exchanges.answers.push_back((place, request));
            }
        } else {
            exchanges.ask(Request { time: event.time_ns, bytes: event.bytes, place: Some(place) });
        }
    }

    /// What may be a datagram is received. Its place among what the other end has sent, if it is found there; and of an answer,
    /// since when the oldest request has been under way that it may be to.
    pub(super) fn datagram_received(&mut self, id: EndId, event: &Event) -> (Option<u64>, Option<i64>) {
        if self.is_stream(id) {
            return (None, None);
        }
        let peer = self.peer(id);
        let next = self.exchanges(id).next;
        let place = peer.and_then(|peer| self.ends.get(&peer)).and_then(|peer| {
            let alike = || peer.datagrams(next, event.time_ns).filter(|(_, bytes, _)| *bytes == event.bytes);
            let late = event.time_ns.saturating_sub(LATE);
            let timely = alike().find(|(.., time)| *time >= late);
            timely.or_else(|| alike().last()).map(|(place, ..)| place)
        });
        let request = place.and_then(|place| self.ends.get(&peer?)?.exchanges.as_ref()?.request_of(place));
        let asked = self.serves(id);
        let exchanges = self.exchanges(id);
        exchanges.next = place.map_or(next, |place| place.saturating_add(event.bytes));
        if asked {
            exchanges.ask(Request { time: event.time_ns, bytes: event.bytes, place });
            return (place, None);
        }
        (place, exchanges.answer(event.time_ns, request).map(|(_, oldest)| oldest))
    }

    fn exchanges(&mut self, id: EndId) -> &mut Exchanges {
        self.touch(id).exchanges.get_or_insert_default()
    }

    fn serves(&self, id: EndId) -> bool {
        self.service(id) == id.connection.local_port()
    }
}
