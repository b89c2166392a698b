//! Each request for itself: how long it was in each segment, and how many others it found there.

use crate::requests::{Request, Requests};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Each {
    /// As `xweave explain` numbers it.
    pub id: u64,
    /// When it began, in nanoseconds of the reference domain.
    pub start_ns: i64,
    /// How long it took.
    pub total_ns: u64,
    /// How long it was in each segment, in the order of these: sums to all of it.
    pub segments_ns: Vec<u64>,
    /// How many others it found there; 0 where it was not, or nothing tells.
    pub others: Vec<u64>,
}

/// Of the requests that are kept those at these places, in the order in which they began.
pub fn each(requests: &Requests, places: impl IntoIterator<Item = usize>) -> Vec<Each> {
    let all: Vec<_> = places.into_iter().filter_map(|place| requests.all().get(place).copied()).collect();
    let segments = requests.segments();
    let place = |number: u32| {
        let of = &requests.dimensions()[number as usize].segment;
        segments.iter().position(|segment| segment == of)
    };
    let times = requests.columns(&all, segments.len(), place);
    let others: Vec<_> = segments.iter().map(|segment| requests.others(&all, segment)).collect();
    let each = |(at, request): (usize, &Request)| Each {
        id: request.id,
        start_ns: request.start_ns,
        total_ns: request.total_ns,
        segments_ns: times.iter().map(|column| whole(column[at])).collect(),
        others: others.iter().map(|column| column.as_ref().map_or(0, |column| whole(column[at]))).collect(),
    };
    all.iter().enumerate().map(each).collect()
}

/// Sums of whole numbers, far below 2⁵³.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and from 0 on")]
fn whole(sum: f64) -> u64 {
    sum as u64
}
