//! What a network frame is: a record of kind `frame`, whose words `bpf/frame.h` writes from the frame's headers.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use xweave_trace::Row;
use xweave_wire::record::Kind;

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// TCP's flags (RFC 9293, 3.1).
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A frame, as far as its headers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes after the headers: of TCP data, of a datagram.
    pub bytes: u32,
    /// EtherType.
    pub ether_type: u16,
    /// IP's protocol; ARP's operation.
    pub protocol: u8,
    /// TCP's flags; ICMP's type.
    pub flags: u8,
    /// Where it comes from; ARP's sender.
    pub source: IpAddr,
    /// Where it goes; what ARP asks for.
    pub target: IpAddr,
    /// TCP's or UDP's ports; 0 in fragments but the first.
    pub source_port: u16,
    /// Where it goes.
    pub target_port: u16,
    /// TCP's; of an ICMP echo the identifier (upper half) and sequence number.
    pub sequence: u32,
    /// TCP's.
    pub acknowledgement: u32,
    /// IPv4's identification, the same for all fragments of a datagram.
    pub identification: u16,
    /// Where an IPv4 fragment belongs, in bytes; and whether more follow.
    pub fragment: Option<(u32, bool)>,
}

impl Frame {
    /// What a record says, if it is of a frame.
    pub fn of(row: &Row) -> Option<Self> {
        let &[what, source, source_low, target, target_low, sequence, ports] = row.values() else {
            return None;
        };
        if row.kind != Kind::Frame {
            return None;
        }
        let [flags, protocol, _, _, bytes @ ..] = what.to_le_bytes();
        let [_, ether_type, ..] = quarters(what);
        let address = |high: u64, low: u64| {
            let [a, b, c, d, ..] = high.to_le_bytes();
            if ether_type == IPV6 {
                let mut octets = [0; 16];
                octets[..8].copy_from_slice(&high.to_le_bytes());
                octets[8..].copy_from_slice(&low.to_le_bytes());
                IpAddr::from(Ipv6Addr::from(octets))
            } else {
                IpAddr::from(Ipv4Addr::from([a, b, c, d]))
            }
        };
        let [target_port, source_port, fragment, identification] = quarters(ports);
        let (offset, more) = (u32::from(fragment & 0x1fff) * 8, fragment & 0x2000 != 0);
        let [acknowledgement, sequence] = {
            let [a, b, c, d, high @ ..] = sequence.to_le_bytes();
            [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(high)]
        };
        Some(Self {
            bytes: u32::from_le_bytes(bytes),
            ether_type,
            protocol,
            flags,
            source: address(source, source_low),
            target: address(target, target_low),
            source_port,
            target_port,
            sequence,
            acknowledgement,
            identification,
            fragment: (offset > 0 || more).then_some((offset, more)),
        })
    }

    /// Whether it is TCP's.
    pub fn is_tcp(&self) -> bool {
        self.is_ip(TCP)
    }

    /// Whether it is UDP's.
    pub fn is_udp(&self) -> bool {
        self.is_ip(UDP)
    }

    /// Of an ICMP echo and its reply.
    pub fn echo_identifier(&self) -> u16 {
        let [high, low, ..] = self.sequence.to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    /// Whether it has bytes of a program in it.
    pub fn has_data(&self) -> bool {
        self.bytes > 0 && (self.is_tcp() || self.is_udp())
    }

    fn is_ip(&self, protocol: u8) -> bool {
        [IPV4, IPV6].contains(&self.ether_type) && self.protocol == protocol
    }

    /// Whether it opens a TCP connection (a client's SYN) or answers that (a server's).
    pub fn opens(&self) -> Option<bool> {
        (self.is_tcp() && self.flags & SYN != 0).then_some(self.flags & ACK == 0)
    }

    /// Whether it is an ICMP echo request, or the reply to one.
    pub fn asks_for_echo(&self) -> Option<bool> {
        match (self.is_ip(ICMP), self.is_ip(ICMPV6), self.flags) {
            (true, _, 8) | (_, true, 128) => Some(true),
            (true, _, 0) | (_, true, 129) => Some(false),
            _ => None,
        }
    }

    /// Its kind, in a few words.
    pub fn kind(&self) -> Cow<'static, str> {
        let named = |protocol: &str, kinds: &[(u8, &str)]| {
            let kind = kinds.iter().find(|(number, _)| *number == self.flags);
            let kind = kind.map_or_else(
                || format!("{protocol} type {}", self.flags),
                |(_, name)| format!("{protocol} {name}"),
            );
            Cow::Owned(kind)
        };
        match (self.ether_type, self.protocol) {
            (IPV4 | IPV6, _) if self.fragment.is_some() => {
                format!("{} fragment", self.protocol_name()).into()
            }
            (IPV4 | IPV6, TCP) => {
                let set = |flag| self.flags & flag != 0;
                let kind = match () {
                    () if set(RST) => "TCP RST",
                    () if set(SYN) && set(ACK) => "TCP SYN-ACK",
                    () if set(SYN) => "TCP SYN",
                    () if set(FIN) => "TCP FIN",
                    () if self.bytes > 0 => "TCP data",
                    () => "TCP ACK",
                };
                kind.into()
            }
            // RFC 792; RFC 4443, RFC 4861.
            (IPV4, ICMP) => named(
                "ICMP",
                &[(0, "echo reply"), (3, "unreachable"), (8, "echo request"), (11, "time exceeded")],
            ),
            (IPV6, ICMPV6) => named(
                "ICMPv6",
                &[
                    (1, "unreachable"),
                    (128, "echo request"),
                    (129, "echo reply"),
                    (133, "router solicitation"),
                    (134, "router advertisement"),
                    (135, "neighbor solicitation"),
                    (136, "neighbor advertisement"),
                    (143, "listener report"),
                ],
            ),
            (ARP, 1) => "ARP request".into(),
            (ARP, 2) => "ARP reply".into(),
            (ARP, operation) => format!("ARP operation {operation}").into(),
            (IPV4 | IPV6, _) => self.protocol_name().into(),
            (other, _) => format!("EtherType {other:#06x}").into(),
        }
    }

