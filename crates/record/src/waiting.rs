//! What a domain has sent and what cannot be written yet: clocks are compared later.
//!
//! It waits as the bytes that came, so that it takes no more memory than it took of the connection, and is decoded when
//! it is written, one after the other: nothing is copied, nothing sorted, and what has been written is free.

use std::{
    collections::{BinaryHeap, binary_heap::PeekMut},
    marker::PhantomData,
};

use xweave_bytes::read_le;
use xweave_wire::{event, record};

use crate::violation::Violation;

/// What the allocator takes for a batch besides its bytes, or about that.
const ALLOCATED: usize = 64;

/// Batches that there is room for whenever nothing waits.
const BATCHES: usize = 256;

/// What waits: records or events.
pub(crate) trait Recorded: Sized {
    /// As people call it.
    const CALLED: &'static str;

    /// Decodes the first of a batch, which begins with its time, and tells how many bytes it has.
    fn decode_first(bytes: &[u8]) -> Option<(Self, usize)>;
}

impl Recorded for record::Record {
    const CALLED: &'static str = "records";

    fn decode_first(bytes: &[u8]) -> Option<(Self, usize)> {
        Self::decode_first(bytes)
    }
}

impl Recorded for event::Event {
    const CALLED: &'static str = "events";

    fn decode_first(bytes: &[u8]) -> Option<(Self, usize)> {
        Self::decode(bytes)
    }
}

/// The time that both records and events begin with; none at a batch's end.
fn time_ns(bytes: &[u8]) -> Option<u64> {
    read_le(bytes, 0)
}

/// A domain's records or events that wait, in batches. Each of its CPUs has a buffer of its own, so that only what is in
/// one batch is in order.
pub(crate) struct Waiting<T> {
    /// The one whose first is the earliest comes first.
    batches: BinaryHeap<Batch>,
    /// How many have come.
    came: u64,
    /// Bytes of all of them, and how many they hold.
    bytes: usize,
    count: usize,
    of: PhantomData<fn() -> T>,
}

/// What came in one message, in the order of its times.
struct Batch {
    /// Of the first that has not been taken out, and where that is.
    time_ns: u64,
    at: usize,
    number: u64,
    bytes: Vec<u8>,
}

impl Batch {
    /// The greatest is taken out of a heap first: the earliest. Of one time, that of the batch that came first: a CPU's
    /// stay in their order.
    fn place(&self) -> impl Ord {
        std::cmp::Reverse((self.time_ns, self.number))
    }

    fn taken_bytes(&self) -> usize {
        self.bytes.capacity() + ALLOCATED
    }
}

impl Ord for Batch {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for Batch {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Batch {}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { batches: BinaryHeap::new(), came: 0, bytes: 0, count: 0, of: PhantomData }
    }
}

impl<T: Recorded> Waiting<T> {
    /// Takes in a batch, if all that is in it is understood and passes the check.
    ///
    /// # Errors
    /// What is wrong with it. Nothing of it waits then.
    pub(crate) fn take(
        &mut self,
        mut bytes: Vec<u8>,
        mut check: impl FnMut(&T) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let (mut rest, mut count, mut last, mut in_order) = (&bytes[..], 0, 0, true);
        while let Some((one, length)) = T::decode_first(rest) {
            check(&one)?;
            let time = time_ns(rest).unwrap_or(0);
            in_order &= last <= time;
            (rest, count, last) = (&rest[length..], count + 1, time);
        }
        if !rest.is_empty() {
            return Err(Violation::Undecodable { bytes: rest.len(), of: T::CALLED });
        }
        if !in_order {
            bytes = sorted::<T>(&bytes, count);
        }
        let Some(time_ns) = time_ns(&bytes) else { return Ok(()) };
        bytes.shrink_to_fit();
        let batch = Batch { time_ns, at: 0, number: self.came, bytes };
        self.came += 1;
        self.count += count;
        self.bytes += batch.taken_bytes();
        self.batches.push(batch);
        Ok(())
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Memory that they hold.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.batches.capacity() * size_of::<Batch>()
    }

    /// The earliest of them, if it is not after that time; it does not wait any more.
    pub(crate) fn next_until(&mut self, time: u64) -> Option<T> {
        let mut batch = self.batches.peek_mut().filter(|first| first.time_ns <= time)?;
        // What was understood when it came is.
        let (one, length) = T::decode_first(batch.bytes.get(batch.at..)?)?;
        let at = batch.at + length;
        match batch.bytes.get(at..).and_then(time_ns) {
            Some(time_ns) => (batch.at, batch.time_ns) = (at, time_ns),
            None => {
                self.bytes -= PeekMut::pop(batch).taken_bytes();
                if self.batches.capacity() > BATCHES.max(4 * self.batches.len()) {
                    self.batches.shrink_to(BATCHES.max(2 * self.batches.len()));
                }
            }
        }
        self.count -= 1;
        Some(one)
    }
}

