//! The records of all CPUs in the order of their times.
//!
//! xentrace goes from CPU to CPU and writes what is in each one's buffer, as a window: a record `TRC_TRACE_CPU_CHANGE`
//! with the CPU and the size, then the records (`tools/xentrace/xentrace.c`, `write_buffer`). A CPU's records are in
//! order; what two CPUs did at a time may be windows apart, but never more rounds than one. So the file is read once,
//! some windows ahead.

use std::{cmp::Reverse, collections::BinaryHeap};

use rustc_hash::FxHashMap;

use super::{
    cpu::{Cpu, Window},
    record::{CPU_CHANGE, Record},
};
use crate::{
    error::Error,
    input::{Cursor, Input},
};

/// What a window begins with: `CPU_CHANGE_HEADER` of `tools/xentrace/xentrace.c`, a record of two words without a time.
pub(super) const HEADER: u32 = CPU_CHANGE | 2 << 28;

/// Bytes of it.
const HEADER_LEN: u64 = 12;

/// `NR_CPUS` is at most 4095 (`xen/arch/Kconfig`).
const CPUS: u32 = 4096;

/// So many windows are known before the first of them is read. In a round of xentrace's, each CPU has one at most.
const AHEAD: usize = 16 * CPUS as usize;

/// So many things that are wrong are told; the others are counted.
const TOLD: usize = 8;

/// The windows of a file, one after the other.
struct Windows<'a> {
    input: &'a Input,
    at: u64,
    end: u64,
}

impl Windows<'_> {
    fn next(&mut self) -> Result<Option<(u32, Window)>, Error> {
        if self.at >= self.end {
            return Ok(None);
        }
        let begin = self.at;
        // After damage, nothing tells where the next one begins.
        self.at = self.end;
        let header = self.input.piece(begin, HEADER_LEN.min(self.end - begin))?;
        let mut cursor = Cursor::new(&header, begin);
        if cursor.u32().ok() != Some(HEADER) {
            return Err(Error::damaged(begin, "not the records of a CPU (TRC_TRACE_CPU_CHANGE)"));
        }
        let (cpu, len) = (cursor.u32()?, u64::from(cursor.u32()?));
        if cpu >= CPUS {
            return Err(Error::damaged(begin, format!("records of CPU {cpu}, of at most {CPUS}")));
        }
        let at = begin + HEADER_LEN;
        let left = self.end - at;
        self.at = at + len.min(left);
        Ok(Some((cpu, Window { at, len: len.min(left), cut: len > left })))
    }
}

/// A record, and the CPU that it is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// The CPU's number.
    pub cpu: u32,
    pub record: Record,
    /// The next one of the same CPU.
    pub followed: Option<Record>,
}

/// The records of a file. Holds some of each CPU in memory, and where so many windows are.
pub(super) struct Order<'a> {
    windows: Windows<'a>,
    /// How many of these are known and not over.
    ahead: usize,
    cpus: Vec<(u32, Cpu)>,
    places: FxHashMap<u32, usize>,
    /// The CPUs that have a next record, by its time.
    line: BinaryHeap<Reverse<(u64, usize)>>,
    damage: Vec<Error>,
    untold: u64,
}

impl<'a> Order<'a> {
    /// Those of a file's first bytes.
    pub(super) fn of(input: &'a Input, end: u64) -> Self {
        Self {
            windows: Windows { input, at: 0, end: end.min(input.len()) },
            ahead: 0,
            cpus: Vec::new(),
            places: FxHashMap::default(),
            line: BinaryHeap::new(),
            damage: Vec::new(),
            untold: 0,
        }
    }

    /// What is wrong with the file, as far as it was read; and how many more such places there are.
    pub(super) fn damage(self) -> (Vec<Error>, u64) {
        (self.damage, self.untold)
    }

    fn damaged(&mut self, error: Error) {
        if self.damage.len() < TOLD {
            self.damage.push(error);
        } else {
            self.untold += 1;
        }
    }

    /// Looks for windows further on.
    fn look_ahead(&mut self) {
        while self.ahead < AHEAD {
            let (cpu, window) = match self.windows.next() {
                Ok(Some(found)) => found,
                Ok(None) => return,
                Err(error) => return self.damaged(error),
            };
            if window.cut {
                let end = window.at + window.len;
                self.damaged(Error::damaged(end, format!("it ends within records of CPU {cpu}")));
            }
            let new = self.cpus.len();
            let place = *self.places.entry(cpu).or_insert(new);
            if place == new {
                self.cpus.push((cpu, Cpu::default()));
            }
            let of = &mut self.cpus[place].1;
            of.add(window);
            self.ahead += 1;
            if of.first().is_none() {
                self.fill(place);
                self.line.extend(self.cpus[place].1.first().map(|first| Reverse((first.tsc, place))));
            }
        }
    }

    fn fill(&mut self, place: usize) {
        let mut wrong = Vec::new();
        let over = self.cpus[place].1.fill(self.windows.input, &mut |error| wrong.push(error));
        self.ahead -= over;
        wrong.into_iter().for_each(|error| self.damaged(error));
    }

    /// The next record.
    pub(super) fn next(&mut self) -> Option<Next> {
        self.look_ahead();
        let &Reverse((_, place)) = self.line.peek()?;
        let record = self.cpus[place].1.take()?;
        self.fill(place);
        let (cpu, of) = &self.cpus[place];
        let followed = of.first().copied();
        let next = Next { cpu: *cpu, record, followed };
        // Mostly it is the same one's turn again.
        match (followed, self.line.peek_mut()) {
            (Some(followed), Some(mut top)) => *top = Reverse((followed.tsc, place)),
            (None, Some(top)) => drop(std::collections::binary_heap::PeekMut::pop(top)),
            (_, None) => {}
        }
        Some(next)
    }
}
