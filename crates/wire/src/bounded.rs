//! Lists that are read no further than they may be long, of whoever may have written them.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

/// Most elements of a list that has something of each site of a plan.
pub const SITES: usize = 1 << 20;

/// Reads a list of at most `MOST` elements: a longer one is an error before it takes memory. An element of three bytes may
/// take a hundred times as many in memory.
pub fn list<'de, const MOST: usize, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<const MOST: usize, T>(PhantomData<T>);

    impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for List<MOST, T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(next) = all.next_element()? {
                if list.len() == MOST {
                    return Err(A::Error::invalid_length(MOST + 1, &self));
                }
                list.push(next);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(List::<MOST, T>(PhantomData))
}
