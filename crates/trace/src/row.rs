//! One line of `records/*.parquet`.

use std::borrow::Cow;

use xweave_text as text;
use xweave_wire::record::{CarrierKey, Kind, MAX_VALUES, Record};

/// A record on the common time line. Plain data without allocations: a join holds millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When, in nanoseconds of the reference domain's `CLOCK_MONOTONIC`.
    pub time_ns: i64,
    /// Local flow ID; 0 if the record belongs to none (null in the file).
    pub flow: u64,
    /// Where: a number of `sites.parquet`.
    pub site: u32,
    /// Thread group.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Logical CPU.
    pub cpu: u32,
    /// The thread's name, NUL-padded.
    pub comm: [u8; 16],
    /// Number of the domain that recorded it.
    pub domain: u8,
    /// What the record says about its flow.
    pub kind: Kind,
    pub(crate) count: u8,
    pub(crate) stored: [u64; MAX_VALUES],
}

impl Row {
    /// The row of a record whose time has been brought onto the common time line.
    pub fn new(domain: u8, time_ns: i64, record: &Record) -> Self {
        let count = record.values.len().min(MAX_VALUES);
        let mut stored = [0; MAX_VALUES];
        stored[..count].copy_from_slice(&record.values[..count]);
        Self {
            time_ns,
            flow: record.flow,
            site: record.site,
            pid: record.pid,
            tid: record.tid,
            cpu: u32::from(record.cpu),
            comm: record.comm,
            domain,
            kind: record.kind,
            count: u8::try_from(count).unwrap_or(0),
            stored,
        }
    }

    /// What a row is before it is read.
    pub(crate) fn nothing() -> Self {
        Self {
            time_ns: 0,
            flow: 0,
            site: 0,
            pid: 0,
            tid: 0,
            cpu: 0,
            comm: [0; 16],
            domain: 0,
            kind: Kind::Hop,
            count: 0,
            stored: [0; MAX_VALUES],
        }
    }

    /// What was stored, or the flow operation's keys: `v1…v7` up to the first null.
    pub fn values(&self) -> &[u64] {
        &self.stored[..usize::from(self.count)]
    }

    /// The thread's name up to its first NUL, fit to be shown: whoever runs the thread chose it.
    pub fn comm(&self) -> Cow<'_, str> {
        match String::from_utf8_lossy(self.raw_comm()) {
            Cow::Borrowed(name) => text::printable(name),
            Cow::Owned(name) => text::printable(&name).into_owned().into(),
        }
    }

    /// The same as it was recorded.
    pub(crate) fn raw_comm(&self) -> &[u8] {
        let end = self.comm.iter().position(|&byte| byte == 0).unwrap_or(self.comm.len());
        &self.comm[..end]
    }

    /// The carrier's key, of records that put a flow on a carrier or took it off.
    pub fn carrier_key(&self) -> Option<CarrierKey> {
        match (self.kind, self.values()) {
            (Kind::Xin | Kind::Xout, &[ring, index, check, peer, ..]) => {
                Some(CarrierKey { ring, index, check, peer })
            }
            _ => None,
        }
    }
}
