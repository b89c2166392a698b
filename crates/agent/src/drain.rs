//! Emptying the ring buffers while the kernel fills it.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use libbpf_rs::{MapCore, MapHandle, RingBuffer, RingBufferBuilder};
use xweave_system::clock;
use xweave_wire::{
    frame::Error,
    message::{Event, FromAgent},
};

use crate::{output::Output, rings::PAGE};

/// How often the buffers are looked at while something is in them. Records make no wake-ups (the prelude says why).
const TICK: Duration = Duration::from_millis(10);

/// How long a record may stay in the domain: buffers in which nothing was found are looked at less and less often,
/// down to this. Each look wakes a CPU, and in a guest it is exits from it: an agent that has nothing to do must not be
/// the neighbour that others wait for.
const RESTING: Duration = Duration::from_millis(80);

/// Bytes that one CPU is thought to record in a second at most: a million records of a hundred bytes. A buffer that
/// would be full before it is looked at again does not rest that long.
const FASTEST: u64 = 100 << 20;

/// How often the clocks are sent.
const CLOCK_EVERY: Duration = Duration::from_millis(100);

/// Bytes of records in one message, at most about.
const BATCH: usize = 256 << 10;

/// A ring buffer, and how what is in it is told.
pub(crate) struct Source {
    pub(crate) ring: MapHandle,
    pub(crate) tells: fn(Vec<u8>) -> Event,
}

/// The thread that drains. It ends by itself when the controller is gone.
pub(crate) struct Drain {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Drain {
    pub(crate) fn start(sources: Vec<Source>, output: Arc<Output>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || run(&sources, &output, &stopped));
        Self { stop, thread }
    }

    /// Sends all that is in the buffers, and ends. To be called when nothing is recorded any more.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(Err(Error::Closed))
    }
}

/// The batch of a ring buffer.
type Batch = Mutex<Vec<u8>>;

fn lock(batch: &Batch) -> MutexGuard<'_, Vec<u8>> {
    batch.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open<'s>(source: &'s Source, batch: &'s Batch) -> Result<RingBuffer<'s>, libbpf_rs::Error> {
    let mut builder = RingBufferBuilder::new();
    builder.add(&source.ring, |record| {
        let mut batch = lock(batch);
        batch.extend_from_slice(record);
        // A negative value ends this round of consuming; the record itself is consumed.
        if batch.len() >= BATCH { -libc::ECANCELED } else { 0 }
    })?;
    builder.build()
}

/// How long buffers of these sizes rest. Those of a page are of CPUs that are not there.
fn resting(sizes: impl Iterator<Item = u32>) -> Duration {
    let smallest = sizes.filter(|&size| size > PAGE).min().unwrap_or(0);
    Duration::from_millis(u64::from(smallest) * 1000 / FASTEST).clamp(TICK, RESTING)
}

fn run(sources: &[Source], output: &Output, stop: &AtomicBool) -> Result<(), Error> {
    let batches: Vec<Batch> = sources.iter().map(|_| Batch::default()).collect();
    let mut rings = Vec::new();
    let mut largest = 0;
    for (source, batch) in sources.iter().zip(&batches) {
        rings.push((open(source, batch).map_err(other)?, batch, source.tells));
        largest = largest.max(source.ring.max_entries() as usize);
    }
    // After so many rounds nothing is left of what a full ring had held before the first.
    let enough = largest / BATCH + 2;
    let resting = resting(sources.iter().map(|source| source.ring.max_entries()));
    let mut tick = TICK;
    let mut next_clock = Instant::now();
    loop {
        // Read before consuming: what was recorded before the stop is then consumed in this turn.
        let last = stop.load(Ordering::Acquire);
        // And so are the clocks: what was recorded before is sent before them.
        let clock = (last || Instant::now() >= next_clock).then(clock::sample);
        let mut found = false;
        for round in 0.. {
            // From all in turns, so that a ring that fills quickly does not let others overflow.
            let mut more = false;
            for (ring, batch, tells) in &rings {
                let consumed = ring.consume_raw();
                if consumed < 0 && consumed != -libc::ECANCELED {
                    return Err(io::Error::from_raw_os_error(-consumed).into());
                }
                let bytes = std::mem::take(&mut *lock(batch));
                more |= bytes.len() >= BATCH;
                if !bytes.is_empty() {
                    found = true;
                    output.send(&FromAgent::Event(tells(bytes)))?;
                }
            }
            if !more || !last && round >= enough {
                break;
            }
        }
        if let Some(clock) = clock {
            output.send(&FromAgent::Event(Event::Clock(clock)))?;
            next_clock = Instant::now() + CLOCK_EVERY;
        }
        if last {
            return Ok(());
        }
        tick = if found { TICK } else { (tick * 2).min(resting) };
        thread::park_timeout(tick);
    }
}

fn other(error: libbpf_rs::Error) -> Error {
    Error::Io(io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_buffers_are_looked_at_as_often_as_ever() {
        let resting = |sizes: &[u32]| resting(sizes.iter().copied());
        assert_eq!(resting(&[8 << 20, 64 << 10]), TICK);
        assert_eq!(resting(&[8 << 20, 2 << 20]), Duration::from_millis(20));
        assert_eq!(resting(&[1 << 30]), RESTING);
        assert_eq!(resting(&[8 << 20, PAGE]), RESTING, "one CPU is not there");
        assert_eq!(resting(&[PAGE, PAGE]), TICK);
        assert_eq!(resting(&[]), TICK, "nothing is recorded");
    }
}
