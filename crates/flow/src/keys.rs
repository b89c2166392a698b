//! Keys in the payload (`xweave record --key`), as events tell them, and the flows that carry the messages.
//!
//! A message's key is read once in each domain, where the message passes a system call. A flow that begins or ends in
//! such a call has the key that its thread told there; wherever else it was seen, it is the same flow.

use std::{borrow::Cow, collections::HashMap};

use xweave_trace::{Event, Row, Trace, event::Kind};
use xweave_wire::record;

use crate::{
    graph::Flow,
    key::Key,
    landmarks::{self, Landmark},
};

/// So many messages' keys are read: some 1 GB. Flows of later ones have none.
const MESSAGES: usize = 16 << 20;

/// A message that a thread sent or received.
struct Message {
    /// When that was told; of a datagram that was received, as the socket gave it away.
    time_ns: i64,
    /// Of what was received from a stream: when the call began that did.
    since_ns: Option<i64>,
    bytes: u64,
    /// With a hash of how it begins; none, if no event told it.
    key: Option<(Key, u32)>,
}

/// The keys of a trace.
#[derive(Default)]
pub(crate) struct Keys {
    /// By domain, thread and whether it sent: in the order of their times.
    by_thread: HashMap<(u8, u32, bool), Vec<Message>>,
}

impl Keys {
    /// Reads them, if the trace has any.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut keys = Self::default();
        if trace.manifest().key.is_some() {
            let tell = |event: &Event| matches!(event.kind, Kind::Key | Kind::Receive);
            trace.events().filter(tell).take(MESSAGES).for_each(|event| keys.take(&event));
        }
        keys
    }

    /// That something was received is told just before its key: a call that was under way when the recording began may tell
    /// no key, and the next one's is not its own.
    fn take(&mut self, event: &Event) {
        let Event { time_ns, bytes, code, .. } = *event;
        let tells_key = event.kind == Kind::Key;
        let sent = tells_key && code != 0;
        let messages = self.by_thread.entry((event.domain, event.tid, sent)).or_default();
        let key = tells_key.then(|| (Key::of(event), event.other));
        if sent {
            messages.push(Message { time_ns, since_ns: None, bytes, key });
        } else if !tells_key {
            let since_ns = (code > 0).then(|| time_ns.saturating_sub(code.into()));
            messages.push(Message { time_ns, since_ns, bytes, key });
        } else if let Some(last) =
            messages.last_mut().filter(|last| last.key.is_none() && last.bytes == bytes)
        {
            last.key = key;
        }
    }

    /// The key of the message that a flow carries, and a hash of how it begins; none if no event tells it.
    pub(crate) fn key<'s>(&self, flow: &Flow, function: impl Fn(&Row) -> Cow<'s, str>) -> Option<(Key, u32)> {
        let frame = flow.frame.filter(|frame| !self.by_thread.is_empty() && frame.has_data())?;
        let all = |row: &Row, sent| self.by_thread.get(&(row.domain, row.tid, sent));
        let (first, last) = (flow.path().next()?, flow.path().next_back()?);
        // A datagram is told as it was given to the socket, and of TCP's bytes what a call was given.
        let is_whole = |message: &&Message| message.bytes == u64::from(frame.bytes);
        let sent = all(first, true).and_then(|all| {
            let from = all.partition_point(|message| message.time_ns < first.time_ns);
            match &*function(first) {
                // Within the call that began it, which goes on to a device.
                "udp_sendmsg" | "udpv6_sendmsg" => {
                    let goes =
                        flow.path().find(|row| row.kind == record::Kind::Frame).unwrap_or(last).time_ns;
                    all[from..].first().filter(|message| message.time_ns <= goes).filter(is_whole)
                }
                // By the call that was under way.
                "tcp_skb_entail" => all[..from].last(),
                _ => None,
            }
        });
        let received = || {
            let all = all(last, false)?;
            let is_in_socket = |row: &Row| landmarks::of(&function(row)) == Some(Landmark::Socket);
            if !flow.path().any(is_in_socket) || is_in_socket(last) {
                return None;
            }
            let from = all.partition_point(|message| message.time_ns < last.time_ns);
            if frame.is_udp() {
                // Told where the flow ends, before or after that.
                let near = all[from.saturating_sub(1)..].iter().take(2);
                near.min_by_key(|message| message.time_ns.abs_diff(last.time_ns)).filter(is_whole)
            } else {
                all[from..]
                    .first()
                    .filter(|message| message.since_ns.is_some_and(|since| since <= last.time_ns))
            }
        };
        sent.or_else(received)?.key
    }
}
