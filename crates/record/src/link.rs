//! A connection with one agent. One thread makes messages of what comes, another sends requests: so whatever an agent does,
//! or leaves, the controller waits for nothing but its own queue.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use xweave_system::clock::tsc;
use xweave_text as text;
use xweave_wire::{
    frame, limits,
    message::{FromAgent, Request},
};

use crate::{
    budget::{Budget, Credit},
    transport::{End, Stream},
};

/// Bytes of a line, and lines, that are told of what a child says on its standard error.
const SAID_LINE: usize = 1024;
const SAID_LINES: usize = 100;

/// How long a controller may be silent towards an agent: several words are lost before a lease is over.
const BEAT: Duration = Duration::from_secs(5);

/// How long what an agent has sent may take to be read when nothing can be sent to it any more.
const REST: Duration = Duration::from_secs(5);

/// What came from a domain.
pub(crate) enum Incoming {
    /// An agent that speaks this protocol is at the other end.
    Hello,
    /// A message, checked; this machine's TSC when it had been read; and what it takes of the domain's budget until
    /// [`Link::taken`].
    Message { message: Box<FromAgent>, received_tsc: u64, bytes: usize },
    /// A line that the transport's command said on its standard error, fit to be shown.
    Said(String),
    /// The connection is over: why.
    Gone(String),
}

/// A connection.
pub(crate) struct Link {
    requests: Option<Sender<Request>>,
    shared: Arc<Shared>,
    end: End,
}

/// What the connection's threads and the controller share.
struct Shared {
    /// The longest frame that is taken now.
    limit: AtomicU32,
    credit: Credit,
    /// This machine's TSC before each request was sent that has not been answered.
    sent: Mutex<VecDeque<u64>>,
}

impl Shared {
    fn sent(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Begins to speak. What comes is sent to `incoming`, marked with the domain's index.
    pub(crate) fn open(
        stream: Stream,
        budget: &Budget,
        index: usize,
        incoming: &Sender<(usize, Incoming)>,
    ) -> Self {
        let Stream { input, output, said, end } = stream;
        let shared = Arc::new(Shared {
            limit: AtomicU32::new(limits::FRAME),
            credit: Credit::new(budget),
            sent: Mutex::default(),
        });
        let (requests, to_send) = mpsc::channel();
        let (reader, writer) = (Arc::clone(&shared), Arc::clone(&shared));
        let (of_reader, of_writer) = (incoming.clone(), incoming.clone());
        let (reads, read_all) = mpsc::channel::<()>();
        // That nobody listens any more ends each of them.
        thread::spawn(move || {
            let reason = read(input, &reader, |what| of_reader.send((index, what)).is_ok());
            let _ = of_reader.send((index, Incoming::Gone(reason)));
            drop(reads);
        });
        thread::spawn(move || {
            if let Err(error) = write(output, &to_send, &writer) {
                // An agent that has gone may have left much to read, which is lost when the connection is said to be over.
                let _ = read_all.recv_timeout(REST);
                let _ = of_writer.send((index, Incoming::Gone(error.to_string())));
            }
        });
        if let Some(said) = said {
            let incoming = incoming.clone();
            thread::spawn(move || tell(said, |line| incoming.send((index, Incoming::Said(line))).is_ok()));
        }
        Self { requests: Some(requests), shared, end }
    }

    /// Sends a request, some time soon.
    pub(crate) fn send(&self, request: Request) {
        // A writer that has gone has said why.
        let _ = self.requests.as_ref().map(|requests| requests.send(request));
    }

    /// The longest frame that is taken from now on.
    pub(crate) fn limit(&self, bytes: u32) {
        self.shared.limit.store(bytes, Ordering::Relaxed);
    }

    /// A message has been dealt with, and so much of the domain's budget is free again.
    pub(crate) fn taken(&self, bytes: usize) {
        self.shared.credit.give(bytes);
    }

    /// This machine's TSC before the oldest request was sent that has not been answered: it has been now.
    pub(crate) fn sent_tsc(&self) -> Option<u64> {
        self.shared.sent().pop_front()
    }

    /// Says good-bye: an agent whose input ends takes its probes away and goes.
    pub(crate) fn close(&mut self) {
        self.requests = None;
    }

    /// Whether the other end has gone after that.
    pub(crate) fn is_over(&mut self) -> bool {
        self.end.is_over()
    }

    /// Asks a child at the other end to break off what it does.
    pub(crate) fn hurry(&mut self) {
        self.end.hurry();
    }

    /// Ends the connection, and leaves it to the other end to go.
    pub(crate) fn let_go(&mut self) {
        self.requests = None;
        self.shared.credit.close();
        self.end.let_go();
    }

    /// Ends the connection whatever the other end does.
    pub(crate) fn cut(&mut self) {
        self.requests = None;
        self.shared.credit.close();
        self.end.cut();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Reads until that is over; gives why.
fn read(input: impl Read, shared: &Shared, tell: impl Fn(Incoming) -> bool) -> String {
    let mut input = Counted { input: BufReader::with_capacity(1 << 16, input), bytes: 0 };
    if let Err(error) = frame::read_preamble(&mut input) {
        return error.to_string();
    }
    if !tell(Incoming::Hello) {
        return String::new();
    }
    loop {
        input.bytes = 0;
        let limit = || shared.limit.load(Ordering::Relaxed);
        let message = match frame::read_from_agent(&mut input, limit) {
            Ok(message) => Box::new(message),
            Err(error) => return error.to_string(),
        };
        let (received_tsc, bytes) = (tsc(), input.bytes.max(MESSAGE));
        let closed = shared.credit.take(bytes).is_err();
        if closed || !tell(Incoming::Message { message, received_tsc, bytes }) {
            return "it was cut off".to_owned();
        }
    }
}

/// Bytes that the shortest message takes of the budget: in the queue it is no shorter.
const MESSAGE: usize = 256;

/// Counts what is read.
struct Counted<R> {
    input: R,
    bytes: usize,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer).inspect(|n| self.bytes += n)
    }
}

/// Sends requests until there will be no more; where there is none for a while, that this end is there. It does not
/// matter what the controller is busy with: compiling or indexing may take longer than an agent's lease.
fn write(mut output: impl Write, requests: &Receiver<Request>, shared: &Shared) -> Result<(), frame::Error> {
    frame::write_preamble(&mut output)?;
    loop {
        let request = match requests.recv_timeout(BEAT) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) => Request::Alive,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if !matches!(request, Request::Alive) {
            shared.sent().push_back(tsc());
        }
        frame::write_message(&mut output, &request)?;
    }
}

