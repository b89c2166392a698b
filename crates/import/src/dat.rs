//! trace.dat, the file of trace-cmd: trace-cmd.dat.v6(5), trace-cmd.dat.v7(5).

mod clock;
mod cpu;
mod options;
mod packed;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::{
    error::{Error, ErrorKind},
    format::Format,
    input::{Cursor, Input},
    ring::Layout,
};

pub(crate) use clock::{Clock, Rate};
pub(crate) use cpu::Cpu;
use options::{Buffer, CMDLINES, DONE, EVENT_FORMATS, FTRACE_EVENTS, HEADER_INFO, MANY, Place};
pub(crate) use options::{Guest, Options};
pub(crate) use packed::RATIO;
use packed::{MOST, Packing};

/// What every trace.dat begins with.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The most that pages of all processors take in memory, in bytes.
const MEMORY: usize = 512 << 20;

/// The most sections of options: one follows the other.
const SECTIONS: usize = 1000;

/// The most bytes of all sections, unpacked: each may be told of again and again.
const SECTION_BYTES: u64 = 256 << 20;

/// A trace.dat: what describes the records.
pub(crate) struct Dat {
    pub options: Options,
    pub formats: Vec<Format>,
    /// Threads and their names, when the recording ended.
    pub names: Vec<(u32, Vec<u8>)>,
    layout: Layout,
    packing: Packing,
    page: u32,
    /// Bytes of sections that were read.
    described: u64,
    /// What could not be read, though the records could.
    pub damage: Vec<Error>,
}

/// Goes through a file.
struct Walk<'a> {
    input: &'a Input,
    at: u64,
}

impl Walk<'_> {
    fn bytes(&mut self, len: u64) -> Result<Vec<u8>, Error> {
        let bytes = self.input.piece(self.at, len)?;
        self.at += len;
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, Error> {
        let at = self.at;
        Cursor::new(&self.bytes(2)?, at).u16()
    }

    fn u32(&mut self) -> Result<u32, Error> {
        let at = self.at;
        Cursor::new(&self.bytes(4)?, at).u32()
    }

    fn u64(&mut self) -> Result<u64, Error> {
        let at = self.at;
        Cursor::new(&self.bytes(8)?, at).u64()
    }

    /// A short text that a zero byte ends.
    fn text(&mut self) -> Result<String, Error> {
        let len = self.input.len().saturating_sub(self.at).min(256);
        let bytes = self.input.piece(self.at, len)?;
        let mut cursor = Cursor::new(&bytes, self.at);
        let text = cursor.text()?;
        self.at = cursor.place();
        Ok(text)
    }

    fn skip(&mut self, len: u64) {
        self.at = self.at.saturating_add(len);
    }
}

impl Dat {
    /// Behind the byte order.
    fn begin(walk: &mut Walk) -> Result<Self, Error> {
        // The size of a `long` in user space, which is not the kernel's.
        walk.skip(1);
        Ok(Self {
            options: Options::default(),
            formats: Vec::new(),
            names: Vec::new(),
            layout: Layout::default(),
            packing: Packing::None,
            page: walk.u32()?,
            described: 0,
            damage: Vec::new(),
        })
    }

    /// Reads what describes the records.
    pub(crate) fn open(input: &Input) -> Result<Self, Error> {
        let mut walk = Walk { input, at: MAGIC.len() as u64 };
        let version: u32 = walk.text()?.parse().unwrap_or(0);
        let foreign = |what: String| Error::new(ErrorKind::Foreign, what);
        if ![6, 7].contains(&version) {
            return Err(foreign(
                "is a trace.dat of a version that is not known: 6 and 7 are; `trace-cmd convert` makes one of the other"
                    .into(),
            ));
        }
        if walk.bytes(1)? != [0] {
            return Err(foreign(
                "was recorded on a big-endian machine: only little-endian ones are understood".into(),
            ));
        }
        let mut dat = Self::begin(&mut walk)?;
        if version == 6 {
            dat.read_6(&mut walk)?
        } else {
            dat.read_7(&mut walk)?
        }
        if dat.options.buffers.is_empty() && dat.options.text {
            return Err(foreign(
                "holds a trace in words: record events (`trace-cmd record -e`), not latencies".into(),
            ));
        }
        if dat.options.buffers.is_empty() {
            let told = "it does not say where its records are, which is written last";
            return Err(dat.damage.pop().unwrap_or_else(|| Error::damaged(input.len(), told)));
        }
        if dat.formats.is_empty() {
            let told = "it has no formats of events, without which records mean nothing";
            return Err(dat.damage.pop().unwrap_or_else(|| Error::damaged(0, told)));
        }
        Ok(dat)
    }

