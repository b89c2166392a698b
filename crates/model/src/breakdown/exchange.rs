//! Waits for the other end of a connection: what is on its way, and what who answers does.
//!
//! A thread that serves many clients, and one that asks many servers, waits for whatever comes. So a wait is not told by what
//! ended it alone, but by what was asked: before the request was received, nobody had anything to do for it; after that, what
//! other clients sent did not end a wait for it.

use xweave_replay::{CpuId, Ended, ThreadId, ThreadState};

use super::{Answer, BackwardWalk, Cause, Exchange, Object, TimeState, transit::Transit};
use crate::connection::{Awaited, EndId, Sent};

impl BackwardWalk<'_> {
    /// A wait for the other end of a connection; none if what woke the thread is the better account.
    pub(super) fn peer(
        &mut self,
        id: ThreadId,
        awaited: Awaited,
        over: Option<Ended>,
        begin: i64,
        from: i64,
        to: i64,
    ) -> Option<bool> {
        let direct =
            matches!(over, Some(Ended::Thread { softirq: false, by }) if !self.brings(by, id, awaited.end));
        let answered = |end| self.machine.connections.came(awaited.end, end, from, to);
        let by_sender = || {
            self.machine.connections.peer(awaited.end).and_then(answered).is_some_and(|sent| woke(over, sent))
        };
        if (!direct || by_sender())
            && let Some(exchange) = self.exchange
            && let Some(left) = self.of_exchange(id, exchange, awaited, begin, from, to)
        {
            return Some(left);
        }
        let end = awaited.end;
        let connections = &self.machine.connections;
        // Until another thread had asked for what it got, it was the time of that one.
        let other = connections.sent(end, from, to);
        let other = other.filter(|asked| asked.thread != id && (from + 1..to).contains(&asked.time));
        if let Some(Sent { thread: other, time: asked, .. }) = other.filter(|other| !self.far(other.thread)) {
            let left = self.peer(id, awaited, over, asked, asked, to)?;
            self.follow(other, from, asked);
            return Some(left);
        }
        // What the thread itself had sent, and is answered.
        let asked = connections.sent(end, from, from).map_or(from, |sent| sent.time);
        let service = connections.service(end);
        let Some(peer) = connections.peer(end) else {
            if let Some(Ended::Thread { by, softirq }) = over
                && (!softirq || end.connection.is_loopback())
                && !self.brings(by, id, end)
            {
                return None;
            }
            self.repeat(end, asked, from, to, Transit::from_remote(end, service));
            return Some(false);
        };
        // In one kernel the sender itself wakes who waits.
        let sent = connections.came(end, peer, from, to);
        if let Some(sent) = sent.filter(|sent| woke(over, *sent)) {
            self.answer(end, peer, sent, from, to);
            return Some(false);
        }
        // Another thread gave it what it had received, or the right to receive it.
        if direct {
            return None;
        }
        let since = sent.map_or(asked, |sent| sent.time);
        let lost = self.may_be_lost(peer.domain, since, to);
        let link = Transit::to(id, peer, service).unless(lost);
        let Some(sent) = sent else {
            // The kernel at the other end answered.
            self.repeat(end, asked, from, to, link.and_back());
            return Some(false);
        };
        // What had to be sent again was on its way since it was sent first: what the thread did before it
        // waited delayed nothing.
        let first = sent.time.min(to);
        if first < from && connections.repeated(end, first, to).is_some() {
            let first = first.max(begin);
            self.repeat(end, sent.time, first, to, link);
            self.answer(end, peer, sent, begin, first);
            return Some(true);
        }
        let first = first.max(from);
        self.repeat(end, sent.time, first, to, link);
        self.answer(end, peer, sent, from, first);
        Some(false)
    }

    /// What was done for an answer, by whom sent it from end `answers`, between two times.
    pub(super) fn answer(&mut self, asks: EndId, answers: EndId, sent: Sent, from: i64, to: i64) {
        if self.far(sent.thread) {
            let who = self.on.last().copied().unwrap_or(sent.thread);
            return self.add(from, to, Object::Thread(who), TimeState::Waiting);
        }
        let answer = Answer { end: answers, sent: to };
        let outer = self.exchange.replace(Exchange { asks: Some(asks), answers: Some(answer) });
        let asked = self.machine.connections.asked(asks, to);
        let note = std::mem::replace(&mut self.note, (asked > 1).then_some(Cause::Ahead(asked)));
        self.trail(sent.thread, from, to);
        (self.exchange, self.note) = (outer, note);
    }

    /// From when a thread sent something at an end until this thread received the answer.
    pub(super) fn exchanged(&mut self, asker: ThreadId, id: ThreadId, end: EndId, from: i64, to: i64) {
        let connections = &self.machine.connections;
        let peer = connections.peer(end);
        let sent = peer.and_then(|peer| Some((peer, connections.came_last(end, peer, from, to)?)));
        let outer = self.exchange.replace(Exchange { asks: Some(end), answers: None });
        match sent.filter(|(_, sent)| sent.time >= from) {
            Some((peer, sent)) => {
                let sent = Sent { time: sent.time.min(to), ..sent };
                self.until_taken(id, sent.time, to);
                self.on.push(asker);
                self.answer(end, peer, sent, from, sent.time);
                self.on.pop();
            }
            None => self.until_taken(id, from, to),
        }
        self.exchange = outer;
    }

    /// A wait that ended with something on a connection, while an exchange is told: perhaps of another one, as those who ask
    /// and those who answer may do so for many at once. None if it is a wait like others.
    fn of_exchange(
        &mut self,
        id: ThreadId,
        exchange: Exchange,
        awaited: Awaited,
        begin: i64,
        from: i64,
        to: i64,
    ) -> Option<bool> {
        let connections = &self.machine.connections;
        let Some(answer) = exchange.answers else {
            let asks = exchange.asks?;
            if awaited.only && awaited.end != asks {
                return None;
            }
            // Who waits for whatever comes has not got it yet.
            let service = connections.service(asks);
            return Some(match connections.peer(asks) {
                None => {
                    self.repeat(asks, begin, begin, to, Transit::from_remote(asks, service));
                    true
                }
                Some(peer) => {
                    let lost = self.may_be_lost(peer.domain, from, to);
                    let link = Transit::to(id, peer, service).unless(lost);
                    self.repeat(asks, from, from, to, link);
                    false
                }
            });
        };
        // Who carries on with whatever comes would have taken the request too.
        let takes = self.serves(awaited.end) || !awaited.only && self.machine.connections.is_versatile(id);
        if !takes || id.domain != answer.end.domain {
            return None;
        }
        if let Some(asks) = exchange.asks
            && self.had_no_request(id, to)
        {
            self.request_on_its_way(id, asks, begin, to);
            return Some(true);
        }
        if !self.serves(awaited.end) {
            return None;
        }
        // Somebody else's request came: this one had not waited for that.
        self.add(from, to, Object::Thread(id), TimeState::Waiting);
        Some(false)
    }

    /// Whether a thread that woke another one as something came had that from elsewhere: from a guest that it serves, or another
    /// kernel, if it is of another process, and has received nothing there. Of an end nothing is known: the same.
    pub(super) fn brings(&self, by: ThreadId, id: ThreadId, end: EndId) -> bool {
        let machine = self.machine;
        let process = |id| machine.threads().process(id);
        let is_other = || {
            let other = by != id && process(by) != process(id);
            other && !end.connection.is_loopback() && !machine.connections.is_of(by, end)
        };
        match machine.connections.peer(end) {
            Some(peer) => peer.domain != id.domain && (self.serves_guest(by, peer.domain) || is_other()),
            None => is_other(),
        }
    }

    /// Whether an end of a connection is the one that is asked.
    pub(super) fn serves(&self, end: EndId) -> bool {
        self.machine.connections.service(end) == end.connection.local_port()
    }

    /// Whether a thread is one of those who answer, and nobody had received the request at that time.
    pub(super) fn had_no_request(&self, id: ThreadId, time: i64) -> bool {
        let answer = self.exchange.and_then(|exchange| exchange.answers);
        answer.filter(|answer| answer.end.domain == id.domain).is_some_and(|answer| {
            let received = self.machine.connections.received(answer.end, answer.sent);
            received.is_none_or(|(_, received)| time <= received)
        })
    }

    /// Until `to`, who answers had nothing to do. While who asks still ran, and had not taken up anything else, it was sending;
    /// then it was on its way.
    pub(super) fn request_on_its_way(&mut self, id: ThreadId, asks: EndId, begin: i64, to: i64) {
        let machine = self.machine;
        let service = machine.connections.service(asks);
        let sent = machine.connections.sent(asks, begin, begin);
        let mut sending = Vec::new();
        if let Some(sent) = sent {
            let other = machine
                .connections
                .taken_next(sent.thread, sent.time)
                .map_or(to, |other| other.clamp(begin, to));
            let line = machine.threads().line(sent.thread, begin, other);
            sending.extend(line.into_iter().map_while(|(a, b, doing)| match doing {
                Some(ThreadState::Running { cpu }) => Some((a, b, cpu)),
                _ => None,
            }));
        }
        let since = sending.last().map_or(begin, |(_, until, _)| *until);
        let lost = self.may_be_lost(id.domain, since, to);
        let link = Transit::to(id, asks, service).unless(lost);
        self.repeat(asks, begin, since, to, link);
        if let Some(Sent { thread: who, .. }) = sent {
            let mut sender = self.on.clone();
            sender.truncate(sender.iter().position(|on| *on == who).unwrap_or_default());
            sender.push(who);
            let outer = (std::mem::replace(&mut self.on, sender), self.note.take());
            for (a, b, cpu) in sending.into_iter().rev() {
                self.on_cpu(CpuId { domain: who.domain, cpu }, a, b, Object::Thread(who), TimeState::Running);
            }
            (self.on, self.note) = outer;
        }
    }
}

/// Whether who sent something woke who waited for it, as in one kernel the sender does.
fn woke(over: Option<Ended>, sent: Sent) -> bool {
    matches!(over, Some(Ended::Thread { by, .. }) if by == sent.thread)
}
