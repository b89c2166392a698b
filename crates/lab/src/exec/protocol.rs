//! The exec channel's frames.
//!
//! A frame is one byte for its kind, four for the payload's length (little endian), and the payload.
//! The client opens with [`Frame::Hello`] and [`Frame::Request`]. A command's input is credited: the
//! client may have [`CREDIT`] bytes under way that the command has not taken yet, so that the server
//! always reads on and notices signals and a client that is gone.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::{self, Read, Write};

/// The port of the exec server, by TCP in the host and by vsock in guests.
pub const PORT: u32 = 5990;
/// Bytes of input under way at most.
pub const CREDIT: usize = 1 << 20;
/// The largest payload; a longer one is no message of ours.
const LARGEST: usize = 1 << 20;

/// Who asks, and for which domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The world's secret; empty between host and guest, where vsock tells who the peer is.
    pub token: String,
    /// The domain that the request is for.
    pub domain: String,
}

/// A command to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// Variables besides PATH and HOME.
    pub environment: Vec<(String, String)>,
    /// The folder to run in; by default root's home.
    pub folder: Option<String>,
}

impl Command {
    /// A command from its words.
    pub fn new<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self { arguments: arguments.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// What the client wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// An answer with [`Alive`].
    Ping,
    /// Run a command.
    Run(Command),
    /// In the host: reset this guest, or start it if its machine has ended.
    Reset {
        /// The guest, as `vm1`.
        guest: String,
    },
}

/// The answer to a ping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// Differs after each boot of the domain.
    pub boot_id: String,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Status {
    /// As a shell shows it: the code, or 128 and the signal.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// Whether the code is 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

/// One message of the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Client: the first.
    Hello(Hello),
    /// Client: the second.
    Request(Request),
    /// Client: input for the command.
    Stdin(Vec<u8>),
    /// Client: the input ends.
    StdinEnd,
    /// Client: send the command's process group this signal.
    Signal(i32),
    /// Client: nothing; over a peer that is gone it brings an error.
    KeepAlive,
    /// Server: the answer to a ping or a reset.
    Alive(Alive),
    /// Server: the command took so many bytes of input.
    Taken(u32),
    /// Server: output of the command.
    Stdout(Vec<u8>),
    /// Server: error output of the command.
    Stderr(Vec<u8>),
    /// Server: the last: how the command ended.
    Exit(Status),
    /// Server: the last: why the request failed.
    Failed(String),
}

fn json<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

fn invalid(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("invalid frame on the exec channel: {what}"))
}

impl Frame {
    /// Writes the frame with one call, so that frames of several threads under one lock stay whole.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (kind, payload): (u8, Cow<'_, [u8]>) = match self {
            Self::Hello(hello) => (1, json(hello)?.into()),
            Self::Request(request) => (2, json(request)?.into()),
            Self::Stdin(data) => (3, data.into()),
            Self::StdinEnd => (4, Vec::new().into()),
            Self::Signal(signal) => (5, signal.to_le_bytes().to_vec().into()),
            Self::KeepAlive => (6, Vec::new().into()),
            Self::Alive(alive) => (16, json(alive)?.into()),
            Self::Taken(bytes) => (17, bytes.to_le_bytes().to_vec().into()),
            Self::Stdout(data) => (18, data.into()),
            Self::Stderr(data) => (19, data.into()),
            Self::Exit(status) => (20, json(status)?.into()),
            Self::Failed(why) => (21, why.as_bytes().into()),
        };
        let length = u32::try_from(payload.len()).map_err(invalid)?;
        let mut bytes = Vec::with_capacity(5 + payload.len());
        bytes.push(kind);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&payload);
        out.write_all(&bytes)?;
        out.flush()
    }

    /// Reads a frame; `None` if the peer closed the channel between two frames.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0_u8; 5];
        let first = loop {
            match from.read(&mut head) {
                Ok(0) => return Ok(None),
                Ok(n) => break n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        };
        from.read_exact(&mut head[first..])?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(u32::from_le_bytes(length)).map_err(invalid)?;
        if length > LARGEST {
            return Err(invalid(format_args!("{length} bytes")));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        let four = || <[u8; 4]>::try_from(payload.as_slice()).map_err(invalid);
        Ok(Some(match kind {
            1 => Self::Hello(serde_json::from_slice(&payload).map_err(invalid)?),
            2 => Self::Request(serde_json::from_slice(&payload).map_err(invalid)?),
            3 => Self::Stdin(payload),
            4 => Self::StdinEnd,
            5 => Self::Signal(i32::from_le_bytes(four()?)),
            6 => Self::KeepAlive,
            16 => Self::Alive(serde_json::from_slice(&payload).map_err(invalid)?),
            17 => Self::Taken(u32::from_le_bytes(four()?)),
            18 => Self::Stdout(payload),
            19 => Self::Stderr(payload),
            20 => Self::Exit(serde_json::from_slice(&payload).map_err(invalid)?),
            21 => Self::Failed(String::from_utf8_lossy(&payload).into_owned()),
            other => return Err(invalid(format_args!("kind {other}"))),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_channel() {
        let frames = [
            Frame::Hello(Hello { token: "t".into(), domain: "vm1".into() }),
            Frame::Request(Request::Ping),
            Frame::Request(Request::Reset { guest: "vm2".into() }),
            Frame::Request(Request::Run(Command {
                arguments: vec!["echo".into(), "ü \n".into()],
                environment: vec![("A".into(), "B".into())],
                folder: Some("/tmp".into()),
            })),
            Frame::Stdin((0..=255).collect()),
            Frame::StdinEnd,
            Frame::Signal(15),
            Frame::KeepAlive,
            Frame::Alive(Alive { boot_id: "b".into() }),
            Frame::Taken(65536),
            Frame::Stdout(vec![0; 65536]),
            Frame::Stderr(Vec::new()),
            Frame::Exit(Status::Code(3)),
            Frame::Exit(Status::Signal(9)),
            Frame::Failed("no".into()),
        ];
        let mut bytes = Vec::new();
        for frame in &frames {
            frame.write(&mut bytes).unwrap();
        }
        let mut reader = bytes.as_slice();
        for frame in &frames {
            assert_eq!(Frame::read(&mut reader).unwrap().as_ref(), Some(frame));
        }
        assert_eq!(Frame::read(&mut reader).unwrap(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Frame::read(&mut &b"GET / HTTP/1.1\r\n"[..]).is_err());
        assert!(Frame::read(&mut &[3, 255, 255, 255, 255][..]).is_err());
        assert!(Frame::read(&mut &[99, 0, 0, 0, 0][..]).is_err());
        assert!(Frame::read(&mut &[3, 4, 0, 0, 0, 1][..]).is_err(), "a frame cut short");
    }

    #[test]
    fn status_as_a_shell_shows_it() {
        assert_eq!(Status::Code(7).code(), 7);
        assert_eq!(Status::Signal(9).code(), 137);
    }
}
