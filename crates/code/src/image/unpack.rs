//! Decompression: of kernels, of modules, of debug sections. Nothing is believed about the size of
//! what comes out; it is limited by the size of what goes in.

use std::io::{self, Read};

use xweave_bytes::split_le;

use crate::Error;

/// No honest input becomes so many times larger, except if it is tiny.
const MAX_RATIO: usize = 200;

/// What even tiny input may become.
const MIN_LIMIT: usize = 16 << 20;

/// Dictionaries of xz and lzma: `xz -9` has 64 MiB, what kernels are built with up to 128.
const DICTIONARY_KIB: u32 = 256 << 10;

/// A block of lz4's legacy frame, unpacked.
const LZ4_BLOCK: usize = 8 << 20;

/// A kind of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Packing {
    Gzip,
    Zlib,
    Xz,
    Lzma,
    Bzip2,
    Lz4,
    Lzo,
    Zstd,
}

impl Packing {
    /// Of these bytes, by how they begin. Zlib is known from elsewhere only: anything begins like it.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let magics: [(&[u8], Self); 7] = [
            (b"\x1f\x8b", Self::Gzip),
            (b"\xfd7zXZ\0", Self::Xz),
            (b"\x5d\0\0", Self::Lzma),
            (b"BZh", Self::Bzip2),
            (b"\x02\x21\x4c\x18", Self::Lz4),
            (b"\x89LZO", Self::Lzo),
            (b"\x28\xb5\x2f\xfd", Self::Zstd),
        ];
        magics.into_iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, packing)| packing)
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What the bytes are unpacked. What follows the compressed data is not looked at: a kernel has
    /// its size there.
    pub fn unpack(self, what: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        self.unpack_at_most(what, bytes, usize::MAX)
    }

    /// The same, of which no more than so many bytes can come.
    pub fn unpack_at_most(self, what: &str, bytes: &[u8], most: usize) -> Result<Vec<u8>, Error> {
        let limit = bytes.len().saturating_mul(MAX_RATIO).max(MIN_LIMIT).min(most);
        self.unpack_within(bytes, limit).map_err(|reason| Error::Packed {
            what: what.to_owned(),
            packing: self.name(),
            reason,
        })
    }

    fn unpack_within(self, bytes: &[u8], limit: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => read(flate2::read::GzDecoder::new(bytes), limit),
            Self::Zlib => read(flate2::read::ZlibDecoder::new(bytes), limit),
            Self::Xz => read(lzma_rust2::XzReader::new_mem_limit(bytes, false, DICTIONARY_KIB), limit),
            Self::Lzma => {
                let reader = lzma_rust2::LzmaReader::new_mem_limit(bytes, DICTIONARY_KIB, None)?;
                read(reader, limit)
            }
            Self::Bzip2 => read(bzip2::read::BzDecoder::new(bytes), limit),
            Self::Lz4 => unpack_lz4(bytes, limit),
            Self::Lzo => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this compression is not supported; unpack it first, with extract-vmlinux or lzop",
            )),
            Self::Zstd => {
                let mut decoder = ruzstd::decoding::FrameDecoder::new();
                // What the frame says of its window is reserved at once, but used as data arrives.
                decoder.set_max_window_size(u64::try_from(limit).unwrap_or(u64::MAX));
                let reader = ruzstd::decoding::StreamingDecoder::new_with_decoder(bytes, decoder);
                read(reader.map_err(io::Error::other)?, limit)
            }
        }
    }
}

fn read(reader: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    reader.take(most.saturating_add(1)).read_to_end(&mut unpacked)?;
    if unpacked.len() > limit { Err(too_large()) } else { Ok(unpacked) }
}

fn too_large() -> io::Error {
    io::Error::other("it becomes far larger than honest data does")
}

/// Packs into lz4's legacy frame.
pub(super) fn pack_lz4(bytes: &[u8]) -> Vec<u8> {
    let mut packed = b"\x02\x21\x4c\x18".to_vec();
    for block in bytes.chunks(LZ4_BLOCK) {
        let block = lz4_flex::block::compress(block);
        packed.extend(u32::try_from(block.len()).unwrap_or(u32::MAX).to_le_bytes());
        packed.extend(block);
    }
    packed
}

