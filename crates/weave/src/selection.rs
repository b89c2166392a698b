//! Which frames are followed, as C that `bpf/where.h` evaluates.

use xweave_aspect::Filter;
use xweave_aspect::filter::{Protocol, Side, Words};

/// The macros that `bpf/where.h` is compiled with.
pub(crate) fn macros(filter: &Filter) -> String {
    let mut source = false;
    filter.leaves(&mut |leaf| source |= matches!(leaf, Filter::Net { side, .. } if side.has_source()));
    format!("#define XW_WHERE(words) {}\n#define XW_WHERE_SOURCE {}\n", expression(filter), u8::from(source))
}

fn expression(filter: &Filter) -> String {
    let ends = |side: Side| format!("{}, {}", side.has_source(), side.has_target());
    match filter {
        Filter::Protocol(protocol) => match protocol {
            Protocol::Arp => "xw_is_ether(words, XW_ETH_ARP)".to_owned(),
            Protocol::Ip => "xw_is_ether(words, XW_ETH_IPV4)".to_owned(),
            Protocol::Ip6 => "xw_is_ether(words, XW_ETH_IPV6)".to_owned(),
            Protocol::Icmp => "(xw_is_ether(words, XW_ETH_IPV4) && xw_is_ip(words, XW_ICMP))".to_owned(),
            Protocol::Icmp6 => "(xw_is_ether(words, XW_ETH_IPV6) && xw_is_ip(words, XW_ICMPV6))".to_owned(),
            Protocol::Tcp => "xw_is_ip(words, XW_TCP)".to_owned(),
            Protocol::Udp => "xw_is_ip(words, XW_UDP)".to_owned(),
        },
        Filter::Net { side, address, prefix } => {
            let ([first, second], [first_mask, second_mask]) = (Words::of(*address).0, Words::mask(*prefix));
            // Words of IPv4 have no more bits than these.
            let (ipv6, ends) = (address.is_ipv6(), ends(*side));
            format!(
                "xw_is_net(words, {ends}, {ipv6}, {first:#x}ULL, {second:#x}ULL, {first_mask:#x}ULL, {second_mask:#x}ULL)"
            )
        }
        Filter::Ports { side, first, last } => {
            format!("xw_is_port(words, {}, {first}, {last})", ends(*side))
        }
        Filter::Not(part) => format!("!{}", expression(part)),
        Filter::And(left, right) => format!("({} && {})", expression(left), expression(right)),
        Filter::Or(left, right) => format!("({} || {})", expression(left), expression(right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_conditions_over_words() {
        let of = |text: &str| {
            let text = format!(
                "xflow f {{ start execution(a) AND if(frame_wanted(s, h)) select s; }} where {text};"
            );
            let source = xweave_aspect::Source { name: "x".into(), text };
            macros(&xweave_aspect::parse(vec![source]).unwrap().selection.unwrap().filter)
        };
        assert_eq!(
            of("not tcp dst port 80 or arp"),
            "#define XW_WHERE(words) (!(xw_is_ip(words, XW_TCP) && xw_is_port(words, false, true, 80, 80)) \
             || xw_is_ether(words, XW_ETH_ARP))\n#define XW_WHERE_SOURCE 0\n"
        );
        assert_eq!(
            of("src net 10.77.0.0/16"),
            "#define XW_WHERE(words) xw_is_net(words, true, false, false, 0x4d0aULL, 0x0ULL, 0xffffULL, 0x0ULL)\n\
             #define XW_WHERE_SOURCE 1\n"
        );
    }
}
