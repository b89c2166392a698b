//! Connections: who sent when, what was sent again, and which waits each ended.
//!
//! What communication means is decided here and not by events (Horikawa, section 2.2): a thread that waited, was
//! woken, and then received something (or was given a connection that it accepts) had waited for the other end. A
//! thread that opened a connection and waits is waiting for the other end's answer.

mod datagram;
mod feed;
pub(crate) mod tcp;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_replay::{CpuId, ThreadId};
use xweave_trace::event::{Connection, Event, Refusal};

pub use self::datagram::Answered;
use self::datagram::Exchanges;
pub(crate) use self::datagram::{GIVEN_UP, IDLE};
use crate::{
    bytes::Bytes,
    listeners::Listeners,
    ports::{self, EPHEMERAL, Ports},
};

/// Ends of connections of the same addresses and ports are no more, each in a domain or network namespace of its own.
const ALIKE: usize = 64;

/// An end of a connection. Addresses and ports alone do not tell it: every machine has a 127.0.0.1, and most that run
/// containers have the same private networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndId {
    /// The domain that it is in.
    pub domain: u8,
    /// The network namespace there; 0 if that was not recorded.
    pub netns: u32,
    /// The connection, as this end calls it.
    pub connection: Connection,
}

impl EndId {
    /// The end that an event is of; none if it tells no connection.
    pub fn of(event: &Event) -> Option<Self> {
        let Event { domain, other: netns, position, .. } = *event;
        (position != 0).then_some(Self { domain, netns, connection: Connection(position) })
    }
}

/// Something that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When, in nanoseconds.
    pub time: i64,
    /// By whom.
    pub thread: ThreadId,
    /// The time is that at which the call was over: it may have arrived, and been answered, before.
    pub over: bool,
    /// How many bytes the end had sent before.
    pub(crate) place: u64,
}

/// Something that was received.
#[derive(Clone, Copy, Debug)]
struct Received {
    time: i64,
    thread: ThreadId,
    /// How many bytes the other end had sent before these.
    place: u64,
    bytes: u64,
    /// Since when the end has sent what this may be an answer to; never, if that is not known.
    asked: i64,
}

/// Where an end began to send something after it had received the answers to what it sent before.
#[derive(Clone, Copy, Debug)]
struct Asked {
    time: i64,
    /// How many bytes the other end had sent by then, and this one received since.
    place: u64,
    /// Something was received since.
    answered: bool,
}

/// A request for a connection that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// How many connections waited to be accepted.
    pub waiting: u64,
}

/// What was seen of one end of a connection.
#[derive(Clone, Debug, Default)]
struct End {
    /// The port of the end that accepts, if it was seen to.
    service: Option<u16>,
    /// The port of the end that did not send first.
    sent_to: Option<u16>,
    /// The two ends are Unix sockets: their ports are parts of addresses in the kernel.
    is_unix: bool,
    sent: VecDeque<Sent>,
    received: VecDeque<Received>,
    /// How many bytes were sent.
    bytes: u64,
    /// How many were received.
    taken: u64,
    asked: Option<Asked>,
    /// When something was sent again, and on which CPU.
    repeats: VecDeque<(i64, u32)>,
    refused: VecDeque<(i64, Refused)>,
    closed: Option<i64>,
    /// Something has shown that it is a stream's.
    stream: bool,
    /// Else: what is asked and answered by datagrams.
    exchanges: Option<Box<Exchanges>>,
}

impl End {
    /// What was received at this time or next.
    fn received_at(&self, time: i64) -> Option<&Received> {
        self.received.get(self.received.partition_point(|received| received.time < time))
    }
}

/// A thread is versatile if at least one of so many answers shows it.
const VERSATILE: u32 = 64;

/// Answers that a thread received.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    all: u32,
    /// To what others had asked, or after something else.
    others: u32,
}

/// A wait that is over and of which the reason is not known yet.
#[derive(Clone, Copy, Debug)]
struct Woken {
    since: i64,
    over: i64,
    /// What ended it came from this machine: a timer, or a device that is not the network's.
    local: bool,
}

/// The connections of all domains.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    ends: FxHashMap<EndId, End>,
    /// Of the same addresses and ports.
    alike: FxHashMap<Connection, Vec<EndId>>,
    /// Those of streams.
    ports: Ports,
    listeners: Listeners,
    /// Threads that have opened a connection and not gone on since, and whether it was answered.
    opening: FxHashMap<ThreadId, (EndId, bool)>,
    /// Who opened it, by the end that did.
    openers: FxHashMap<EndId, ThreadId>,
    unexplained: FxHashMap<ThreadId, Woken>,
    /// What each thread received, and when.
    taken: FxHashMap<ThreadId, VecDeque<(i64, EndId)>>,
    /// Threads that began in the recording, and when each first received something.
    first_taken: FxHashMap<ThreadId, Option<i64>>,
    /// What answers each thread received.
    answers: FxHashMap<ThreadId, Answers>,
    /// Waits that were for a connection, by who waited and when it was over.
    explained: FxHashMap<(ThreadId, i64), Awaited>,
}

