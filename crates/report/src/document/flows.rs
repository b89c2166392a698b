//! What `xweave flows --json` prints: the flows and their hops, their places and segments, and how much was lost where.
//!
//! The keys are described in `docs/trace-format.md`, and with the types that they are made of: [`xweave_flow::Summary`],
//! [`xweave_flow::Flow`], [`xweave_flow::Hop`], [`xweave_flow::Segment`].

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use xweave_flow::{
    Exchange, FlowDocument, FlowKind, Flows, Place, Segment, Service, SiteCounts, Stay, Summary,
    by_value::{Group, Groups},
};

use crate::words::{Sentence, places};

/// The document but for its flows.
#[derive(Serialize)]
struct AboutDocument<'a> {
    summary: &'a Summary,
    kinds: &'a [FlowKind],
    places: Vec<PlaceDocument<'a>>,
    segments: &'a [Segment],
    sites: &'a [SiteCounts],
}

impl<'a> AboutDocument<'a> {
    fn new(flows: &'a Flows) -> Self {
        Self {
            summary: flows.summary(),
            kinds: flows.kinds(),
            places: flows.places().iter().map(PlaceDocument::new).collect(),
            segments: flows.segments(),
            sites: flows.sites(),
        }
    }
}

/// A place in which flows of a kind are for some time; its share is that of the time of all flows of the kind.
#[derive(Clone, Debug, Serialize)]
pub struct PlaceDocument<'a> {
    /// The kind of flow: [`FlowKind::name`].
    kind: &'a str,
    #[serde(flatten)]
    stay: StayDocument<'a>,
    /// Of a carrier, what the thread that takes flows off did most of that time: `vhost asleep`. None where it ran, or where
    /// no event tells.
    taker: Option<Sentence>,
    /// The same: `asleep` or `ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    taker_state: Option<&'static str>,
}

impl<'a> PlaceDocument<'a> {
    /// As the document has it.
    pub fn new(of: &'a Place) -> Self {
        Self {
            kind: &of.kind,
            stay: StayDocument::new(&of.stay),
            taker: of.taker.as_ref().map(places::taker),
            taker_state: of.taker.as_ref().map(|taker| taker.was.name()),
        }
    }
}

/// How long flows were in a place.
#[derive(Clone, Debug, Serialize)]
struct StayDocument<'a> {
    /// The domain; of a carrier, the one that has to take the flow off.
    domain: &'a str,
    /// What it is: `stack and driver`, `ring vm1→host`, `bridge`.
    place: Sentence,
    /// [`FlowPlace::kind`](xweave_flow::FlowPlace::kind).
    place_kind: &'static str,
    /// How many flows were there.
    flows: u64,
    /// Half of them for at most so long, in nanoseconds.
    p50_ns: i64,
    /// All but one in a hundred.
    p99_ns: i64,
    /// The longest.
    max_ns: i64,
    /// Its share of the time of all that it is told with.
    share: f64,
}

impl<'a> StayDocument<'a> {
    fn new(of: &'a Stay) -> Self {
        Self {
            domain: of.place.domain(),
            place: places::flow_place(&of.place),
            place_kind: of.place.kind(),
            flows: of.flows,
            p50_ns: of.p50_ns,
            p99_ns: of.p99_ns,
            max_ns: of.max_ns,
            share: of.share,
        }
    }
}

/// Writes the document of the flows that are kept: one by one, as a document of millions of hops is never in memory as a
/// whole.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, flows: &Flows) -> io::Result<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        #[serde(flatten)]
        about: AboutDocument<'a>,
        #[serde(serialize_with = "one_by_one")]
        flows: &'a Flows,
    }
    super::stream(out, &Document { about: AboutDocument::new(flows), flows })
}

fn one_by_one<S: Serializer>(flows: &&Flows, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(flows.documents())
}

/// The document as it is made: first the flows one by one, then what is known of all. It is never in memory as a whole.
pub struct Stream<'o, W> {
    out: &'o mut W,
    /// How many more flows are written.
    left: usize,
    any: bool,
}

impl<'o, W: Write> Stream<'o, W> {
    /// Begins a document of so many flows at most.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn begin(out: &'o mut W, most: usize) -> io::Result<Self> {
        write!(out, "{{\"schema\":{},\"flows\":[", super::SCHEMA)?;
        Ok(Self { out, left: most, any: false })
    }

    /// Writes a flow.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn flow(&mut self, flow: &FlowDocument<'_>) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
        self.left = left;
        if self.any {
            self.out.write_all(b",")?;
        }
        self.any = true;
        Ok(serde_json::to_writer(&mut *self.out, flow)?)
    }

    /// Writes what is known of all flows.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn end(self, flows: &Flows) -> io::Result<()> {
        let about = serde_json::to_string(&AboutDocument::new(flows))?;
        // Members of the same object.
        writeln!(self.out, "],{}", about.strip_prefix('{').unwrap_or(&about))
    }
}

/// Flows by a stored value: what `xweave flows --by VALUE --json` prints.
#[derive(Serialize)]
pub struct ByValue<'a> {
    /// Counts of the trace's flows.
    summary: &'a Summary,
    /// What the value is called.
    by: &'a str,
    /// Those in which most time was spent first.
    groups: Vec<GroupDocument<'a>>,
    /// Flows of which a group is not listed: their values came when 16,384 others were known.
    ungrouped: u64,
}

/// Flows in which a value was stored in a place; its share is that of the time of all groups.
#[derive(Serialize)]
struct GroupDocument<'a> {
    /// The value.
    value: u64,
    /// Where flows were from there on, and how long.
    #[serde(flatten)]
    stay: StayDocument<'a>,
    /// Half of these flows took at most so long, from their beginnings to their ends.
    flow_p50_ns: i64,
}

impl<'a> ByValue<'a> {
    /// Of a trace's flows by a value that is called so.
    pub fn new(summary: &'a Summary, by: &'a str, groups: &'a Groups) -> Self {
        let group = |group: &'a Group| GroupDocument {
            value: group.value,
            stay: StayDocument::new(&group.stay),
            flow_p50_ns: group.flow_p50_ns,
        };
        Self { summary, by, groups: groups.groups.iter().map(group).collect(), ungrouped: groups.ungrouped }
    }
}

/// Writes that document.
///
/// # Errors
/// Those of `out`.
pub fn write_by_value(out: &mut impl Write, groups: &ByValue<'_>) -> io::Result<()> {
    super::stream(out, groups)
}

/// Requests and their answers: what `xweave flows --by connection --json` prints.
#[derive(Serialize)]
pub struct Connections<'a> {
    /// Counts of the trace's flows.
    pub summary: &'a Summary,
    /// By client's domain and server.
    pub services: &'a [Service],
    /// One by one, in the order of their beginnings.
    pub exchanges: &'a [Exchange],
}

/// Writes that document.
///
/// # Errors
/// Those of `out`.
pub fn write_connections(out: &mut impl Write, connections: &Connections<'_>) -> io::Result<()> {
    super::stream(out, connections)
}
