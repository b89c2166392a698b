//! An event as the probes of `bpf/events/` wrote it: something that happened in a kernel.
//!
//! ```text
//! offset size
//!      0    8  time_ns   CLOCK_MONOTONIC of the domain
//!      8    4  tid       the thread that ran there
//!     12    2  cpu
//!     14    1  kind      Kind
//!     15    1  code      signed; 0 where the kind's members have one
//!     16       the members of the kind, a multiple of 8 bytes: Kind::fields
//! ```
//!
//! An event has no more bytes than its kind needs, and no name of the thread: those are told once, by events of
//! their own. All integers are little-endian (the machine's own: x86-64).

use xweave_bytes::read_le;
pub use xweave_event::{Context, HEADER, Kind, Quota};
use xweave_event::{Field, Member};

/// The most bytes that an event has.
pub const LONGEST: usize = 48;

/// One decoded event. What its members mean depends on the [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC` of the domain, in nanoseconds.
    pub time_ns: u64,
    /// Disk, socket, pipe, file, interrupt, lock, vCPU or process.
    pub object: u64,
    /// The first sector, or as the kind says.
    pub position: u64,
    /// How much.
    pub bytes: u64,
    /// The thread that ran there.
    pub tid: u32,
    /// The other thread.
    pub other: u32,
    /// As the kind says.
    pub code: i32,
    /// Logical CPU.
    pub cpu: u16,
    /// What happened.
    pub kind: Kind,
    /// A thread's name, or a file's, NUL-padded.
    pub name: [u8; 16],
}

impl Event {
    /// An event with nothing in the other members.
    pub fn new(kind: Kind, time_ns: u64, cpu: u16, tid: u32) -> Self {
        Self { time_ns, object: 0, position: 0, bytes: 0, tid, other: 0, code: 0, cpu, kind, name: [0; 16] }
    }

    /// Decodes the event that `bytes` begins with, and tells how many bytes it has; none if the bytes are no event.
    pub fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let (header, mut rest) = bytes.split_at_checked(HEADER)?;
        let kind = Kind::of(header[14])?;
        kind.size()?;
        let mut event = Self::new(kind, read_le(header, 0)?, read_le(header, 12)?, read_le(header, 8)?);
        event.code = i32::from(header[15].cast_signed());
        for &Field { member, size, .. } in kind.fields() {
            let (of, behind) = rest.split_at_checked(size)?;
            rest = behind;
            let number = match size {
                0 => continue,
                4 => read_le::<u32>(of, 0)?.into(),
                8 => read_le(of, 0)?,
                _ => {
                    event.name = of.try_into().ok()?;
                    continue;
                }
            };
            event.set(member, number);
        }
        // Events are whole words.
        let length = bytes.len() - rest.len();
        rest = rest.get(length.next_multiple_of(8) - length..)?;
        Some((event, bytes.len() - rest.len()))
    }

    /// Gives a member a number; a smaller one has its low half.
    #[expect(clippy::cast_possible_truncation, reason = "what is smaller has no more")]
    fn set(&mut self, member: Member, number: u64) {
        match member {
            Member::Other => self.other = number as u32,
            Member::Code => self.code = (number as u32).cast_signed(),
            Member::Object => self.object = number,
            Member::Position => self.position = number,
            Member::Bytes => self.bytes = number,
            Member::Name => {}
        }
    }

    /// The number that a member has.
    fn get(&self, member: Member) -> u64 {
        match member {
            Member::Other => self.other.into(),
            Member::Code => self.code.cast_unsigned().into(),
            Member::Object => self.object,
            Member::Position => self.position,
            Member::Bytes => self.bytes,
            Member::Name => 0,
        }
    }

    /// The reverse of [`Event::decode`], appended to `out`: what the kind has no room for is left out. Nothing for
    /// a kind that no probe writes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if self.kind.size().is_none() {
            return;
        }
        let begin = out.len();
        out.extend(self.time_ns.to_le_bytes());
        out.extend(self.tid.to_le_bytes());
        out.extend(self.cpu.to_le_bytes());
        out.push(self.kind as u8);
        out.push(if has_long_code(self.kind) { 0 } else { self.code.to_le_bytes()[0] });
        for &Field { member, size, .. } in self.kind.fields() {
            match member {
                Member::Name => out.extend(&self.name[..size]),
                // The first bytes of a little-endian number are its low half.
                _ => out.extend(&self.get(member).to_le_bytes()[..size]),
            }
        }
        out.resize(begin + (out.len() - begin).next_multiple_of(8), 0);
    }

    /// The name up to its first NUL.
    pub fn name(&self) -> String {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }
}

/// Whether a kind's code lies behind the header.
fn has_long_code(kind: Kind) -> bool {
    kind.fields().iter().any(|field| field.member == Member::Code && field.size > 0)
}

/// Splits a batch of events that were written one after the other (an agent's [`Events`] message).
///
/// Ends early, with what was decoded so far, at the first byte that is no event: the second part is how many bytes
/// were left over.
///
/// [`Events`]: crate::message::Event::Events
pub fn decode_events(mut bytes: &[u8]) -> (Vec<Event>, usize) {
    let mut events = Vec::with_capacity(bytes.len() / LONGEST);
    while let Some((event, length)) = Event::decode(bytes) {
        events.push(event);
        bytes = &bytes[length..];
    }
    (events, bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_are_whole_words_and_none_is_longer_than_told() {
        for size in Kind::ALL.into_iter().filter_map(Kind::size) {
            assert!(size % 8 == 0 && size <= LONGEST, "{size}");
        }
        assert_eq!((Kind::Switch.size(), Kind::Other.size()), (Some(24), None));
    }

    #[test]
    fn a_damaged_batch_keeps_what_came_before() {
        let mut bytes = Vec::new();
        let event = Event { other: 7, code: 2, ..Event::new(Kind::Switch, 1 << 40, 3, 4242) };
        event.encode(&mut bytes);
        let good = bytes.len();
        event.encode(&mut bytes);
        bytes[good + 14] = 0xff;
        assert_eq!(decode_events(&bytes), (vec![event], good));
        assert_eq!(decode_events(&bytes[..good - 1]), (Vec::new(), good - 1));
    }

    proptest! {
        #[test]
        fn what_is_decoded_encodes_to_the_same_bytes(
            kinds in prop::collection::vec((0..Kind::Other as u8, any::<[u8; LONGEST]>()), 0..20),
        ) {
            let (mut bytes, mut again) = (Vec::new(), Vec::new());
            for (kind, mut event) in kinds {
                let kind = Kind::of(kind).unwrap();
                event[14] = kind as u8;
                // What a kind has no use for is 0.
                if has_long_code(kind) {
                    event[15] = 0;
                }
                let used = HEADER + kind.fields().iter().map(|field| field.size).sum::<usize>();
                let at = kind.size().unwrap();
                event[used..at].fill(0);
                bytes.extend(&event[..at]);
            }
            let (events, left) = decode_events(&bytes);
            events.iter().for_each(|event| event.encode(&mut again));
            prop_assert_eq!((again, left), (bytes, 0));
        }

        #[test]
        fn any_bytes_are_events_or_are_left(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (events, left) = decode_events(&bytes);
            let sizes: usize = events.iter().filter_map(|event| event.kind.size()).sum();
            prop_assert_eq!(sizes + left, bytes.len());
        }
    }
}
