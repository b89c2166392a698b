//! A record as advice wrote it: the layout shared with `bpf/xweave.h`.
//!
//! ```text
//! offset size
//!      0    8  time_ns   CLOCK_MONOTONIC of the domain
//!      8    8  flow      local flow ID, 0 if none
//!     16    4  site
//!     20    4  pid       thread group
//!     24    4  tid
//!     28    2  cpu
//!     30    1  kind
//!     31    1  n         how many values follow
//!     32   16  comm
//!     48  8*n  values
//! ```
//!
//! All integers are little-endian (the machine's own: x86-64).

use xweave_bytes::{each_le, read_le};

/// Bytes of a record before its values.
pub const HEADER: usize = 48;

/// The most values that one record carries (`STORE_DATA7`).
pub const MAX_VALUES: usize = 7;

/// What the record says about its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[derive(strum::EnumString, strum::FromRepr, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// Advice ran and stored data.
    Hop = 0,
    /// A flow began. Values: the key (an address in the domain).
    Start = 1,
    /// The flow went from one key to another. Values: from, to.
    Move = 2,
    /// A second key now carries the flow. Values: from, to.
    Copy = 3,
    /// A key stopped carrying the flow. Values: the key; and, where what it carried was dropped, why (a number of the
    /// domain's kernel), and the address of the code that dropped it.
    Quit = 4,
    /// The flow was put on a carrier. Values: ring, index, check, peer (see [`CarrierKey`]).
    Xin = 5,
    /// A flow came off a carrier under a new local ID. Values: as for `Xin`.
    Xout = 6,
    /// A flow began as a part of another. Values: the parent's local ID, its key, the part's key.
    Split = 7,
    /// A flow began that has another's data in it; one record for each of these. Values: the parent's
    /// local ID, its key, the new flow's key.
    Merge = 8,
    /// What the flow's data is, as the headers of a network frame tell. Values: those of `bpf/frame.h`.
    Frame = 9,
}

impl Kind {
    /// The kind of a byte in a record; none for a byte that no prelude writes.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::from_repr(byte)
    }

    /// The word for it in the trace (`kind` column).
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The reverse of [`Kind::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// The key that both sides of a crossing record: `struct xw_key` of the prelude, as the first four values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CarrierKey {
    /// Where the ring lies in the guest's physical memory: the same number on both sides. 0 where the index is no
    /// place on a ring.
    pub ring: u64,
    /// The ring's running index, as wide as the kernel keeps it (16 bits for virtio).
    pub index: u64,
    /// Something else that both sides see (virtio: the descriptor head): a wrong pair is found out by it.
    pub check: u64,
    /// On the host side, the process that runs the guest (its thread group), or which of Xen's domains it is
    /// ([`XEN_DOMAIN`]); 0 in a guest.
    pub peer: u64,
}

/// What [`CarrierKey::peer`] is for a guest of Xen, besides its domain's number: no process has such a number.
/// `XW_XEN_DOMAIN` of the prelude.
pub const XEN_DOMAIN: u64 = 1 << 32;

/// One decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `CLOCK_MONOTONIC` of the domain, in nanoseconds.
    pub time_ns: u64,
    /// Local flow ID; 0 if the record belongs to none.
    pub flow: u64,
    /// The number the controller gave this site.
    pub site: u32,
    /// Thread group (what user space calls the process).
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Logical CPU.
    pub cpu: u16,
    /// What it says about the flow.
    pub kind: Kind,
    /// Name of the thread, NUL-padded.
    pub comm: [u8; 16],
    /// What `STORE_DATA` stored, or the flow operation's keys.
    pub values: Vec<u64>,
}

/// The number of the domain that has made a flow ID: its top byte.
pub fn maker(flow: u64) -> u8 {
    let [domain, ..] = flow.to_be_bytes();
    domain
}

impl Record {
    /// Decodes one record that fills `bytes` exactly; none if the bytes are not a record.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let n = usize::from(*bytes.get(31)?);
        if n > MAX_VALUES || bytes.len() != HEADER + 8 * n {
            return None;
        }
        Some(Self {
            time_ns: read_le(bytes, 0)?,
            flow: read_le(bytes, 8)?,
            site: read_le(bytes, 16)?,
            pid: read_le(bytes, 20)?,
            tid: read_le(bytes, 24)?,
            cpu: read_le(bytes, 28)?,
            kind: Kind::from_byte(bytes[30])?,
            comm: bytes[32..48].try_into().ok()?,
            values: each_le(bytes.get(HEADER..)?).collect(),
        })
    }

    /// Decodes the record that `bytes` begins with, and tells how many bytes it has; none if the bytes are no record.
    pub fn decode_first(bytes: &[u8]) -> Option<(Self, usize)> {
        let length = HEADER + 8 * usize::from(*bytes.get(31)?);
        Some((Self::decode(bytes.get(..length)?)?, length))
    }

    /// The reverse of [`Record::decode`], appended to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let n = self.values.len().min(MAX_VALUES);
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.extend_from_slice(&self.flow.to_le_bytes());
        out.extend_from_slice(&self.site.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.tid.to_le_bytes());
        out.extend_from_slice(&self.cpu.to_le_bytes());
        out.push(self.kind as u8);
        out.push(u8::try_from(n).unwrap_or(0));
        out.extend_from_slice(&self.comm);
        for value in &self.values[..n] {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// The thread's name up to its first NUL.
    pub fn comm(&self) -> String {
        let end = self.comm.iter().position(|&b| b == 0).unwrap_or(self.comm.len());
        String::from_utf8_lossy(&self.comm[..end]).into_owned()
    }

    /// The carrier's key, for [`Kind::Xin`] and [`Kind::Xout`].
    pub fn carrier_key(&self) -> Option<CarrierKey> {
        match (self.kind, self.values.as_slice()) {
            (Kind::Xin | Kind::Xout, &[ring, index, check, peer, ..]) => {
                Some(CarrierKey { ring, index, check, peer })
            }
            _ => None,
        }
    }
}

/// Splits a batch of records that were written one after the other (an agent's [`Records`] event).
///
/// Ends early, with what was decoded so far, at the first byte that is no record: the second part
/// is how many bytes were left over.
///
/// [`Records`]: crate::message::Event::Records
pub fn decode_batch(mut bytes: &[u8]) -> (Vec<Record>, usize) {
    let mut records = Vec::new();
    while let Some((record, length)) = Record::decode_first(bytes) {
        records.push(record);
        bytes = &bytes[length..];
    }
    (records, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: usize) -> Record {
        let mut comm = [0; 16];
        comm[..5].copy_from_slice(b"vhost");
        Record {
            time_ns: 1_234_567_890_123,
            flow: 0x0100_0000_0000_002a,
            site: 7,
            pid: 42,
            tid: 43,
            cpu: 1,
            kind: Kind::Xin,
            comm,
            values: (0..n as u64).map(|i| i << 33).collect(),
        }
    }

    #[test]
    fn a_batch_decodes_to_what_was_encoded() {
        let records: Vec<_> = (0..=MAX_VALUES).map(sample).collect();
        let mut bytes = Vec::new();
        records.iter().for_each(|r| r.encode(&mut bytes));
        assert_eq!(decode_batch(&bytes), (records, 0));
    }

    #[test]
    fn a_damaged_batch_keeps_what_came_before() {
        let mut bytes = Vec::new();
        sample(2).encode(&mut bytes);
        let good = bytes.len();
        sample(2).encode(&mut bytes);
        bytes[good + 30] = 0xff;
        let (records, left) = decode_batch(&bytes);
        assert_eq!((records.len(), left), (1, good));
    }
}
