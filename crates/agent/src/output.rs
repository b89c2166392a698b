//! What an agent sends, without ever being at its reader's mercy.
//!
//! A controller that is stopped, or does not read, leaves pipes and sockets full. No write blocks then: whoever sends
//! waits by `poll`, until there is room or the output is closed, and how far weaving has come is dropped rather than
//! waited for. `O_NONBLOCK` would be simpler, but belongs to the open file, which standard output shares with other
//! processes.

use std::{
    io::{self, BufWriter, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
};

use xweave_wire::{
    frame::{self, Error},
    message::FromAgent,
};

/// How soon whoever waits for room sees that the output was closed, in milliseconds.
const LOOK_EVERY: i32 = 100;

/// A pipe that is ready takes so much without blocking (`PIPE_BUF`, man 7 pipe).
const PIPE_PART: usize = libc::PIPE_BUF;

/// Several threads send, a message at a time.
pub(crate) struct Output {
    stream: Mutex<Stream>,
    closed: AtomicBool,
}

impl Output {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { stream: Mutex::new(Stream { fd, rest: Vec::new() }), closed: AtomicBool::new(false) }
    }

    /// Says which protocol this is.
    pub(crate) fn preamble(&self) -> Result<(), Error> {
        frame::write_preamble(&mut self.turn().writer())
    }

    /// Sends, as soon as there is room.
    ///
    /// # Errors
    /// When nobody can read it any more, or the output was closed.
    pub(crate) fn send(&self, message: &FromAgent) -> Result<(), Error> {
        self.turn().send(message)
    }

    /// Sends if that can be done at once: what is not worth waiting for.
    pub(crate) fn offer(&self, message: &FromAgent) {
        let mut stream = match self.stream.try_lock() {
            Ok(stream) => stream,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let mut bytes = Vec::new();
        if stream.rest.is_empty() && frame::write_message(&mut bytes, message).is_ok() {
            // What fails now fails again for whoever sends next, who tells it.
            let sent = stream.write_now(&bytes).unwrap_or(0);
            // The beginning of a message has to be followed by its end.
            if sent > 0 {
                stream.rest = bytes.split_off(sent);
            }
        }
    }

    /// Nobody else sends until it is dropped.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        Turn { stream, closed: &self.closed }
    }

    /// From now on nothing is sent; whoever waits for room gives up.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// An output that is one's own for a while.
pub(crate) struct Turn<'o> {
    stream: MutexGuard<'o, Stream>,
    closed: &'o AtomicBool,
}

impl Turn<'_> {
    /// See [`Output::send`].
    pub(crate) fn send(&mut self, message: &FromAgent) -> Result<(), Error> {
        frame::write_message(&mut self.writer(), message)
    }

    /// A small message leaves in one piece, a large one is not copied.
    fn writer(&mut self) -> BufWriter<&mut Self> {
        BufWriter::with_capacity(PIPE_PART, self)
    }

    fn wait_for_room(&self) -> io::Result<()> {
        while !is_ready(self.stream.fd.as_fd(), LOOK_EVERY)? {
            self.check_open()?;
        }
        Ok(())
    }

    fn check_open(&self) -> io::Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the output was closed"));
        }
        Ok(())
    }
}

impl Write for Turn<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.check_open()?;
            match self.stream.write_now(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_for_room()?,
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Stream {
    fd: OwnedFd,
    /// Of a message that was begun, what had no room.
    rest: Vec<u8>,
}

impl Stream {
    /// Writes what there is room for, after what is left of earlier messages.
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while !self.rest.is_empty() {
            let written = write_some(self.fd.as_fd(), &self.rest)?;
            self.rest.drain(..written);
        }
        write_some(self.fd.as_fd(), bytes)
    }
}

