//! Sections that are not loaded into memory, foremost debug information: possibly compressed, and in
//! an object file not linked yet.

use std::borrow::Cow;

use object::LittleEndian;
use object::elf::{self, CompressionHeader64};
use xweave_bytes::split_be;

use super::bytes::Bytes;
use super::relocation::{self, ENDIAN};
use super::unpack::Packing;

/// A section without an address.
pub(super) struct Unlinked {
    /// The file's.
    pub number: usize,
    bytes: Bytes,
    compressed: bool,
    /// Tables of what to change in it.
    relocations: Vec<Bytes>,
}

impl Unlinked {
    pub fn new(number: usize, bytes: Bytes, compressed: bool) -> Self {
        Self { number, bytes, compressed, relocations: Vec::new() }
    }

    pub fn relocate_by(&mut self, table: Bytes) {
        self.relocations.push(table);
    }

    /// What it holds, linked with symbols that have these values; none if it is damaged.
    pub fn read(&self, values: &[u64]) -> Option<Cow<'_, [u8]>> {
        let mut data = match self.packed() {
            None => Cow::Borrowed(&*self.bytes),
            Some(packed) => {
                let (packing, size, data) = packed?;
                let unpacked = packing.unpack("a debug section", data).ok()?;
                Cow::Owned(Some(unpacked).filter(|unpacked| u64::try_from(unpacked.len()) == Ok(size))?)
            }
        };
        for table in &self.relocations {
            let value = |symbol: usize| values.get(symbol).copied();
            relocation::apply(data.to_mut(), 0, relocation::table(table)?, value, |_| None)?;
        }
        Some(data)
    }

    /// How it is compressed if it is, its size afterwards, and the compressed data.
    fn packed(&self) -> Option<Option<(Packing, u64, &[u8])>> {
        // Before ELF knew of it, with a header of GNU's own.
        if let Some((size, data)) =
            self.bytes.strip_prefix(b"ZLIB").filter(|_| !self.compressed).and_then(split_be)
        {
            return Some(Some((Packing::Zlib, size, data)));
        }
        if !self.compressed {
            return None;
        }
        let header = object::pod::from_bytes::<CompressionHeader64<LittleEndian>>(&self.bytes);
        Some(header.ok().and_then(|(header, data)| {
            let packing = match header.ch_type.get(ENDIAN) {
                elf::ELFCOMPRESS_ZLIB => Packing::Zlib,
                elf::ELFCOMPRESS_ZSTD => Packing::Zstd,
                _ => return None,
            };
            Some((packing, header.ch_size.get(ENDIAN), data))
        }))
    }
}
