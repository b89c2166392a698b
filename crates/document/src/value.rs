//! Values that fields are made of.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// An ID, or another number of up to 64 bits. The page's document has a string in place of a number that a browser could not
/// hold exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Id(pub u64);

/// A time on the trace's time line, in nanoseconds: `CLOCK_MONOTONIC` of the reference domain. The page's program makes it
/// relative to the beginning of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Time(pub i64);

/// The first entries of a list, and how many the list has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cut<T> {
    /// Number of entries of the whole list.
    pub of: usize,
    /// First entries: as many as there is room for.
    pub all: Vec<T>,
}

/// A figure of two runs, or of two groups of transactions: of the first, and of the second.
pub type Pair = [u64; 2];

/// Number of times within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Bin {
    /// Shortest time that is counted, in nanoseconds.
    pub from_ns: u64,
    /// First time that is too long to be counted.
    pub to_ns: u64,
    /// Number of times.
    pub count: u64,
}

/// Turns a text or a list into one that borrows nothing.
pub(crate) fn owned<T: ToOwned + ?Sized + 'static>(of: Cow<'_, T>) -> Cow<'static, T> {
    Cow::Owned(of.into_owned())
}

/// Schemas of the values that the page's program defines itself, in `web/src/value.ts`.
#[cfg(test)]
mod schemas {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{Cut, Id, Time};

    impl JsonSchema for Id {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "Id".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({ "type": "integer", "x-typescript": "Id" })
        }
    }

    impl JsonSchema for Time {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "Time".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({ "type": "integer", "x-typescript": "Time" })
        }
    }

    impl<T: JsonSchema> JsonSchema for Cut<T> {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            format!("Cut_for_{}", T::schema_name()).into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            let entry = generator.subschema_for::<T>();
            json_schema!({ "type": "object", "x-cut": entry })
        }
    }
}