/// What a thread got after it had waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// On this connection, by its end.
    pub end: EndId,
    /// It had waited for this one only, and not for whatever came, as an event loop does.
    pub only: bool,
}

impl Connections {
    /// The connection that a wait was for.
    pub fn waited_for(&self, thread: ThreadId, over: i64) -> Option<Awaited> {
        self.explained.get(&(thread, over)).copied()
    }

    /// Whether something was seen of an end.
    pub fn knows(&self, end: EndId) -> bool {
        self.ends.contains_key(&end)
    }

    /// How much an end has sent and received so far.
    pub(crate) fn carried(&self, end: EndId) -> Bytes {
        self.ends.get(&end).map_or_else(Bytes::default, |end| Bytes { sent: end.bytes, received: end.taken })
    }

    /// The other end of a connection, if something was seen of it, and only one can be it. Over the loopback device it is in
    /// the same kernel and network namespace; otherwise one in the same kernel is nearer than others, and one whose other
    /// end is in its own kernel is not another's.
    pub fn peer(&self, end: EndId) -> Option<EndId> {
        let others = || self.candidates(end.connection.peer()).filter(move |other| *other != end);
        let namespaces = |other: &EndId| other.netns == end.netns || other.netns == 0 || end.netns == 0;
        if end.connection.is_loopback() {
            return only(others().filter(|other| other.domain == end.domain).filter(namespaces));
        }
        let own = |of: EndId| {
            let all = self.candidates(of.connection.peer());
            all.filter(move |other| other.domain == of.domain && *other != of)
        };
        if own(end).next().is_some() {
            return only(own(end));
        }
        only(others().filter(|other| other.domain != end.domain && own(*other).next().is_none()))
    }

