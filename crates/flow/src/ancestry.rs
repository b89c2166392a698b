//! What a flow is cut off or put together of, and what it was cut into and put together to: its ancestors and
//! descendants. A segment of TCP is cut in parts, these cross and are put together again in the receive queue:
//!
//! ```text
//! tcp_sendmsg's segment ─┬─ frame ──┬─ what the socket received
//!                        └─ frame ──┘
//! ```

use std::collections::{BTreeSet, HashSet, VecDeque};

use crate::{graph::Flow, join::Join};

/// The most relatives that are looked for: a receive queue may put together all that a connection ever sent.
const RELATIVES: usize = 256;

/// The most links from flow to parent that are remembered: 128 MB.
const LINKS: usize = 8 << 20;

/// The flow that has, or in some domain had, an ID, with its ancestors and its descendants, the nearest first found: at
/// most some hundred. Empty if there is no such flow.
pub fn relatives(join: Join<'_>, id: u64) -> HashSet<u64> {
    let (mut links, mut own) = (Vec::new(), None);
    for window in join {
        for flow in window {
            if flow.locals.contains(&id) {
                own = Some(flow.id);
            }
            if links.len() < LINKS {
                links.extend(flow.parents.iter().map(|parent| (flow.id, *parent)));
            }
        }
    }
    let Some(own) = own else { return HashSet::new() };
    let mut found = HashSet::from([own]);
    links.sort_unstable();
    let up = |id| following(&links, id);
    reach(own, up, &mut found, RELATIVES / 2);
    let mut links: Vec<(u64, u64)> = links.iter().map(|(child, parent)| (*parent, *child)).collect();
    links.sort_unstable();
    reach(own, |id| following(&links, id), &mut found, RELATIVES);
    found
}

/// What an ID leads to.
fn following(links: &[(u64, u64)], id: u64) -> impl Iterator<Item = u64> + '_ {
    let first = links.partition_point(|(from, _)| *from < id);
    links[first..].iter().take_while(move |(from, _)| *from == id).map(|(_, to)| *to)
}

fn reach<I: Iterator<Item = u64>>(own: u64, next: impl Fn(u64) -> I, found: &mut HashSet<u64>, most: usize) {
    let (mut seen, mut open) = (BTreeSet::from([own]), VecDeque::from([own]));
    while let Some(id) = open.pop_front() {
        for other in next(id) {
            if found.len() >= most {
                return;
            }
            if seen.insert(other) {
                found.insert(other);
                open.push_back(other);
            }
        }
    }
}

/// How a flow is related to those before it in a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// None of them is its parent.
    Root,
    /// It was cut off one.
    Cut,
    /// It was put together of so many.
    PutTogether(usize),
}

/// A family: each flow with where it comes from; roots first, each before what was cut off it, in the order of their
/// beginnings. What TCP cuts is a chain, each segment off the rest that the one before has left: a tree of it would
/// be as deep as the connection is long.
pub fn family(flows: &[Flow]) -> Vec<(&Flow, Origin)> {
    let ids: HashSet<u64> = flows.iter().map(|flow| flow.id).collect();
    let origin = |flow: &Flow| match flow.parents.iter().filter(|parent| ids.contains(parent)).count() {
        0 => Origin::Root,
        1 => Origin::Cut,
        many => Origin::PutTogether(many),
    };
    let mut family: Vec<(&Flow, Origin)> = flows.iter().map(|flow| (flow, origin(flow))).collect();
    family.sort_by_key(|(flow, origin)| (*origin != Origin::Root, flow.start_ns, flow.id));
    family
}
