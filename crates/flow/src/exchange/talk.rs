//! What two ends send each other, in turns: a request, and what is sent back.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
};

use super::Side;
use crate::{frame::Frame, graph::Flow, key::Key};

/// What one flow's frame says of the talk that it is of.
pub(super) struct Sent {
    pub(super) flow: usize,
    /// When the first of what it was made of began, in nanoseconds.
    pub(super) began: i64,
    pub(super) protocol: &'static str,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// Whether only a client sends such, or only a server.
    pub(super) opens: Option<bool>,
    pub(super) bytes: u32,
    /// TCP's; of others none.
    pub(super) sequence: Option<u32>,
    /// The key of its message, where events tell it, and a hash of how it begins.
    pub(super) key: Option<Key>,
    pub(super) head: u32,
    /// The thread that began it, with its domain.
    pub(super) sender: Option<(u8, u32)>,
    /// The one that ended it: of a datagram the one that received it.
    pub(super) reader: Option<(u8, u32)>,
    /// When that was.
    pub(super) ended: i64,
}

impl Sent {
    pub(super) fn of(flow: usize, began: i64, frame: &Frame) -> Option<Self> {
        let ends = |source_port, target_port| {
            let end = |address: IpAddr, port| SocketAddr::new(address, port);
            (end(frame.source, source_port), end(frame.target, target_port))
        };
        let ports = ends(frame.source_port, frame.target_port);
        // Fragments have no ports; the first, which has, stands for its datagram.
        let no_fragment = frame.fragment.is_none_or(|(offset, _)| offset == 0);
        let (protocol, (from, to), opens, sequence) = if frame.is_tcp() {
            ("TCP", ports, frame.opens(), Some(frame.sequence))
        } else if frame.is_udp() && no_fragment {
            ("UDP", ports, None, None)
        } else if let Some(asks) = frame.asks_for_echo() {
            let identifier = frame.echo_identifier();
            ("ICMP", ends(identifier, identifier), Some(asks), None)
        } else {
            return None;
        };
        let bytes = frame.bytes;
        Some(Self {
            flow,
            began,
            protocol,
            from,
            to,
            opens,
            bytes,
            sequence,
            key: None,
            head: 0,
            sender: None,
            reader: None,
            ended: began,
        })
    }
}

/// What two ends send each other.
#[derive(Default)]
pub(super) struct Talk {
    client: Option<SocketAddr>,
    done: Vec<Turn>,
    /// What may have an answer yet: of streams, one.
    open: VecDeque<Turn>,
}

/// A request, and what has come of its answer.
pub(super) struct Turn {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    pub(super) request: Way,
    pub(super) answer: Way,
    /// Of a datagram: the thread that received it, and when.
    pub(super) taken: Option<((u8, u32), i64)>,
    /// The key of the request, where events tell it, and a hash of how it begins.
    pub(super) key: Option<Key>,
    head: u32,
    /// How often its client sent it again before it was answered: datagrams of one key and length.
    pub(super) repeats: u32,
}

/// What went one way.
#[derive(Default)]
pub(super) struct Way {
    pub(super) flows: Vec<usize>,
    /// When the first began.
    pub(super) began: Option<i64>,
    /// When the last did.
    last: Option<i64>,
    pub(super) bytes: u64,
    /// TCP's sequence numbers: the first, and the one after the last.
    pub(super) range: Option<(u32, u32)>,
}

/// How many turns before this one are looked through for what was put together late.
const LATE: usize = 4;

/// Datagrams that may have an answer yet; the oldest is given up then.
const OPEN: usize = 64;

/// Longest pause within an answer, in nanoseconds, unless the answer took longer until then.
const PAUSE: i64 = 1_000_000_000;

/// Whether data that is sent at `now` is no part of an answer any more to a request that began then, of which the last part so
/// far was sent at `answered`: it is unasked, as a server's ping, a push, the end of its TLS.
pub fn is_answer_over([began, answered]: [i64; 2], now: i64) -> bool {
    now.saturating_sub(answered) > PAUSE.max(answered.saturating_sub(began))
}

impl Talk {
    /// Adds a frame; `client` returns the client, if the talk itself does not show it.
    pub(super) fn take(&mut self, sent: &Sent, client: impl FnOnce() -> SocketAddr) {
        match sent.opens {
            // A connection that opens anew, on ports that were in use before.
            Some(true) if sent.bytes == 0 && sent.sequence.is_some() => {
                self.done.extend(self.open.drain(..));
                self.client = Some(sent.from);
            }
            Some(opens) => self.client = Some(if opens { sent.from } else { sent.to }),
            None => {}
        }
        // What has no bytes asks and answers nothing, but an echo.
        if sent.bytes == 0 && sent.sequence.is_some() {
            return;
        }
        let client = *self.client.get_or_insert_with(client);
        let asks = sent.from == client;
        let recent = self.open.iter_mut().chain(self.done.iter_mut().rev().take(LATE));
        for turn in recent {
            let way = if asks { &mut turn.request } else { &mut turn.answer };
            if way.has(sent) {
                way.take(sent);
                return;
            }
        }
        if asks {
            self.ask(client, sent);
        } else if sent.protocol == "UDP" {
            self.answer_datagram(sent);
        } else if let Some(turn) = self.open.back_mut().filter(|turn| !turn.is_over(sent.began)) {
            // Without one, it is what nobody asked for: a greeting.
            turn.answer.add(sent);
        }
    }