/// Tells what is said line by line, as long as there is little of it; reads the rest, so that whoever says it goes on.
fn tell(said: impl Read, tell: impl Fn(String) -> bool) {
    let mut said = BufReader::new(said);
    for nth in 0.. {
        let mut line = Vec::new();
        let mut rest = true;
        while rest {
            let Ok(bytes) = said.fill_buf() else { return };
            if bytes.is_empty() {
                rest = false;
                if line.is_empty() {
                    return;
                }
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = &bytes[..end.unwrap_or(bytes.len())];
            let room = SAID_LINE.saturating_sub(line.len());
            line.extend_from_slice(&taken[..taken.len().min(room)]);
            let consumed = end.map_or(bytes.len(), |end| end + 1);
            rest = end.is_none();
            said.consume(consumed);
        }
        let told = match nth {
            0..SAID_LINES => {
                tell(text::printable_bytes(line.strip_suffix(b"\r").unwrap_or(&line), SAID_LINE))
            }
            SAID_LINES => tell("… it says more than is shown".to_owned()),
            _ => true,
        };
        if !told {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, net::Shutdown, os::unix::net::UnixStream};

    use xweave_wire::message::Event;

    use super::*;

    /// How long anything may take on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_an_agent_has_sent_is_read_when_it_has_gone() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (sender, incoming) = mpsc::channel();
        // Room for one message at a time: the others are not read when the agent goes.
        let budget = Budget { queued: 1, rate: None, ..Budget::default() };
        let link = Link::open(Stream::of_socket(ours.into()).unwrap(), &budget, 0, &sender);
        frame::write_preamble(&mut theirs).unwrap();
        for done in 0..5 {
            let message = FromAgent::Event(Event::Weaving { done, total: 5 });
            frame::write_message(&mut theirs, &message).unwrap();
        }
        // What it had not read would make its end an error.
        frame::read_preamble(&mut theirs).unwrap();
        drop(theirs);
        // So that sending fails.
        link.send(Request::Alive);
        let mut came = Vec::new();
        let why = loop {
            match incoming.recv_timeout(PATIENCE).unwrap().1 {
                Incoming::Message { message, bytes, .. } => {
                    let FromAgent::Event(Event::Weaving { done, .. }) = *message else {
                        panic!("{message:?}")
                    };
                    came.push(done);
                    // The controller is busy.
                    thread::sleep(Duration::from_millis(50));
                    link.taken(bytes);
                }
                Incoming::Gone(why) => break why,
                Incoming::Hello | Incoming::Said(_) => {}
            }
        };
        assert_eq!(
            (came.as_slice(), why.as_str()),
            (&[0, 1, 2, 3, 4][..], "the other end closed the connection")
        );
    }

    #[test]
    fn an_agent_that_reads_nothing_more_is_gone_though_it_does_not_hang_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (sender, incoming) = mpsc::channel();
        let link = Link::open(Stream::of_socket(ours.into()).unwrap(), &Budget::default(), 0, &sender);
        frame::write_preamble(&mut theirs).unwrap();
        theirs.shutdown(Shutdown::Read).unwrap();
        link.send(Request::DomainInfo);
        let why = incoming.iter().find_map(|(_, what)| match what {
            Incoming::Gone(why) => Some(why),
            _ => None,
        });
        assert!(why.as_deref().is_some_and(|why| why.contains("Broken pipe")), "{why:?}");
    }

    #[test]
    fn what_a_command_says_is_told_in_lines_without_escapes_and_not_for_ever() {
        let lines = RefCell::new(Vec::new());
        let take = |line| {
            lines.borrow_mut().push(line);
            true
        };
        let long = "x".repeat(5000);
        tell(format!("Permission denied\r\n\u{1b}]0;root\u{7}\n{long}\nno end").as_bytes(), take);
        let told = lines.take();
        assert_eq!(told[..2], ["Permission denied", "\\u{1b}]0;root\\u{7}"]);
        assert_eq!((told[2].len(), told[3].as_str(), told.len()), (SAID_LINE, "no end", 4));
        tell("y\n".repeat(100_000).as_bytes(), take);
        assert_eq!(lines.take().len(), SAID_LINES + 1);
    }
}
