//! Pages of the kernel's trace ring buffer (kernel/trace/ring_buffer.c): a time, a length with two flags, records.

use xweave_bytes::read_le;

use crate::error::Error;

/// Where a page's header ends; the time comes first and the length follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Size of the length: as large as the kernel's `long`.
    pub long: usize,
    /// Where the records begin.
    pub data: usize,
}

/// As 64-bit kernels have it.
impl Default for Layout {
    fn default() -> Self {
        Self { long: 8, data: 16 }
    }
}

impl Layout {
    /// Of the text `events/header_page` of tracefs.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let find = |name: &str, what: &str| {
            let line = text.lines().find(|line| {
                line.split(';').next().is_some_and(|declared| declared.trim_end().ends_with(name))
            })?;
            let part = line.split(';').find_map(|part| part.trim().strip_prefix(what)?.strip_prefix(':'))?;
            part.trim().parse::<usize>().ok()
        };
        let (long, data) = (find(" commit", "size")?, find(" data", "offset")?);
        ([4, 8].contains(&long) && (12..=64).contains(&data)).then_some(Self { long, data })
    }
}

/// The length's bits; above them are the flags.
const LENGTH: u64 = (1 << 27) - 1;
/// Records before this page were overwritten.
const MISSED: u64 = 1 << 31;
/// How many of them is behind the page's records.
const MISSED_COUNT: u64 = 1 << 30;

/// What a page begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Records {
    /// The time of the last record, in the clock's units.
    pub time: u64,
    at: usize,
    end: usize,
}

/// What is missing before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    Nothing,
    /// This many, as far as the kernel counted.
    Some(u64),
    /// Nobody knows how many.
    Unknown,
}

