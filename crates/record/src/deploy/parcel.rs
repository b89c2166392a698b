//! What is passed to a confined process and back: a message, and bytes that are not looked into on the way.
//!
//! ```text
//! u32 length of the message (little-endian), the message (postcard), then the bytes, as long as the message says
//! ```

use std::{
    fs::File,
    io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use xweave_aspect::{Diagnostic, Source};
use xweave_bytes::split_le;
use xweave_guard::confine::job;
use xweave_weave::{Draft, EventChoice, Peer, ProgramObject};

/// What is to be read.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) aspects: Vec<Source>,
    /// Programs of the user's that some of them were compiled to.
    pub(crate) objects: Vec<ProgramObject>,
    /// See [`crate::Options::compile_here`].
    pub(crate) compile_here: bool,
    /// All domains, in their order.
    pub(crate) peers: Vec<Peer>,
    /// Which of them it is.
    pub(crate) domain: usize,
    pub(crate) number: u8,
    pub(crate) release: String,
    pub(crate) events: EventChoice,
    /// The modules, none for the image; and how many bytes.
    pub(crate) types: Vec<(Option<String>, u64)>,
    /// The modules, and the numbers under which the indices are open.
    pub(crate) indices: Vec<(Option<String>, RawFd)>,
    pub(crate) code: Option<Code>,
    /// If a draft was made before: what the compiler said of it, and whether it failed.
    pub(crate) log: Option<(String, bool)>,
}

/// Code that is to be analysed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Code {
    /// How many bytes.
    pub(crate) length: u64,
    /// The modules, none for the image; and the numbers under which the files are open that their indices go to.
    pub(crate) wanted: Vec<(Option<String>, RawFd)>,
    /// The number under which is open what says how far it is.
    pub(crate) meter: RawFd,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(crate) enum Read {
    /// A draft; and of which parts of the code there is an index now.
    Draft(Box<Draft>, Vec<Option<String>>),
    /// What the compiler's words mean.
    Complaints(Vec<Diagnostic>),
    /// An index that was handed over is damaged.
    DamagedIndex(Option<String>),
    /// Why nothing can be made of what the domain sent.
    Unusable(String),
}

/// Why a parcel cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// There is none.
    #[error("nothing was passed on")]
    Empty,
    /// It ends before what it says that it has.
    #[error("what was passed on is cut off")]
    CutOff,
    /// Its message is none of those that are passed on.
    #[error("{0}")]
    Message(#[from] postcard::Error),
}

/// A message and what follows it, to be read by a process.
pub(crate) fn pack<T: Serialize>(message: &T, bytes: &[&[u8]]) -> io::Result<File> {
    let message = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(message.len()).map_err(io::Error::other)?.to_le_bytes();
    let mut pieces = vec![&length[..], &message];
    pieces.extend_from_slice(bytes);
    job::in_memory(&pieces)
}

/// The message, and what follows it.
pub(crate) fn unpack<T: DeserializeOwned>(parcel: &[u8]) -> Result<(T, &[u8]), Unreadable> {
    let (length, rest) = split_le::<u32>(parcel).ok_or(Unreadable::Empty)?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (message, rest) = rest.split_at_checked(length).ok_or(Unreadable::CutOff)?;
    Ok((postcard::from_bytes(message)?, rest))
}

/// The next so many bytes.
pub(crate) fn cut<'p>(rest: &mut &'p [u8], length: u64) -> Result<&'p [u8], Unreadable> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (piece, after) = rest.split_at_checked(length).ok_or(Unreadable::CutOff)?;
    *rest = after;
    Ok(piece)
}

/// A file that was handed over, by its number.
pub(crate) fn handed(number: RawFd) -> File {
    // SAFETY: this process was started with it open under this number, for this purpose: each number is taken once.
    unsafe { OwnedFd::from_raw_fd(number) }.into()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_parcel_is_its_message_and_its_bytes_or_an_error() {
        let message = vec![("advice.c".to_owned(), "int x;".to_owned())];
        let mut packed = Vec::new();
        pack(&message, &[b"types", b"code"]).unwrap().read_to_end(&mut packed).unwrap();
        let (unpacked, mut rest) = unpack::<Vec<(String, String)>>(&packed).unwrap();
        assert_eq!(unpacked, message);
        assert_eq!(cut(&mut rest, 5).unwrap(), b"types");
        assert!(matches!(cut(&mut rest, 5), Err(Unreadable::CutOff)));
        assert_eq!(cut(&mut rest, 4).unwrap(), b"code");
        assert!(matches!(cut(&mut rest, u64::MAX), Err(Unreadable::CutOff)));

        let unreadable = |parcel: &[u8]| unpack::<Vec<(String, String)>>(parcel).unwrap_err();
        assert!(matches!(unreadable(&packed[..3]), Unreadable::Empty));
        assert!(matches!(unreadable(&packed[..10]), Unreadable::CutOff));
        assert!(matches!(unreadable(&[1, 0, 0, 0, 1]), Unreadable::Message(_)));
    }
}
