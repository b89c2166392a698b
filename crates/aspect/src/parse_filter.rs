//! Filters: an expression of `and`, `or` and `not` over properties of frames, in the words of tcpdump.
//!
//! An address or port without a qualifier has that of the one before it: `port 80 or 443`.

use std::net::IpAddr;

use strum::VariantNames as _;

use crate::filter::{Filter, MAX_PARTS, Protocol, Side, Where, Words, bits};
use crate::grammar::{Parsed, Parser, expected, expected_of};
use crate::lexer::{Lexeme, Lexer, SyntaxError};

/// What comes after its qualifiers.
#[derive(Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
}

impl Kind {
    fn word(self) -> &'static str {
        self.into()
    }
}

/// What is said of the addresses or ports that follow.
#[derive(Clone, Copy)]
struct Qualifiers {
    protocol: Option<Protocol>,
    side: Side,
    kind: Kind,
}

impl<'a> Parser<'a> {
    /// `where FILTER;`
    pub(crate) fn where_(&mut self) -> Parsed<Where> {
        let span = self.lexer.next().span;
        let filter = self.filter(&mut None, &mut 0)?;
        let next = self.part();
        if next.text != ";" {
            return Err(expected("`and`, `or` or `;`", next));
        }
        self.lexer.next();
        Ok(Where { span, filter })
    }

    /// The next word of a filter, left where it is.
    fn part(&self) -> Lexeme<'a> {
        take_part(&mut self.lexer.clone())
    }

    fn take_part(&mut self) -> Lexeme<'a> {
        take_part(&mut self.lexer)
    }

    fn filter(&mut self, last: &mut Option<Qualifiers>, parts: &mut usize) -> Parsed<Filter> {
        let mut whole = self.negation(last, parts)?;
        loop {
            let both = match self.part().text {
                "and" | "&&" => Filter::And,
                "or" | "||" => Filter::Or,
                _ => return Ok(whole),
            };
            self.take_part();
            whole = both(Box::new(whole), Box::new(self.negation(last, parts)?));
        }
    }

    fn negation(&mut self, last: &mut Option<Qualifiers>, parts: &mut usize) -> Parsed<Filter> {
        let next = self.part();
        *parts += 1;
        if *parts > MAX_PARTS {
            return Err(SyntaxError::new(next.span, format!("this filter has more than {MAX_PARTS} parts")));
        }
        match next.text {
            "not" | "!" => {
                self.take_part();
                Ok(Filter::Not(Box::new(self.negation(last, parts)?)))
            }
            "(" => {
                self.take_part();
                let inner = self.filter(last, parts)?;
                match self.take_part() {
                    close if close.text == ")" => Ok(inner),
                    other => Err(expected("`and`, `or` or `)`", other)),
                }
            }
            _ => self.primitive(last),
        }
    }

    /// `[PROTOCOL] [src|dst] [host|net|port|portrange] ID`, or a protocol alone.
    fn primitive(&mut self, last: &mut Option<Qualifiers>) -> Parsed<Filter> {
        let first = self.part();
        let protocol = first.text.parse::<Protocol>().ok();
        if protocol.is_some() {
            self.take_part();
        }
        let side = match self.part().text {
            "src" => Some(Side::Source),
            "dst" => Some(Side::Target),
            _ => None,
        };
        if side.is_some() {
            self.take_part();
        }
        let word = self.part();
        let kind = word.text.parse::<Kind>().ok();
        if kind.is_some() {
            self.take_part();
        }
        let qualifiers = match (protocol, side, kind) {
            (Some(protocol), None, None) => return Ok(Filter::Protocol(protocol)),
            (None, None, None) => match *last {
                Some(last) if is_id(word.text) => last,
                _ if word.text.parse::<IpAddr>().is_ok() => {
                    Qualifiers { protocol, side: Side::Either, kind: Kind::Host }
                }
                _ => return Err(not_a_primitive(word)),
            },
            _ => {
                Qualifiers { protocol, side: side.unwrap_or(Side::Either), kind: kind.unwrap_or(Kind::Host) }
            }
        };
        *last = Some(qualifiers);
        let of = qualifiers.kind;
        let ports = matches!(of, Kind::Port | Kind::PortRange);
        if let Some(protocol) = protocol
            && !(if ports { protocol.has_ports() } else { protocol.has_addresses() })
        {
            let (protocol, kind) = (protocol.word(), of.word());
            let wrong = SyntaxError::new(first.span, format!("`{protocol}` does not go with `{kind}`"));
            return Err(wrong.with_help(format!("write `{protocol} and {kind} …`")));
        }
        let id = self.id(qualifiers)?;
        Ok(match qualifiers.protocol {
            Some(protocol) => Filter::And(Box::new(Filter::Protocol(protocol)), Box::new(id)),
            None => id,
        })
    }

    fn id(&mut self, Qualifiers { side, kind, .. }: Qualifiers) -> Parsed<Filter> {
        let id = self.take_part();
        let wrong = |what: &str| expected(what, id);
        let port = |text: &str| text.parse::<u16>().ok();
        match kind {
            Kind::Host => {
                let address: IpAddr = id.text.parse().map_err(|_| wrong("an address, such as 10.0.0.1"))?;
                Ok(Filter::Net { side, address, prefix: bits(address) })
            }
            Kind::Net => {
                let net = || {
                    let (address, prefix) = id.text.split_once('/')?;
                    let address: IpAddr = address.parse().ok()?;
                    Some((address, prefix.parse().ok().filter(|prefix| *prefix <= bits(address))?))
                };
                let (address, prefix) = net().ok_or_else(|| wrong("a net, such as 10.0.0.0/8"))?;
                if Words::of(address) != Words::of(address).masked(prefix) {
                    let message = format!("`{}` is no net: bits behind the first {prefix} are set", id.text);
                    return Err(SyntaxError::new(id.span, message));
                }
                Ok(Filter::Net { side, address, prefix })
            }
            Kind::Port => {
                let port = port(id.text).ok_or_else(|| wrong("a port's number, such as 80"))?;
                Ok(Filter::Ports { side, first: port, last: port })
            }
            Kind::PortRange => {
                let ends =
                    id.text.split_once('-').and_then(|(first, last)| Some((port(first)?, port(last)?)));
                let ends = ends.filter(|(first, last)| first <= last);
                let (first, last) = ends.ok_or_else(|| wrong("two ports' numbers, such as 8000-8080"))?;
                Ok(Filter::Ports { side, first, last })
            }
        }
    }
}