/// The same batch in the order of its times; what is of one time stays in its order.
fn sorted<T: Recorded>(bytes: &[u8], count: usize) -> Vec<u8> {
    let mut order = Vec::with_capacity(count);
    let mut rest = bytes;
    while let (Some(time), Some((_, length))) = (time_ns(rest), T::decode_first(rest)) {
        let (one, behind) = rest.split_at(length);
        order.push((time, one));
        rest = behind;
    }
    order.sort_by_key(|(time, _)| *time);
    let mut sorted = Vec::with_capacity(bytes.len());
    order.iter().for_each(|(_, one)| sorted.extend_from_slice(one));
    sorted
}

#[cfg(test)]
mod tests {
    use xweave_wire::{
        event::{Event, Kind},
        record::Record,
    };

    use super::*;

    /// A batch of events, by their threads and times.
    fn batch(events: &[(u32, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (thread, time) in events {
            Event::new(Kind::Exit, *time, 0, *thread).encode(&mut bytes);
        }
        bytes
    }

    fn take(waiting: &mut Waiting<Event>, bytes: Vec<u8>) {
        waiting.take(bytes, |_| Ok(())).unwrap();
    }

    fn until(waiting: &mut Waiting<Event>, time: u64) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| waiting.next_until(time)).map(|event| (event.tid, event.time_ns)).collect()
    }

    #[test]
    fn what_waits_comes_out_in_the_order_of_its_times_and_else_as_it_came() {
        let mut waiting = Waiting::default();
        take(&mut waiting, batch(&[(1, 5), (2, 20), (3, 20), (4, 7), (5, 20)]));
        take(&mut waiting, batch(&[(6, 6), (7, 20), (8, 30)]));
        take(&mut waiting, batch(&[]));
        assert_eq!(waiting.len(), 8);
        assert_eq!(until(&mut waiting, 4), []);
        assert_eq!(until(&mut waiting, 6), [(1, 5), (6, 6)]);
        // Later than what it comes before.
        take(&mut waiting, batch(&[(9, 3), (10, 20)]));
        let rest = [(9, 3), (4, 7), (2, 20), (3, 20), (5, 20), (7, 20), (10, 20)];
        assert_eq!(until(&mut waiting, 29), rest);
        assert_eq!((until(&mut waiting, u64::MAX), waiting.len()), (vec![(8, 30)], 0));
    }

    #[test]
    fn a_batch_that_is_not_understood_or_not_right_does_not_wait() {
        let mut waiting = Waiting::default();
        let mut damaged = batch(&[(1, 5)]);
        damaged.extend([0xff; 7]);
        let said = waiting.take(damaged, |_: &Event| Ok(())).unwrap_err();
        assert_eq!(said.to_string(), "7 bytes of events could not be understood");
        let odd = |event: &Event| if event.tid == 2 { Err(Violation::NotAsked) } else { Ok(()) };
        assert_eq!(waiting.take(batch(&[(1, 5), (2, 6)]), odd).unwrap_err(), Violation::NotAsked);
        assert_eq!((waiting.len(), waiting.bytes()), (0, 0));
    }

    #[test]
    fn what_is_held_is_counted_and_given_back() {
        let record = |time_ns, values: usize| Record {
            time_ns,
            flow: 0,
            site: 1,
            pid: 1,
            tid: 1,
            cpu: 0,
            kind: record::Kind::Hop,
            comm: [0; 16],
            values: vec![7; values],
        };
        let mut waiting = Waiting::default();
        for _ in 0..10_000 {
            let mut bytes = Vec::with_capacity(4096);
            record(20, 2).encode(&mut bytes);
            record(10, 7).encode(&mut bytes);
            waiting.take(bytes, |_| Ok(())).unwrap();
        }
        // No more than was sent, and what a batch takes: no allocation for each, no room that is not used.
        let (sent, batches) = (10_000 * (2 * 48 + 9 * 8), 16_384 * size_of::<Batch>() + 10_000 * ALLOCATED);
        assert_eq!(waiting.bytes(), sent + batches);
        assert_eq!(waiting.next_until(10), Some(record(10, 7)));
        assert_eq!(std::iter::from_fn(|| waiting.next_until(20)).count(), 19_999);
        assert!(waiting.bytes() <= 2 * BATCHES * size_of::<Batch>(), "{}", waiting.bytes());
    }
}
