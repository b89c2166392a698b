//! The near end of the exec channel.

use super::protocol::{Alive, CREDIT, Command, Frame, Hello, Request, Status};
use crate::error::{Error, Result};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often an idle channel is used: over a domain that was reset this brings an error.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// How long a command may take to end after a signal was passed on to it.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How to reach a domain.
#[derive(Debug, Clone)]
pub struct Address {
    /// The emulated host, as it is seen from here; inside of it, a guest.
    pub at: SocketAddr,
    /// The secret that it knows.
    pub token: String,
    /// The domain.
    pub domain: String,
}

impl Address {
    fn refused(&self, why: String) -> Error {
        Error::Exec { domain: self.domain.clone(), why }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Channel { domain: self.domain.clone(), source }
    }

    fn open(&self, request: &Request, limit: Option<Duration>) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.at)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(limit)?;
        Frame::Hello(Hello { token: self.token.clone(), domain: self.domain.clone() }).write(&mut stream)?;
        Frame::Request(request.clone()).write(&mut stream)?;
        Ok(stream)
    }

    fn ask(&self, request: &Request, limit: Duration) -> Result<Alive> {
        let answer = self.open(request, Some(limit)).and_then(|mut stream| Frame::read(&mut stream));
        match answer {
            Ok(Some(Frame::Alive(alive))) => Ok(alive),
            Ok(Some(Frame::Failed(why))) => Err(self.refused(why)),
            Ok(Some(other)) => Err(self.refused(format!("it answered {other:?}"))),
            Ok(None) => Err(self.refused("it closed the channel".into())),
            Err(e) => Err(self.broken(e)),
        }
    }

    /// Whether the domain answers within `limit`, and which boot of it.
    pub fn ping(&self, limit: Duration) -> Result<Alive> {
        self.ask(&Request::Ping, limit)
    }

    /// Asks the host to reset a guest.
    pub fn reset(&self, guest: &str) -> Result<()> {
        self.ask(&Request::Reset { guest: guest.to_owned() }, Duration::from_secs(60)).map(|_| ())
    }

    /// Starts a command in the domain.
    pub fn run(&self, command: &Command) -> Result<ExecChild> {
        let stream = self.open(&Request::Run(command.clone()), None).map_err(|e| self.broken(e))?;
        let mut reader = stream.try_clone().map_err(|e| self.broken(e))?;
        let writer = stream.try_clone().map_err(|e| self.broken(e))?;
        let shared = Arc::new(Shared {
            writer: Mutex::new(writer),
            credit: Mutex::new(Some(CREDIT)),
            more: Condvar::new(),
        });
        // Bounded: who does not take the output holds the command up, as with a pipe.
        let (sender, events) = mpsc::sync_channel(16);
        let credit = Arc::clone(&shared);
        std::thread::spawn(move || {
            loop {
                let event = match Frame::read(&mut reader) {
                    Ok(Some(Frame::Taken(bytes))) => {
                        credit.grant(usize::try_from(bytes).unwrap_or(0));
                        continue;
                    }
                    Ok(Some(Frame::Stdout(data))) => Event::Stdout(data),
                    Ok(Some(Frame::Stderr(data))) => Event::Stderr(data),
                    Ok(Some(Frame::Exit(status))) => Event::Exit(status),
                    Ok(Some(Frame::Failed(why))) => Event::Broken(why),
                    Ok(Some(other)) => Event::Broken(format!("unexpected {other:?}")),
                    Ok(None) => Event::Broken(
                        "it ended without the command's exit status: was the domain reset?".into(),
                    ),
                    Err(e) => Event::Broken(e.to_string()),
                };
                let last = matches!(event, Event::Exit(_) | Event::Broken(_));
                if sender.send(event).is_err() || last {
                    break;
                }
            }
            credit.close();
        });
        Ok(ExecChild { domain: self.domain.clone(), shared, events, stream, used: Instant::now() })
    }
}

struct Shared {
    writer: Mutex<TcpStream>,
    /// Bytes of input that may still be sent; `None` when the channel is closed.
    credit: Mutex<Option<usize>>,
    more: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn send(&self, frame: &Frame) -> io::Result<()> {
        frame.write(&mut *lock(&self.writer))
    }

    fn grant(&self, bytes: usize) {
        if let Some(credit) = &mut *lock(&self.credit) {
            *credit += bytes;
        }
        self.more.notify_all();
    }

    fn close(&self) {
        *lock(&self.credit) = None;
        self.more.notify_all();
    }

    /// Takes up to `wanted` bytes of credit, waiting for some.
    fn take(&self, wanted: usize) -> io::Result<usize> {
        let mut credit = self
            .more
            .wait_while(lock(&self.credit), |credit| *credit == Some(0))
            .unwrap_or_else(PoisonError::into_inner);
        let left = credit.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let taken = wanted.min(*left);
        *left -= taken;
        Ok(taken)
    }
}

