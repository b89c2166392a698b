//! A line of `/proc/PID/maps`, and the first of those that `smaps` has of a mapping.

/// `7f..-7f.. r-xp 00000000 fe:00 17   /usr/lib/libc.so.6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'l> {
    /// Its first address.
    pub(crate) start: u64,
    /// The one behind its last.
    pub(crate) end: u64,
    /// As `rwxp`.
    pub(crate) rights: &'l str,
    /// Of what, if it has a name: its first word.
    pub(crate) name: &'l str,
}

impl<'l> Line<'l> {
    /// None if it is none.
    pub(crate) fn parse(line: &'l str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (address(start)?, address(end)?);
        let rights = words.next()?;
        // Behind its offset, device and inode.
        Some(Self { start, end, rights, name: words.nth(3).unwrap_or("") })
    }
}
