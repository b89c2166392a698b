//! The options of a trace.dat: trace-cmd.dat.v7(5) describes them, the same in version 6 but for `BUFFER`.

use super::clock::{Rate, Shift};
use crate::{
    error::Error,
    input::{Cursor, shown, trimmed},
};

/// What the options say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// What the domain is called, of a kind of file that has one name for all.
    pub called: Option<&'static str>,
    /// Which of Xen's domains it was recorded in, as the user says.
    pub domid: Option<u16>,
    pub buffers: Vec<Buffer>,
    pub clock: String,
    /// Times are in nanoseconds, whatever the clock is.
    pub nanoseconds: bool,
    /// `Linux HOSTNAME RELEASE MACHINE`
    pub uname: String,
    pub offset: i64,
    pub id: Option<u64>,
    pub cpus: u32,
    pub rate: Option<Rate>,
    /// How fast the TSC counts, in Hz, if that is known better than by [`Options::rate`]; else 0.
    pub tsc_hz: u64,
    pub shifts: Option<Shifts>,
    pub guests: Vec<Guest>,
    /// Records that the kernel lost, of all processors.
    pub overrun: u64,
    /// Where sections are: kind, offset.
    pub sections: Vec<(u16, u64)>,
    /// There is a trace in words.
    pub text: bool,
}

/// How this guest's times become its host's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shifts {
    /// [`Options::id`] of the host's file.
    pub peer: u64,
    pub interpolate: bool,
    /// Per processor.
    pub cpus: Vec<Vec<Shift>>,
}

/// A guest that was traced with its host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guest {
    pub name: String,
    /// [`Options::id`] of its file.
    pub id: u64,
    /// Threads of the host that run its processors.
    pub threads: Vec<u32>,
}

/// Records of one instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// Where its section is.
    pub offset: u64,
    pub clock: String,
    pub page: u32,
    pub cpus: Vec<Place>,
}

/// Where the records of a processor are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub cpu: u32,
    pub offset: u64,
    pub size: u64,
}

/// Kinds of options; those above [`HEADER_INFO`] say where a section of the same kind is.
pub(crate) const DONE: u16 = 0;
const CPUSTAT: u16 = 2;
const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const OFFSET: u16 = 7;
const CPUCOUNT: u16 = 8;
const TRACEID: u16 = 11;
const TIME_SHIFT: u16 = 12;
const GUEST: u16 = 13;
const TSC2NSEC: u16 = 14;
pub(crate) const HEADER_INFO: u16 = 16;
pub(crate) const FTRACE_EVENTS: u16 = 17;
pub(crate) const EVENT_FORMATS: u16 = 18;
pub(crate) const CMDLINES: u16 = 21;
const BUFFER_TEXT: u16 = 22;

/// No machine has more processors, nor a host more guests: what is beyond is damage.
pub(super) const MANY: u32 = 1 << 16;

impl Options {
    /// Takes an option in. In version 6, a buffer tells only where it is and what it is called.
    pub(crate) fn take(&mut self, kind: u16, data: &[u8], at: u64, version: u32) -> Result<(), Error> {
        let mut cursor = Cursor::new(data, at);
        let text = || String::from_utf8_lossy(trimmed(data)).into_owned();
        match kind {
            CPUSTAT => {
                for line in text().lines() {
                    if let Some(("overrun" | "commit overrun" | "dropped events", number)) =
                        line.split_once(':')
                    {
                        let number: u64 = number.trim().parse().unwrap_or(0);
                        self.overrun = self.overrun.saturating_add(number);
                    }
                }
            }
            BUFFER => self.buffers.push(Buffer::read(&mut cursor, version)?),
            BUFFER_TEXT => self.text = true,
            TRACECLOCK => self.clock = selected(&text()),
            UNAME => self.uname = shown(text().as_bytes()),
            OFFSET => self.offset = text().trim().parse().unwrap_or(0),
            CPUCOUNT => self.cpus = cursor.u32()?,
            TRACEID => self.id = Some(cursor.u64()?),
            TIME_SHIFT if data.len() > 16 => self.shifts = Some(Shifts::read(&mut cursor)?),
            GUEST => self.guests.push(Guest::read(&mut cursor)?),
            TSC2NSEC => {
                let (mult, shift) = (cursor.u32()?, cursor.u32()?);
                self.rate = Some(Rate { mult, shift, offset: cursor.u64()? }).filter(|_| mult != 0);
            }
            HEADER_INFO..=CMDLINES => self.sections.push((kind, cursor.u64()?)),
            // Nothing that events need.
            _ => {}
        }
        Ok(())
    }

    /// Where the section of that kind is.
    pub(crate) fn section(&self, kind: u16) -> Option<u64> {
        self.sections.iter().find(|(known, _)| *known == kind).map(|(_, offset)| *offset)
    }

    /// The clock that most records have: that of the first buffer.
    pub(crate) fn clock(&self) -> &str {
        let first = self.buffers.iter().map(|buffer| buffer.clock.as_str()).find(|clock| !clock.is_empty());
        first.unwrap_or(&self.clock)
    }

