//! How far a confined process has come: two numbers in memory that it writes to and that are read here.

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

/// Two numbers of 32 bits.
const BYTES: usize = 8;

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
        let mut bytes = [0; BYTES];
        let read = self.0.read_at(&mut bytes, 0);
        let [a, b, c, d, e, f, g, h] = if matches!(read, Ok(BYTES)) { bytes } else { [0; BYTES] };
        let (done, total) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        Analysed { domain, done: done.min(total), total }
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
        pointer.0.set_len(3).unwrap();
        assert_eq!(meter.of("vm1"), analysed(0, 0));
    }
}
