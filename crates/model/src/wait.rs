//! What threads waited for within calls of the kernel, where an event at the end of the call tells: the other end of a
//! pipe, or a page.
//!
//! A wait that ended within such a call was for that. A thread that waits for whatever comes (`poll`) and then reads from
//! a pipe had waited for that one if who woke it had written to it meanwhile.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_replay::{Ended, ThreadId};
use xweave_trace::event::{Event, Name, Sending};

/// Waits of a thread that may be told later are no more: a write of a MiB to a pipe of the usual size has 16.
const RECENT: usize = 64;

/// The threads that write to a pipe are no more; of others, it is not known.
const WRITERS: usize = 16;

/// What a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitedFor {
    /// Data in a pipe, which this thread writes to.
    Data {
        /// The pipe's inode number.
        pipe: u64,
        /// Who ended the wait.
        writer: ThreadId,
    },
    /// Room in a pipe, which this thread reads.
    Room {
        /// The pipe's inode number.
        pipe: u64,
        /// Who ended the wait.
        reader: ThreadId,
    },
    /// A page of a file that it has mapped, called so.
    PageOf(Name),
    /// A page that was swapped out.
    Swapped,
}

/// A wait that is over.
#[derive(Clone, Copy, Debug)]
struct Over {
    since: i64,
    at: i64,
    /// The thread that ended it; none if an interrupt did, or that is not known.
    by: Option<ThreadId>,
}

/// A pipe, or a FIFO: by domain, file system and inode.
pub(crate) type PipeId = (u8, u64, u64);

pub(crate) fn pipe_of(event: &Event) -> PipeId {
    (event.domain, event.position, event.object)
}

/// The waits of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallWaits {
    /// Of which it is not known yet.
    recent: FxHashMap<ThreadId, VecDeque<Over>>,
    /// Who has written to a pipe, and when last; the last at the end.
    writers: FxHashMap<PipeId, VecDeque<(ThreadId, i64)>>,
    /// By who waited and when the wait was over.
    told: FxHashMap<(ThreadId, i64), WaitedFor>,
}

impl CallWaits {
    /// What a wait was for, if that was told.
    pub(crate) fn of(&self, thread: ThreadId, over: i64) -> Option<WaitedFor> {
        self.told.get(&(thread, over)).copied()
    }

    /// A wait of a thread is over.
    pub(crate) fn woken(&mut self, thread: ThreadId, since: i64, at: i64, ended: Ended) {
        let by = match ended {
            Ended::Thread { by, .. } if by != thread => Some(by),
            _ => None,
        };
        let recent = self.recent.entry(thread).or_default();
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(Over { since, at, by });
    }

    /// A thread writes to a pipe.
    pub(crate) fn pipe_write(&mut self, event: &Event, thread: ThreadId) {
        if Sending::of(event.code).corrects() {
            return;
        }
        let writers = self.writers.entry(pipe_of(event)).or_default();
        writers.retain(|(writer, _)| *writer != thread);
        if writers.len() == WRITERS {
            writers.pop_front();
        }
        writers.push_back((thread, event.time_ns));
    }

    /// A thread has read from a pipe. Gives whether it had waited for that.
    pub(crate) fn pipe_read(&mut self, event: &Event, thread: ThreadId) -> bool {
        let pipe = event.object;
        let since = event.time_ns - i64::from(event.code.max(0));
        let last = self.recent.get(&thread).and_then(|recent| recent.back()).copied();
        let last = last.filter(|over| over.at <= since);
        let within = self.tell(thread, since, |over| over.by.map(|writer| WaitedFor::Data { pipe, writer }));
        if within {
            return true;
        }
        let wrote = |over: &Over| {
            let writers = self.writers.get(&pipe_of(event))?;
            let by = over.by?;
            let wrote =
                |(writer, time): &(ThreadId, i64)| *writer == by && (over.since..=over.at).contains(time);
            writers.iter().any(wrote).then_some(by)
        };
        let Some((over, writer)) = last.and_then(|over| Some((over, wrote(&over)?))) else { return false };
        self.told.entry((thread, over.at)).or_insert(WaitedFor::Data { pipe, writer });
        true
    }

    /// A thread had to wait in a write to a pipe.
    pub(crate) fn pipe_full(&mut self, event: &Event, thread: ThreadId) {
        let (pipe, since) = (event.object, event.time_ns.saturating_sub_unsigned(event.bytes));
        self.tell(thread, since, |over| over.by.map(|reader| WaitedFor::Room { pipe, reader }));
    }

    /// A thread has waited for a page.
    pub(crate) fn fault(&mut self, event: &Event, thread: ThreadId, awaited: WaitedFor) {
        let since = event.time_ns.saturating_sub_unsigned(event.bytes);
        self.tell(thread, since, |_| Some(awaited));
    }

