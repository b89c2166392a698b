//! `where FILTER;`: which frames are followed, in the words of tcpdump.
//!
//! A part of pcap-filter(7), with its meaning: `and` and `or` have the same precedence and associate to the left, `not`
//! has a higher one. `parse_filter` reads it.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use crate::diagnostic::Span;

/// What `where` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Where {
    /// Its first word.
    pub span: Span,
    /// Which frames are followed.
    pub filter: Filter,
}

/// Which frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Those of a protocol.
    Protocol(Protocol),
    /// Those from or to these addresses; of ARP, those that it tells and asks for.
    Net {
        /// Where the address stands.
        side: Side,
        /// Any address of the net.
        address: IpAddr,
        /// How many of its bits are the net's; all, where it is a host.
        prefix: u8,
    },
    /// Datagrams and TCP segments from or to these ports.
    Ports {
        /// Where the port stands.
        side: Side,
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
    /// All others.
    Not(Box<Filter>),
    /// Those that both select.
    And(Box<Filter>, Box<Filter>),
    /// Those that one of the two selects.
    Or(Box<Filter>, Box<Filter>),
}

/// A protocol that frames are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
#[expect(missing_docs, reason = "their names are the protocols'")]
pub enum Protocol {
    Arp,
    Ip,
    Ip6,
    Icmp,
    Icmp6,
    Tcp,
    Udp,
}

/// Of the two ends of a frame, those that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Target,
    /// Either will do.
    Either,
}

impl Protocol {
    pub(crate) fn word(self) -> &'static str {
        self.into()
    }

    /// Whether `tcp port 80` can be said of it.
    pub(crate) fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }

    /// Whether `arp host 10.0.0.1` can be said of it.
    pub(crate) fn has_addresses(self) -> bool {
        matches!(self, Self::Arp | Self::Ip | Self::Ip6)
    }
}

impl Side {
    /// Whether where a frame comes from is looked at.
    pub fn has_source(self) -> bool {
        self != Self::Target
    }

    /// Whether where it goes is looked at.
    pub fn has_target(self) -> bool {
        self != Self::Source
    }
}

/// The most tests that evaluating a filter takes: `XW_WHERE_TESTS` of `bpf/where.h`.
///
/// No part takes more than two: `tcp port 80` is a protocol and a port, `icmp` what is IPv4 and a protocol within.
pub const TESTS: usize = 2 * MAX_PARTS;

/// Filters have no more parts, so that no text can exhaust the stack, or the verifier.
pub(crate) const MAX_PARTS: usize = 32;

impl Filter {
    /// Calls `visit` for each part that is not made of others.
    pub fn leaves(&self, visit: &mut impl FnMut(&Self)) {
        match self {
            Self::Not(part) => part.leaves(visit),
            Self::And(left, right) | Self::Or(left, right) => {
                left.leaves(visit);
                right.leaves(visit);
            }
            Self::Protocol(_) | Self::Net { .. } | Self::Ports { .. } => visit(self),
        }
    }
}

/// How many bits an address has.
pub(crate) fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// An address in the two words that `bpf/frame.h` has for it: its bytes as they are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words(pub [u64; 2]);

impl Words {
    /// Those of an address.
    pub fn of(address: IpAddr) -> Self {
        let mut octets = [0; 16];
        match address {
            IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => octets = address.octets(),
        }
        Self(Self::split(octets))
    }

    /// Those bits of both that belong to the net, as a mask.
    pub fn mask(prefix: u8) -> [u64; 2] {
        let bits = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        Self::split(Ipv6Addr::from(bits).octets())
    }

    fn split(octets: [u8; 16]) -> [u64; 2] {
        let [high, low] = [u128::from_le_bytes(octets), u128::from_le_bytes(octets) >> 64];
        #[expect(clippy::cast_possible_truncation, reason = "each is half of it")]
        [high as u64, low as u64]
    }

    pub(crate) fn masked(self, prefix: u8) -> Self {
        let mask = Self::mask(prefix);
        Self([self.0[0] & mask[0], self.0[1] & mask[1]])
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "where {};", self.filter)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Side| match side {
            Side::Source => "src ",
            Side::Target => "dst ",
            Side::Either => "",
        };
        match self {
            Self::Protocol(protocol) => f.write_str(protocol.word()),
            Self::Net { side: of, address, prefix } if *prefix == bits(*address) => {
                write!(f, "{}host {address}", side(of))
            }
            Self::Net { side: of, address, prefix } => write!(f, "{}net {address}/{prefix}", side(of)),
            Self::Ports { side: of, first, last } if first == last => write!(f, "{}port {first}", side(of)),
            Self::Ports { side: of, first, last } => write!(f, "{}portrange {first}-{last}", side(of)),
            Self::Not(part) => write!(f, "not {}", Operand(part)),
            Self::And(left, right) => match (&**left, &**right) {
                (Self::Protocol(protocol), Self::Ports { .. }) if protocol.has_ports() => {
                    write!(f, "{} {right}", protocol.word())
                }
                (Self::Protocol(protocol), Self::Net { .. }) if protocol.has_addresses() => {
                    write!(f, "{} {right}", protocol.word())
                }
                _ => write!(f, "{left} and {}", Operand(right)),
            },
            Self::Or(left, right) => write!(f, "{left} or {}", Operand(right)),
        }
    }
}

/// A filter where brackets may be needed, as associating to the left would make it another.
struct Operand<'a>(&'a Filter);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            both @ (Filter::And(..) | Filter::Or(..)) => {
                let text = both.to_string();
                // `tcp port 80` is one.
                if text.contains(" and ") || text.contains(" or ") {
                    write!(f, "({text})")
                } else {
                    f.write_str(&text)
                }
            }
            one => one.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_wire() {
        assert_eq!(Words::of("10.0.0.1".parse().unwrap()).0, [0x0100_000a, 0]);
        assert_eq!(Words::mask(8), [0xff, 0]);
        assert_eq!(Words::mask(0), [0, 0]);
        assert_eq!(Words::mask(12), [0xf0ff, 0]);
        assert_eq!(Words::mask(128), [u64::MAX; 2]);
        assert_eq!(Words::of("fe80::1".parse().unwrap()).0, [0x80fe, 1 << 56]);
    }
}
