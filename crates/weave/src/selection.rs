//! Which frames are followed, as the data that `bpf/where.h` evaluates.
//!
//! A filter is lowered to tests, each with the test to go on with when it holds and when it does not. They are laid down
//! from the last to the first, so that each goes on only with one before it, and evaluating ends.

use xweave_aspect::Filter;
use xweave_aspect::filter::{Protocol, Side, TESTS, Words};

/// The constant of an object that is the filter.
pub(crate) const CONSTANT: &str = "xw_where";

/// What stands for a result instead of a test: `XW_WHERE_ACCEPT` and `XW_WHERE_REJECT`.
const ACCEPT: u8 = 255;
const REJECT: u8 = 254;

/// Ends of a frame: `XW_WHERE_SOURCE` and `XW_WHERE_TARGET`.
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// include/uapi/linux/if_ether.h, include/uapi/linux/in.h, include/uapi/linux/icmpv6.h
const ETHER_IPV4: u16 = 0x0800;
const ETHER_ARP: u16 = 0x0806;
const ETHER_IPV6: u16 = 0x86dd;
const IP_ICMP: u16 = 1;
const IP_TCP: u16 = 6;
const IP_UDP: u16 = 17;
const IP_ICMPV6: u16 = 58;

/// `enum xw_where_kind`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Ether,
    Ip,
    Port,
    Net4,
    Net6,
}

/// `struct xw_where_test`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Test {
    net: [u64; 2],
    masks: [u64; 2],
    low: u16,
    high: u16,
    kind: Kind,
    ends: u8,
    accept: u8,
    reject: u8,
}

/// `struct xw_where_filter`
pub(crate) fn encode(filter: &Filter) -> Vec<u8> {
    let mut tests = Vec::new();
    lower(filter, ACCEPT, REJECT, &mut tests);
    let mut source = false;
    filter.leaves(&mut |leaf| source |= matches!(leaf, Filter::Net { side, .. } if side.has_source()));
    let mut bytes = u32::try_from(tests.len()).unwrap_or(0).to_le_bytes().to_vec();
    bytes.extend(u32::from(source).to_le_bytes());
    tests.resize(TESTS, Test::default());
    for test in tests {
        bytes.extend(test.net.into_iter().chain(test.masks).flat_map(u64::to_le_bytes));
        bytes.extend([test.low, test.high].into_iter().flat_map(u16::to_le_bytes));
        bytes.extend([test.kind as u8, test.ends, test.accept, test.reject]);
    }
    bytes
}

/// Lays down the tests of a filter; returns the one that is asked first. `accept` and `reject` are what to go on with
/// when the filter holds and when it does not.
fn lower(filter: &Filter, accept: u8, reject: u8, tests: &mut Vec<Test>) -> u8 {
    let mut add = |test: Test| {
        tests.push(Test { accept, reject, ..test });
        number(tests.len() - 1)
    };
    let ether = |low| Test { kind: Kind::Ether, low, ..Test::default() };
    let ip = |low| Test { kind: Kind::Ip, low, ..Test::default() };
    match filter {
        Filter::Protocol(protocol) => match protocol {
            Protocol::Arp => add(ether(ETHER_ARP)),
            Protocol::Ip => add(ether(ETHER_IPV4)),
            Protocol::Ip6 => add(ether(ETHER_IPV6)),
            Protocol::Tcp => add(ip(IP_TCP)),
            Protocol::Udp => add(ip(IP_UDP)),
            Protocol::Icmp | Protocol::Icmp6 => {
                let (of_ether, of_ip) = match protocol {
                    Protocol::Icmp => (ETHER_IPV4, IP_ICMP),
                    _ => (ETHER_IPV6, IP_ICMPV6),
                };
                let second = add(ip(of_ip));
                tests.push(Test { accept: second, reject, ..ether(of_ether) });
                number(tests.len() - 1)
            }
        },
        Filter::Net { side, address, prefix } => add(Test {
            net: Words::of(*address).0,
            masks: Words::mask(*prefix),
            kind: if address.is_ipv6() { Kind::Net6 } else { Kind::Net4 },
            ends: ends(*side),
            ..Test::default()
        }),
        Filter::Ports { side, first, last } => {
            add(Test { low: *first, high: *last, kind: Kind::Port, ends: ends(*side), ..Test::default() })
        }
        Filter::Not(part) => lower(part, reject, accept, tests),
        Filter::And(left, right) => {
            let right = lower(right, accept, reject, tests);
            lower(left, right, reject, tests)
        }
        Filter::Or(left, right) => {
            let right = lower(right, accept, reject, tests);
            lower(left, accept, right, tests)
        }
    }
}

/// A test's number; there are fewer than stand for results, which parsing sees to.
fn number(nth: usize) -> u8 {
    u8::try_from(nth).unwrap_or(REJECT)
}

fn ends(side: Side) -> u8 {
    (if side.has_source() { SOURCE } else { 0 }) | (if side.has_target() { TARGET } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        let text =
            format!("xflow f {{ start execution(a) AND if(frame_wanted(s, h)) select s; }} where {text};");
        let source = xweave_aspect::Source { name: "x".into(), text };
        xweave_aspect::parse(vec![source]).unwrap().selection.unwrap().filter
    }

    fn lowered(text: &str) -> Vec<Test> {
        let mut tests = Vec::new();
        let first = lower(&filter(text), ACCEPT, REJECT, &mut tests);
        assert_eq!(usize::from(first), tests.len() - 1, "the last is asked first");
        tests
    }

    #[test]
    fn filters_become_tests_that_end() {
        let found = lowered("not tcp dst port 80 or arp");
        let arp = Test { low: ETHER_ARP, accept: ACCEPT, reject: REJECT, ..Test::default() };
        let port = Test {
            low: 80,
            high: 80,
            kind: Kind::Port,
            ends: TARGET,
            accept: 0,
            reject: ACCEPT,
            ..Test::default()
        };
        let tcp = Test { low: IP_TCP, kind: Kind::Ip, accept: 1, reject: ACCEPT, ..Test::default() };
        assert_eq!(found, [arp, port, tcp]);
        let long = ["icmp or not (udp and src net 10.0.0.0/8)"; 6].join(" and ");
        for (nth, test) in lowered(&long).iter().enumerate() {
            for next in [test.accept, test.reject].into_iter().filter(|next| *next < REJECT) {
                assert!(usize::from(next) < nth, "a test goes on only with one before it");
            }
        }
    }

    #[test]
    fn layout_is_that_of_the_constant() {
        let bytes = encode(&filter("src net 10.77.0.0/16"));
        assert_eq!(bytes.len(), 8 + TESTS * 40);
        assert_eq!(bytes[..8], [1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[8..16], 0x4d0au64.to_le_bytes());
        assert_eq!(bytes[24..32], 0xffffu64.to_le_bytes());
        assert_eq!(bytes[40..48], [0, 0, 0, 0, Kind::Net4 as u8, SOURCE, ACCEPT, REJECT]);
        assert_eq!(encode(&filter("tcp"))[4..8], [0; 4], "no test asks for a source address");
    }
}
