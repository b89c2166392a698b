//! What a value points to, as far as is known.

use xweave_code::types::TypeId;

/// How much a view is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The ways to this point disagree, or the type is a guess.
    Doubtful,
    /// By what neighbours say of it.
    Learned,
    /// By what is done with the value.
    Used,
    /// By what the value was made from.
    Declared,
    /// By debug information of just this value.
    Told,
}

/// What a value points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) of: TypeId,
    /// Where in it, in bytes.
    pub(crate) at: i32,
    pub(crate) rank: Rank,
}