    /// One thing follows the other, up to where the records are.
    fn read_6(&mut self, walk: &mut Walk) -> Result<(), Error> {
        self.described(walk)?;
        // The symbols of the kernel, and texts of trace_printk.
        for _ in 0..2 {
            let len = walk.u32()?;
            walk.skip(len.into());
        }
        let len = walk.u64()?;
        self.cmdlines(&walk.bytes(len)?);
        let (at, cpus) = (walk.at, walk.u32()?);
        if cpus > MANY {
            return Err(Error::damaged(at, format!("{cpus} CPUs")));
        }
        let top = Buffer { offset: walk.at, ..Buffer::default() };
        self.options.cpus = cpus;
        self.options.buffers.push(top);
        let mut at = 0;
        while at < self.options.buffers.len() {
            walk.at = self.options.buffers[at].offset;
            if at * cpus as usize > MANY as usize {
                return Err(Error::damaged(walk.at, format!("{at} buffers of {cpus} CPUs each")));
            }
            if let Some(places) = self.places_6(walk, cpus, at == 0)? {
                self.options.buffers[at].cpus = places;
                self.options.buffers[at].page = self.page;
            }
            at += 1;
        }
        self.options.buffers.retain(|buffer| !buffer.cpus.is_empty());
        Ok(())
    }

    /// How pages and events look.
    fn described(&mut self, walk: &mut Walk) -> Result<(), Error> {
        walk.skip(12);
        let len = walk.u64()?;
        self.header_page(&walk.bytes(len)?);
        walk.skip(13);
        let len = walk.u64()?;
        walk.skip(len);
        for _ in 0..walk.u32()? {
            let len = walk.u64()?;
            self.format("ftrace", &walk.bytes(len)?);
        }
        for _ in 0..walk.u32()? {
            let system = walk.text()?;
            for _ in 0..walk.u32()? {
                let len = walk.u64()?;
                self.format(&system, &walk.bytes(len)?);
            }
        }
        Ok(())
    }

    /// Where an instance's records are; none if they are words. The first one has the options as well.
    fn places_6(&mut self, walk: &mut Walk, cpus: u32, first: bool) -> Result<Option<Vec<Place>>, Error> {
        let mut tag = walk.bytes(10)?;
        if first && tag.starts_with(b"options") {
            loop {
                let kind = walk.u16()?;
                if kind == DONE {
                    break;
                }
                let len = walk.u32()?;
                let at = walk.at;
                let data = walk.bytes(len.into())?;
                self.options.take(kind, &data, at, 6)?;
            }
            tag = walk.bytes(10)?;
        }
        if tag.starts_with(b"latency") {
            self.options.text = true;
            return Ok(None);
        }
        if !tag.starts_with(b"flyrecord") {
            return Err(Error::damaged(walk.at - 10, "neither options nor records, which belong here"));
        }
        let at = walk.at;
        let table = walk.bytes(u64::from(cpus) * 16)?;
        let mut table = Cursor::new(&table, at);
        let mut places = Vec::new();
        for cpu in 0..cpus {
            places.push(Place { cpu, offset: table.u64()?, size: table.u64()? });
        }
        Ok(Some(places))
    }

