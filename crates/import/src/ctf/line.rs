//! A line of babeltrace2's `sink.text.pretty`: `timestamp = 12.000000345, name = sched_switch,
//! stream.packet.context = { cpu_id = 0 }, event.fields = { prev_comm = "sh", prev_tid = 7 }`.

/// An event, as its line tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Nanoseconds from the clock's origin.
    pub time: i64,
    pub name: &'a str,
    pub cpu: u32,
    /// What was recorded with every event: [`Pairs`].
    pub context: &'a [u8],
    /// The event's own: [`Pairs`].
    pub fields: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads a line; none if it has no time or no name.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let (mut time, mut name, mut parsed) = (None, None, Self::default());
        for (key, value) in Pairs(line) {
            match key {
                b"timestamp" => time = nanoseconds(value),
                b"name" => name = std::str::from_utf8(value).ok(),
                b"stream.packet.context" => {
                    let cpu = Pairs(inside(value)).find(|(key, _)| *key == b"cpu_id");
                    parsed.cpu = cpu.and_then(|(_, value)| half(value)).unwrap_or(0);
                }
                b"stream.event.context" => parsed.context = inside(value),
                b"event.fields" => parsed.fields = inside(value),
                _ => {}
            }
        }
        Some(Self { time: time?, name: name?, ..parsed })
    }
}

/// `name = value, name = value`, as names and values.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<'a>(pub &'a [u8]);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        const IS: &[u8] = b" = ";
        let at = self.0.windows(IS.len()).position(|bytes| bytes == IS)?;
        let (name, rest) = (self.0.get(..at)?, self.0.get(at + IS.len()..)?);
        let (value, behind) = rest.split_at_checked(length(rest))?;
        self.0 = behind.get(1..).unwrap_or_default();
        Some((name.trim_ascii(), value.trim_ascii()))
    }
}

/// How long the value is that a text begins with: to the next comma that is in no text, structure or array.
fn length(text: &[u8]) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// What a structure or an array holds.
pub(crate) fn inside(value: &[u8]) -> &[u8] {
    match value {
        [b'{', held @ .., b'}'] | [b'[', held @ .., b']'] => held,
        _ => &[],
    }
}

/// A number, extended to 64 bits: in any base, or of an enumeration (`( "TASK_RUNNING" : container = 0 )`).
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let text = match text.strip_prefix('(') {
        Some(named) => named.rsplit_once("container = ")?.1.trim_end_matches([')', ' ']),
        None => text,
    };
    match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => u64::from_str_radix(&text[2..], 16).ok(),
        [b'0', b'b' | b'B', ..] => u64::from_str_radix(&text[2..], 2).ok(),
        [b'0', _, ..] => u64::from_str_radix(&text[1..], 8).ok(),
        [b'-', ..] => text.parse().ok().map(i64::cast_unsigned),
        _ => text.parse().ok(),
    }
}

/// A number's lower 32 bits.
pub(crate) fn half(value: &[u8]) -> Option<u32> {
    number(value).map(|number| (number & 0xffff_ffff) as u32)
}

/// The bytes of a text: what is between the quotation marks, or all if there are none.
pub(crate) fn text(value: &[u8]) -> Vec<u8> {
    match value {
        [b'"', quoted @ .., b'"'] => unescaped(quoted),
        _ => value.to_vec(),
    }
}

/// What a text says with `\n`, `\"`, `\x1f` and the like.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'\\', [b'x', high, low, behind @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, behind),
                _ => (b'x', &rest[2..]),
            },
            (b'\\', [escaped, behind @ ..]) => {
                let byte = match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'e' => 27,
                    other => *other,
                };
                (byte, behind)
            }
            (byte, behind) => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Nanoseconds of `12.000000345`.
fn nanoseconds(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (seconds, part) = text.split_once('.')?;
    if part.len() != 9 || !part.bytes().chain(seconds.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    Some(sign * whole.checked_add(part.parse().ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_of_lttng() {
        let line = br#"timestamp = 1700000000.000000345, name = sched_switch, stream.packet.context = { cpu_id = 3 }, stream.event.context = { tid = 7 }, event.fields = { prev_comm = "a, \"b} = ", prev_state = ( "TASK_DEAD" : container = 64 ), at = 0xFFFFFFFFFFFFFFFE, nice = -2, list = [ [0] = 1, [1] = 2 ] }"#;
        let line = Line::parse(line).unwrap();
        assert_eq!((line.time, line.name, line.cpu), (1_700_000_000_000_000_345, "sched_switch", 3));
        assert_eq!(Pairs(line.context).collect::<Vec<_>>(), [(&b"tid"[..], &b"7"[..])]);
        let fields: Vec<_> = Pairs(line.fields).collect();
        let names: Vec<_> = fields.iter().map(|(name, _)| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(names, ["prev_comm", "prev_state", "at", "nice", "list"]);
        assert_eq!(text(fields[0].1), b"a, \"b} = ");
        let numbers: Vec<_> = fields[1..].iter().map(|(_, value)| number(value)).collect();
        let minus_two = Some((-2i64).cast_unsigned());
        assert_eq!(numbers, [Some(64), minus_two, minus_two, None]);
        assert_eq!(Pairs(inside(fields[4].1)).count(), 2);
    }

    #[test]
    fn values_of_all_kinds() {
        assert_eq!(number(b"0755"), Some(0o755));
        assert_eq!(number(b"0b101"), Some(5));
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"( { \"A\" | \"B\" } : container = 3 )"), Some(3));
        assert_eq!(number(b"\"3\""), None);
        assert_eq!(text(br#""a\x1f\n\\""#), b"a\x1f\n\\");
        assert_eq!(nanoseconds(b"-1.500000000"), Some(-1_500_000_000));
        assert_eq!(nanoseconds(b"1.5"), None);
        assert_eq!(nanoseconds(b"99999999999999.000000000"), None);
    }

    proptest! {
        /// Whatever a line says, it is an event or none.
        #[test]
        fn any_bytes_are_a_line_or_none(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Line::parse(&line);
            let _ = (number(&line), text(&line), inside(&line));
        }

        /// The same with what lines are made of.
        #[test]
        fn any_pieces_are_a_line_or_none(pieces in prop::collection::vec(prop::sample::select(vec![
            "timestamp", " = ", "1.000000000", ", ", "name", "event.fields", "{ ", " }", "[", "]", "(", ")", "\"",
            "\\", "\\x", "container = ", "-", "0x", "é", "stream.packet.context", "cpu_id", "7",
        ]), 0..40)) {
            let line = pieces.concat();
            let _ = Line::parse(line.as_bytes());
            for (_, value) in Pairs(line.as_bytes()) {
                let _ = (number(value), text(value), Pairs(inside(value)).count());
            }
        }
    }
}
