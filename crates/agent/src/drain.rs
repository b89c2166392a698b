//! Emptying the ring buffer while the kernel fills it.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use libbpf_rs::{MapHandle, RingBufferBuilder};
use xweave_wire::{
    frame::{self, Error},
    message::{Event, FromAgent},
};

use crate::{clock, session::Output};

/// How often the buffer is looked at. Records make no wake-ups (the prelude says why), so this is
/// also how long a record may stay in the domain.
const TICK: Duration = Duration::from_millis(10);

/// How often the clocks are sent.
const CLOCK_EVERY: Duration = Duration::from_millis(100);

/// Bytes of records in one message, at most about.
const BATCH: usize = 256 << 10;

/// The thread that drains. It ends by itself when the controller is gone.
pub(crate) struct Drain {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Drain {
    pub(crate) fn start(records: MapHandle, output: Output) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || run(&records, &output, &stopped));
        Self { stop, thread }
    }

    /// Sends all that is in the buffer, and ends. To be called when nothing is recorded any more.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(Err(Error::Closed))
    }
}

fn run(records: &MapHandle, output: &Output, stop: &AtomicBool) -> Result<(), Error> {
    let batch = Mutex::new(Vec::with_capacity(2 * BATCH));
    let mut builder = RingBufferBuilder::new();
    builder
        .add(records, |record| {
            let mut batch = batch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            batch.extend_from_slice(record);
            // A negative value ends this round of consuming; the record itself is consumed.
            if batch.len() >= BATCH { -libc::ECANCELED } else { 0 }
        })
        .map_err(other)?;
    let ring = builder.build().map_err(other)?;
    let mut next_clock = Instant::now();
    loop {
        // Read before consuming: what was recorded before the stop is then consumed in this round.
        let last = stop.load(Ordering::Acquire);
        loop {
            let consumed = ring.consume_raw();
            if consumed < 0 && consumed != -libc::ECANCELED {
                return Err(io::Error::from_raw_os_error(-consumed).into());
            }
            let full = {
                let mut batch = batch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let full = batch.len() >= BATCH;
                if !batch.is_empty() {
                    send(output, Event::Records(std::mem::take(&mut *batch)))?;
                    batch.reserve(BATCH);
                }
                full
            };
            if !full {
                break;
            }
        }
        if last || Instant::now() >= next_clock {
            send(output, Event::Clock(clock::sample()))?;
            next_clock = Instant::now() + CLOCK_EVERY;
        }
        if last {
            return Ok(());
        }
        thread::park_timeout(TICK);
    }
}

fn send(output: &Output, event: Event) -> Result<(), Error> {
    let mut output = output.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    frame::write_message(&mut *output, &FromAgent::Event(event))
}

fn other(error: libbpf_rs::Error) -> Error {
    Error::Io(io::Error::other(error))
}
