//! How far a confined process has come: three numbers in memory that it writes to and that are read here.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd, RawFd},
        unix::fs::FileExt as _,
    },
};

use xweave_guard::confine::job;

use super::parcel;
use crate::progress::Analysed;

/// Three numbers of 32 bits: how many are done, of how many, and, if it is not 0, that there are no more.
const BYTES: usize = 12;

/// Where the last of them is.
const ENDED: u64 = 8;

/// What is told of one process.
pub(crate) struct Meter(File);

impl Meter {
    pub(crate) fn new() -> io::Result<Self> {
        job::in_memory(&[&[0; BYTES]]).map(Self)
    }

    /// To be handed on, and the number that it will have there.
    pub(crate) fn hand(&self) -> io::Result<(OwnedFd, RawFd)> {
        let handed = OwnedFd::from(self.0.try_clone()?);
        let number = handed.as_raw_fd();
        Ok((handed, number))
    }

    /// What it says now of a domain's code. It may say anything: more than all is all.
    pub(crate) fn of<'a>(&self, domain: &'a str) -> Analysed<'a> {
        let (done, total) = (self.number(0), self.number(4));
        Analysed { domain, done: done.min(total), total }
    }

    /// Whether all of the code has been looked into: until then, how much there is grows with each part that is begun.
    pub(crate) fn has_ended(&self) -> bool {
        self.number(ENDED) != 0
    }

    fn number(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        let read = self.0.read_at(&mut bytes, at);
        if matches!(read, Ok(4)) { u32::from_le_bytes(bytes) } else { 0 }
    }
}

/// The other end.
pub(crate) struct Pointer(File);

impl Pointer {
    pub(crate) fn new(handed: RawFd) -> Self {
        Self(parcel::handed(handed))
    }

    /// Says so. That it cannot be told is no reason not to go on.
    pub(crate) fn tell(&self, done: u32, total: u32) {
        let [a, b, c, d] = done.to_le_bytes();
        let [e, f, g, h] = total.to_le_bytes();
        let _ = self.0.write_at(&[a, b, c, d, e, f, g, h], 0);
    }

    /// Says that there is no more.
    pub(crate) fn end(&self) {
        let _ = self.0.write_at(&1u32.to_le_bytes(), ENDED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_end_says_is_read_at_the_other_and_more_than_all_is_all() {
        let meter = Meter::new().unwrap();
        let analysed = |done, total| Analysed { domain: "vm1", done, total };
        assert_eq!(meter.of("vm1"), analysed(0, 0));
        let pointer = Pointer(meter.0.try_clone().unwrap());
        pointer.tell(256, 60_000);
        assert_eq!(meter.of("vm1"), analysed(256, 60_000));
        pointer.tell(u32::MAX, 5);
        assert_eq!(meter.of("vm1"), analysed(5, 5));
        assert!(!meter.has_ended(), "the next part may begin");
        pointer.end();
        assert!(meter.has_ended());
        assert_eq!(meter.of("vm1"), analysed(5, 5));
        pointer.0.set_len(3).unwrap();
        assert_eq!(meter.of("vm1"), analysed(0, 0));
        assert!(!meter.has_ended());
    }
}
