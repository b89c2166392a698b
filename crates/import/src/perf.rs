//! perf.data, the file of `perf record`: tools/perf/Documentation/perf.data-file-format.txt and perf_event_open(2).

mod layout;
mod rounds;
mod tape;

use rustc_hash::FxHashSet;

use crate::{
    dat::{self, Options},
    error::{Error, ErrorKind},
    format::Format,
    input::{Cursor, Input},
};

use layout::Layout;
pub(crate) use rounds::replay;
use tape::Tape;

/// What every perf.data begins with.
pub(crate) const MAGIC: &[u8] = b"PERFILE2";

/// Features: sections behind the records, in the order of their numbers.
const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const FEATURES: u32 = 256;

/// Records; those from 64 on are perf's own.
pub(crate) mod kind {
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const EXIT: u32 = 4;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const LOST_SAMPLES: u32 = 13;
    pub(crate) const HEADER_ATTR: u32 = 64;
    pub(crate) const TRACING_DATA: u32 = 66;
    pub(crate) const FINISHED_ROUND: u32 = 68;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const HEADER_FEATURE: u32 = 80;
    pub(crate) const COMPRESSED: u32 = 81;
}

/// A perf.data: what describes the records.
pub(crate) struct Perf {
    /// What trace-cmd's files say in options.
    pub options: Options,
    pub formats: Vec<Format>,
    /// What could not be read, though the records could.
    pub damage: Vec<Error>,
    layout: Layout,
    /// Numbers of the tracepoints that were recorded.
    tracepoints: FxHashSet<u64>,
    /// Where the records are.
    begin: u64,
    end: u64,
}

/// The most events that one recording has.
const ATTRS: u64 = 1 << 16;

impl Perf {
    /// Reads what describes the records.
    pub(crate) fn open(input: &Input) -> Result<Self, Error> {
        let head = input.piece(0, input.len().min(104))?;
        let mut cursor = Cursor::new(&head, 0);
        cursor.take(8)?;
        let mut perf = Self {
            options: Options { clock: "perf".to_owned(), ..Options::default() },
            formats: Vec::new(),
            damage: Vec::new(),
            layout: Layout::default(),
            tracepoints: FxHashSet::default(),
            begin: 16,
            end: input.len(),
        };
        let mut names = [const { String::new() }; 3];
        match cursor.u64()? {
            104 => perf.read_file(input, &mut cursor, &mut names)?,
            // Written to a pipe: all that describes is in records.
            16 => perf.read_pipe(input, &mut names)?,
            _ => {
                let what = "is a perf.data of a big-endian machine or of a perf before 2.6.32: neither is understood";
                return Err(Error::new(ErrorKind::Foreign, what));
            }
        }
        let [host, release, machine] = names;
        // As `uname` says it.
        let known = |name: String| if name.is_empty() { "?".to_owned() } else { name };
        perf.options.uname = format!("Linux {} {} {}", known(host), known(release), known(machine));
        if perf.formats.is_empty() {
            let what = "has no tracepoints: record some (`perf record -e 'sched:*,block:*'`)";
            return Err(perf.damage.pop().unwrap_or_else(|| Error::new(ErrorKind::Foreign, what)));
        }
        Ok(perf)
    }

    fn read_file(
        &mut self,
        input: &Input,
        cursor: &mut Cursor,
        names: &mut [String; 3],
    ) -> Result<(), Error> {
        let size = cursor.u64()?;
        let (attrs, attrs_len) = (cursor.u64()?, cursor.u64()?);
        let (data, data_len) = (cursor.u64()?, cursor.u64()?);
        let _event_types = cursor.take(16)?;
        let features = cursor.take(u64::from(FEATURES / 8))?;
        if size < 64 + 16 || attrs_len / size > ATTRS {
            return Err(Error::damaged(16, format!("{attrs_len} bytes of events of {size} bytes each")));
        }
        let described = input.piece(attrs, attrs_len)?;
        for (attr, place) in described.chunks_exact(usize::try_from(size).unwrap_or(usize::MAX)).zip(0..) {
            self.attr(attr, attrs + place * size)?;
        }
        (self.begin, self.end) = (data, data.saturating_add(data_len));
        if data_len == 0 || self.end > input.len() {
            // It is written in the end: perf was killed.
            let what = "its end is missing: perf did not come to it";
            self.damage.push(Error::damaged(input.len(), what));
            self.end = input.len();
            return Ok(());
        }
        let table = input
            .piece(self.end, u64::from(features.iter().map(|byte| byte.count_ones()).sum::<u32>()) * 16)?;
        let mut table = Cursor::new(&table, self.end);
        for feature in (0..FEATURES).filter(|bit| features[*bit as usize / 8] & 1 << (bit % 8) != 0) {
            let (at, len) = (table.u64()?, table.u64()?);
            let done = self.feature(feature, input, at, len, names);
            self.damage.extend(done.err());
        }
        Ok(())
    }

