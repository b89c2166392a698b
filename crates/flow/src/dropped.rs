//! Flows that were dropped: why, and by which code; and what became of the copies of a local flow.
//!
//! A local flow may have several copies: a clone for a listener, one for each port that a bridge floods, one for each
//! time that TCP sends a segment. The kernel says of each whether it was dropped or used up. The flow as a whole was
//! dropped if one of its copies was and none is known to have gone on in its place:
//!
//! - a clone made of the dropped one, before, is no such copy: a listener's clone does not make the data arrive;
//! - any other copy is, if it was used up, unless the dropped one is its clone: what waits for an acknowledgement
//!   is given up in the end, too, without a word;
//! - so the one that a clone was made of is, if anything was recorded after the drop but ends.
//!
//! ```text
//! datagram ─┬─────────────── dropped     dropped          segment ─┬─────────────────── given up   dropped
//!           └ listener ───── used up                               └ clone ── dropped
//!
//! datagram ─┬──────── hop ── used up     not dropped      segment ─┬─────────┬───────── given up   not dropped
//!           └ listener ── dropped                                  └ dropped └ used up
//! ```

use std::collections::HashMap;

use serde::Serialize;
use xweave_trace::{Row, Symbol, Trace};
use xweave_wire::record::Kind;

use crate::frame::Frame;

/// Where and why a flow was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The kernel's name for the reason; `reason N` if the trace does not tell.
    pub reason: String,
    /// The kernel's number for it.
    pub number: u64,
    /// When, in nanoseconds of the reference domain.
    pub t_ns: i64,
    /// Where.
    pub domain: String,
    /// The function that dropped it; none if the trace does not tell.
    pub function: Option<String>,
    /// Bytes from its beginning.
    pub offset: u64,
    /// Its module; none for the kernel image.
    pub module: Option<String>,
    /// The address of the code that dropped it.
    pub address: u64,
}

impl Dropped {
    /// `vm1:__udp4_lib_rcv+0x123`
    pub fn place(&self) -> String {
        match &self.function {
            Some(function) => format!("{}:{function}+{:#x}", self.domain, self.offset),
            None => format!("{}:{:#x}", self.domain, self.address),
        }
    }
}

/// Reasons that the kernel also gives for what it has made use of, and for what told it nothing that it did not know
/// (`include/net/dropreason-core.h`, Linux 6.12).
const USED_UP: [&str; 6] =
    ["NOT_SPECIFIED", "QUEUE_PURGE", "TCP_OLD_ACK", "TCP_OLD_DATA", "TCP_OLD_SEQUENCE", "TCP_RFC7323_PAWS"];

impl Dropped {
    /// Whether this is only how TCP is done with a frame that has no data in it: an acknowledgement in the time-wait
    /// state, a FIN that waits in the receive queue of a socket that is closed.
    pub(crate) fn is_use_of(&self, frame: Option<&Frame>) -> bool {
        let tcp = |function: &String| function.starts_with("tcp_") || function.starts_with("sk_stream_");
        frame.is_some_and(|frame| frame.is_tcp() && frame.bytes == 0)
            && self.function.as_ref().is_some_and(tcp)
            && USED_UP.contains(&self.reason.as_str())
    }
}

/// The words that the domains of a trace have for reasons and places.
pub(crate) struct Words<'a> {
    trace: &'a Trace,
    reasons: HashMap<(u8, u64), &'a str>,
    symbols: HashMap<(u8, u64), &'a Symbol>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(trace: &'a Trace) -> Self {
        let domains = || trace.manifest().domains.iter();
        let reasons = domains().flat_map(|of| of.drop_reasons.iter().map(move |reason| (of.number, reason)));
        let symbols = domains().flat_map(|of| of.symbols.iter().map(move |symbol| (of.number, symbol)));
        Self {
            trace,
            reasons: reasons.map(|(domain, of)| ((domain, of.value), of.name.as_str())).collect(),
            symbols: symbols.map(|(domain, of)| ((domain, of.address), of)).collect(),
        }
    }

    /// What a record of a drop says.
    pub(crate) fn dropped(&self, row: &Row) -> Dropped {
        let value = |at: usize| row.values().get(at).copied().unwrap_or(0);
        let (number, address) = (value(1), value(2));
        let reason = self.reasons.get(&(row.domain, number));
        let symbol = self.symbols.get(&(row.domain, address));
        let domain = self.trace.domain(row.domain);
        Dropped {
            reason: reason.map_or_else(|| format!("reason {number}"), |name| (*name).to_owned()),
            number,
            t_ns: row.time_ns,
            domain: domain.map_or_else(|| "?".to_owned(), |domain| domain.name.clone()),
            function: symbol.map(|symbol| symbol.function.clone()),
            offset: symbol.map_or(0, |symbol| symbol.offset),
            module: symbol.and_then(|symbol| symbol.module.clone()),
            address,
        }
    }
}

/// Whether a record says that a copy was dropped.
pub(crate) fn is_drop(row: &Row) -> bool {
    row.kind == Kind::Quit && row.values().len() > 1
}

/// The record, by its place among those of a local flow, that says that it was dropped as a whole.
pub(crate) fn decisive(rows: &[Row]) -> Option<usize> {
    rows.iter().any(is_drop).then(|| Copies::of(rows).dropped(rows)).flatten()
}

