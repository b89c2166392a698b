//! Which of a connection's two ports is the service's, where nobody was seen to ask for the connection or to accept it.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;
use xweave_trace::event::{Connection, Event};

/// From here on, ports are given to who asks for any (the kernel's default of `ip_local_port_range`): if one of two is such, the
/// other one is the service's.
pub(crate) const EPHEMERAL: u16 = 32_768;

/// Ports of which it is known whether there are several connections; of more it is not.
const MOST: usize = 1 << 18;

/// So many more connections than the other port has are no chance: a client's port is used again, for other services.
const MANY: u32 = 4;

/// By domain, network namespace and port: the number of streams that nobody was seen to open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports(FxHashMap<(u8, u32, u16), u32>);

impl Ports {
    /// Adds a stream that nobody was seen to open.
    pub(crate) fn connect(&mut self, domain: u8, netns: u32, connection: Connection) {
        for port in [connection.local_port(), connection.remote_port()] {
            if self.0.len() < MOST {
                let streams = self.0.entry((domain, netns, port)).or_default();
                *streams = streams.saturating_add(1);
            }
        }
    }

    /// Returns the number of a port's streams.
    pub(crate) fn streams(&self, domain: u8, netns: u32, port: u16) -> u32 {
        self.0.get(&(domain, netns, port)).copied().unwrap_or(0)
    }
}

/// Returns the service's port of two: the one that is not given to who asks for any, unless the other one has many more streams;
/// else the one with more streams; else the one that data was sent to first.
pub(crate) fn service(ports: [u16; 2], streams: impl Fn(u16) -> u32, sent_to: impl FnOnce() -> u16) -> u16 {
    let [one, other] = ports;
    if (one < EPHEMERAL) == (other < EPHEMERAL) {
        return match streams(one).cmp(&streams(other)) {
            Ordering::Less => other,
            Ordering::Equal => sent_to(),
            Ordering::Greater => one,
        };
    }
    let (low, high) = (one.min(other), one.max(other));
    let of_high = streams(high);
    // Most have one, which is not many, however few the other port has.
    let many = of_high >= MANY && of_high >= MANY.saturating_mul(streams(low).max(1));
    if many { high } else { low }
}

/// Whether an event is of a Unix socket, as `xw_unix` of `bpf/events/net.h` tells it: its ports are parts of addresses in the
/// kernel.
pub(crate) fn is_unix(event: &Event) -> bool {
    let local = u64::from(Connection(event.position).local_port());
    event.other == 0 && event.object != 0 && event.object >> 10 & 0xffff == local
}
