//! Fixed-size integers in byte slices. Every read is checked against the slice's end and yields `None` beyond it, so
//! bytes from untrusted sources cannot cause a panic. No other crate of the workspace is used here.

/// Integer of a fixed size.
pub trait Integer: Sized + Default {
    /// Size in bytes.
    const SIZE: usize;

    /// Decodes the little-endian integer at the start of `bytes`; `None` if the slice is shorter.
    fn from_le(bytes: &[u8]) -> Option<Self>;

    /// Decodes the big-endian integer at the start of `bytes`; `None` if the slice is shorter.
    fn from_be(bytes: &[u8]) -> Option<Self>;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Integer for $integer {
            const SIZE: usize = size_of::<Self>();

            #[inline]
            fn from_le(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| Self::from_le_bytes(*bytes))
            }

            #[inline]
            fn from_be(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| Self::from_be_bytes(*bytes))
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 i8 i16 i32 i64);

/// Reads the little-endian integer at `offset`; `None` beyond the end of the slice.
#[inline]
pub fn read_le<T: Integer>(bytes: &[u8], offset: usize) -> Option<T> {
    T::from_le(bytes.get(offset..)?)
}

/// Splits a little-endian integer off the front: the number and the remaining bytes.
#[inline]
pub fn split_le<T: Integer>(bytes: &[u8]) -> Option<(T, &[u8])> {
    Some((T::from_le(bytes)?, bytes.get(T::SIZE..)?))
}

/// Splits a big-endian integer off the front: the number and the remaining bytes.
#[inline]
pub fn split_be<T: Integer>(bytes: &[u8]) -> Option<(T, &[u8])> {
    Some((T::from_be(bytes)?, bytes.get(T::SIZE..)?))
}

/// Iterates over consecutive little-endian integers. An incomplete integer at the end is left out.
#[inline]
pub fn each_le<T: Integer>(bytes: &[u8]) -> impl ExactSizeIterator<Item = T> + Clone {
    // A chunk always has the integer's size.
    bytes.chunks_exact(T::SIZE).map(|chunk| T::from_le(chunk).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_both_byte_orders() {
        let bytes = [0xff, 1, 2, 3, 4, 5, 6, 7, 0xf8];
        assert_eq!(read_le(&bytes, 1), Some(0x0201_u16));
        assert_eq!(read_le(&bytes, 1), Some(0x0403_0201_u32));
        assert_eq!(read_le(&bytes, 5), Some(0xf807_0605_u32.cast_signed()));
        assert_eq!(read_le(&bytes, 1), Some(0xf807_0605_0403_0201_u64));
        assert_eq!(split_be(&bytes[1..]), Some((0x0102_0304_0506_07f8_u64, &[][..])));
        assert_eq!(read_le(&bytes, 0), Some(-1_i8));
    }

    #[test]
    fn integers_beyond_the_end_are_absent() {
        let bytes = [1, 2, 3, 4];
        assert_eq!(read_le::<u32>(&bytes, 0), Some(0x0403_0201));
        for offset in [1, 4, 5, usize::MAX] {
            assert_eq!(read_le::<u32>(&bytes, offset), None);
        }
        assert_eq!(split_le::<u64>(&bytes), None);
        assert_eq!(split_be::<u64>(&bytes), None);
        assert_eq!(read_le::<u16>(&[], 0), None);
    }

    #[test]
    fn splitting_leaves_the_rest() {
        let bytes = [1, 0, 2, 0, 0, 0, 9];
        let (first, rest) = split_le::<u16>(&bytes).unwrap();
        let (second, rest) = split_le::<u32>(rest).unwrap();
        assert_eq!((first, second, rest), (1, 2, &[9][..]));
        assert_eq!(split_be::<u16>(&[1, 2]), Some((0x0102, &[][..])));
    }

    #[test]
    fn consecutive_integers_end_with_the_last_whole_one() {
        let numbers = each_le::<u16>(&[1, 0, 2, 0, 3]);
        assert_eq!(numbers.len(), 2);
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2]);
    }
}
