//! Cutting the byte stream into messages.
//!
//! Layout, all integers little-endian:
//!
//! ```text
//! preamble   8 bytes   "XWEAVE" + u16 version
//! frame      u32 length, then that many bytes of one postcard-encoded message
//! ```

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

use xweave_text as text;

use crate::{
    VERSION, limits,
    limits::Violation,
    message::{FromAgent, Reply, Woven},
};

/// The most that one frame may carry.
pub const MAX_FRAME: u32 = limits::LARGE_FRAME;

const MAGIC: &[u8; 6] = b"XWEAVE";

/// What can go wrong between two ends of a connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other end went away, or the transport failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The other end closed the connection between two messages.
    #[error("the other end closed the connection")]
    Closed,
    /// What arrived is not this protocol: most often a login banner or an error of the transport's own command.
    #[error("the other end does not speak xweave's protocol; it said: {0:?}")]
    NotXweave(String),
    /// Both ends are xweave, of versions that do not understand each other.
    #[error(
        "the other end speaks protocol version {theirs}, this one {ours}: install the same xweave on both sides"
    )]
    Version {
        /// The version that this program speaks.
        ours: u16,
        /// The version that the other end announced.
        theirs: u16,
    },
    /// A frame is longer than what is taken now.
    #[error("a message of {length} bytes is longer than the {limit} that are taken here")]
    TooLong {
        /// Its length.
        length: u32,
        /// The most.
        limit: u32,
    },
    /// A message says what cannot be.
    #[error("the agent cannot be believed: {0}")]
    Violation(#[from] Violation),
    /// A frame's content is not a message.
    #[error("a message could not be decoded: {0}")]
    Decode(#[from] postcard::Error),
}

/// Opens a connection from this end: who we are and which version we speak.
pub fn write_preamble(out: &mut impl Write) -> Result<(), Error> {
    let mut bytes = [0u8; 8];
    bytes[..6].copy_from_slice(MAGIC);
    bytes[6..].copy_from_slice(&VERSION.to_le_bytes());
    out.write_all(&bytes)?;
    out.flush()?;
    Ok(())
}

/// Checks what the other end opened with.
pub fn read_preamble(input: &mut impl Read) -> Result<(), Error> {
    let mut bytes = [0u8; 8];
    let got = read_up_to(input, &mut bytes)?;
    if got == 0 {
        return Err(Error::Closed);
    }
    if got < bytes.len() || &bytes[..6] != MAGIC {
        // Whatever a shell or ssh said instead is the best explanation there is.
        let mut said = bytes[..got].to_vec();
        let mut more = [0u8; 240];
        if got == bytes.len() {
            let n = input.read(&mut more)?;
            said.extend_from_slice(&more[..n]);
        }
        let said = text::lines(&String::from_utf8_lossy(&said)).trim().to_owned();
        return Err(Error::NotXweave(said));
    }
    let theirs = u16::from_le_bytes([bytes[6], bytes[7]]);
    if theirs != VERSION {
        return Err(Error::Version { ours: VERSION, theirs });
    }
    Ok(())
}

/// Sends one message and flushes.
pub fn write_message<M: Serialize>(out: &mut impl Write, message: &M) -> Result<(), Error> {
    let body = postcard::to_stdvec(message)?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if length > MAX_FRAME {
        return Err(Error::TooLong { length, limit: MAX_FRAME });
    }
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&body)?;
    out.flush()?;
    Ok(())
}

/// Waits for one message. [`Error::Closed`] if the stream ended cleanly before it.
pub fn read_message<M: DeserializeOwned>(input: &mut impl Read) -> Result<M, Error> {
    read_frame(input, || MAX_FRAME)
}

/// Waits for one message of an agent, and checks it. `limit` is asked for when its length is known: how long a
/// message may be depends on what the agent was asked before it sent it.
pub fn read_from_agent(input: &mut impl Read, limit: impl FnOnce() -> u32) -> Result<FromAgent, Error> {
    let body = read_body(input, limit)?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if length > limits::FRAME {
        let limit = longest(&body);
        if length > limit {
            return Err(Error::TooLong { length, limit });
        }
    }
    Ok(postcard::from_bytes::<FromAgent>(&body)?.checked()?)
}

