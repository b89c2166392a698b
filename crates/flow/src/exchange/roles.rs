//! Client and server of connections that were open before the recording began.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    ops::RangeInclusive,
};

use super::talk::Sent;

/// The ports that Linux gives to those who ask for none (`ip_local_port_range`, if nobody changed it): clients. Services that
/// listen at one of them (gRPC's 50051) are known by what else is seen of them.
const GIVEN: RangeInclusive<u16> = 32_768..=60_999;

/// Evidence from all TCP connections of a trace for which ends are servers.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// Ends that a client was seen to open a connection to.
    opened: HashSet<SocketAddr>,
    /// First peer of each end, and whether the end has several.
    peers: HashMap<SocketAddr, (SocketAddr, bool)>,
}

impl Roles {
    /// Takes in a frame.
    pub(super) fn add(&mut self, sent: &Sent) {
        if sent.protocol != "TCP" {
            return;
        }
        match sent.opens {
            Some(true) => _ = self.opened.insert(sent.to),
            Some(false) => _ = self.opened.insert(sent.from),
            None => {}
        }
        for (end, peer) in [(sent.from, sent.to), (sent.to, sent.from)] {
            let (first, several) = self.peers.entry(end).or_insert((peer, false));
            *several |= *first != peer;
        }
    }

    /// Returns the client of a connection whose first recorded frame is `sent`. An end is the server if clients were seen to
    /// open connections to it, or if it has several; otherwise if its port is not one that Linux gives to clients, as opposed to
    /// the peer's. Without such a difference, the sender of the first frame is the client.
    pub(super) fn client(&self, sent: &Sent) -> SocketAddr {
        let several = |end: &SocketAddr| self.peers.get(end).is_some_and(|(_, several)| *several);
        let serves = |end: &SocketAddr| self.opened.contains(end);
        let given = |end: &SocketAddr| !GIVEN.contains(&end.port());
        let signs: [&dyn Fn(&SocketAddr) -> bool; 3] = [&serves, &several, &given];
        let differing = signs.iter().find(|serves| serves(&sent.from) != serves(&sent.to));
        let sender_serves = differing.is_some_and(|serves| serves(&sent.from));
        if sender_serves { sent.to } else { sent.from }
    }
}
