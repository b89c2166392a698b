//! A client of QMP: lines of JSON to a Unix socket, and back (docs/interop/qmp-spec.rst of QEMU).
//!
//! Whoever listens may be anything. So how long it may take is bounded, and how much it may say; JSON that is nested too
//! deeply is an error of the parser's.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
        socket_with,
    },
};
use serde_json::{Value, json};
use xweave_text::printable_bytes;

use super::QmpError;

/// Bytes that it may say in one line, and in all: of a hundred memory backends it tells twenty thousand, and its events are
/// of a few hundred each.
const LINE: usize = 256 << 10;
const ALL: usize = 4 << 20;

/// How soon Ctrl-C is noticed.
const NOTICED: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Bytes of its own words that are told.
const TOLD: usize = 200;

/// A conversation with QEMU.
pub(super) struct Client<'c> {
    socket: OwnedFd,
    path: String,
    ended: &'c dyn Fn() -> bool,
    /// What it has said, behind the last line that was read.
    said: Vec<u8>,
    /// Bytes that it may still say.
    left: usize,
    /// What the last question is called.
    asked: u64,
}

impl Client<'_> {
    /// Greets whoever listens there: that process, if it is to be a certain one.
    pub(super) fn connect<'c>(
        at: &Path,
        pid: Option<u32>,
        within: Duration,
        ended: &'c dyn Fn() -> bool,
    ) -> Result<Client<'c>, QmpError> {
        let path = printable_bytes(at.as_os_str().as_encoded_bytes(), TOLD);
        let failed = |error: Errno| QmpError::Connect { path: path.clone(), source: error.into() };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
        let address = SocketAddrUnix::new(at).map_err(failed)?;
        match connect(&socket, &address) {
            // Others wait before us.
            Err(Errno::AGAIN) => return Err(QmpError::Silent { path, seconds: 0 }),
            done => done.map_err(failed)?,
        }
        if let Some(pid) = pid {
            let by = listener(&socket).map_err(failed)?;
            if u32::try_from(by) != Ok(pid) {
                return Err(QmpError::Others { path, by, pid });
            }
        }
        let mut client = Client { socket, path, ended, said: Vec::new(), left: ALL, asked: 0 };
        if client.line(within)?["QMP"].is_object() {
            client.ask("qmp_capabilities", Value::Null, within)?;
            Ok(client)
        } else {
            Err(client.wrong("it does not begin as QMP does"))
        }
    }

    /// Asks for something, and waits for the answer; what it tells of its own accord in between is left out.
    pub(super) fn ask(
        &mut self,
        command: &'static str,
        arguments: Value,
        within: Duration,
    ) -> Result<Value, QmpError> {
        self.asked += 1;
        let mut question = json!({"execute": command, "id": self.asked});
        if !arguments.is_null() {
            question["arguments"] = arguments;
        }
        self.send(format!("{question}\n").as_bytes(), within)?;
        let deadline = Instant::now() + within;
        loop {
            let mut line = self.line(deadline.saturating_duration_since(Instant::now()))?;
            if line["event"].is_string() {
                continue;
            }
            if line["id"] != self.asked {
                return Err(self.wrong("it answers what it was not asked"));
            }
            return match (line["return"].take(), &line["error"]) {
                (_, Value::Object(error)) => {
                    let said = error.get("desc").and_then(Value::as_str).unwrap_or("it does not say why");
                    Err(QmpError::Refused { command, said: printable_bytes(said.as_bytes(), TOLD) })
                }
                (Value::Null, _) => Err(self.wrong("its answer is none")),
                (answer, _) => Ok(answer),
            };
        }
    }

    /// That what it says is wrong.
    pub(super) fn wrong(&self, why: &str) -> QmpError {
        QmpError::Wrong { path: self.path.clone(), why: why.to_owned() }
    }

    fn failed(&self, error: Errno) -> QmpError {
        self.wrong(&io::Error::from(error).to_string())
    }

    fn send(&self, mut bytes: &[u8], within: Duration) -> Result<(), QmpError> {
        let deadline = Instant::now() + within;
        while !bytes.is_empty() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline, within)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// The next line that it says: an object.
    fn line(&mut self, within: Duration) -> Result<Value, QmpError> {
        let deadline = Instant::now() + within;
        let mut looked_at = 0;
        let end = loop {
            if let Some(end) = self.said[looked_at..].iter().position(|byte| *byte == b'\n') {
                break looked_at + end;
            }
            looked_at = self.said.len();
            if looked_at >= LINE || self.left == 0 {
                return Err(self.wrong("it says more than it should"));
            }
            self.hear(deadline, within)?;
        };
        let line: Vec<u8> = self.said.drain(..=end).collect();
        let value = serde_json::from_slice(&line).ok().filter(Value::is_object);
        value.ok_or_else(|| self.wrong("what it says is no JSON object"))
    }

    /// Hears more of it.
    fn hear(&mut self, deadline: Instant, within: Duration) -> Result<(), QmpError> {
        let mut bytes = [0; 4096];
        let most = bytes.len().min(self.left);
        loop {
            match recv(&self.socket, &mut bytes[..most], RecvFlags::empty()) {
                Ok((0, _)) => return Err(self.wrong("it has hung up")),
                Ok((heard, _)) => {
                    self.said.extend_from_slice(&bytes[..heard]);
                    self.left -= heard;
                    // One that never stops is not listened to for ever.
                    return if Instant::now() < deadline {
                        Ok(())
                    } else {
                        self.wait(PollFlags::IN, deadline, within)
                    };
                }
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline, within)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Waits until it can go on, but not for longer than it may.
    fn wait(&self, what: PollFlags, deadline: Instant, within: Duration) -> Result<(), QmpError> {
        loop {
            if (self.ended)() {
                return Err(QmpError::Ended);
            }
            if Instant::now() >= deadline {
                return Err(QmpError::Silent { path: self.path.clone(), seconds: within.as_secs() });
            }
            match poll(&mut [PollFd::new(&self.socket, what)], Some(&NOTICED)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }
}

/// The process that listens at the other end.
fn listener(socket: &OwnedFd) -> Result<i32, Errno> {
    // rustix takes none for impossible, which is who is of another PID namespace.
    let mut of = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of_val(&of)).unwrap_or(0);
    // SAFETY: the kernel writes as many bytes as there are.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut of).cast(),
            &raw mut length,
        )
    };
    if done == 0 {
        Ok(of.pid)
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}