/// Something that a running command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It wrote to its standard output.
    Stdout(Vec<u8>),
    /// It wrote to its standard error.
    Stderr(Vec<u8>),
    /// It ended. No event follows.
    Exit(Status),
    /// The channel broke, for this reason. No event follows.
    Broken(String),
}

/// The input of a running command. Dropping it ends the input.
pub struct ExecStdin {
    shared: Arc<Shared>,
}

impl Write for ExecStdin {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let size = self.shared.take(data.len().min(1 << 16))?;
        self.shared.send(&Frame::Stdin(data[..size].to_vec()))?;
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ExecStdin {
    fn drop(&mut self) {
        // The command may have ended already; then nobody waits for this.
        let _ = self.shared.send(&Frame::StdinEnd);
    }
}

/// What a command printed, and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: Status,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// A command that runs in a domain. Dropping it ends the command.
pub struct ExecChild {
    domain: String,
    shared: Arc<Shared>,
    events: Receiver<Event>,
    stream: TcpStream,
    used: Instant,
}

impl ExecChild {
    /// The command's input. Call it once; with nobody holding it, the input is at its end.
    pub fn stdin(&self) -> ExecStdin {
        ExecStdin { shared: Arc::clone(&self.shared) }
    }

    /// Sends a signal to the command's process group.
    pub fn signal(&self, signal: i32) -> Result<()> {
        self.shared.send(&Frame::Signal(signal)).map_err(|e| self.broken(e))
    }

    /// The next event, waited for as long as `limit`; `None` if nothing happened.
    pub fn next(&mut self, limit: Duration) -> Option<Event> {
        let until = Instant::now() + limit;
        loop {
            if self.used.elapsed() >= KEEP_ALIVE {
                self.used = Instant::now();
                // An error here also ends the reader, which tells why.
                let _ = self.shared.send(&Frame::KeepAlive);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left.min(KEEP_ALIVE)) {
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(Event::Broken("the channel is closed".into()));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Gives the command `input` and collects what it prints.
    pub fn output(mut self, input: &[u8]) -> Result<Output> {
        let mut stdin = self.stdin();
        let input = input.to_vec();
        std::thread::spawn(move || {
            // A command need not read its input.
            let _ = stdin.write_all(&input);
        });
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.next(Duration::from_secs(3600)) {
                Some(Event::Stdout(data)) => stdout.extend(data),
                Some(Event::Stderr(data)) => stderr.extend(data),
                Some(Event::Exit(status)) => return Ok(Output { status, stdout, stderr }),
                Some(Event::Broken(why)) => return Err(self.ended(why)),
                None => {}
            }
        }
    }

    /// Connects the command to these streams until it ends.
    ///
    /// `stdin` is read by a thread that may outlive this call: reading a terminal cannot be called
    /// off. Signals noted by [`xweave_interrupt`] are passed on to the command.
    pub fn forward(
        mut self,
        stdin: impl Read + Send + 'static,
        stdout: &mut impl Write,
        stderr: &mut impl Write,
    ) -> Result<Status> {
        let input = self.stdin();
        std::thread::spawn(move || {
            let (mut stdin, mut input) = (stdin, input);
            // A command need not read its input; and there is nobody to tell of an input that cannot be read.
            let _ = io::copy(&mut stdin, &mut input);
        });
        let mut signalled: Option<(i32, Instant)> = None;
        loop {
            if let Some(signal) = xweave_interrupt::take() {
                self.signal(signal)?;
                signalled = Some((signal, Instant::now()));
            }
            let event = self.next(Duration::from_millis(100));
            if event.is_none()
                && let Some((signal, since)) = signalled
                && since.elapsed() > TIMEOUT
            {
                return Ok(Status::Signal(signal));
            }
            let written = match event {
                Some(Event::Stdout(data)) => stdout.write_all(&data).and_then(|()| stdout.flush()),
                Some(Event::Stderr(data)) => stderr.write_all(&data).and_then(|()| stderr.flush()),
                Some(Event::Exit(status)) => return Ok(status),
                Some(Event::Broken(why)) => return Err(self.ended(why)),
                None => Ok(()),
            };
            match written {
                Ok(()) => {}
                // Our reader is gone, as in `… | head`: end as a program there would.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(Status::Signal(libc::SIGPIPE)),
                Err(e) => return Err(self.broken(e)),
            }
        }
    }

    fn ended(&self, why: String) -> Error {
        Error::Exec { domain: self.domain.clone(), why }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Channel { domain: self.domain.clone(), source }
    }
}

impl Drop for ExecChild {
    fn drop(&mut self) {
        // The server ends a command whose client is gone.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
