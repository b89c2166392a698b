//! Compressed parts of a trace.dat.

use std::io::{self, Read};

use crate::{error::Error, input::Cursor};

/// How parts are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Zstd,
    Zlib,
}

/// The most that a part which describes records becomes: they have some megabytes.
pub(crate) const MOST: u32 = 64 << 20;

/// How many bytes of records a packed byte becomes at most, over all of a processor's: those of trace-cmd and perf
/// become ten.
pub(crate) const RATIO: u64 = 256;

impl Packing {
    /// By the name in the file's header.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "zstd" => Some(Self::Zstd),
            "zlib" => Some(Self::Zlib),
            _ => None,
        }
    }

    /// The sizes that are before a chunk: packed, and unpacked, which is `most` at most.
    pub(crate) fn sizes(cursor: &mut Cursor, most: u32) -> Result<(u32, u32), Error> {
        let at = cursor.place();
        let (packed, unpacked) = (cursor.u32()?, cursor.u32()?);
        if unpacked > most {
            return Err(Error::damaged(at, format!("a chunk of {unpacked} bytes: none is as large")));
        }
        Ok((packed, unpacked))
    }

    /// Unpacks a chunk into `out`, which then holds that many bytes. It was found at byte `at` of the file.
    pub(crate) fn unpack(
        self,
        packed: &[u8],
        unpacked: u32,
        at: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        out.clear();
        let most = u64::from(unpacked);
        let read = match self {
            Self::None => packed.take(most).read_to_end(out),
            Self::Zlib => flate2::read::ZlibDecoder::new(packed).take(most).read_to_end(out),
            Self::Zstd => ruzstd::decoding::StreamingDecoder::new(packed)
                .map_err(io::Error::other)
                .and_then(|decoder| decoder.take(most).read_to_end(out)),
        };
        match read {
            Ok(read) if read as u64 == most => Ok(()),
            Ok(read) => Err(Error::damaged(at, format!("a chunk of {read} bytes that should have {most}"))),
            Err(error) => {
                Err(Error::damaged(at, format!("a chunk that cannot be unpacked: {error}")).by(error))
            }
        }
    }
}