/// The legacy frame: a magic number, then blocks, each with its size before it.
fn unpack_lz4(bytes: &[u8], limit: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut block = vec![0; LZ4_BLOCK];
    let mut rest = bytes.get(4..).unwrap_or_default();
    while let Some((size, after)) = split_le::<u32>(rest) {
        // A kernel's own size is what is left at its end.
        if after.is_empty() {
            break;
        }
        let packed = usize::try_from(size).ok().and_then(|size| after.get(..size));
        let packed = packed.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = lz4_flex::block::decompress_into(packed, &mut block).map_err(io::Error::other)?;
        if unpacked.len() + size > limit {
            return Err(too_large());
        }
        unpacked.extend_from_slice(block.get(..size).unwrap_or_default());
        rest = after.get(packed.len()..).unwrap_or_default();
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The same data, compressed in every way that there is an encoder for.
    fn packed(data: &[u8]) -> Vec<(Packing, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(data).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(data).unwrap();
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        xz.write_all(data).unwrap();
        let options = lzma_rust2::LzmaOptions::with_preset(1);
        let mut lzma = lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, None).unwrap();
        lzma.write_all(data).unwrap();
        let mut lz4 = vec![2, 0x21, 0x4c, 0x18];
        for block in data.chunks(LZ4_BLOCK) {
            let block = lz4_flex::block::compress(block);
            lz4.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
            lz4.extend(block);
        }
        // A frame with one raw block; its sizes are written out here.
        let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x58];
        zstd.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        let chunks: Vec<_> = data.chunks(100_000).collect();
        for (nth, chunk) in chunks.iter().enumerate() {
            let last = u32::from(nth + 1 == chunks.len());
            let header = (u32::try_from(chunk.len()).unwrap() << 3 | last).to_le_bytes();
            zstd.extend(&header[..3]);
            zstd.extend(*chunk);
        }
        vec![
            (Packing::Gzip, gzip.finish().unwrap()),
            (Packing::Bzip2, bzip2.finish().unwrap()),
            (Packing::Xz, xz.finish().unwrap()),
            (Packing::Lzma, lzma.finish().unwrap()),
            (Packing::Lz4, lz4),
            (Packing::Zstd, zstd),
        ]
    }

    fn sample() -> Vec<u8> {
        (0..300_000u32).map(|nth| u8::try_from(nth * nth % 251).unwrap()).collect()
    }

    #[test]
    fn what_is_packed_comes_out_as_it_was_even_with_a_size_after_it() {
        for (packing, mut bytes) in packed(&sample()) {
            assert_eq!(Packing::of(&bytes), Some(packing));
            assert!(packing.unpack("test", &bytes).unwrap() == sample(), "{packing:?}");
            bytes.extend(300_000u32.to_le_bytes());
            assert!(packing.unpack("test", &bytes).unwrap() == sample(), "{packing:?}");
        }
    }

    #[test]
    fn damage_is_an_error_or_other_data_but_no_crash() {
        for (packing, bytes) in packed(&sample()[..20_000]) {
            for length in (0..bytes.len()).step_by(61) {
                assert_ne!(packing.unpack("test", &bytes[..length]).ok(), Some(sample()), "{packing:?}");
            }
            for at in (0..bytes.len()).step_by(53) {
                let mut bytes = bytes.clone();
                bytes[at] ^= 0x55;
                let _any = packing.unpack("test", &bytes);
            }
        }
    }

    #[test]
    fn bombs_do_not_go_off() {
        let (_, bytes) = packed(&vec![0; 40 << 20]).swap_remove(2);
        assert!(bytes.len() < 80_000);
        let error = Packing::Xz.unpack("test", &bytes).unwrap_err().to_string();
        assert!(error.contains("far larger"), "{error}");
    }

    #[test]
    fn there_is_a_limit_whatever_comes_in() {
        let packed = pack_lz4(&vec![1; 1 << 20]);
        assert!(Packing::Lz4.unpack_at_most("test", &packed, 1 << 20).is_ok());
        let error = Packing::Lz4.unpack_at_most("test", &packed, (1 << 20) - 1).unwrap_err().to_string();
        assert!(error.contains("far larger"), "{error}");
    }

    #[test]
    fn lzo_is_named() {
        let packing = Packing::of(b"\x89LZO\0\r\n\x1a\n").unwrap();
        let error = packing.unpack("vm1's kernel", b"").unwrap_err().to_string();
        assert!(error.starts_with("vm1's kernel cannot be unpacked, it is compressed with lzo"), "{error}");
    }
}
