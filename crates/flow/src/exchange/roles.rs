//! Who asks and who answers on a connection that was open before the recording began.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    ops::RangeInclusive,
};

use super::talk::Sent;

/// The ports that Linux gives to those who ask for none (`ip_local_port_range`, if nobody changed it): clients. Services that
/// listen at one of them (gRPC's 50051) are known by what else is seen of them.
const GIVEN: RangeInclusive<u16> = 32_768..=60_999;

/// What all connections of a trace tell of the ends of each.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// To these somebody was seen to open a TCP connection.
    opened: HashSet<SocketAddr>,
    /// By end, another one of its TCP connections, and whether there are several.
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

    /// Who asks, where `sent` is the first that was seen of a connection. An end answers that others were seen to open
    /// connections to, or that has several; what a service sends to a port that was given to a client answers a request of before
    /// the recording began. Else who sends first asks.
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
