//! As much of Thrift's compact protocol as Parquet's headers need to be looked at before the library believes them.
//!
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// What a field is, in the compact protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    True,
    False,
    Byte,
    /// Of 16, 32 or 64 bits.
    Integer,
    Double,
    Binary,
    /// A list or a set.
    List,
    Map,
    Struct,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4..=6 => Self::Integer,
            7 => Self::Double,
            8 => Self::Binary,
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            _ => return None,
        })
    }
}

/// How deep structures lie in each other; Parquet's do to eight.
const DEPTH: u32 = 32;

/// Reads bytes from their beginning on. What is not there, or cannot be, is `None`.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        (end <= self.bytes.len()).then(|| self.at = end)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number of any size.
    pub(crate) fn integer(&mut self) -> Option<i64> {
        let zigzag = self.unsigned()?;
        Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    /// Goes through the fields of a structure: `take` gets each one's number and kind, and reads it or, with false,
    /// leaves it to be passed over.
    pub(crate) fn fields(&mut self, take: impl FnMut(&mut Self, i64, Kind) -> Option<bool>) -> Option<()> {
        self.fields_at(DEPTH, take)
    }

    fn fields_at(
        &mut self,
        depth: u32,
        mut take: impl FnMut(&mut Self, i64, Kind) -> Option<bool>,
    ) -> Option<()> {
        let mut number = 0i64;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            number = match header >> 4 {
                0 => self.integer()?,
                step => number.checked_add(step.into())?,
            };
            let kind = Kind::of(header & 15)?;
            if !take(self, number, kind)? {
                self.skip(kind, depth)?;
            }
        }
    }

    /// Goes through a list: how many elements, of which kind.
    pub(crate) fn list(&mut self) -> Option<(u64, Kind)> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.unsigned()?,
            count => count.into(),
        };
        Some((count, Kind::of(header & 15)?))
    }

    fn skip(&mut self, kind: Kind, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            Kind::True | Kind::False => Some(()),
            Kind::Byte => self.pass(1),
            Kind::Integer => self.unsigned().map(drop),
            Kind::Double => self.pass(8),
            Kind::Binary => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            Kind::List => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_element(kind, depth))
            }
            Kind::Map => {
                let count = self.unsigned()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                let (key, value) = (Kind::of(kinds >> 4)?, Kind::of(kinds & 15)?);
                (0..count).try_for_each(|_| {
                    self.skip_element(key, depth)?;
                    self.skip_element(value, depth)
                })
            }
            Kind::Struct => self.fields_at(depth, |_, _, _| Some(false)),
        }
    }

    /// Truth has a byte of its own here, so that every element has one.
    fn skip_element(&mut self, kind: Kind, depth: u32) -> Option<()> {
        match kind {
            Kind::True | Kind::False => self.pass(1),
            other => self.skip(other, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_fields_are_as_the_protocol_says() {
        let numbers: Vec<_> =
            [0u8, 1, 2, 3, 0x7f].iter().map(|byte| Reader::new(&[*byte]).integer()).collect();
        assert_eq!(numbers, [Some(0), Some(-1), Some(1), Some(-2), Some(-64)]);
        // 1: i32 5; 2: a list of two structures; 20 (far away): text; stop.
        let bytes = [0x15, 10, 0x19, 0x2c, 0x15, 2, 0, 0x15, 4, 0, 0x08, 40, 2, b'h', b'i', 0, 99];
        let (mut reader, mut seen) = (Reader::new(&bytes), Vec::new());
        let done = reader.fields(|reader, number, kind| {
            seen.push((number, kind));
            Some(number == 1 && reader.integer() == Some(5))
        });
        assert_eq!((done, reader.at()), (Some(()), 16));
        assert_eq!(seen, [(1, Kind::Integer), (2, Kind::List), (20, Kind::Binary)]);
    }

    #[test]
    fn neither_depth_nor_counts_are_believed() {
        // Structures in structures, and a list of 2⁶³ elements.
        assert_eq!(Reader::new(&[0x1c; 100_000]).fields(|_, _, _| Some(false)), None);
        let list = [0x19, 0xf3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert_eq!(Reader::new(&list).fields(|_, _, _| Some(false)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_fields_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            let _ = reader.fields(|_, _, _| Some(false));
            prop_assert!(reader.at() <= bytes.len());
        }
    }
}
