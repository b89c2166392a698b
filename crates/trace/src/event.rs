//! One line of `events/*.parquet`: something that happened in a kernel, in the normal form of the catalogue of events.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

pub use xweave_event::{Access, Context, HoldReason, Kind, Quota, Refusal, Sending, State, VECTORS};

/// One end of a connection, as an event's `position`: what both ends know of it, so that they can be told to be
/// one. Both ends have the same 32 bits on top, the exclusive or of all 32-bit words of both IP addresses as the
/// kernel has them; then come the local port and the remote one, 16 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection(pub u64);

impl Connection {
    /// That between two addresses and ports, as the first end calls it.
    pub fn between(local: SocketAddr, remote: SocketAddr) -> Self {
        let words = |address: IpAddr| match address {
            IpAddr::V4(address) => u32::from_ne_bytes(address.octets()),
            IpAddr::V6(address) => {
                let words = address.octets();
                let (words, _) = words.as_chunks();
                words.iter().fold(0, |all, word| all ^ u32::from_ne_bytes(*word))
            }
        };
        let addresses = u64::from(words(local.ip()) ^ words(remote.ip()));
        Self(addresses << 32 | u64::from(local.port()) << 16 | u64::from(remote.port()))
    }

    /// The same connection, as its other end calls it.
    pub fn peer(self) -> Self {
        let (addresses, local, remote) = (self.0 >> 32, self.local_port(), self.remote_port());
        Self(addresses << 32 | u64::from(remote) << 16 | u64::from(local))
    }

    /// This end and the other one: the senders of all frames of the connection.
    pub fn ends(self) -> [Self; 2] {
        [self, self.peer()]
    }

    /// Whether both ends have the same address, as over the loopback device.
    pub fn is_loopback(self) -> bool {
        self.0 >> 32 == 0
    }

    /// The port at this end.
    pub fn local_port(self) -> u16 {
        u16::try_from(self.0 >> 16 & 0xffff).unwrap_or(0)
    }

    /// The port at the other end; 0 if it has none.
    pub fn remote_port(self) -> u16 {
        u16::try_from(self.0 & 0xffff).unwrap_or(0)
    }
}

/// Something that happened. Plain data without allocations: a trace has many millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of the trace's time line.
    pub time_ns: i64,
    /// Disk (device number: major << 20 | minor), socket, interrupt, lock, vCPU or process.
    pub object: u64,
    /// The first sector, of 512 bytes; or as the kind says.
    pub position: u64,
    /// How much.
    pub bytes: u64,
    /// The thread that ran there; 0 is the idle one.
    pub tid: u32,
    /// The other thread.
    pub other: u32,
    /// Logical CPU.
    pub cpu: u32,
    /// As the kind says.
    pub code: i32,
    /// A text of [`Names`].
    pub name: Name,
    /// What happened.
    pub kind: Kind,
    /// Number of the domain in which.
    pub domain: u8,
}

impl Event {
    /// An event without anything in the other columns.
    pub fn new(kind: Kind, domain: u8, time_ns: i64, cpu: u32, tid: u32) -> Self {
        Self {
            time_ns,
            object: 0,
            position: 0,
            bytes: 0,
            tid,
            other: 0,
            cpu,
            code: 0,
            name: Name::default(),
            kind,
            domain,
        }
    }
}

/// A text that many events have: a thread's name, the name of an event of another kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

impl Name {
    /// Its place among the [`Names`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The texts that events have. The first is empty.
#[derive(Clone, Debug)]
pub struct Names {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, Name>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { texts: Vec::new(), numbers: HashMap::new() };
        names.give("");
        names
    }
}

impl Names {
    /// The name for a text.
    pub fn give(&mut self, text: &str) -> Name {
        self.give_within(text, &mut usize::MAX.clone()).unwrap_or_default()
    }

    /// The name for a text. One that is new takes a place of `room`; none, if no place is left for it.
    pub(crate) fn give_within(&mut self, text: &str, room: &mut usize) -> Option<Name> {
        if let Some(&known) = self.numbers.get(text) {
            return Some(known);
        }
        *room = room.checked_sub(1)?;
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(0));
        self.texts.push(text.into());
        self.numbers.insert(text.into(), name);
        Some(name)
    }

    /// The text.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.index()).map_or("", |text| text)
    }

    /// All of them, in the order of their places.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_connection_differ_in_their_ports_alone() {
        let [client, server] = ["10.77.0.1:40000", "10.77.0.2:80"].map(|end| end.parse().unwrap());
        let asks = Connection::between(client, server);
        assert_eq!(asks.peer(), Connection::between(server, client));
        assert_eq!((asks.0 >> 32, asks.local_port(), asks.remote_port()), (0x0300_0000, 40000, 80));
        let [here, there] = ["[fd00::1]:1", "[fd00::3]:2"].map(|end| end.parse().unwrap());
        assert_eq!(Connection::between(here, there).0, 0x0200_0000 << 32 | 1 << 16 | 2);
    }

    #[test]
    fn equal_texts_have_one_name() {
        let mut names = Names::default();
        let (one, other) = (names.give("nginx"), names.give("kworker/0:1"));
        assert_eq!((names.give("nginx"), names.give("")), (one, Name::default()));
        assert_eq!((names.text(one), names.text(other)), ("nginx", "kworker/0:1"));
    }

    #[test]
    fn new_names_take_room_and_known_ones_none() {
        let (mut names, mut room) = (Names::default(), 2);
        let mut give = |text| names.give_within(text, &mut room).map(Name::index);
        let given = ["a", "b", "c", "a", "", "c"].map(&mut give);
        assert_eq!(given, [Some(1), Some(2), None, Some(1), Some(0), None]);
        assert_eq!(names.all().len(), 3);
    }
}