    fn read_pipe(&mut self, input: &Input, names: &mut [String; 3]) -> Result<(), Error> {
        let mut tape = Tape::new(input, self.begin, self.end);
        let mut described = false;
        while let Some(record) = tape.next()? {
            let at = record.at + 8;
            match record.kind {
                kind::HEADER_ATTR => self.attr(tape.body(), at)?,
                // It comes once. What says so again and again would be read each time, up to the end of the file.
                kind::TRACING_DATA if !std::mem::replace(&mut described, true) => {
                    self.feature(TRACING_DATA, input, at + 8, u64::MAX, names)?;
                }
                kind::HEADER_FEATURE => {
                    let number = Cursor::new(tape.body(), at).u64()?;
                    let number = u32::try_from(number).unwrap_or(FEATURES);
                    let done = self.feature(number, input, at + 8, record.len.saturating_sub(16), names);
                    self.damage.extend(done.err());
                }
                kind::SAMPLE | kind::COMPRESSED => break,
                _ => {}
            }
        }
        Ok(())
    }

    /// An event that was recorded: `struct perf_event_attr`.
    fn attr(&mut self, attr: &[u8], at: u64) -> Result<(), Error> {
        /// include/uapi/linux/perf_event.h: a tracepoint; and what has no samples, only what is told of threads.
        const TYPE_TRACEPOINT: u32 = 2;
        const DUMMY: (u32, u64) = (1, 9);
        let mut cursor = Cursor::new(attr, at);
        let (kind, _size, config) = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
        let (_period, sample, read, flags) = (cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
        if (kind, config) == DUMMY {
            return Ok(());
        }
        if kind != TYPE_TRACEPOINT {
            let what = "has samples of events that are no tracepoints: record those apart";
            return Err(Error::new(ErrorKind::Foreign, what));
        }
        let layout = Layout::of(sample, read, flags);
        if self.tracepoints.is_empty() {
            self.layout = layout;
        } else if self.layout != layout {
            let what = "has events whose samples hold different things: record them with the same options";
            return Err(Error::new(ErrorKind::Foreign, what));
        }
        if self.layout.time.is_none() || self.layout.raw.is_none() {
            let what = "has samples without their times and contents: record with `perf record -e TRACEPOINT`, which asks for both";
            return Err(Error::new(ErrorKind::Foreign, what));
        }
        self.tracepoints.insert(config);
        Ok(())
    }

    fn feature(
        &mut self,
        feature: u32,
        input: &Input,
        at: u64,
        len: u64,
        names: &mut [String; 3],
    ) -> Result<(), Error> {
        let text = || -> Result<String, Error> {
            let content = input.piece(at, len.min(4096))?;
            let mut cursor = Cursor::new(&content, at);
            let len = cursor.u32()?;
            let text = Cursor::new(cursor.take(len.into())?, at).text()?;
            Ok(text.split_ascii_whitespace().next().unwrap_or_default().to_owned())
        };
        match feature {
            TRACING_DATA => self.formats = dat::formats(input, at)?,
            HOSTNAME => names[0] = text()?,
            OSRELEASE => names[1] = text()?,
            ARCH => names[2] = text()?,
            NRCPUS => self.options.cpus = Cursor::new(&input.piece(at, 4)?, at).u32()?,
            _ => {}
        }
        Ok(())
    }

    /// Whether the tracepoint of that name was recorded.
    fn recorded(&self, name: &str) -> bool {
        self.formats.iter().any(|format| format.name == name && self.tracepoints.contains(&format.id.into()))
    }
}