/// Takes a word, a number or an address; or a symbol.
fn take_part<'a>(lexer: &mut Lexer<'a>) -> Lexeme<'a> {
    let run = lexer.run(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/' | '-' | '_'));
    if run.text.is_empty() { lexer.next() } else { run }
}

/// Whether it may be an address or a number, and no word of the language.
fn is_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) || text.contains(':')
}

fn not_a_primitive(found: Lexeme<'_>) -> SyntaxError {
    let words = || Protocol::VARIANTS.iter().chain(Kind::VARIANTS).copied();
    let known: Vec<_> = words().chain(["src", "dst", "not"]).collect();
    let list: Vec<_> = words().map(|word| format!("`{word}`")).collect();
    expected_of(&format!("a frame's property ({})", list.join(", ")), &known, found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Source, parse};

    const FLOW: &str = "xflow f { start execution(a) AND if(frame_wanted(skb, p)) select skb; }\n";

    fn read(filter: &str) -> Result<Filter, String> {
        let text = format!("{FLOW}where {filter};");
        let aspects = parse(vec![Source { name: "x".into(), text }]);
        let aspects = aspects.map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())?;
        Ok(aspects.selection.expect("there is one").filter)
    }

    fn canonical(filter: &str) -> String {
        read(filter).unwrap_or_else(|error| panic!("{filter}: {error}")).to_string()
    }

    #[test]
    fn filters_are_those_of_tcpdump() {
        for same in [
            "tcp",
            "tcp port 80",
            "udp src port 53",
            "dst host 10.0.0.1",
            "src net 10.77.0.0/16",
            "host fe80::1",
            "portrange 8000-8080",
            "arp or icmp",
            "not tcp port 22",
            "arp host 10.0.0.1",
            "icmp and host 10.0.0.1",
        ] {
            assert_eq!(canonical(same), same);
        }
        // Without qualifiers, those of the one before.
        assert_eq!(canonical("tcp port 80 or 443"), "tcp port 80 or tcp port 443");
        assert_eq!(canonical("10.0.0.1"), "host 10.0.0.1");
        assert_eq!(canonical("src 10.0.0.1 and not 10.0.0.2"), "src host 10.0.0.1 and not src host 10.0.0.2");
        // Equal precedence, from the left; C's operators.
        assert_eq!(canonical("arp || icmp && ip"), "arp or icmp and ip");
        assert_eq!(canonical("arp or (icmp and ip)"), "arp or (icmp and ip)");
        assert_eq!(canonical("!(tcp||udp)"), "not (tcp or udp)");
        let Filter::And(left, _) = read("arp or icmp and ip").unwrap() else { panic!("`and` came last") };
        assert_eq!(left.to_string(), "arp or icmp");
    }

    #[test]
    fn what_is_no_filter_is_said_where_it_is() {
        for (filter, said) in [
            ("prt 80", "did you mean `port`?"),
            ("port http", "expected a port's number, such as 80, found `http`"),
            ("tcp host 10.0.0.1", "write `tcp and host …`"),
            ("host 10.0.0", "expected an address, such as 10.0.0.1, found `10.0.0`"),
            ("net 10.0.0.1/8", "bits behind the first 8 are set"),
            ("net 10.0.0.0/33", "expected a net"),
            ("portrange 9-8", "two ports' numbers"),
            ("tcp and", "expected a frame's property"),
            ("(tcp", "expected `and`, `or` or `)`, found `;`"),
            ("tcp udp", "expected `and`, `or` or `;`, found `udp`"),
            ("80", "expected a frame's property"),
            ("port 99999", "expected a port's number"),
        ] {
            let error = read(filter).map(|filter| filter.to_string()).unwrap_err();
            assert!(error.contains(said), "{filter}: {error}");
        }
        let long = vec!["tcp"; MAX_PARTS + 1].join(" or ");
        assert!(read(&long).unwrap_err().contains("more than 32 parts"));
        let deep = "(".repeat(100_000);
        assert!(read(&deep).unwrap_err().contains("more than 32 parts"));
    }

    #[test]
    fn one_filter_that_something_asks_for() {
        let errors = |text: &str| {
            let errors = parse(vec![Source { name: "x".into(), text: text.into() }]).unwrap_err();
            errors.iter().map(ToString::to_string).collect::<String>()
        };
        assert!(
            errors(&format!("{FLOW}where tcp;\nwhere udp;")).contains("there is another `where`, in line 2")
        );
        let nobody = errors("xflow f { start execution(a) select skb; }\nwhere tcp;");
        assert!(nobody.contains("no flow of these aspects begins with a frame"), "{nobody}");
    }

    fn any_filter() -> impl Strategy<Value = Filter> {
        let side = prop_oneof![Just(Side::Source), Just(Side::Target), Just(Side::Either)];
        let protocol =
            proptest::sample::select(Protocol::VARIANTS).prop_map(|word| word.parse::<Protocol>().unwrap());
        let ports = (side.clone(), any::<u16>(), any::<u16>()).prop_map(|(side, a, b)| Filter::Ports {
            side,
            first: a.min(b),
            last: a.max(b),
        });
        let net = (side, any::<IpAddr>()).prop_map(|(side, address)| Filter::Net {
            side,
            address,
            prefix: bits(address),
        });
        let leaf = prop_oneof![protocol.prop_map(Filter::Protocol), ports, net];
        leaf.prop_recursive(4, 12, 2, |part| {
            let both = (part.clone(), part.clone());
            prop_oneof![
                part.prop_map(|part| Filter::Not(Box::new(part))),
                both.clone().prop_map(|(a, b)| Filter::And(Box::new(a), Box::new(b))),
                both.prop_map(|(a, b)| Filter::Or(Box::new(a), Box::new(b))),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same(filter in any_filter()) {
            prop_assert_eq!(read(&filter.to_string()).unwrap().to_string(), filter.to_string());
            prop_assert_eq!(read(&filter.to_string()).unwrap(), filter);
        }
    }
}
