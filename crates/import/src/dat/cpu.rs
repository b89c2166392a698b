//! The records of one processor, page by page.

use std::rc::Rc;

use super::{
    clock::Clock,
    options::Place,
    packed::{self, Packing},
};
use crate::{
    error::Error,
    input::{Cursor, Input},
    merge::{Missing, Stream},
    ring::{self, Layout, Missed, Records},
};

/// What is read at once of records that are not packed, in bytes.
const WINDOW: usize = 256 << 10;

/// The records of one processor. Holds some pages in memory.
pub(crate) struct Cpu<'a> {
    input: &'a Input,
    cpu: u32,
    layout: Layout,
    page: usize,
    clock: Rc<Clock>,
    packing: Packing,
    /// The most bytes that it may hold.
    room: usize,
    /// Where in the file to read on, and where this processor's part ends.
    at: u64,
    end: u64,
    /// Packed chunks that are left, and how many bytes they may become.
    chunks: u32,
    left: u64,
    /// Pages, where in the file they or their chunk began, and which of their bytes is the first of the current page.
    window: Vec<u8>,
    base: u64,
    begin: usize,
    records: Option<Records>,
    /// The next record: its time and its place in the page.
    next: Option<(i64, usize, usize)>,
    /// What is missing before it.
    missing: Option<Missing>,
    /// Records that the kernel could not store, as far as it counted.
    pub lost: u64,
    /// How often it did not count.
    pub gaps: u64,
    /// What is wrong with the first page that cannot be read, and how many pages cannot.
    pub damage: Option<(Error, u64)>,
}

impl<'a> Cpu<'a> {
    pub(super) fn open(
        input: &'a Input,
        place: Place,
        (page, layout, packing): (u32, Layout, Packing),
        room: usize,
        clock: Rc<Clock>,
    ) -> Self {
        let mut cpu = Self {
            input,
            cpu: place.cpu,
            layout,
            page: page as usize,
            clock,
            packing,
            room,
            at: place.offset,
            end: place.offset.saturating_add(place.size),
            chunks: 0,
            left: place.size.saturating_mul(packed::RATIO).saturating_add(room as u64),
            window: Vec::new(),
            base: place.offset,
            begin: 0,
            records: None,
            next: None,
            missing: None,
            lost: 0,
            gaps: 0,
            damage: None,
        };
        if cpu.end > input.len() {
            cpu.damaged(Error::damaged(
                input.len(),
                format!("records of CPU {} belong behind the end", place.cpu),
            ));
            cpu.end = input.len().max(cpu.at);
        }
        if packing != Packing::None {
            match input.piece(cpu.at, 4).and_then(|count| Cursor::new(&count, cpu.at).u32()) {
                Ok(chunks) => {
                    cpu.chunks = chunks;
                    cpu.at += 4;
                    // The number of chunks is in front of what the size is of.
                    cpu.end = cpu.end.saturating_add(4);
                }
                Err(error) => cpu.damaged(error),
            }
        }
        cpu.advance();
        cpu
    }

    /// Records are missing before the next one.
    fn miss(&mut self, count: u64) {
        let since = self.next.map(|(time, _, _)| time);
        let missing = self.missing.get_or_insert(Missing { count: 0, since });
        missing.count = missing.count.saturating_add(count);
    }

    fn damaged(&mut self, error: Error) {
        self.miss(0);
        match &mut self.damage {
            Some((_, count)) => *count += 1,
            none => *none = Some((error, 1)),
        }
    }

    /// Goes on to the next page; false if there is none.
    fn turn(&mut self) -> bool {
        while self.begin >= self.window.len() {
            self.begin = 0;
            self.window.clear();
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => self.damaged(error),
            }
        }
        let last = self.window.len().min(self.begin + self.page);
        let page = &self.window[self.begin..last];
        match Records::begin(page, self.layout) {
            Ok((records, missed)) => {
                self.records = Some(records);
                match missed {
                    Missed::Nothing => {}
                    Missed::Some(records) => {
                        self.lost = self.lost.saturating_add(records);
                        self.miss(records);
                    }
                    Missed::Unknown => {
                        self.gaps += 1;
                        self.miss(0);
                    }
                }
            }
            Err(wrong) => {
                self.damaged(self.wrong(wrong));
                self.begin += self.page;
            }
        }
        true
    }

    /// What is wrong in the current page.
    fn wrong(&self, wrong: ring::Wrong) -> Error {
        // Of packed pages, only the chunk has a place in the file.
        let at = if self.packing == Packing::None { self.base + self.begin as u64 } else { self.base };
        ring::wrong(at, wrong)
    }

    /// Reads the next pages; false if there are none.
    fn fill(&mut self) -> Result<bool, Error> {
        self.base = self.at;
        if self.packing == Packing::None {
            let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let len = left.min((WINDOW.min(self.room) / self.page).max(1) * self.page);
            if len == 0 {
                return Ok(false);
            }
            self.at += len as u64;
            self.window.resize(len, 0);
            // A disk that cannot be read here may be read further on.
            return self
                .input
                .read(self.base, &mut self.window)
                .map(|()| true)
                .inspect_err(|_| self.window.clear());
        }
        if self.chunks == 0 {
            return Ok(false);
        }
        self.chunks -= 1;
        let most = u32::try_from(self.room).unwrap_or(u32::MAX);
        let sizes = self.input.piece(self.at, 8);
        let sizes = sizes.and_then(|sizes| Packing::sizes(&mut Cursor::new(&sizes, self.at), most));
        let packed = sizes.and_then(|(packed, unpacked)| {
            if self.at + 8 + u64::from(packed) > self.end {
                return Err(Error::damaged(self.at, "a chunk that goes beyond its CPU's records"));
            }
            self.left = self.left.checked_sub(unpacked.into()).ok_or_else(|| {
                let what = "chunks that become more than any records that were packed into as few bytes";
                Error::damaged(self.at, what)
            })?;
            Ok((self.input.piece(self.at + 8, packed.into())?, unpacked))
        });
        let (packed, unpacked) = packed.inspect_err(|_| self.chunks = 0)?;
        self.at += 8 + packed.len() as u64;
        self.packing
            .unpack(&packed, unpacked, self.base, &mut self.window)
            .map(|()| true)
            .inspect_err(|_| self.window.clear())
    }
}

impl Stream for Cpu<'_> {
    #[inline]
    fn time(&self) -> Option<i64> {
        self.next.map(|(time, _, _)| time)
    }

    #[inline]
    fn record(&self) -> (u32, &[u8]) {
        let place = self.next.and_then(|(_, from, to)| self.window.get(self.begin + from..self.begin + to));
        (self.cpu, place.unwrap_or_default())
    }

    #[inline]
    fn missing(&mut self) -> Option<Missing> {
        self.missing.take()
    }

    #[inline]
    fn advance(&mut self) {
        loop {
            let Some(records) = &mut self.records else {
                if self.turn() {
                    continue;
                }
                self.next = None;
                return;
            };
            let last = self.window.len().min(self.begin + self.page);
            match records.next(&self.window[self.begin..last]) {
                Ok(Some((from, to))) => {
                    self.next = Some((self.clock.line(records.time), from, to));
                    return;
                }
                Ok(None) => {
                    self.records = None;
                    self.begin += self.page;
                }
                Err(wrong) => {
                    self.damaged(self.wrong(wrong));
                    self.records = None;
                    self.begin += self.page;
                }
            }
        }
    }
}
