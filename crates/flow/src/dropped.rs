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

use xweave_trace::{Row, Symbol, Trace};
use xweave_wire::record::Kind;

use crate::frame::Frame;

/// Where and why a flow was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What a record does to the keys that carry a local flow.
pub(crate) enum Change {
    /// One carries it.
    Begins(u64),
    /// It came off a carrier: under which key is not recorded.
    ComesOff,
    /// Another carries it in one's place.
    Moves(u64, u64),
    /// Another carries a copy.
    Copies(u64, u64),
    /// One carries it no more.
    Ends(u64),
}

impl Change {
    pub(crate) fn of(row: &Row) -> Option<Self> {
        let key = |nth: usize| row.values().get(nth).copied().unwrap_or(0);
        match row.kind {
            Kind::Start => Some(Self::Begins(key(0))),
            Kind::Split | Kind::Merge => Some(Self::Begins(key(2))),
            Kind::Xout => Some(Self::ComesOff),
            Kind::Move => Some(Self::Moves(key(0), key(1))),
            Kind::Copy => Some(Self::Copies(key(0), key(1))),
            Kind::Quit => Some(Self::Ends(key(0))),
            Kind::Hop | Kind::Xin | Kind::Frame => None,
        }
    }
}

/// Whether all copies have ended: nothing is recorded of what no key carries. False of more copies than are looked
/// through.
pub(crate) fn all_ended(rows: &[Row]) -> bool {
    let mut live = Live { keys: [0; MOST_LIVE], count: 0, unnamed: false };
    for row in rows {
        if live.count + 2 > MOST_LIVE {
            return false;
        }
        match Change::of(row) {
            Some(Change::Begins(key)) => live.begin(key),
            Some(Change::ComesOff) => live.unnamed = true,
            Some(Change::Moves(from, to)) => {
                live.take(from);
                live.begin(to);
            }
            Some(Change::Copies(of, to)) => {
                live.take(of);
                live.begin(of);
                live.begin(to);
            }
            Some(Change::Ends(key)) => live.take(key),
            None => {}
        }
    }
    live.count == 0 && !live.unnamed
}

const MOST_LIVE: usize = 64;

/// The keys that carry a local flow, without an allocation: they are asked for of each.
struct Live {
    keys: [u64; MOST_LIVE],
    count: usize,
    unnamed: bool,
}

impl Live {
    fn place(&self, key: u64) -> Option<usize> {
        self.keys[..self.count].iter().position(|of| *of == key)
    }

    fn begin(&mut self, key: u64) {
        if self.place(key).is_none() {
            self.keys[self.count] = key;
            self.count += 1;
        }
    }

    fn take(&mut self, key: u64) {
        match self.place(key) {
            Some(at) => {
                self.count -= 1;
                self.keys[at] = self.keys[self.count];
            }
            None => self.unnamed = false,
        }
    }
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
            match Change::of(row) {
                Some(Change::Begins(key)) => copies.begin(key),
                Some(Change::ComesOff) => copies.unnamed = Some(copies.add(None)),
                Some(Change::Moves(from, to)) => {
                    let copy = copies.take(from);
                    copies.live.insert(to, copy);
                }
                Some(Change::Copies(of, to)) => {
                    let original = copies.take(of);
                    copies.live.insert(of, original);
                    let copy = copies.add(Some(original));
                    copies.live.insert(to, copy);
                }
                Some(Change::Ends(key)) => {
                    let copy = copies.take(key);
                    (copies.all[copy].end, copies.all[copy].dropped) = (Some(at), is_drop(row));
                }
                None => {}
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