    /// A word of `uname`.
    pub(crate) fn uname(&self, word: usize) -> &str {
        self.uname.split_ascii_whitespace().nth(word).unwrap_or_default()
    }
}

/// Of the clocks that tracefs lists, the one in brackets; else what is there.
fn selected(list: &str) -> String {
    let inside = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    shown(inside.map_or(list, |(clock, _)| clock).trim().as_bytes())
}

fn count(cursor: &mut Cursor, what: &str) -> Result<u32, Error> {
    let at = cursor.place();
    let count = cursor.u32()?;
    if count > MANY { Err(Error::damaged(at, format!("{count} {what}"))) } else { Ok(count) }
}

impl Buffer {
    fn read(cursor: &mut Cursor, version: u32) -> Result<Self, Error> {
        let mut buffer = Self { offset: cursor.u64()?, ..Self::default() };
        let _instance = cursor.text()?;
        if version >= 7 {
            buffer.clock = cursor.text()?;
            buffer.page = cursor.u32()?;
            for _ in 0..count(cursor, "CPUs of a buffer")? {
                let (cpu, offset, size) = (cursor.u32()?, cursor.u64()?, cursor.u64()?);
                buffer.cpus.push(Place { cpu, offset, size });
            }
        }
        Ok(buffer)
    }
}

impl Shifts {
    fn read(cursor: &mut Cursor) -> Result<Self, Error> {
        /// The offset between two samples is to be interpolated: trace-cmd's `TSYNC_FLAG_INTERPOLATE`.
        const INTERPOLATE: u32 = 1;
        let peer = cursor.u64()?;
        let interpolate = cursor.u32()? & INTERPOLATE != 0;
        let mut cpus = Vec::new();
        for _ in 0..count(cursor, "CPUs of a guest")? {
            let at = cursor.place();
            let samples = cursor.u32()?;
            // Each takes 24 bytes: no more room is made than there is data.
            let bytes = u64::from(samples) * 8;
            if bytes.saturating_mul(3) > cursor.rest().len() as u64 {
                return Err(Error::damaged(at, format!("{samples} samples of a clock, which are not there")));
            }
            let (mut times, base) = (Cursor::new(cursor.take(bytes)?, 0), cursor.place());
            let mut offsets = Cursor::new(cursor.take(bytes)?, base);
            let mut scalings = Cursor::new(cursor.take(bytes)?, base);
            let mut shifts = Vec::new();
            for _ in 0..samples {
                let (time, offset, scaling) = (times.u64()?, offsets.u64()?, scalings.u64()?);
                shifts.push(Shift { time, offset: offset.cast_signed(), scaling, fraction: 0 });
            }
            cpus.push(shifts);
        }
        // Older versions have none.
        if !cursor.rest().is_empty() {
            for shift in cpus.iter_mut().flatten() {
                shift.fraction = u32::try_from(cursor.u64()?).unwrap_or(u32::MAX);
            }
        }
        for shifts in &mut cpus {
            shifts.sort_by_key(|shift| shift.time);
            shifts.dedup_by_key(|shift| shift.time);
            // Nobody's time stands still.
            shifts.retain(|shift| shift.scaling != 0);
        }
        Ok(Self { peer, interpolate, cpus })
    }
}

impl Guest {
    fn read(cursor: &mut Cursor) -> Result<Self, Error> {
        let mut guest = Self { name: cursor.text()?, id: cursor.u64()?, threads: Vec::new() };
        for _ in 0..count(cursor, "CPUs of a guest")? {
            let (_cpu, thread) = (cursor.u32()?, cursor.u32()?);
            guest.threads.push(thread);
        }
        Ok(guest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_in_brackets_is_meant() {
        assert_eq!(selected("local [global] mono\n"), "global");
        assert_eq!(selected("mono"), "mono");
    }

    #[test]
    fn counts_that_cannot_be_are_damage() {
        let mut options = Options::default();
        let mut guest = b"vm1\0".to_vec();
        guest.extend(7u64.to_le_bytes());
        guest.extend(u32::MAX.to_le_bytes());
        assert!(options.take(GUEST, &guest, 0, 7).unwrap_err().to_string().contains("at byte 12"));
        let mut shift = vec![0; 12];
        shift.extend([1u32, 1 << 30].into_iter().flat_map(u32::to_le_bytes));
        shift.extend([0; 40]);
        assert!(options.take(TIME_SHIFT, &shift, 0, 7).unwrap_err().to_string().contains("samples"));
    }

    #[test]
    fn what_the_kernel_lost_is_added_up() {
        let mut options = Options::default();
        for _ in 0..2 {
            options
                .take(CPUSTAT, b"CPU: 0\noverrun: 3\ncommit overrun: 1\ndropped events: 2\n\0", 0, 7)
                .unwrap();
        }
        assert_eq!(options.overrun, 12);
    }
}