    fn ask(&mut self, client: SocketAddr, sent: &Sent) {
        let datagram = sent.protocol == "UDP";
        if datagram && let Some(turn) = self.open.iter_mut().rev().find(|turn| turn.is_repeated_by(sent)) {
            turn.repeats += 1;
            turn.request.take(sent);
            turn.taken = taken(sent).or(turn.taken);
            return;
        }
        // Every echo is one of its own.
        let over = |turn: &Turn| sent.protocol == "ICMP" || !turn.answer.flows.is_empty();
        if !datagram {
            if let Some(turn) = self.open.back_mut().filter(|turn| !over(turn)) {
                return turn.request.add(sent);
            }
            self.done.extend(self.open.drain(..));
        } else if self.open.len() >= OPEN {
            self.done.extend(self.open.pop_front());
        }
        let mut request = Way::default();
        request.add(sent);
        self.open.push_back(Turn {
            client,
            server: sent.to,
            request,
            answer: Way::default(),
            taken: taken(sent).filter(|_| datagram),
            key: sent.key,
            head: sent.head,
            repeats: 0,
        });
    }

    fn answer_datagram(&mut self, sent: &Sent) {
        let taken = |turn: &Turn| turn.taken.filter(|(_, at)| *at <= sent.began);
        // Who has the key answers what has it, whichever thread that is; of several the last.
        let by_key = |turn: &&mut Turn| sent.key.is_some() && turn.key == sent.key;
        if let Some(turn) = self.open.iter_mut().rev().find(by_key) {
            return turn.answer.add(sent);
        }
        // What a thread does is for what it received last.
        let by_thread = |turn: &Turn| taken(turn).filter(|(reader, _)| Some(*reader) == sent.sender);
        let last = (0..self.open.len()).filter_map(|at| Some((by_thread(&self.open[at])?.1, at))).max();
        let unanswered = |turn: &Turn| turn.answer.flows.is_empty() && taken(turn).is_some();
        let whose = last.map(|(_, at)| at).or_else(|| self.open.iter().position(unanswered));
        let whose = whose.or_else(|| self.open.len().checked_sub(1));
        if let Some(turn) = whose.and_then(|at| self.open.get_mut(at)) {
            turn.answer.add(sent);
        }
    }

    pub(super) fn end(mut self) -> Vec<Turn> {
        self.done.extend(self.open);
        self.done
    }
}

impl Turn {
    /// Whether data that is sent at that time is no part of the answer any more.
    fn is_over(&self, now: i64) -> bool {
        let (Some(began), Some(answered)) = (self.request.began, self.answer.last) else { return false };
        is_answer_over([began, answered], now)
    }

    /// Whether a datagram is this one's request once more: nobody has answered, and it has the same key and length, and
    /// begins alike.
    fn is_repeated_by(&self, sent: &Sent) -> bool {
        let alike = self.key.is_some() && (self.key, self.head) == (sent.key, sent.head);
        alike && self.request.bytes == u64::from(sent.bytes) && self.answer.flows.is_empty()
    }
}

/// The thread that received a datagram, and when.
fn taken(sent: &Sent) -> Option<((u8, u32), i64)> {
    sent.reader.map(|reader| (reader, sent.ended))
}

impl Way {
    /// Whether all bytes of a frame have been seen on this way.
    fn has(&self, sent: &Sent) -> bool {
        let (Some((first, next)), Some(sequence)) = (self.range, sent.sequence) else { return false };
        // Sequence numbers wrap: what lies less than half of them behind is before.
        let after = |a: u32, b: u32| a.wrapping_sub(b) < 1 << 31;
        after(sequence, first) && after(next, sequence.wrapping_add(sent.bytes))
    }

    /// One of its flows, whose bytes may have been seen.
    fn take(&mut self, sent: &Sent) {
        self.flows.push(sent.flow);
        self.began = Some(self.began.map_or(sent.began, |began| began.min(sent.began)));
        self.last = self.last.max(Some(sent.began));
    }

    fn add(&mut self, sent: &Sent) {
        self.take(sent);
        let Some(sequence) = sent.sequence else {
            self.bytes += u64::from(sent.bytes);
            return;
        };
        let end = sequence.wrapping_add(sent.bytes);
        match &mut self.range {
            Some((_, next)) => {
                let new = end.wrapping_sub(*next);
                if new < 1 << 31 {
                    self.bytes += u64::from(new);
                    *next = end;
                }
            }
            None => {
                self.bytes = u64::from(sent.bytes);
                self.range = Some((sequence, end));
            }
        }
    }

    pub(super) fn side(&self, flows: &[Flow]) -> Side {
        Side { bytes: self.bytes, flows: self.flows.iter().map(|&at| flows[at].id).collect() }
    }
}