    fn candidates(&self, connection: Connection) -> impl Iterator<Item = EndId> + '_ {
        self.alike.get(&connection).into_iter().flatten().copied()
    }

    /// The port by which the service at one of the two ends is known: where nobody was seen to ask for the connection or
    /// to accept it, the one at which connections are accepted, or of which there are several; else the one that is not given to who
    /// asks for any; else the one of the end that did not send first.
    pub fn service(&self, end: EndId) -> u16 {
        let own = self.ends.get(&end);
        if let Some(service) = own.and_then(|own| own.service) {
            return service;
        }
        let peer = self.peer(end);
        let other = peer.and_then(|peer| self.ends.get(&peer));
        if let Some(service) = other.and_then(|other| other.service) {
            return service;
        }
        let (local, remote) = (end.connection.local_port(), end.connection.remote_port());
        let both = || [own, other].into_iter().flatten();
        let sent_to = || both().find_map(|end| end.sent_to).unwrap_or(local.min(remote));
        if both().any(|end| end.is_unix) {
            return sent_to();
        }
        let listens = |end: EndId| self.listeners.has(end.domain, end.netns, end.connection.local_port());
        let streams = |port| {
            let both = [Some(end), peer].into_iter().flatten();
            both.map(|end| self.ports.streams(end.domain, end.netns, port)).max().unwrap_or(0)
        };
        match peer {
            _ if listens(end) => local,
            Some(peer) if listens(peer) => remote,
            // It is known what listens here, and this does not.
            None if local.min(remote) >= EPHEMERAL && self.listeners.knows(end.domain, end.netns) => remote,
            _ => ports::service([local, remote], streams, sent_to),
        }
    }

    /// What the other end, `sender`, had sent when it was received at `by`: the last before. Where calls are told when
    /// they are over, at which it may have arrived already, it is the next, if there was none between `since` and `by`.
    pub fn sent(&self, sender: EndId, since: i64, by: i64) -> Option<Sent> {
        let sent = &self.ends.get(&sender)?.sent;
        let next = sent.partition_point(|sent| sent.time <= by);
        let before = next.checked_sub(1).and_then(|at| sent.get(at)).copied();
        match (before, sent.get(next)) {
            (Some(before), _) if before.time >= since => Some(before),
            (_, Some(next)) if next.over => Some(Sent { time: by, ..*next }),
            (before, _) => before,
        }
    }

    /// As [`Connections::sent`] by the other end, `sender`, of what was first received at `by` or later: of several answers that
    /// are on their way the next one, as far as bytes tell.
    pub fn came(&self, end: EndId, sender: EndId, since: i64, by: i64) -> Option<Sent> {
        let first = self.sender_of(end, sender, by, |received| received.place);
        first.or_else(|| self.sent(sender, since, by))
    }

    /// The same of what was last received then, as where an answer is received at `by`.
    pub fn came_last(&self, end: EndId, sender: EndId, since: i64, by: i64) -> Option<Sent> {
        let last = self.sender_of(end, sender, by, |received| {
            received.place.saturating_add(received.bytes.saturating_sub(1))
        });
        last.or_else(|| self.sent(sender, since, by))
    }

    /// Who sent a byte of what was received at that time or next, and when, `by` at the latest.
    fn sender_of(&self, end: EndId, sender: EndId, by: i64, byte: impl Fn(&Received) -> u64) -> Option<Sent> {
        let (end, sent) = (self.ends.get(&end)?, &self.ends.get(&sender)?.sent);
        let received = end.received_at(by)?;
        let next = sent.partition_point(|sent| sent.place <= byte(received));
        let sent = *sent.get(next.checked_sub(1)?)?;
        // Counted wrongly, it would be from before what it answers, or not sent yet.
        let fits = sent.time >= received.asked && (sent.over || sent.time <= received.time);
        fits.then_some(Sent { time: sent.time.min(by), ..sent })
    }

    /// Who last received something at an end before that time, and when.
    pub fn received(&self, end: EndId, by: i64) -> Option<(ThreadId, i64)> {
        let received = &self.ends.get(&end)?.received;
        let last = received.partition_point(|received| received.time < by).checked_sub(1)?;
        received.get(last).map(|received| (received.thread, received.time))
    }

    /// How many times an end had sent something by that time of all that what it then received next may be an answer to.
    pub fn asked(&self, end: EndId, by: i64) -> usize {
        let Some(end) = self.ends.get(&end) else { return 0 };
        let Some(received) = end.received_at(by) else { return 0 };
        let until = |time| end.sent.partition_point(|sent| sent.time < time);
        until(by + 1).saturating_sub(until(received.asked))
    }

    /// What a thread last received before that time, and when.
    pub fn taken(&self, thread: ThreadId, by: i64) -> Option<(i64, EndId)> {
        let taken = self.taken.get(&thread)?;
        let next = taken.partition_point(|(time, _)| *time < by);
        next.checked_sub(1).map(|at| taken[at])
    }

    /// Whether a thread is known to have received nothing before that time: it began in the recording.
    pub fn is_first_taken(&self, thread: ThreadId, since: i64) -> bool {
        self.first_taken.get(&thread).is_some_and(|first| first.is_none_or(|first| first >= since))
    }

    /// Whether a thread has received something at an end, as far as that is remembered.
    pub fn is_of(&self, thread: ThreadId, end: EndId) -> bool {
        self.taken.get(&thread).is_some_and(|taken| taken.iter().any(|(_, of)| *of == end))
    }

    /// When a thread next received something after that time.
    pub fn taken_next(&self, thread: ThreadId, since: i64) -> Option<i64> {
        let taken = self.taken.get(&thread)?;
        taken.get(taken.partition_point(|(time, _)| *time <= since)).map(|(time, _)| *time)
    }

    /// Whether a thread waits for whatever comes, as one does that carries tasks: it takes answers to what others asked, or other
    /// things before the answer to what it asked itself. Once or twice that may be for want of an event.
    pub fn is_versatile(&self, thread: ThreadId) -> bool {
        self.answers
            .get(&thread)
            .is_some_and(|answers| answers.others.saturating_mul(VERSATILE) >= answers.all)
    }

    /// When either end last sent something again between two times, and how often they did.
    pub fn repeated(&self, end: EndId, from: i64, to: i64) -> Option<(i64, usize)> {
        self.last_repeat([Some(end), self.peer(end)].into_iter().flatten(), from, to)
    }

    /// The CPU on which either end sent something again at that time.
    pub(crate) fn repeated_on(&self, end: EndId, time: i64) -> Option<CpuId> {
        let on = |id: EndId| {
            let repeats = &self.ends.get(&id)?.repeats;
            let (at, cpu) = *repeats.get(repeats.partition_point(|(at, _)| *at < time))?;
            (at == time).then_some(CpuId { domain: id.domain, cpu })
        };
        [Some(end), self.peer(end)].into_iter().flatten().find_map(on)
    }

    /// The same of the end in a domain that calls its connection so.
    pub(crate) fn repeated_by(
        &self,
        connection: Connection,
        domain: u8,
        from: i64,
        to: i64,
    ) -> Option<(i64, usize)> {
        self.last_repeat(self.candidates(connection).filter(|end| end.domain == domain), from, to)
    }

    fn last_repeat(&self, ends: impl Iterator<Item = EndId>, from: i64, to: i64) -> Option<(i64, usize)> {
        ends.filter_map(|end| self.ends.get(&end)).fold(None, |found, end| {
            let before = end.repeats.partition_point(|(time, _)| *time < from);
            let until = end.repeats.partition_point(|(time, _)| *time <= to);
            let Some(count) = until.checked_sub(before).filter(|count| *count > 0) else { return found };
            let last = end.repeats[until - 1].0;
            found.map_or(Some((last, count)), |(other, more)| Some((last.max(other), count + more)))
        })
    }

    /// The last request for the connection that was not answered between two times.
    pub fn refused(&self, end: EndId, from: i64, to: i64) -> Option<Refused> {
        let mut ends =
            [self.peer(end), Some(end)].into_iter().flatten().filter_map(|end| self.ends.get(&end));
        ends.find_map(|end| {
            let until = end.refused.partition_point(|(time, _)| *time <= to);
            let last = until.checked_sub(1).map(|at| end.refused[at]);
            last.filter(|(time, _)| *time >= from).map(|(_, refused)| refused)
        })
    }
}

/// The only one of several; none of more.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}
