//! Lists that are read no further than they may be long.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

/// Most elements of a list that has something of each site of a plan.
pub(crate) const LONGEST: usize = 1 << 20;

/// Reads a list of at most [`LONGEST`] elements; a longer one is refused before it takes memory.
pub(crate) fn read_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct Bounded<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {LONGEST} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(element) = elements.next_element()? {
                if all.len() == LONGEST {
                    return Err(A::Error::invalid_length(LONGEST + 1, &self));
                }
                all.push(element);
            }
            Ok(all)
        }
    }
    from.deserialize_seq(Bounded(PhantomData))
}