/// Writes as much as there is room for; [`io::ErrorKind::WouldBlock`] if there is none.
fn write_some(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the descriptor is open, and the bytes belong to the caller.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if let Ok(sent) = usize::try_from(sent) {
        return Ok(sent);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::ENOTSOCK) {
        return Err(error);
    }
    if !is_ready(fd, 0)? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let part = &bytes[..bytes.len().min(PIPE_PART)];
    // SAFETY: as above.
    let written = unsafe { libc::write(fd.as_raw_fd(), part.as_ptr().cast(), part.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Whether something can be written, or writing would fail; waits so many milliseconds for it.
fn is_ready(fd: BorrowedFd<'_>, wait: i32) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, which lives in this frame.
    match unsafe { libc::poll(&raw mut poll, 1, wait) } {
        0 => Ok(false),
        1 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

/// A line to standard error, for people; left out where it would have to be waited for.
pub(crate) fn tell(line: &str) {
    let text = format!("xweave agent: {line}\n");
    let part = &text.as_bytes()[..text.len().min(PIPE_PART)];
    // Whoever closed it does not want to hear.
    let _ = write_some(io::stderr().as_fd(), part);
}

#[cfg(test)]
mod tests {
    use std::{
        io::{PipeReader, Read},
        os::unix::net::UnixStream,
        sync::{Arc, mpsc},
        thread,
        time::Duration,
    };

    use xweave_wire::message::{Event, Reply};

    use super::*;

    fn large() -> FromAgent {
        FromAgent::Reply(Reply::Btf((0..=255).cycle().take(8 << 20).collect()))
    }

    fn progress(done: u32) -> FromAgent {
        FromAgent::Event(Event::Weaving { done, total: 1 << 20 })
    }

    /// Sends in another thread; its end is told.
    fn sending(output: &Arc<Output>) -> mpsc::Receiver<Result<(), Error>> {
        let (sender, sent) = mpsc::channel();
        let output = Arc::clone(output);
        thread::spawn(move || sender.send(output.send(&large())));
        sent
    }

    /// Of a pipe and of a socket: both kinds of output that an agent has.
    fn both(mut test: impl FnMut(Arc<Output>, Box<dyn Read + Send>)) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        test(Arc::new(Output::new(theirs.into())), Box::new(ours));
        let (reader, writer): (PipeReader, _) = io::pipe().unwrap();
        test(Arc::new(Output::new(writer.into())), Box::new(reader));
    }

    #[test]
    fn a_large_message_arrives_whole() {
        both(|output, mut reader| {
            let sent = sending(&output);
            let received: FromAgent = frame::read_message(&mut reader).unwrap();
            let (FromAgent::Reply(Reply::Btf(received)), FromAgent::Reply(Reply::Btf(expected))) =
                (received, large())
            else {
                panic!("another message arrived")
            };
            assert!(received == expected);
            sent.recv().unwrap().unwrap();
        });
    }

    #[test]
    fn nobody_waits_for_a_reader_that_never_reads_once_the_output_is_closed() {
        both(|output, reader| {
            let sent = sending(&output);
            assert!(sent.recv_timeout(Duration::from_millis(300)).is_err(), "there was no room for it");
            output.close();
            assert!(sent.recv_timeout(Duration::from_secs(30)).unwrap().is_err());
            assert!(output.send(&progress(1)).is_err());
            drop(reader);
        });
    }

    #[test]
    fn progress_is_dropped_rather_than_waited_for_and_never_cut() {
        both(|output, mut reader| {
            // Far more than any buffer takes; this returns.
            (0..100_000).for_each(|done| output.offer(&progress(done)));
            let sender = {
                let output = Arc::clone(&output);
                thread::spawn(move || output.send(&FromAgent::Reply(Reply::Done)))
            };
            let mut told = Vec::new();
            loop {
                match frame::read_message(&mut reader).unwrap() {
                    FromAgent::Event(Event::Weaving { done, .. }) => told.push(done),
                    FromAgent::Reply(Reply::Done) => break,
                    other => panic!("{other:?}"),
                }
            }
            sender.join().unwrap().unwrap();
            assert!(told.len() > 10 && told.len() < 100_000, "{}", told.len());
            assert!(told.iter().copied().eq(0..u32::try_from(told.len()).unwrap()));
        });
    }

    #[test]
    fn progress_does_not_wait_for_whoever_is_sending() {
        both(|output, reader| {
            let turn = output.turn();
            output.offer(&progress(1));
            drop((turn, reader));
        });
    }
}