/// Why the records of a page cannot be read on: where in it, and what is wrong.
pub(crate) type Wrong = (usize, &'static str);

impl Records {
    /// The records of a page.
    pub(crate) fn begin(page: &[u8], layout: Layout) -> Result<(Self, Missed), Wrong> {
        let time = read_le(page, 0).ok_or((0, "a page of the ring buffer without a header"))?;
        let short = (8, "a page of the ring buffer without a length");
        let length = match layout.long {
            4 => u64::from(read_le::<u32>(page, 8).ok_or(short)?),
            _ => read_le(page, 8).ok_or(short)?,
        };
        let end = layout.data + (length & LENGTH) as usize;
        if end > page.len() {
            return Err((8, "a page of the ring buffer with more than a page of records"));
        }
        let missed = match (length & MISSED != 0, length & MISSED_COUNT != 0) {
            (false, _) => Missed::Nothing,
            (true, false) => Missed::Unknown,
            (true, true) if layout.long == 4 => {
                read_le::<u32>(page, end).map_or(Missed::Unknown, |n| Missed::Some(n.into()))
            }
            (true, true) => read_le(page, end).map_or(Missed::Unknown, Missed::Some),
        };
        Ok((Self { time, at: layout.data, end }, missed))
    }

    /// The place of the next record of the page; `time` is its time then.
    #[inline]
    pub(crate) fn next(&mut self, page: &[u8]) -> Result<Option<(usize, usize)>, Wrong> {
        let beyond = |at| (at, "a record that goes beyond its page");
        while self.at < self.end {
            let at = self.at;
            let header: u32 = read_le(page, at).ok_or(beyond(at))?;
            let (kind, delta) = (header & 31, u64::from(header >> 5));
            let more = || read_le::<u32>(page, at + 4).ok_or(beyond(at));
            match kind {
                // A record of this many words.
                1..=28 => {
                    self.time = self.time.wrapping_add(delta);
                    self.at = at + 4 + kind as usize * 4;
                    return if self.at <= self.end { Ok(Some((at + 4, self.at))) } else { Err(beyond(at)) };
                }
                // A longer one: its length, these four bytes included, comes first.
                0 => {
                    let length = more()? as usize;
                    if length < 4 {
                        return Err((at, "a record without a length"));
                    }
                    self.time = self.time.wrapping_add(delta);
                    self.at = at + 4 + length.next_multiple_of(4);
                    return if self.at <= self.end {
                        Ok(Some((at + 8, at + 4 + length)))
                    } else {
                        Err(beyond(at))
                    };
                }
                // The page's rest is empty, or a record was taken back.
                29 => {
                    if delta == 0 {
                        self.at = self.end;
                        return Ok(None);
                    }
                    self.time = self.time.wrapping_add(delta);
                    self.at = at + 4 + more()? as usize;
                }
                // Much time went by.
                30 => {
                    self.time = self.time.wrapping_add((u64::from(more()?) << 27) + delta);
                    self.at = at + 8;
                }
                // The time, but for its highest five bits.
                _ => {
                    let top = self.time & !((1 << 59) - 1);
                    self.time = top | ((u64::from(more()?) << 27) + delta);
                    self.at = at + 8;
                }
            }
        }
        Ok(None)
    }
}

/// What is wrong at byte `at` of the file, where the page begins.
pub(crate) fn wrong(at: u64, (offset, what): Wrong) -> Error {
    Error::damaged(at + offset as u64, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(length: u64, content: &[u32]) -> Vec<u8> {
        let mut page = 1000u64.to_le_bytes().to_vec();
        page.extend(length.to_le_bytes());
        page.extend(content.iter().flat_map(|word| word.to_le_bytes()));
        page
    }

    #[test]
    fn records_of_all_kinds_have_their_times() {
        let content = [
            1 | 5 << 5,
            0xaa, // a word after 5
            30 | 1 << 5,
            2, // 2 << 27 + 1 later
            0,
            12,
            0xbb,
            0xcc, // length of its own, at the same time
            29 | 7 << 5,
            4, // taken back
            31 | 3 << 5,
            1, // 1 << 27 + 3
            2,
            0xdd,
            0xee,
            29, // the rest is empty
            0xffff_ffff,
        ];
        let page = page(content.len() as u64 * 4, &content);
        let (mut records, missed) = Records::begin(&page, Layout::default()).unwrap();
        assert_eq!(missed, Missed::Nothing);
        let mut found = Vec::new();
        while let Some((from, to)) = records.next(&page).unwrap() {
            found.push((records.time, page[from], to - from));
        }
        let second = 1006 + (2 << 27);
        assert_eq!(found, [(1005, 0xaa, 4), (second, 0xbb, 8), ((1 << 27) + 3, 0xdd, 8)]);
    }

    #[test]
    fn what_is_missing_is_told() {
        let flags =
            [(0, Missed::Nothing), (MISSED, Missed::Unknown), (MISSED | MISSED_COUNT, Missed::Some(9))];
        for (flags, expected) in flags {
            let page = page(8 | flags, &[1, 0, 9, 0]);
            assert_eq!(Records::begin(&page, Layout::default()).unwrap().1, expected);
        }
    }

    #[test]
    fn damage_is_told_with_its_place() {
        assert_eq!(Records::begin(&[0; 4], Layout::default()).unwrap_err().0, 0);
        assert_eq!(Records::begin(&page(5000, &[]), Layout::default()).unwrap_err().0, 8);
        for content in [[28, 0], [0, 2], [0, 4000]] {
            let page = page(8, &content);
            let (mut records, _) = Records::begin(&page, Layout::default()).unwrap();
            assert_eq!(records.next(&page).unwrap_err().0, 16, "{content:?}");
        }
    }

    #[test]
    fn the_layout_is_the_kernels() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
                    \tfield: char data;\toffset:12;\tsize:4084;\tsigned:1;\n";
        assert_eq!(Layout::parse(text), Some(Layout { long: 4, data: 12 }));
        assert_eq!(Layout::parse("nonsense"), None);
    }
}
