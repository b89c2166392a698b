//! An agent keeps its probes as long as it hears of its controller, and not longer.
//!
//! A connection may stay open though nobody is at its other end any more: a controller that was stopped, a machine
//! that lost its network. Then the agent unweaves by itself.

use std::{
    fs,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

/// A lease runs in so many steps.
const STEPS: u32 = 16;

/// How long the orderly end of a session may stand still. In all it may take longer: there may be a thousand hooks to
/// take away, which kernels in virtual machines take half a minute for.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(10);

/// A lease that is renewed by every byte from the controller: a large message may take longer than the lease.
///
/// It is counted in steps and not by a clock: the time in which this process did not run either, because the
/// virtual machine was paused or the process stopped, is no silence of the controller's.
pub(crate) struct Lease {
    length: Duration,
    silent: AtomicU32,
}

impl Lease {
    pub(crate) fn new(length: Duration) -> Arc<Self> {
        Arc::new(Self { length, silent: AtomicU32::new(0) })
    }

    /// A word was heard. Once the lease is over it stays over.
    fn renew(&self) {
        let renewed = |silent| (silent < STEPS).then_some(0);
        // It fails if the lease is over, and that is all there is to it.
        let _ = self.silent.fetch_update(Ordering::AcqRel, Ordering::Acquire, renewed);
    }

    /// Whether nothing has been heard for its length.
    pub(crate) fn is_over(&self) -> bool {
        self.silent.load(Ordering::Acquire) >= STEPS
    }

    /// What there is to say then.
    pub(crate) fn error(&self) -> io::Error {
        let message = format!(
            "no message from the controller for {} s: it was stopped, or the connection stalled; all probes are detached",
            self.length.as_secs_f64()
        );
        io::Error::new(io::ErrorKind::TimedOut, message)
    }

    /// Waits for the session's end, which closes the channel. If the lease is over first, calls `end`, which
    /// brings the session to its orderly end. If that stands still for so long, `exit`: while less and less is `held`,
    /// it does not.
    pub(crate) fn watch(
        &self,
        ended: &Receiver<()>,
        standstill: Duration,
        end: impl FnOnce(),
        held: impl Fn() -> usize,
        exit: impl FnOnce(),
    ) {
        loop {
            match ended.recv_timeout(self.length / STEPS) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if self.silent.fetch_add(1, Ordering::AcqRel) + 1 >= STEPS {
                        break;
                    }
                }
            }
        }
        end();
        let mut before = usize::MAX;
        while ended.recv_timeout(standstill) == Err(RecvTimeoutError::Timeout) {
            let now = held();
            if now >= before {
                return exit();
            }
            before = now;
        }
    }
}

/// How many descriptors this process has: every probe is held by one.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(usize::MAX, Iterator::count)
}

/// An input that renews a lease.
pub(crate) struct Heard<R> {
    pub(crate) input: R,
    pub(crate) lease: Arc<Lease>,
}

impl<R: Read> Read for Heard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        if read > 0 {
            self.lease.renew();
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        sync::mpsc::{self, Sender},
        thread,
        time::Instant,
    };

    use super::*;

    const SHORT: Duration = Duration::from_millis(640);

    /// Watches until the session ends or is ended: whether `end` and `exit` were called.
    fn watch(
        lease: &Lease,
        ended: &Receiver<()>,
        on_end: impl FnOnce(),
        held: impl Fn() -> usize,
    ) -> (bool, bool) {
        let (was_ended, exited) = (Cell::new(false), Cell::new(false));
        let end = || {
            was_ended.set(true);
            on_end();
        };
        lease.watch(ended, SHORT, end, held, || exited.set(true));
        (was_ended.get(), exited.get())
    }

    #[test]
    fn silence_ends_a_session_in_order_and_if_that_fails_at_once() {
        let (session, ended) = mpsc::channel();
        assert_eq!(watch(&Lease::new(SHORT), &ended, || drop(session), || 1), (true, false));
        let (hangs, ended) = mpsc::channel();
        let lease = Lease::new(SHORT);
        assert_eq!(watch(&lease, &ended, || {}, || 1), (true, true));
        assert!(lease.is_over());
        drop(hangs);
    }

    #[test]
    fn an_end_that_takes_long_is_waited_for_as_long_as_it_goes_on() {
        let (session, ended) = mpsc::channel();
        let (left, session) = (Cell::new(4), Cell::new(Some(session)));
        let held = || {
            left.set(left.get() - 1);
            if left.get() == 0 {
                drop(session.take());
            }
            left.get()
        };
        assert_eq!(watch(&Lease::new(SHORT / 4), &ended, || {}, held), (true, false));
        assert_eq!(left.get(), 0);
    }

    #[test]
    fn every_byte_renews_and_nothing_revives() {
        let lease = Lease::new(SHORT);
        let (session, ended): (Sender<()>, _) = mpsc::channel();
        let mut heard = Heard { input: io::repeat(1), lease: Arc::clone(&lease) };
        let begun = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                while begun.elapsed() < 3 * SHORT {
                    heard.read_exact(&mut [0]).unwrap();
                    thread::sleep(SHORT / 64);
                }
                drop(session);
            });
            assert_eq!(watch(&lease, &ended, || {}, || 1), (false, false));
        });
        assert!(!lease.is_over());
        lease.silent.store(STEPS, Ordering::Release);
        lease.renew();
        assert!(lease.is_over());
    }

    #[test]
    fn the_end_of_the_input_is_no_word() {
        let lease = Lease::new(SHORT);
        lease.silent.store(STEPS - 1, Ordering::Release);
        let mut heard = Heard { input: io::empty(), lease: Arc::clone(&lease) };
        assert_eq!(heard.read(&mut [0]).unwrap(), 0);
        assert_eq!(lease.silent.load(Ordering::Acquire), STEPS - 1);
    }
}
