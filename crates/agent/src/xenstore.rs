//! XenStore, the tree in which the domains of a Xen machine tell each other of themselves: docs/misc/xenstore.txt of Xen
//! 4.17. Each has a part of its own, where only it and dom0 may write.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
};

/// The kernel's way to it: drivers/xen/xenbus/xenbus_dev_frontend.c, Linux 6.1 to 6.12.
const DEVICE: &str = "/dev/xen/xenbus";

/// Where guests have their parts.
const DOMAINS: &str = "/local/domain";

/// In a guest's part, whose path need not be named; xl gives guests the right to write below `data`.
const MARK: &str = "data/xweave";

/// xen/include/public/io/xs_wire.h
const DIRECTORY: u32 = 1;
const READ: u32 = 2;
const WRITE: u32 = 11;
const REMOVE: u32 = 13;
const ERROR: u32 = 16;
const LONGEST: usize = 4096;

/// So many domains are looked at.
const MOST: usize = 4096;

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{DEVICE}: {0}")]
    Device(#[from] io::Error),
    #[error("XenStore refuses {path}: {error}")]
    Refused { path: String, error: String },
    #[error("XenStore's answer is none")]
    Answer,
}

/// Puts this mark into this domain's own part; or takes it away.
pub(crate) fn mark(mark: Option<[u64; 2]>) -> Result<(), Error> {
    let mut store = Store::open()?;
    match mark {
        Some(mark) => store.ask(WRITE, MARK, Some(&shown(mark))).map(drop),
        None => store.ask(REMOVE, MARK, None).map(drop),
    }
}

/// In dom0: the domains that have these marks; none where no domain or more than one has it. That this domain has it is
/// no answer: it is none of its own guests.
pub(crate) fn marked(marks: &[[u64; 2]]) -> Result<Vec<Option<u16>>, Error> {
    let mut store = Store::open()?;
    let list = store.ask(DIRECTORY, DOMAINS, None)?;
    let domids = list.split('\0').filter_map(|name| name.parse::<u16>().ok()).filter(|domid| *domid > 0);
    let mut found = vec![None; marks.len()];
    let mut many = vec![false; marks.len()];
    for domid in domids.take(MOST) {
        // Most have none.
        let Ok(value) = store.ask(READ, &format!("{DOMAINS}/{domid}/{MARK}"), None) else { continue };
        for (at, _) in marks.iter().enumerate().filter(|(_, mark)| shown(**mark) == value) {
            many[at] |= found[at].is_some();
            found[at] = Some(domid);
        }
    }
    Ok(found.into_iter().zip(many).map(|(domid, many)| domid.filter(|_| !many)).collect())
}

fn shown([first, second]: [u64; 2]) -> String {
    format!("{first:016x}{second:016x}")
}

struct Store(File);

impl Store {
    fn open() -> Result<Self, Error> {
        Ok(Self(OpenOptions::new().read(true).write(true).open(DEVICE)?))
    }

    /// Asks for one thing, and waits for the answer: xenstored always gives one.
    fn ask(&mut self, kind: u32, path: &str, value: Option<&str>) -> Result<String, Error> {
        self.0.write_all(&question(kind, path, value))?;
        let mut header = [0; 16];
        self.0.read_exact(&mut header)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
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

/// struct xsd_sockmsg: the kind, a number, a transaction and the length of what follows: the path, and what is to be written.
fn question(kind: u32, path: &str, value: Option<&str>) -> Vec<u8> {
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
    fn a_question_is_laid_out_as_xenstored_reads_it() {
        let asked = question(WRITE, MARK, Some("00ff"));
        assert_eq!(asked[..16], [11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0]);
        assert_eq!(&asked[16..], b"data/xweave\x0000ff");
        assert_eq!(&question(DIRECTORY, DOMAINS, None)[12..], b"\x0e\0\0\0/local/domain\0");
        assert_eq!(shown([0xab, 1]), "00000000000000ab0000000000000001");
    }
}
