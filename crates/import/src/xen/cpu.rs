//! The records of one CPU, window by window.

use std::collections::VecDeque;

use super::record::{CPU_CHANGE, LONGEST, Record, WRAP_BUFFER};
use crate::{error::Error, input::Input};

/// So much is read at once, in bytes.
const PIECE: u64 = 16 << 10;

/// So many records are known before the first of them is given away: a handler's beginning comes to light with its end.
const AHEAD: usize = 32;

/// What xentrace took from the buffer of a CPU at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Where in the file it is.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
    /// The file ends within.
    pub cut: bool,
}

/// The records of one CPU. Holds a piece of the file in memory.
#[derive(Default)]
pub(super) struct Cpu {
    windows: VecDeque<Window>,
    piece: Vec<u8>,
    /// Which byte of it is the first that was not looked at.
    at: usize,
    /// The TSC of the last record that had one.
    tsc: Option<u64>,
    next: VecDeque<Record>,
}

impl Cpu {
    /// Has more to read, behind the rest.
    pub(super) fn add(&mut self, window: Window) {
        self.windows.push_back(window);
    }

    /// Its next record.
    pub(super) fn first(&self) -> Option<&Record> {
        self.next.front()
    }

    /// Goes on to the one behind it.
    pub(super) fn take(&mut self) -> Option<Record> {
        self.next.pop_front()
    }

    /// Reads ahead, and tells how many windows are over; what is wrong goes to `damage`.
    pub(super) fn fill(&mut self, input: &Input, damage: &mut impl FnMut(Error)) -> usize {
        let mut over = 0;
        while self.next.len() < AHEAD {
            if !self.parse(damage) {
                let Some(more) = self.read(input, damage) else { break };
                over += more;
            }
        }
        over
    }

    /// Takes the next record out of the piece; false if it is not whole.
    fn parse(&mut self, damage: &mut impl FnMut(Error)) -> bool {
        let rest = &self.piece[self.at..];
        let Some((record, len)) = Record::parse(rest, self.tsc.unwrap_or(0)) else { return false };
        if Record::timed(rest) {
            self.tsc = Some(record.tsc);
        }
        self.at += len;
        if record.event == CPU_CHANGE {
            let read = self.windows.front().map_or(0, |window| window.at);
            let left = (self.piece.len() - self.at + len) as u64;
            damage(Error::damaged(read.saturating_sub(left), "records of another CPU, amid those of one"));
        }
        // When those came that are before the first time, nothing says.
        if [WRAP_BUFFER, CPU_CHANGE].contains(&record.event) || self.tsc.is_none() {
            return true;
        }
        if let Some(began) = record.began() {
            let place = self.next.partition_point(|before| before.tsc <= began.tsc);
            self.next.insert(place, began);
        }
        self.next.push_back(record);
        true
    }

    /// Reads the next piece, and tells how many windows are over; none if there is nothing to read.
    fn read(&mut self, input: &Input, damage: &mut impl FnMut(Error)) -> Option<usize> {
        let Some(window) = self.windows.front_mut() else {
            self.piece = Vec::new();
            self.at = 0;
            return None;
        };
        self.piece.drain(..self.at);
        self.at = 0;
        if window.len == 0 {
            if !self.piece.is_empty() && !window.cut {
                let at = window.at.saturating_sub(self.piece.len() as u64);
                damage(Error::damaged(at, "a record that goes beyond those of its CPU"));
            }
            self.piece.clear();
            self.windows.pop_front();
            return Some(1);
        }
        let kept = self.piece.len();
        debug_assert!(kept < LONGEST);
        let len = window.len.min(PIECE);
        self.piece.resize(kept + usize::try_from(len).unwrap_or(0), 0);
        if let Err(error) = input.read(window.at, &mut self.piece[kept..]) {
            damage(error);
            self.piece.clear();
            (window.len, window.cut) = (0, true);
            return Some(0);
        }
        (window.at, window.len) = (window.at + len, window.len - len);
        Some(0)
    }
}
