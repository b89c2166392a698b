//! The `format` texts of tracefs: where an event has its fields.

use crate::input::shown;

/// An event as its format describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub system: String,
    pub name: String,
    pub id: u16,
    pub fields: Vec<Field>,
}

/// A field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    pub name: String,
    pub offset: usize,
    pub size: usize,
    pub signed: bool,
    /// The bytes at the offset say where in the event the content is.
    pub place: Place,
}

/// Where a field's content is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// At its offset.
    #[default]
    Here,
    /// 16 bits at its offset say where, from the event's beginning; the next 16 how long.
    FromEvent,
    /// The same, from the end of these 32 bits.
    FromField,
}

/// A number in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    offset: usize,
    size: u8,
    signed: bool,
}

/// Bytes in an event: a text or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    offset: usize,
    size: usize,
    place: Place,
}

impl Format {
    /// Reads a format; none if it has no name, no number or no fields.
    pub(crate) fn parse(system: &str, text: &str) -> Option<Self> {
        let (mut name, mut id) = (None, None);
        let mut fields = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(shown(rest.trim().as_bytes()));
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if line.starts_with("field") {
                fields.extend(Field::parse(line));
            } else if line.starts_with("print fmt") {
                break;
            }
        }
        if fields.is_empty() {
            return None;
        }
        Some(Self { system: system.to_owned(), name: name?, id: id?, fields })
    }

    /// The number in the field of that name.
    pub(crate) fn number(&self, name: &str) -> Option<Number> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        let size = u8::try_from(field.size).ok().filter(|size| [1, 2, 4, 8].contains(size))?;
        let here = field.place == Place::Here;
        here.then_some(Number { offset: field.offset, size, signed: field.signed })
    }

    /// The bytes in the field of that name.
    pub(crate) fn run(&self, name: &str) -> Option<Run> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        Some(Run { offset: field.offset, size: field.size, place: field.place })
    }
}

impl Field {
    /// `field:TYPE NAME[LEN]; offset:N; size:N; signed:N;`
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let (_, declaration) = parts.next()?.split_once(':')?;
        let (mut offset, mut size, mut signed) = (None, None, false);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", number)) => offset = number.parse().ok(),
                Some(("size", number)) => size = number.parse().ok(),
                Some(("signed", number)) => signed = number != "0",
                _ => {}
            }
        }
        // The array's length is behind the name, or, of one elsewhere in the event, behind the type.
        let declared = match declaration.rsplit_once('[') {
            Some((before, behind)) if behind.ends_with(']') => before,
            _ => declaration,
        };
        let name = declared.rsplit([' ', '\t', '*', ']']).next()?.to_owned();
        let place = match declaration {
            _ if declaration.starts_with("__data_loc") => Place::FromEvent,
            _ if declaration.starts_with("__rel_loc") => Place::FromField,
            _ => Place::Here,
        };
        Some(Self { name, offset: offset?, size: size?, signed, place })
    }
}

impl Number {
    /// Its value in an event, extended to 64 bits; 0 if the event is too short.
    #[inline]
    pub(crate) fn of(self, event: &[u8]) -> u64 {
        let Some(bytes) = event.get(self.offset..) else { return 0 };
        match (self.size, bytes) {
            (8, &[a, b, c, d, e, f, g, h, ..]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (4, &[a, b, c, d, ..]) if self.signed => {
                i64::from(i32::from_le_bytes([a, b, c, d])).cast_unsigned()
            }
            (4, &[a, b, c, d, ..]) => u64::from(u32::from_le_bytes([a, b, c, d])),
            (2, &[a, b, ..]) if self.signed => i64::from(i16::from_le_bytes([a, b])).cast_unsigned(),
            (2, &[a, b, ..]) => u64::from(u16::from_le_bytes([a, b])),
            (1, &[a, ..]) if self.signed => i64::from(a.cast_signed()).cast_unsigned(),
            (1, &[a, ..]) => u64::from(a),
            _ => 0,
        }
    }

    /// Its lower 32 bits.
    #[inline]
    pub(crate) fn low(self, event: &[u8]) -> u32 {
        (self.of(event) & 0xffff_ffff) as u32
    }
}

impl Run {
    /// Its bytes in an event; none of them if it is not wholly in there.
    #[inline]
    pub(crate) fn of(self, event: &[u8]) -> &[u8] {
        let (offset, size) = match self.place {
            Place::Here => (self.offset, self.size),
            Place::FromEvent | Place::FromField => {
                let word = Number { offset: self.offset, size: 4, signed: false }.low(event);
                let base = if self.place == Place::FromField { self.offset + 4 } else { 0 };
                (base + (word & 0xffff) as usize, (word >> 16) as usize)
            }
        };
        event.get(offset..).and_then(|rest| rest.get(..size)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] note;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:const void * at;\toffset:28;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"field:%s\", REC->prev_comm\n";

    #[test]
    fn fields_have_places_and_types() {
        let format = Format::parse("sched", SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id, format.fields.len()), ("sched_switch", 316, 5));
        let mut event = vec![0; 36];
        event[4..8].copy_from_slice(&(-2i32).to_le_bytes());
        event[8..10].copy_from_slice(b"sh");
        event[24..28].copy_from_slice(&(36u32 | 3 << 16).to_le_bytes());
        event[28] = 7;
        event.extend(b"abc");
        assert_eq!(format.number("common_pid").unwrap().of(&event), (-2i64).cast_unsigned());
        assert_eq!(format.number("at").unwrap().of(&event), 7);
        assert_eq!(&format.run("prev_comm").unwrap().of(&event)[..3], b"sh\0");
        assert_eq!(format.run("note").unwrap().of(&event), b"abc");
        assert_eq!(format.number("none"), None);
        // Too short for what it should have.
        assert_eq!(format.number("at").unwrap().of(&event[..30]), 0);
        assert_eq!(format.run("note").unwrap().of(&event[..37]), b"");
    }

    #[test]
    fn what_is_no_format_is_none() {
        for text in ["", "name: x\nID: 1\n", "ID: 99999999\nname: x\n\tfield:int a;\toffset:0;\tsize:4;"] {
            assert_eq!(Format::parse("x", text), None, "{text}");
        }
    }
}
