//! The documents of `xweave flows`, and of `--by VALUE`.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use serde::{Serialize, Serializer};
use xweave_document::{
    flows::{
        AllFlows, CarrierCounts, Drop, DropCount, Flow, FlowKind, FlowSummary, FlowsByValue, FoundPeer,
        Frame, Hop, Incomplete, IncompleteCounts, KindCount, Place, Segment, SiteCounts, StayFields,
        ValueGroup,
    },
    value::{Id, Time},
};
use xweave_flow::{
    Flows, NamedFlow, Stay, Summary,
    by_value::{Group, Groups},
    crossing, dropped, summary,
};

use crate::words::places;

/// Builds the document without its flows.
fn build_all(flows: &Flows) -> AllFlows {
    AllFlows {
        summary: build_summary(flows.summary()),
        kinds: flows.kinds().iter().map(build_kind).collect(),
        places: flows.places().iter().map(build_place).collect(),
        segments: flows.segments().iter().map(build_segment).collect(),
        sites: flows.sites().iter().map(build_site).collect(),
    }
}

/// Builds the counts of a trace's flows.
pub fn build_summary(of: &Summary) -> FlowSummary {
    let kind = |of: &xweave_flow::KindCount| KindCount { kind: of.kind.clone(), flows: of.flows };
    let drop = |of: &summary::DropCount| DropCount { reason: of.reason.clone(), flows: of.flows };
    let summary::IncompleteCounts { lost, no_start, unmatched, dropped, no_end } = of.incomplete;
    FlowSummary {
        flows: of.flows,
        complete: of.complete,
        crossed: of.crossed,
        records: of.records,
        lost: of.lost,
        negative_gaps: of.negative_gaps,
        clock_error_ns: of.clock_error_ns,
        clock_breaks: of.clock_breaks,
        recording_complete: of.recording_complete,
        stored_until_ns: of.stored_until_ns,
        overwritten: of.overwritten,
        lost_unattributed: of.lost_unattributed,
        uncounted_sites: of.uncounted_sites,
        unreadable: of.unreadable,
        set_down: of.set_down,
        damaged: of.damaged.clone(),
        incomplete: IncompleteCounts { lost, no_start, unmatched, dropped, no_end },
        elsewhere: of.elsewhere.iter().map(kind).collect(),
        dropped: of.dropped.iter().map(drop).collect(),
        carriers: of.carriers.iter().map(build_carrier).collect(),
        found: of.found.iter().map(build_peer).collect(),
    }
}

fn build_carrier(of: &crossing::CarrierCounts) -> CarrierCounts {
    CarrierCounts {
        carrier: of.carrier.clone(),
        crossings: of.crossings,
        told: of.told,
        unmatched_xin: of.unmatched_xin,
        unmatched_xout: of.unmatched_xout,
        strangers: of.strangers,
        superseded: of.superseded,
        refused: of.refused,
        contradicted: of.contradicted,
        negative_gaps: of.negative_gaps,
    }
}

fn build_peer(of: &crossing::FoundPeer) -> FoundPeer {
    FoundPeer { domain: of.domain.clone(), pid: of.pid, keys: of.keys, next_best: of.next_best }
}

/// Builds the row of a kind.
pub fn build_kind(of: &xweave_flow::FlowKind) -> FlowKind {
    FlowKind {
        name: of.name.clone(),
        flows: of.flows,
        complete: of.complete,
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
        max_ns: of.max_ns,
    }
}

fn build_stay(of: &Stay) -> StayFields {
    StayFields {
        domain: of.place.domain().to_owned(),
        place: places::flow_place(&of.place).into(),
        place_kind: of.place.kind(),
        flows: of.flows,
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
        max_ns: of.max_ns,
        share: of.share,
    }
}

/// Builds the row of a place.
pub fn build_place(of: &xweave_flow::Place) -> Place {
    Place {
        kind: of.kind.clone(),
        stay: build_stay(&of.stay),
        taker: of.taker.as_ref().map(|taker| places::taker(taker).into()),
        taker_state: of.taker.as_ref().map(|taker| taker.was.name()),
    }
}

/// Builds the row of a segment.
pub fn build_segment(of: &xweave_flow::Segment) -> Segment {
    Segment {
        kind: of.kind.clone(),
        from: of.from.clone(),
        to: of.to.clone(),
        count: of.count,
        min_ns: of.min_ns,
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
        max_ns: of.max_ns,
        main: of.main,
    }
}

/// Builds the row of a site.
pub fn build_site(of: &xweave_flow::SiteCounts) -> SiteCounts {
    SiteCounts {
        site: of.site,
        domain: of.domain.clone(),
        aspect: of.aspect.clone(),
        advice: of.advice.clone(),
        function: of.function.clone(),
        module: of.module.clone(),
        action: of.action.clone(),
        xflow: of.xflow.clone(),
        carrier: of.carrier.clone(),
        records: of.records,
        dropped: of.dropped,
        missed: of.missed,
        table_full: of.table_full,
        overwritten: of.overwritten,
    }
}

