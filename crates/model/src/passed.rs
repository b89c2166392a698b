//! The stretches of a transaction's way.

use std::sync::Arc;

use xweave_flow::WayPlace;

use crate::objects::{DomainRef, ObjectGroup};

/// Where a transaction was.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stretch {
    /// On the way that records tell.
    Way(Arc<WayPlace>),
    /// From one of its places to the next, as these were asked for.
    Between(Arc<str>, Arc<str>),
    /// In a domain, if nothing divides its way.
    In(DomainRef),
    /// On the way between two domains.
    Network(DomainRef),
    /// At a vCPU that was out of its guest.
    OutOfGuest(ObjectGroup),
    /// Somewhere: there are too many to tell apart.
    Elsewhere,
}

impl Stretch {
    /// Whether it is the queue of a socket from which a server reads.
    pub fn is_servers_socket(&self) -> bool {
        matches!(self, Self::Way(place) if place.is_servers_socket())
    }
}

/// Where a transaction was, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Where.
    pub stretch: Stretch,
    /// In nanoseconds.
    pub until_ns: i64,
    /// How many others were there when it came, if that is known.
    pub others: Option<u32>,
}