    /// What the waits of a thread were for that were over since then, as a call within which they began says; unless one
    /// within that has told already. Gives whether there are any.
    fn tell(&mut self, thread: ThreadId, since: i64, what: impl Fn(Over) -> Option<WaitedFor>) -> bool {
        let Some(recent) = self.recent.get_mut(&thread) else { return false };
        let mut any = false;
        while let Some(over) = recent.back().copied().filter(|over| over.at > since) {
            recent.pop_back();
            if let Some(what) = what(over) {
                self.told.entry((thread, over.at)).or_insert(what);
                any = true;
            }
        }
        if recent.is_empty() {
            self.recent.remove(&thread);
        }
        any
    }

    /// How many are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.recent.len() + self.writers.len() + self.told.len()
    }

    /// Forgets what was over before this time.
    pub(crate) fn forget_before(&mut self, time: i64) {
        self.recent.retain(|_, recent| recent.back().is_some_and(|over| over.at >= time));
        self.writers.retain(|_, writers| writers.back().is_some_and(|(_, wrote)| *wrote >= time));
        self.told.retain(|(_, over), _| *over >= time);
    }
}

#[cfg(test)]
mod tests {
    use xweave_trace::event::Kind;

    use super::*;

    const READER: ThreadId = ThreadId { domain: 1, tid: 7 };
    const WRITER: ThreadId = ThreadId { domain: 1, tid: 8 };

    fn event(kind: Kind, time: i64, thread: ThreadId) -> Event {
        Event { object: 99, position: 14, bytes: 4, ..Event::new(kind, 1, time, 0, thread.tid) }
    }

    fn by(by: ThreadId) -> Ended {
        Ended::Thread { by, softirq: false }
    }

    #[test]
    fn a_wait_within_a_read_is_for_the_pipe_and_an_earlier_one_is_not() {
        let mut waits = CallWaits::default();
        waits.woken(READER, 10, 20, by(WRITER));
        waits.woken(READER, 50, 90, by(WRITER));
        let read = Event { code: 60, ..event(Kind::PipeRead, 100, READER) };
        assert!(waits.pipe_read(&read, READER));
        assert_eq!(waits.of(READER, 90), Some(WaitedFor::Data { pipe: 99, writer: WRITER }));
        assert_eq!(waits.of(READER, 20), None);
    }

    #[test]
    fn who_polled_waited_for_the_pipe_if_it_was_written_to_meanwhile() {
        for (wrote, known) in [(15, true), (5, false)] {
            let mut waits = CallWaits::default();
            waits.pipe_write(&event(Kind::PipeWrite, wrote, WRITER), WRITER);
            waits.woken(READER, 10, 20, by(WRITER));
            let read = Event { code: 5, ..event(Kind::PipeRead, 100, READER) };
            assert_eq!(waits.pipe_read(&read, READER), known, "written to at {wrote}");
            assert_eq!(waits.of(READER, 20).is_some(), known, "written to at {wrote}");
        }
    }

    #[test]
    fn a_fault_within_a_read_is_told_as_a_fault() {
        let mut waits = CallWaits::default();
        let disk = Ended::Interrupt { access: Some(1), source: xweave_replay::Source::Other, cpu: 0 };
        waits.woken(READER, 50, 60, by(WRITER));
        waits.woken(READER, 70, 90, disk);
        let fault = Event { bytes: 25, ..event(Kind::SwapIn, 93, READER) };
        waits.fault(&fault, READER, WaitedFor::Swapped);
        waits.pipe_read(&Event { code: 60, ..event(Kind::PipeRead, 100, READER) }, READER);
        assert_eq!(waits.of(READER, 90), Some(WaitedFor::Swapped));
        assert_eq!(waits.of(READER, 60), Some(WaitedFor::Data { pipe: 99, writer: WRITER }));
    }

    #[test]
    fn all_waits_of_a_long_write_are_for_room_and_what_is_never_told_does_not_pile_up() {
        let mut waits = CallWaits::default();
        for nth in 0..1000 {
            waits.woken(WRITER, 10 * nth, 10 * nth + 5, by(READER));
        }
        assert_eq!(waits.recent[&WRITER].len(), RECENT);
        waits.pipe_full(&Event { bytes: 9995, ..event(Kind::PipeFull, 10_000, WRITER) }, WRITER);
        let told = (0..1000).filter_map(|nth| waits.of(WRITER, 10 * nth + 5)).collect::<Vec<_>>();
        assert_eq!(told, [WaitedFor::Room { pipe: 99, reader: READER }; RECENT]);
        for tid in 0..100 {
            let other = ThreadId { domain: 1, tid };
            waits.pipe_write(&event(Kind::PipeWrite, 5, other), other);
        }
        assert_eq!(waits.writers.values().map(VecDeque::len).sum::<usize>(), WRITERS);
        waits.forget_before(20_000);
        assert_eq!(waits.remembered(), 0);
    }
}