/// Builds the row of a flow.
pub fn build_flow<'a>(of: &NamedFlow<'a>) -> Flow<'a> {
    let flow = of.flow();
    Flow {
        id: Id(flow.id),
        name: Cow::Borrowed(&flow.name),
        kind: of.kind(),
        frame: flow.frame.as_ref().map(build_frame),
        key: flow.key.map(|key| key.to_string()),
        parents: Cow::Borrowed(&flow.parents),
        start_ns: Time(flow.start_ns),
        end_ns: Time(flow.end_ns),
        complete: flow.complete(),
        incomplete: flow.incomplete.map(build_incomplete),
        dropped: flow.dropped.as_ref().map(build_drop),
        drops: flow.drops,
        lost: flow.lost,
        crossings: flow.crossings,
        copies: flow.copies,
        locals: Cow::Borrowed(&flow.locals),
        hops: of.hops().map(build_hop).collect(),
    }
}

fn build_incomplete(of: xweave_flow::Incomplete) -> Incomplete {
    match of {
        xweave_flow::Incomplete::Lost => Incomplete::Lost,
        xweave_flow::Incomplete::NoStart => Incomplete::NoStart,
        xweave_flow::Incomplete::Unmatched => Incomplete::Unmatched,
        xweave_flow::Incomplete::Dropped => Incomplete::Dropped,
        xweave_flow::Incomplete::NoEnd => Incomplete::NoEnd,
    }
}

fn build_frame(of: &xweave_flow::Frame) -> Frame {
    Frame {
        kind: of.kind(),
        ether_type: of.ether_type,
        protocol: of.protocol,
        flags: of.flags,
        source: of.source,
        target: of.target,
        source_port: of.source_port,
        target_port: of.target_port,
        bytes: of.bytes,
        sequence: of.sequence,
        acknowledgement: of.acknowledgement,
    }
}

fn build_drop(of: &dropped::Dropped) -> Drop<'_> {
    Drop {
        reason: Cow::Borrowed(&of.reason),
        number: of.number,
        t_ns: Time(of.t_ns),
        domain: Cow::Borrowed(&of.domain),
        function: of.function.as_deref().map(Cow::Borrowed),
        offset: of.offset,
        module: of.module.as_deref().map(Cow::Borrowed),
        address: of.address,
    }
}

fn build_hop(of: xweave_flow::Hop<'_>) -> Hop<'_> {
    Hop {
        t_ns: Time(of.t_ns),
        domain: Cow::Borrowed(of.domain),
        function: of.function,
        offset: of.offset,
        module: of.module.map(Cow::Borrowed),
        file: of.file.map(Cow::Borrowed),
        line: of.line,
        cpu: of.cpu,
        pid: of.pid,
        tid: of.tid,
        comm: of.comm,
        kind: of.kind,
        site: of.site,
        on_path: of.on_path,
        values: Cow::Borrowed(of.values),
    }
}

/// Writes the document of the flows that are kept: one by one, because a document of millions of hops should never be in
/// memory as a whole.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, flows: &Flows) -> io::Result<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        #[serde(flatten)]
        all: AllFlows,
        #[serde(serialize_with = "one_by_one")]
        flows: &'a Flows,
    }
    super::stream(out, &Document { all: build_all(flows), flows })
}

fn one_by_one<S: Serializer>(flows: &&Flows, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(flows.named().map(|flow| build_flow(&flow)))
}

/// The document as it is made: first the flows one by one, then what is known of all. It is never in memory as a whole.
pub struct Stream<'o, W> {
    out: &'o mut W,
    /// Flows that may still be written.
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
    pub fn flow(&mut self, flow: &NamedFlow<'_>) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
        self.left = left;
        if self.any {
            self.out.write_all(b",")?;
        }
        self.any = true;
        Ok(serde_json::to_writer(&mut *self.out, &build_flow(flow))?)
    }

    /// Writes what is known of all flows.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn end(self, flows: &Flows) -> io::Result<()> {
        let all = serde_json::to_string(&build_all(flows))?;
        // Members of the same object.
        writeln!(self.out, "],{}", all.strip_prefix('{').unwrap_or(&all))
    }
}

/// Writes the document of flows by a value of this name.
///
/// # Errors
/// Those of `out`.
pub fn write_by_value(out: &mut impl Write, summary: &Summary, by: &str, groups: &Groups) -> io::Result<()> {
    let group = |group: &Group| ValueGroup {
        value: group.value,
        stay: build_stay(&group.stay),
        flow_p50_ns: group.flow_p50_ns,
    };
    let document = FlowsByValue {
        summary: build_summary(summary),
        by,
        groups: groups.groups.iter().map(group).collect(),
        ungrouped: groups.ungrouped,
    };
    super::stream(out, &document)
}