    /// Options say where everything is.
    fn read_7(&mut self, walk: &mut Walk) -> Result<(), Error> {
        let (at, name, _version) = (walk.at, walk.text()?, walk.text()?);
        self.packing = Packing::of(&name).ok_or_else(|| {
            let what = format!("is compressed with {name:?}, which is not known at byte {at}: `trace-cmd convert --compression zstd` makes one that is");
            Error::new(ErrorKind::Foreign, what)
        })?;
        let mut next = walk.u64()?;
        for _ in 0..SECTIONS {
            if next == 0 {
                break;
            }
            next = match self.options_7(walk.input, next) {
                Ok(next) => next,
                // What came before it may suffice.
                Err(error) => {
                    self.damage.push(error);
                    break;
                }
            };
        }
        for (kind, read) in [
            (HEADER_INFO, Self::header_info as fn(&mut Self, &mut Cursor) -> Result<(), Error>),
            (FTRACE_EVENTS, Self::ftrace_events),
            (EVENT_FORMATS, Self::event_formats),
            (CMDLINES, Self::saved_names),
        ] {
            let Some(at) = self.options.section(kind) else { continue };
            let done = self
                .section(walk.input, at, kind)
                .and_then(|content| read(self, &mut Cursor::new(&content, at)));
            if let Err(error) = done {
                self.damage.push(error);
            }
        }
        Ok(())
    }

    /// Takes a section of options in; where the next one is.
    fn options_7(&mut self, input: &Input, at: u64) -> Result<u64, Error> {
        let content = self.section(input, at, DONE)?;
        let mut cursor = Cursor::new(&content, at + 16);
        loop {
            let kind = cursor.u16()?;
            let len = cursor.u32()?;
            let at = cursor.place();
            let data = cursor.take(len.into())?;
            if kind == DONE {
                let next = Cursor::new(data, at).u64()?;
                return Ok(next);
            }
            self.options.take(kind, data, at, 7)?;
        }
    }

    /// The content of the section at byte `at`, unpacked.
    fn section(&mut self, input: &Input, at: u64, kind: u16) -> Result<Vec<u8>, Error> {
        let (found, packed, size) = header(input, at)?;
        if found != kind {
            return Err(Error::damaged(
                at,
                format!("a section of kind {found}, where one of kind {kind} belongs"),
            ));
        }
        if !packed {
            self.describe(at, size)?;
            return input.piece(at + 16, size);
        }
        let sizes = input.piece(at + 16, 8)?;
        let (packed, unpacked) = Packing::sizes(&mut Cursor::new(&sizes, at + 16), MOST)?;
        self.describe(at, unpacked.into())?;
        let mut content = Vec::new();
        self.packing.unpack(&input.piece(at + 24, packed.into())?, unpacked, at + 24, &mut content)?;
        Ok(content)
    }

    /// Counts a section at byte `at` that has so many bytes.
    fn describe(&mut self, at: u64, bytes: u64) -> Result<(), Error> {
        self.described = self.described.saturating_add(bytes);
        if self.described > SECTION_BYTES {
            return Err(Error::damaged(at, format!("more than {SECTION_BYTES} bytes of description")));
        }
        Ok(())
    }

    fn header_info(&mut self, cursor: &mut Cursor) -> Result<(), Error> {
        cursor.text()?;
        let len = cursor.u64()?;
        self.header_page(cursor.take(len)?);
        Ok(())
    }

    fn ftrace_events(&mut self, cursor: &mut Cursor) -> Result<(), Error> {
        for _ in 0..cursor.u32()? {
            let len = cursor.u64()?;
            self.format("ftrace", cursor.take(len)?);
        }
        Ok(())
    }

    fn event_formats(&mut self, cursor: &mut Cursor) -> Result<(), Error> {
        for _ in 0..cursor.u32()? {
            let system = cursor.text()?;
            for _ in 0..cursor.u32()? {
                let len = cursor.u64()?;
                self.format(&system, cursor.take(len)?);
            }
        }
        Ok(())
    }

    fn saved_names(&mut self, cursor: &mut Cursor) -> Result<(), Error> {
        let len = cursor.u64()?;
        self.cmdlines(cursor.take(len)?);
        Ok(())
    }

    fn header_page(&mut self, text: &[u8]) {
        if let Some(layout) = Layout::parse(&String::from_utf8_lossy(text)) {
            self.layout = layout;
        }
    }

    fn format(&mut self, system: &str, text: &[u8]) {
        self.formats.extend(Format::parse(system, &String::from_utf8_lossy(text)));
    }

