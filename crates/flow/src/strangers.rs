//! Frames whose sender is none of those that were recorded: that their flows have no start is no fault.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
};

use xweave_trace::{Domain, Manifest};
use xweave_wire::record::Kind;

use crate::graph::{Flow, Incomplete};

/// Addresses, and kinds of frame by sender, that are remembered.
const MOST: usize = 1 << 14;

/// Flows that began where nothing is recorded, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindCount {
    /// What the frames are: [`crate::Frame::kind`].
    pub kind: String,
    /// How many flows.
    pub flows: u64,
}

/// What tells strangers from those who were recorded: addresses, and which process runs which guest.
#[derive(Default)]
pub(crate) struct Strangers {
    /// Addresses from which flows with a start came.
    known: HashSet<IpAddr>,
    without_start: HashMap<Unknown, u64>,
}

/// What tells flows without a start from others.
#[derive(PartialEq, Eq, Hash)]
struct Unknown {
    source: IpAddr,
    /// The process of the guest that sent it; 0 if that is not known.
    peer: u64,
    kind: String,
    /// Where it was taken off a carrier.
    site: Option<u32>,
}

/// Flows of strangers.
pub(crate) struct Counts {
    /// By kind, the commonest first.
    pub kinds: Vec<KindCount>,
    /// By the site at which they were taken off a carrier.
    pub by_site: BTreeMap<u32, u64>,
}

impl Strangers {
    pub(crate) fn add(&mut self, flow: &Flow) {
        let Some(frame) = flow.frame else { return };
        if flow.incomplete != Some(Incomplete::NoStart) {
            if self.known.len() < MOST {
                self.known.insert(frame.source);
            }
            return;
        }
        let came_off = flow.steps.iter().map(|step| &step.row).find(|row| row.kind == Kind::Xout);
        let peer = came_off.and_then(|row| row.values().get(3).copied()).unwrap_or(0);
        let key = Unknown {
            source: frame.source,
            peer,
            kind: frame.kind().into_owned(),
            site: came_off.map(|row| row.site),
        };
        if self.without_start.len() < MOST || self.without_start.contains_key(&key) {
            *self.without_start.entry(key).or_default() += 1;
        }
    }

    /// Their frames: those that no recorded guest put on a ring, from addresses from which nothing that was recorded came.
    pub(crate) fn told(self, manifest: &Manifest) -> Counts {
        let peers = manifest.domains.iter().flat_map(Domain::peers);
        let recorded: HashSet<u64> = peers.map(|(_, peer)| peer).collect();
        let (mut kinds, mut by_site) = (BTreeMap::<String, u64>::new(), BTreeMap::new());
        for (Unknown { source, peer, kind, site }, flows) in self.without_start {
            if !self.known.contains(&source) && !recorded.contains(&peer) {
                *kinds.entry(kind).or_default() += flows;
                if let Some(site) = site {
                    *by_site.entry(site).or_default() += flows;
                }
            }
        }
        let mut kinds: Vec<_> = kinds.into_iter().map(|(kind, flows)| KindCount { kind, flows }).collect();
        kinds.sort_by_key(|kind| Reverse(kind.flows));
        Counts { kinds, by_site }
    }
}
