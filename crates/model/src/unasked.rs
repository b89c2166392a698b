//! What a server sends of its own accord, after an answer: a ping, what it has to say to all its clients, the end of its TLS.
//!
//! An answer is over when who sent it waits for the next request. What that was shows when the wait is over: a time was, or
//! somebody else's request came. A server that waits for its disk, for one that it asks itself, for room in the socket or for another
//! of its threads is still at it.

use xweave_flow::exchange::is_answer_over;
use xweave_replay::{Ended, Source, ThreadId, ThreadState};
use xweave_trace::event::Event;

use crate::{connection::EndId, machine::Machine};

/// Whether what an event tells to be sent (by a `server`'s end) or received (by a client's) is no part of the answer to the
/// request that began then, of which the last part so far was sent or received at `answered`.
pub(crate) fn is_unasked(
    machine: &Machine,
    end: EndId,
    server: bool,
    event: &Event,
    [began, answered]: [i64; 2],
) -> bool {
    let (now, connections) = (event.time_ns, &machine.connections);
    if is_answer_over([began, answered], now) {
        return true;
    }
    let (sender, thread, sent) = if server {
        (end, ThreadId { domain: event.domain, tid: event.tid }, now)
    } else {
        let Some(sender) = connections.peer(end) else { return false };
        let Some(sent) = connections.came(end, sender, answered, now) else { return false };
        (sender, sent.thread, sent.time)
    };
    let before = connections.sent(sender, i64::MIN, sent.saturating_sub(1));
    let Some(since) =
        before.filter(|before| before.thread == thread && !before.over).map(|before| before.time)
    else {
        return false;
    };
    let line = machine.threads().line(thread, since, sent);
    let last = line.iter().rev().find_map(|(_, to, doing)| match doing {
        Some(ThreadState::Waiting { over, .. }) => Some((*to, *over)),
        _ => None,
    });
    let Some((over, by)) = last else { return false };
    match connections.taken(thread, sent).filter(|(taken, _)| *taken >= over) {
        Some((_, other)) => other != sender && connections.service(other) == other.connection.local_port(),
        None => matches!(by, Some(Ended::Interrupt { source: Source::Timer, .. })),
    }
}
