//! Places that a transaction passes: events, functions and advice, and which records are of them.

use std::fmt;

use rustc_hash::FxHashMap;
use xweave_replay::{CpuId, ThreadId};
use xweave_trace::{
    MAX_VALUES, Row, Site, Trace,
    event::{Event, Kind},
};

use crate::connection::tcp;

/// `NAME[:entry|:return][@DOMAIN]`: a kind of events, an event of another tool's, a function or advice; or
/// `socket:STATE[@DOMAIN]`, a state of TCP that a connection comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it is called.
    pub name: String,
    /// Which end of the function.
    pub(crate) edge: Option<Edge>,
    /// Which of TCP's states, by its number.
    state: Option<i32>,
    /// The domain's name, if only that one's counts.
    pub domain: Option<String>,
}

/// An end of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Its call.
    Entry,
    /// Its return.
    Return,
}

/// What is the same at both places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The thread: above which it happened, that was woken, switched to or begun.
    Thread,
    /// The processor; for what is injected into a vCPU, the guest's.
    Cpu,
    /// The flow that records belong to.
    Flow,
    /// What records stored, by its place from 0: in whatever domains.
    Value(usize),
}

impl Place {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (text, domain) = match text.rsplit_once('@') {
            Some((text, domain)) => (text, Some(domain)),
            None => (text, None),
        };
        let state = text.strip_prefix("socket:").and_then(tcp::named);
        let (name, edge) = match text.rsplit_once(':') {
            Some((name, "entry")) => (name, Some(Edge::Entry)),
            Some((name, "return")) => (name, Some(Edge::Return)),
            Some((name, _)) if state.is_some() => (name, None),
            _ => (text, None),
        };
        let told = !name.is_empty() && domain != Some("");
        told.then(|| Self { name: name.to_owned(), edge, state, domain: domain.map(str::to_owned) })
    }

    /// Whether an event of its kind is of this place.
    pub(crate) fn has(&self, event: &Event) -> bool {
        self.state.is_none_or(|state| state == event.code)
    }

    /// The kind of events that is called so.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let named = |kind: &Kind| kind.name() == self.name && !matches!(kind, Kind::Other | Kind::Lost);
        Kind::ALL.into_iter().find(named)
    }

    /// Whether records of a site are of this place.
    fn is(&self, site: &Site) -> bool {
        let named = site.function == self.name || site.advice == self.name;
        let here = self.domain.as_ref().is_none_or(|domain| *domain == site.domain);
        named && here && self.state.is_none() && self.edge.is_none_or(|edge| edge == edge_of(site))
    }
}

fn edge_of(site: &Site) -> Edge {
    let returns = ["fexit", "kretprobe", "uretprobe"];
    let returns = site.hook.as_deref().is_some_and(|hook| returns.contains(&hook));
    if returns { Edge::Return } else { Edge::Entry }
}

impl By {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "thread" => Some(Self::Thread),
            "cpu" => Some(Self::Cpu),
            "flow" => Some(Self::Flow),
            _ => {
                let nth: usize = text.strip_prefix('v')?.parse().ok()?;
                (1..=MAX_VALUES).contains(&nth).then(|| Self::Value(nth - 1))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        f.write_str(match self.edge {
            None => "",
            Some(Edge::Entry) => ":entry",
            Some(Edge::Return) => ":return",
        })?;
        self.state.map_or(Ok(()), |state| write!(f, ":{}", tcp::name(state)))?;
        self.domain.as_ref().map_or(Ok(()), |domain| write!(f, "@{domain}"))
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread => f.write_str("thread"),
            Self::Cpu => f.write_str("cpu"),
            Self::Flow => f.write_str("flow"),
            Self::Value(at) => write!(f, "v{}", at + 1),
        }
    }
}

/// What records tell of who passed a place, whatever the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Thread(ThreadId),
    Cpu(CpuId),
    Flow(u64),
    Value(u64),
}

/// A record at one of the places, or several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) time: i64,
    pub(crate) cpu: CpuId,
    /// Whose time it is.
    pub(crate) thread: ThreadId,
    pub(crate) told: Told,
    /// Which places, as bits.
    places: u32,
}

impl Mark {
    /// Whether it is of a place, by its number.
    pub(crate) fn is_of(&self, place: usize) -> bool {
        self.places >> place & 1 == 1
    }
}

/// Which sites' records are of which places.
#[derive(Debug)]
pub(crate) struct Sites {
    by: By,
    /// By the site's number: the places, as bits.
    all: FxHashMap<u32, u32>,
}

impl Sites {
    /// Of no more places than there are bits.
    pub(crate) fn of(trace: &Trace, places: &[Place], by: Option<By>) -> Self {
        let sites = trace.sites();
        let mut is = places.to_vec();
        for at in 1..is.len() {
            if is[at - 1].name != is[at].name || is[at].kind().is_some() {
                continue;
            }
            // Of a function whose calls and returns are both recorded, its call is meant, and then its return.
            let [call, back] = [is[at - 1].clone(), is[at].clone()];
            let has = |edge| sites.iter().any(|site| call.is(site) && edge_of(site) == edge);
            if has(Edge::Entry) && has(Edge::Return) {
                is[at - 1].edge = call.edge.or(Some(Edge::Entry));
                is[at].edge = back.edge.or(Some(Edge::Return));
            }
        }
        let bits = |site: &Site| {
            is.iter().zip(0..).fold(0, |bits, (place, at)| bits | u32::from(place.is(site)) << at)
        };
        let all = sites.iter().map(|site| (site.site, bits(site))).filter(|(_, bits)| *bits != 0).collect();
        Self { by: by.unwrap_or(By::Thread), all }
    }

    /// Whether no site is one of the places.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What a record tells.
    pub(crate) fn mark(&self, row: &Row) -> Option<Mark> {
        let places = *self.all.get(&row.site)?;
        let cpu = CpuId { domain: row.domain, cpu: row.cpu };
        let thread = ThreadId { domain: row.domain, tid: row.tid };
        let told = match self.by {
            By::Thread if row.tid == 0 => Told::Cpu(cpu),
            By::Thread => Told::Thread(thread),
            By::Cpu => Told::Cpu(cpu),
            By::Flow => Told::Flow(Some(row.flow).filter(|flow| *flow != 0)?),
            By::Value(at) => Told::Value(*row.values().get(at)?),
        };
        Some(Mark { time: row.time_ns, cpu, thread, told, places })
    }
}