/// How long a message of an agent may be, by the kind that its first bytes say it has. In another kind than these, each byte
/// may become an empty text, of 24 bytes in memory: that is to be known before it is decoded.
fn longest(body: &[u8]) -> u32 {
    let is_as = |reply| {
        let sample = postcard::to_stdvec(&FromAgent::Reply(reply)).unwrap_or_default();
        sample.len() >= 2 && body.starts_with(&sample[..2])
    };
    if is_as(Reply::Btf(Vec::new())) || is_as(Reply::Code(Vec::new())) {
        limits::LARGE_FRAME
    } else if is_as(Reply::Woven(Woven::default())) {
        limits::WOVEN_FRAME
    } else {
        limits::FRAME
    }
}

fn read_frame<M: DeserializeOwned>(input: &mut impl Read, limit: impl FnOnce() -> u32) -> Result<M, Error> {
    Ok(postcard::from_bytes(&read_body(input, limit)?)?)
}

fn read_body(input: &mut impl Read, limit: impl FnOnce() -> u32) -> Result<Vec<u8>, Error> {
    let mut length = [0u8; 4];
    match read_up_to(input, &mut length)? {
        0 => return Err(Error::Closed),
        4 => {}
        _ => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
    let (length, limit) = (u32::from_le_bytes(length), limit().min(MAX_FRAME));
    if length > limit {
        return Err(Error::TooLong { length, limit });
    }
    // Grown as bytes arrive: a hostile length allocates nothing.
    let mut body = Vec::new();
    input.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() != length as usize {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(body)
}

/// Like `read_exact`, but tells how far it came when the stream ends.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Request;

    #[test]
    fn a_message_survives_the_stream() {
        let mut stream = Vec::new();
        write_preamble(&mut stream).unwrap();
        write_message(&mut stream, &Request::DomainInfo).unwrap();
        let mut input = stream.as_slice();
        read_preamble(&mut input).unwrap();
        assert!(matches!(read_message(&mut input).unwrap(), Request::DomainInfo));
        assert!(matches!(read_message::<Request>(&mut input), Err(Error::Closed)));
    }

    #[test]
    fn another_version_is_told_apart_from_another_program() {
        let mut other = b"XWEAVE\xff\x7f".as_slice();
        assert!(matches!(read_preamble(&mut other), Err(Error::Version { theirs: 0x7fff, .. })));
        let mut banner = b"Permission denied (publickey).\n".as_slice();
        let Err(Error::NotXweave(said)) = read_preamble(&mut banner) else {
            panic!("a banner was taken for the protocol")
        };
        assert_eq!(said, "Permission denied (publickey).");
    }

    #[test]
    fn cut_and_oversized_frames_are_errors() {
        let mut stream = Vec::new();
        write_message(&mut stream, &Request::DomainInfo).unwrap();
        stream.pop();
        assert!(matches!(read_message::<Request>(&mut stream.as_slice()), Err(Error::Io(_))));
        let huge = u32::MAX.to_le_bytes();
        assert!(matches!(read_message::<Request>(&mut huge.as_slice()), Err(Error::TooLong { .. })));
    }

    /// A frame that begins as a reply does, and goes on with zeros: empty texts.
    fn frame_of_zeros(reply: Reply, start: &[u8], length: u32) -> Vec<u8> {
        let mut body = postcard::to_stdvec(&FromAgent::Reply(reply)).unwrap();
        body.truncate(2);
        body.extend(start);
        body.resize(length as usize, 0);
        [&length.to_le_bytes()[..], &body].concat()
    }

    #[test]
    fn only_types_and_code_may_be_large() {
        let read = |frame: Vec<u8>| read_from_agent(&mut frame.as_slice(), || limits::LARGE_FRAME);
        // Modules are the sixteen million that these five bytes say, and each is some empty texts.
        let vms = frame_of_zeros(Reply::Vms(Vec::new()), &[0x80, 0x80, 0x80, 0x08], 64 << 20);
        assert!(matches!(read(vms), Err(Error::TooLong { limit: limits::FRAME, .. })));
        let woven =
            |length| frame_of_zeros(Reply::Woven(Woven::default()), &[0, 0xff, 0xff, 0xff, 7], length);
        assert!(matches!(read(woven(17 << 20)), Err(Error::TooLong { limit: limits::WOVEN_FRAME, .. })));
        // As long as an answer to a plan may be, with more in it than a plan has.
        assert!(matches!(read(woven(16 << 20)), Err(Error::Decode(_))));
        let types = 8_388_608u32;
        let whole = frame_of_zeros(Reply::Btf(Vec::new()), &[0x80, 0x80, 0x80, 0x04], types + 6);
        assert!(matches!(read(whole), Ok(FromAgent::Reply(Reply::Btf(bytes))) if bytes.len() == 8 << 20));
    }
}