    /// Lines of a thread's number and its name.
    fn cmdlines(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            let Some(space) = line.iter().position(|&byte| byte == b' ') else { continue };
            let number = std::str::from_utf8(&line[..space]).ok().and_then(|number| number.parse().ok());
            self.names.extend(number.map(|number: u32| (number, line[space + 1..].to_vec())));
        }
    }

    /// The records, processor by processor. `clock` gives a processor's.
    pub(crate) fn cpus<'a>(
        &self,
        input: &'a Input,
        clock: impl Fn(u32) -> Clock,
    ) -> Result<Vec<Cpu<'a>>, Error> {
        let places =
            self.options.buffers.iter().flat_map(|buffer| &buffer.cpus).filter(|place| place.size > 0);
        let count = places.clone().count().max(1);
        let claimed = places.map(|place| place.size).fold(0, u64::saturating_add);
        if claimed > input.len() {
            let what =
                format!("records of {claimed} bytes, of which {} cannot be there", claimed - input.len());
            return Err(Error::damaged(input.len(), what));
        }
        if count > MANY as usize {
            return Err(Error::damaged(input.len(), format!("records of {count} CPUs")));
        }
        // What all of them together may hold.
        let room = (MEMORY / count).next_power_of_two();
        let mut cpus = Vec::new();
        // A file may tell of one processor as often as of all, and its clock be as large as the file.
        let mut clocks: FxHashMap<u32, Rc<Clock>> = FxHashMap::default();
        for buffer in &self.options.buffers {
            // The kernel's pages may have grown since; a file of version 6 has one size for all.
            let page = if buffer.page == 0 { self.page } else { buffer.page };
            if !(64..=1 << 24).contains(&page) || page as usize > room {
                let what = format!("pages of {page} bytes, of {count} CPUs");
                return Err(Error::damaged(buffer.offset, what));
            }
            let packing = match self.packing {
                Packing::None => Packing::None,
                packing if header(input, buffer.offset)?.1 => packing,
                _ => Packing::None,
            };
            for place in buffer.cpus.iter().filter(|place| place.size > 0) {
                let clock = clocks.entry(place.cpu).or_insert_with(|| Rc::new(clock(place.cpu)));
                let clock = Rc::clone(clock);
                cpus.push(Cpu::open(input, *place, (page, self.layout, packing), room, clock));
            }
        }
        Ok(cpus)
    }
}

/// The formats of events in what perf.data has of trace.dat: its beginning, up to the formats.
pub(crate) fn formats(input: &Input, at: u64) -> Result<Vec<Format>, Error> {
    let mut walk = Walk { input, at };
    if walk.bytes(MAGIC.len() as u64)? != MAGIC {
        return Err(Error::damaged(at, "the formats of tracepoints do not begin as they should"));
    }
    let _version = walk.text()?;
    // The byte order, which is the file's.
    walk.skip(1);
    let mut dat = Dat::begin(&mut walk)?;
    dat.described(&mut walk)?;
    Ok(dat.formats)
}

/// Of a section's header: its kind, whether it is packed, its size.
fn header(input: &Input, at: u64) -> Result<(u16, bool, u64), Error> {
    let header = input.piece(at, 16)?;
    let mut cursor = Cursor::new(&header, at);
    let (kind, flags, _description, size) = (cursor.u16()?, cursor.u16()?, cursor.u32()?, cursor.u64()?);
    Ok((kind, flags & 1 != 0, size))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_processor_that_is_told_of_again_and_again_has_one_clock() {
        let input = Input::of(vec![0; 1 << 20]);
        let mut dat =
            Dat::begin(&mut Walk { input: &input, at: 0 }).unwrap_or_else(|error| panic!("{error}"));
        let cpus = (0..1000).map(|nth| Place { cpu: nth % 2, offset: 4096, size: 16 }).collect();
        dat.options.buffers.push(Buffer { page: 4096, cpus, ..Buffer::default() });
        let made = Cell::new(0);
        let clock = |_| {
            made.set(made.get() + 1);
            Clock::default()
        };
        let cpus = dat.cpus(&input, clock).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((cpus.len(), made.get()), (1000, 2));
    }
}
