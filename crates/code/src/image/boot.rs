//! What a boot loader loads: an x86 kernel in the bzImage format, with the kernel proper compressed
//! in it. Its setup header tells where (Documentation/arch/x86/boot.rst).

use xweave_bytes::read_le;

use super::bytes::Bytes;
use super::elf::malformed;
use super::unpack::Packing;
use crate::Error;

/// Of the boot protocol that tells where the payload is: 2.08, Linux 2.6.26.
const WITH_PAYLOAD: u16 = 0x208;

/// Whether these are such a kernel.
pub(super) fn is_kernel(bytes: &[u8]) -> bool {
    bytes.get(0x1fe..0x200) == Some(b"\x55\xaa") && bytes.get(0x202..0x206) == Some(b"HdrS")
}

/// The kernel proper, an ELF file without symbols.
pub(super) fn unpack(what: &str, file: &Bytes) -> Result<Bytes, Error> {
    let wrong = |reason: &str| malformed(what, "its setup header", reason);
    let field = |at: usize| read_le::<u32>(file, at);
    if read_le(file, 0x206).is_none_or(|version: u16| version < WITH_PAYLOAD) {
        return Err(wrong("is older than boot protocol 2.08, and does not tell where the kernel is"));
    }
    // For compatibility, none means four.
    let sectors = file.get(0x1f1).copied().filter(|count| *count != 0).unwrap_or(4);
    let protected_mode = (u64::from(sectors) + 1) * 512;
    let payload = field(0x248).zip(field(0x24c)).and_then(|(offset, length)| {
        file.part(protected_mode + u64::from(offset), u64::from(length)).filter(|payload| !payload.is_empty())
    });
    let payload = payload.ok_or_else(|| wrong("puts the kernel outside of the file"))?;
    if payload.starts_with(b"\x7fELF") {
        return Ok(payload);
    }
    match Packing::of(&payload) {
        Some(packing) => packing.unpack(what, &payload).map(Bytes::from),
        None => Err(wrong("leads to something that is compressed in no known way")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn image(version: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x1f1] = 1;
        bytes[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x206..0x208].copy_from_slice(&version.to_le_bytes());
        bytes[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        bytes[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(payload);
        bytes
    }

    fn unpacked(image: Vec<u8>) -> Result<Bytes, Error> {
        assert!(is_kernel(&image));
        unpack("test", &Bytes::from(image))
    }

    #[test]
    fn the_payload_is_found() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"the kernel").unwrap();
        assert_eq!(*unpacked(image(0x20f, &gzip.finish().unwrap())).unwrap(), *b"the kernel");
        assert_eq!(*unpacked(image(0x208, b"\x7fELF")).unwrap(), *b"\x7fELF");
    }

    #[test]
    fn what_is_wrong_is_told() {
        let message = |image| unpacked(image).err().unwrap().to_string();
        assert!(message(image(0x207, b"")).contains("older than boot protocol 2.08"));
        assert!(message(image(0x20f, b"what?")).contains("no known way"));
        let mut cut = image(0x20f, b"\x7fELF");
        cut.pop();
        assert!(message(cut).contains("outside of the file"));
        cut = image(0x20f, b"");
        assert!(message(cut).contains("outside of the file"));
        assert!(!is_kernel(b"HdrS"));
    }
}
