//! A connection with one agent: requests and their answers, and the events that come in between.

use std::{
    io::{BufReader, Write},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use xweave_agent::tsc;
use xweave_wire::{
    frame,
    message::{Event, FromAgent, Reply, Request, Woven},
    plan::Plan,
};

use crate::{
    Error,
    domain::DomainSpec,
    interrupt::interrupted,
    transport::{End, Stream},
};

/// How long an agent may take to say hello.
const HELLO: Duration = Duration::from_secs(20);

/// How long an agent may take to answer, or to tell how far it has come. Loading under emulation takes seconds.
const ANSWER: Duration = Duration::from_secs(120);

/// How soon an interruption is seen.
const SOON: Duration = Duration::from_millis(50);

/// What happened in a domain.
pub(crate) enum Happening {
    /// The agent sent an event.
    Event(Event),
    /// The connection is over: why.
    Gone(String),
}

/// A connection. Dropping it ends the agent's session, and so takes its probes away.
pub(crate) struct Link {
    pub(crate) spec: DomainSpec,
    output: Option<Box<dyn Write + Send>>,
    replies: Receiver<Heard>,
    end: End,
    /// Why the connection is over, once it is.
    pub(crate) gone: Option<String>,
}

/// What comes in the order of the requests.
enum Heard {
    Answer(Answer),
    /// How far an agent has come with weaving.
    Weaving {
        done: u32,
        total: u32,
    },
}

struct Answer {
    reply: Reply,
    /// This machine's TSC when the answer had been read.
    received: u64,
}

impl Link {
    /// Connects, and makes sure that an agent of this protocol is at the other end.
    ///
    /// Events will be sent to `events`, marked with the domain's index.
    pub(crate) fn open(
        spec: &DomainSpec,
        index: usize,
        events: Sender<(usize, Happening)>,
    ) -> Result<Self, Error> {
        let unreachable = |reason: String| Error::Unreachable {
            domain: spec.name.clone(),
            transport: spec.transport.to_string(),
            reason,
        };
        let Stream { input, mut output, mut end } =
            spec.transport.open().map_err(|error| unreachable(error.to_string()))?;
        let (hello, greeted) = mpsc::channel();
        let (answer, replies) = mpsc::channel();
        thread::spawn(move || {
            let mut input = BufReader::with_capacity(1 << 16, input);
            let greeting = frame::read_preamble(&mut input);
            let well = greeting.is_ok();
            if hello.send(greeting).is_err() || !well {
                return;
            }
            let reason = loop {
                match frame::read_from_agent(&mut input, || frame::MAX_FRAME) {
                    Ok(FromAgent::Reply(reply)) => {
                        if answer.send(Heard::Answer(Answer { reply, received: tsc() })).is_err() {
                            return;
                        }
                    }
                    Ok(FromAgent::Event(Event::Weaving { done, total })) => {
                        if answer.send(Heard::Weaving { done, total }).is_err() {
                            return;
                        }
                    }
                    Ok(FromAgent::Event(event)) => {
                        if events.send((index, Happening::Event(event))).is_err() {
                            return;
                        }
                    }
                    Err(error) => break error.to_string(),
                }
            };
            // Whoever waits for an answer learns it by the closed channel; the recording by this.
            let _ = events.send((index, Happening::Gone(reason)));
        });
        let greeted = frame::write_preamble(&mut output).and_then(|()| {
            greeted.recv_timeout(HELLO).unwrap_or_else(|_| {
                Err(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    format!("no answer within {} seconds", HELLO.as_secs()),
                )
                .into())
            })
        });
        if let Err(error) = greeted {
            end.cut();
            return Err(unreachable(error.to_string()));
        }
        Ok(Self { spec: spec.clone(), output: Some(output), replies, end, gone: None })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn call(&mut self, request: &Request) -> Result<Reply, Error> {
        self.timed_call(request).map(|(_, reply, _)| reply)
    }

    /// Asks, and waits for the answer: with this machine's TSC before and after.
    pub(crate) fn timed_call(&mut self, request: &Request) -> Result<(u64, Reply, u64), Error> {
        let sent = tsc();
        self.send(request)?;
        let answer = self.answer()?;
        match answer.reply {
            Reply::Failed(failure) => {
                Err(Error::Agent { domain: self.spec.name.clone(), message: failure.message })
            }
            reply => Ok((sent, reply, answer.received)),
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), Error> {
        let Some(output) = &mut self.output else {
            return Err(self.lost("it was closed".to_owned()));
        };
        frame::write_message(output, request).map_err(|error| self.lost(error.to_string()))
    }

    /// Has a plan woven: tells how far that has come, and gives up when interrupted.
    pub(crate) fn weave(&mut self, plan: Plan, tell: impl Fn(u32, u32)) -> Result<Woven, Error> {
        self.send(&Request::Weave(Box::new(plan)))?;
        let mut heard = Instant::now();
        loop {
            match self.replies.recv_timeout(SOON) {
                Ok(Heard::Weaving { done, total }) => {
                    heard = Instant::now();
                    tell(done, total);
                }
                Ok(Heard::Answer(Answer { reply: Reply::Woven(woven), .. })) => return Ok(woven),
                Ok(Heard::Answer(Answer { reply: Reply::Failed(failure), .. })) => {
                    return Err(Error::Agent { domain: self.spec.name.clone(), message: failure.message });
                }
                Ok(Heard::Answer(_)) => return Err(self.unexpected()),
                Err(RecvTimeoutError::Timeout) if interrupted() => return Err(Error::Interrupted),
                Err(RecvTimeoutError::Timeout) if heard.elapsed() < ANSWER => {}
                Err(error) => return Err(self.silent(error)),
            }
        }
    }

    fn answer(&mut self) -> Result<Answer, Error> {
        loop {
            match self.replies.recv_timeout(ANSWER) {
                Ok(Heard::Answer(answer)) => return Ok(answer),
                Ok(Heard::Weaving { .. }) => {}
                Err(error) => return Err(self.silent(error)),
            }
        }
    }

    fn silent(&mut self, error: RecvTimeoutError) -> Error {
        match error {
            RecvTimeoutError::Timeout => self.lost(format!("no answer within {} seconds", ANSWER.as_secs())),
            RecvTimeoutError::Disconnected => self.lost("the connection was closed".to_owned()),
        }
    }

    fn lost(&mut self, reason: String) -> Error {
        self.gone.get_or_insert_with(|| reason.clone());
        Error::Lost { domain: self.spec.name.clone(), reason }
    }

    /// An answer of another kind than was asked for.
    pub(crate) fn unexpected(&self) -> Error {
        Error::Agent {
            domain: self.spec.name.clone(),
            message: "the agent's answer does not fit the question".to_owned(),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.output = None;
        self.end.farewell();
    }
}