    fn protocol_name(&self) -> String {
        match (self.ether_type, self.protocol) {
            (_, TCP) => "TCP".into(),
            (_, UDP) => "UDP".into(),
            (_, ICMP) => "ICMP".into(),
            // What follows IPv6's own header may be an option's.
            (IPV6, protocol) => format!("IPv6 next header {protocol}"),
            (_, protocol) => format!("IP protocol {protocol}"),
        }
    }
}

/// A word's quarters, the lowest first.
fn quarters(word: u64) -> [u16; 4] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [[a, b], [c, d], [e, f], [g, h]].map(u16::from_le_bytes)
}

/// `TCP data 10.77.0.1:41234 → 10.77.0.2:80, 1448 bytes`
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind())?;
        if ![IPV4, IPV6, ARP].contains(&self.ether_type) {
            return write!(f, ", {} bytes", self.bytes);
        }
        if self.source_port == 0 && self.target_port == 0 {
            write!(f, " {} → {}", self.source, self.target)?;
        } else {
            let end = |address, port| std::net::SocketAddr::new(address, port);
            write!(f, " {} → {}", end(self.source, self.source_port), end(self.target, self.target_port))?;
        }
        if self.bytes > 0 && self.ether_type != ARP { write!(f, ", {} bytes", self.bytes) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xweave_wire::record::Record;

    fn row(kind: Kind, values: &[u64]) -> Row {
        let (time_ns, flow, site, pid, tid, cpu, comm) = (1, 7, 1, 1, 1, 0, [0; 16]);
        Row::new(1, 1, &Record { time_ns, flow, site, pid, tid, cpu, kind, comm, values: values.to_vec() })
    }

    /// As the program writes it.
    fn frame(ether_type: u16, protocol: u8, flags: u8, bytes: u64, rest: [u64; 6]) -> Frame {
        let what = bytes << 32 | u64::from(ether_type) << 16 | u64::from(protocol) << 8 | u64::from(flags);
        let values: Vec<u64> = std::iter::once(what).chain(rest).collect();
        Frame::of(&row(Kind::Frame, &values)).unwrap()
    }

    #[test]
    fn a_frame_says_what_it_is() {
        let (here, there) =
            (u64::from(u32::from_le_bytes([10, 77, 0, 1])), u64::from(u32::from_le_bytes([10, 77, 0, 2])));
        let tcp =
            |flags, bytes| frame(IPV4, TCP, flags, bytes, [here, 0, there, 0, 7 << 32 | 9, 41234 << 16 | 80]);
        let data = tcp(ACK | 8, 1448);
        assert_eq!(data.to_string(), "TCP data 10.77.0.1:41234 → 10.77.0.2:80, 1448 bytes");
        assert_eq!((data.sequence, data.acknowledgement), (7, 9));
        let kinds = [(SYN, "SYN"), (SYN | ACK, "SYN-ACK"), (ACK, "ACK"), (FIN | ACK, "FIN"), (RST, "RST")];
        for (flags, kind) in kinds {
            assert_eq!(tcp(flags, 0).kind(), format!("TCP {kind}"));
        }
        assert_eq!([SYN, SYN | ACK, ACK].map(|flags| tcp(flags, 0).opens()), [Some(true), Some(false), None]);
        let arp = frame(ARP, 1, 0, 0, [here, 0, there, 0, 0, 0]);
        assert_eq!(arp.to_string(), "ARP request 10.77.0.1 → 10.77.0.2");
        let part = frame(IPV4, UDP, 0, 1480, [here, 0, there, 0, 0, (5 << 48) | (0x2001 << 32)]);
        assert_eq!(part.to_string(), "UDP fragment 10.77.0.1 → 10.77.0.2, 1480 bytes");
        assert_eq!((part.identification, part.fragment), (5, Some((8, true))));
        let local = [0xfe80u16.swap_bytes().into(), 1 << 56];
        let nd = frame(IPV6, ICMPV6, 135, 24, [local[0], local[1], local[0], 2 << 56, 0, 0]);
        assert_eq!(nd.to_string(), "ICMPv6 neighbor solicitation fe80::1 → fe80::2, 24 bytes");
        assert_eq!(frame(0x88cc, 0, 0, 60, [0; 6]).to_string(), "EtherType 0x88cc, 60 bytes");
        // Numbers that nobody has named are told as such.
        assert_eq!(frame(IPV4, ICMP, 77, 0, [0; 6]).kind(), "ICMP type 77");
        assert_eq!(frame(IPV4, 47, 0, 0, [0; 6]).kind(), "IP protocol 47");
    }

    #[test]
    fn what_is_no_frame_s_record_is_none() {
        assert_eq!(Frame::of(&row(Kind::Hop, &[0; 7])), None);
        assert_eq!(Frame::of(&row(Kind::Frame, &[0; 3])), None);
    }
}