/// Whether all copies have ended: nothing is recorded of what no key carries. False of more copies than are looked
/// through.
pub(crate) fn all_ended(rows: &[Row]) -> bool {
    const MOST: usize = 64;
    // Without an allocation: this is asked of each local flow.
    let (mut live, mut count, mut unnamed) = ([0; MOST], 0, false);
    for row in rows {
        let key = |nth: usize| row.values().get(nth).copied().unwrap_or(0);
        let mut take = |key: u64, live: &mut [u64; MOST], count: &mut usize| match live[..*count]
            .iter()
            .position(|of| *of == key)
        {
            Some(at) => {
                *count -= 1;
                live[at] = live[*count];
            }
            None => unnamed = false,
        };
        let begin = |key: u64, live: &mut [u64; MOST], count: &mut usize| {
            if !live[..*count].contains(&key) {
                live[*count] = key;
                *count += 1;
            }
        };
        if count + 2 > MOST {
            return false;
        }
        match row.kind {
            Kind::Start => begin(key(0), &mut live, &mut count),
            Kind::Split | Kind::Merge => begin(key(2), &mut live, &mut count),
            Kind::Xout => unnamed = true,
            Kind::Move => {
                take(key(0), &mut live, &mut count);
                begin(key(1), &mut live, &mut count);
            }
            Kind::Copy => {
                take(key(0), &mut live, &mut count);
                begin(key(0), &mut live, &mut count);
                begin(key(1), &mut live, &mut count);
            }
            Kind::Quit => take(key(0), &mut live, &mut count),
            Kind::Hop | Kind::Xin | Kind::Frame => {}
        }
    }
    count == 0 && !unnamed
}

/// A copy of what a local flow follows.
#[derive(Default)]
struct Copy {
    /// The one that it was made of: one of those before it.
    of: Option<usize>,
    /// Place of the record that ends it.
    end: Option<usize>,
    dropped: bool,
}

impl Copy {
    fn used_up(&self) -> u32 {
        u32::from(self.end.is_some() && !self.dropped)
    }
}

/// All copies of a local flow, in the order in which they were made.
#[derive(Default)]
struct Copies {
    all: Vec<Copy>,
    /// By the key that carries it.
    live: HashMap<u64, usize>,
    /// What came off a carrier: under which key is not recorded.
    unnamed: Option<usize>,
}

impl Copies {
    fn of(rows: &[Row]) -> Self {
        let mut copies = Self::default();
        for (at, row) in rows.iter().enumerate() {
            let key = |nth: usize| row.values().get(nth).copied().unwrap_or(0);
            match row.kind {
                Kind::Start => copies.begin(key(0)),
                Kind::Split | Kind::Merge => copies.begin(key(2)),
                Kind::Xout => copies.unnamed = Some(copies.add(None)),
                Kind::Move => {
                    let copy = copies.take(key(0));
                    copies.live.insert(key(1), copy);
                }
                Kind::Copy => {
                    let of = copies.take(key(0));
                    copies.live.insert(key(0), of);
                    let copy = copies.add(Some(of));
                    copies.live.insert(key(1), copy);
                }
                Kind::Quit => {
                    let copy = copies.take(key(0));
                    (copies.all[copy].end, copies.all[copy].dropped) = (Some(at), is_drop(row));
                }
                Kind::Hop | Kind::Xin | Kind::Frame => {}
            }
        }
        copies
    }

    fn add(&mut self, of: Option<usize>) -> usize {
        self.all.push(Copy { of, ..Copy::default() });
        self.all.len() - 1
    }

    fn begin(&mut self, key: u64) {
        if !self.live.contains_key(&key) {
            let copy = self.add(None);
            self.live.insert(key, copy);
        }
    }

    /// The copy that a key carries, which it does not carry any more.
    fn take(&mut self, key: u64) -> usize {
        self.live.remove(&key).or_else(|| self.unnamed.take()).unwrap_or_else(|| self.add(None))
    }

    /// The last drop in whose place no other copy went on.
    fn dropped(&self, rows: &[Row]) -> Option<usize> {
        // How many were used up: of those that each was made of, and of those made of it.
        let (mut above, mut below) = (vec![0u32; self.all.len()], vec![0u32; self.all.len()]);
        for (at, copy) in self.all.iter().enumerate() {
            above[at] = copy.of.map_or(0, |of| above[of] + self.all[of].used_up());
        }
        for (at, copy) in self.all.iter().enumerate().rev() {
            if let Some(of) = copy.of {
                below[of] += below[at] + copy.used_up();
            }
        }
        let used_up: u32 = self.all.iter().map(Copy::used_up).sum();
        let left = rows.iter().any(|row| row.kind == Kind::Xin) && self.all.len() > 1;
        let last = rows.iter().rposition(|row| row.kind != Kind::Quit);
        let dropped = self.all.iter().enumerate().filter(|(_, copy)| copy.dropped);
        let replaced = |at: usize, copy: &Copy| {
            left || used_up > above[at] + below[at] || copy.of.is_some() && last > copy.end
        };
        dropped.filter(|(at, copy)| !replaced(*at, copy)).filter_map(|(_, copy)| copy.end).max()
    }
}
