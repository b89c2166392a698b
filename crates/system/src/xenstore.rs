//! XenStore, the tree through which the domains of a Xen machine describe themselves to each other: docs/misc/xenstore.txt of
//! Xen 4.17. Each domain has a subtree, where only that domain and dom0 may write.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
};

use xweave_bytes::read_le;

/// The kernel's device for it: drivers/xen/xenbus/xenbus_dev_frontend.c, Linux 6.1 to 6.12.
const DEVICE: &str = "/dev/xen/xenbus";

/// Parent of the domains' subtrees.
const DOMAINS: &str = "/local/domain";

/// Path of the mark, relative to a domain's subtree; xl gives guests the right to write below `data`.
const MARK: &str = "data/xweave";

/// xen/include/public/io/xs_wire.h
const DIRECTORY: u32 = 1;
const READ: u32 = 2;
const WRITE: u32 = 11;
const REMOVE: u32 = 13;
const ERROR: u32 = 16;
const LONGEST: usize = 4096;

/// Maximum number of domains to search.
const MAX_DOMAINS: usize = 4096;

/// Error of an access to XenStore.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device cannot be opened, read or written: this is no domain of Xen, or not root.
    #[error("{DEVICE}: {0}")]
    Device(#[from] io::Error),
    /// XenStore refused a request.
    #[error("XenStore refuses {path}: {error}")]
    Refused {
        /// Path of the request.
        path: String,
        /// Name of the error, such as `EACCES`.
        error: String,
    },
    /// The answer is malformed.
    #[error("XenStore's answer is none")]
    Answer,
}

/// Writes a mark into this domain's own subtree, or removes it if `None`.
///
/// # Errors
/// [`enum@Error`].
pub fn write_mark(mark: Option<[u64; 2]>) -> Result<(), Error> {
    let mut store = Store::open()?;
    match mark {
        Some(mark) => store.request(WRITE, MARK, Some(&format_mark(mark))).map(drop),
        None => store.request(REMOVE, MARK, None).map(drop),
    }
}

/// Finds, in dom0, the domain ID that has each mark: `None` where no domain or more than one has it. dom0 itself is not searched.
///
/// # Errors
/// [`enum@Error`].
pub fn find_marked_domains(marks: &[[u64; 2]]) -> Result<Vec<Option<u16>>, Error> {
    let mut store = Store::open()?;
    let list = store.request(DIRECTORY, DOMAINS, None)?;
    let domids = list.split('\0').filter_map(|name| name.parse::<u16>().ok()).filter(|domid| *domid > 0);
    let mut found = vec![None; marks.len()];
    let mut many = vec![false; marks.len()];
    for domid in domids.take(MAX_DOMAINS) {
        // Most domains have no mark.
        let Ok(value) = store.request(READ, &format!("{DOMAINS}/{domid}/{MARK}"), None) else { continue };
        for (at, _) in marks.iter().enumerate().filter(|(_, mark)| format_mark(**mark) == value) {
            many[at] |= found[at].is_some();
            found[at] = Some(domid);
        }
    }
    Ok(found.into_iter().zip(many).map(|(domid, many)| domid.filter(|_| !many)).collect())
}

fn format_mark([first, second]: [u64; 2]) -> String {
    format!("{first:016x}{second:016x}")
}

struct Store(File);

impl Store {
    fn open() -> Result<Self, Error> {
        Ok(Self(OpenOptions::new().read(true).write(true).open(DEVICE)?))
    }

    /// Sends a request, and waits for the answer: xenstored always sends one.
    fn request(&mut self, kind: u32, path: &str, value: Option<&str>) -> Result<String, Error> {
        self.0.write_all(&encode_request(kind, path, value))?;
        let mut header = [0; 16];
        self.0.read_exact(&mut header)?;
        let word = |at: usize| read_le::<u32>(&header, at).unwrap_or(0);
        let length = usize::try_from(word(12)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(Error::Answer);
        }
        let mut text = vec![0; length];
        self.0.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned();
        match word(0) {
            ERROR => Err(Error::Refused { path: path.to_owned(), error: text }),
            answered if answered == kind => Ok(text),
            _ => Err(Error::Answer),
        }
    }
}

/// Encodes struct xsd_sockmsg (kind, request ID, transaction, length of the rest), path and value.
fn encode_request(kind: u32, path: &str, value: Option<&str>) -> Vec<u8> {
    let mut text = [path.as_bytes(), &[0]].concat();
    text.extend(value.unwrap_or_default().as_bytes());
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let header = [kind, 0, 0, length].into_iter().flat_map(u32::to_le_bytes);
    header.chain(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_layout_of_xsd_sockmsg() {
        let asked = encode_request(WRITE, MARK, Some("00ff"));
        assert_eq!(asked[..16], [11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0]);
        assert_eq!(&asked[16..], b"data/xweave\x0000ff");
        assert_eq!(&encode_request(DIRECTORY, DOMAINS, None)[12..], b"\x0e\0\0\0/local/domain\0");
        assert_eq!(format_mark([0xab, 1]), "00000000000000ab0000000000000001");
    }
}
