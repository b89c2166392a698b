//! Whether a domain's end of a connection serves or asks.

use rustc_hash::FxHashMap;
use xweave_trace::event::{Connection, Event, Kind, Sending};

use crate::{
    connection::tcp::{LISTEN, SYN_SENT},
    listeners::Listeners,
    ports::{Ports, is_unix, service},
};

/// Connections of which it is remembered who asks; of more, their ports tell.
const MOST: usize = 1 << 18;

/// Service of a connection.
#[derive(Clone, Copy, Debug)]
struct Known {
    port: u16,
    /// Somebody was seen to ask for the connection or to accept it, or its ports are none.
    surely: bool,
}

/// Services of all domains.
#[derive(Clone, Debug, Default)]
pub(super) struct Roles {
    listeners: Listeners,
    ports: Ports,
    known: FxHashMap<(u8, u32, Connection), Known>,
}

impl Roles {
    /// Adds an event of a socket.
    pub(super) fn take(&mut self, event: &Event) {
        let connection = Connection(event.position);
        let (local, remote) = (connection.local_port(), connection.remote_port());
        let id = (event.domain, event.other, connection);
        let surely = match event.kind {
            Kind::Socket if event.code == LISTEN => {
                return self.listeners.listen(event.domain, event.other, local);
            }
            Kind::Socket if event.code == SYN_SENT => Some(remote),
            Kind::Accept => Some(local),
            _ => None,
        };
        if self.known.len() >= MOST && !self.known.contains_key(&id) {
            return;
        }
        if let Some(port) = surely {
            self.known.insert(id, Known { port, surely: true });
            return;
        }
        if self.known.contains_key(&id) {
            return;
        }
        let stream = match event.kind {
            Kind::Send => Sending::of(event.code) == Sending::Over,
            _ => event.code != 0,
        };
        let sent_to = if event.kind == Kind::Send { remote } else { local };
        let peer = self.known.get(&(event.domain, event.other, connection.peer())).copied();
        if stream && peer.is_none() {
            self.ports.connect(event.domain, event.other, connection);
        }
        self.known.insert(id, peer.unwrap_or(Known { port: sent_to, surely: is_unix(event) }));
    }

    /// Whether the end that an event is of serves. A service listens, or was seen to do so before. A listener's socket may know no
    /// other port.
    pub(super) fn serves(&self, event: &Event) -> bool {
        let connection = Connection(event.position);
        let (local, remote) = (connection.local_port(), connection.remote_port());
        let listens = |port| self.listeners.has(event.domain, event.other, port);
        let known = self.known.get(&(event.domain, event.other, connection)).copied();
        match known {
            _ if remote == 0 => true,
            _ if local == 0 => false,
            Some(Known { port, surely: true }) => port == local,
            _ if listens(local) => true,
            _ if listens(remote) => false,
            _ => {
                let streams = |port| self.ports.streams(event.domain, event.other, port);
                let sent_to = known.map_or(local.min(remote), |known| known.port);
                service([local, remote], streams, || sent_to) == local
            }
        }
    }
}
