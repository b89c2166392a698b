//! The whole result: flows, segments, sites and summary of a trace.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde::{Serialize, Serializer, ser::SerializeSeq};
use xweave_trace::{Row, Site, Trace};

use crate::{
    crossing::Crossings,
    dropped::Dropped,
    frame::Frame,
    graph::{self, Flow, Incomplete},
    kinds::{self, FlowKind},
    local::Locals,
    segments::{Place, Segment},
    sites::{self, SiteCounts},
    summary::Summary,
};

/// All flows of a trace. Serializes to the document that `xweave flows --json` prints.
pub struct Flows {
    rows: Vec<Row>,
    sites: HashMap<u32, Site>,
    domains: BTreeMap<u8, String>,
    /// `domain:function` by number, and the number of each (domain, site).
    names: Vec<String>,
    places: HashMap<(u8, u32), Place>,
    flows: Vec<Flow>,
    kinds: Vec<FlowKind>,
    segments: Vec<Segment>,
    site_counts: Vec<SiteCounts>,
    summary: Summary,
}

/// One record of a flow, with what is known of where it was made.
#[derive(Clone, Debug, Serialize)]
pub struct Hop<'a> {
    /// When, in nanoseconds of the reference domain's `CLOCK_MONOTONIC`.
    pub t_ns: i64,
    /// Where.
    pub domain: &'a str,
    /// The function; `site N` if the trace does not tell.
    pub function: &'a str,
    /// Bytes from its beginning.
    pub offset: u64,
    /// Its module; none for the kernel image.
    pub module: Option<&'a str>,
    /// Source file, where debug information told.
    pub file: Option<&'a str>,
    /// Its line.
    pub line: Option<u32>,
    /// Logical CPU.
    pub cpu: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread's name.
    pub comm: Cow<'a, str>,
    /// What the record says of the flow: `hop`, `start`, `move`, `copy`, `quit`, `split`, `merge`, `xin`,
    /// `xout`, `frame`.
    pub kind: &'static str,
    /// The site's number.
    pub site: u32,
    /// Whether it is a step of the path, or of what went on beside it.
    pub on_path: bool,
    /// What was stored, or the flow operation's keys.
    pub values: &'a [u64],
}

impl Flows {
    /// Joins the records of a trace. Damaged files are left out, and said in the summary.
    pub fn of(trace: &Trace) -> Self {
        let locals = Locals::of(trace);
        let crossings = Crossings::of(trace, &locals);
        let flows = graph::connect(trace, &locals, &crossings);
        let site_counts = sites::of(trace, &locals.by_site);
        let summary = Summary::of(trace, &locals, crossings);
        let domains = trace.manifest().domains.iter().map(|d| (d.number, d.name.clone())).collect();
        let mut all = Self {
            rows: locals.rows,
            sites: trace.sites().iter().map(|site| (site.site, site.clone())).collect(),
            domains,
            names: Vec::new(),
            places: HashMap::new(),
            flows,
            kinds: Vec::new(),
            segments: Vec::new(),
            site_counts,
            summary,
        };
        all.name_places();
        all.recount();
        all
    }

    /// The flows, in the order of their beginnings.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The kinds of flow, the commonest first.
    pub fn kinds(&self) -> &[FlowKind] {
        &self.kinds
    }

    /// Times between hops, kind by kind: those of the kind's commonest path first, in its order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// What each site recorded and lost, in the trace's order of sites.
    pub fn sites(&self) -> &[SiteCounts] {
        &self.site_counts
    }

    /// Counts.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The flow that has, or in some domain had, that ID.
    pub fn flow(&self, id: u64) -> Option<&Flow> {
        let exact = self.flows.iter().find(|flow| flow.id == id);
        exact.or_else(|| self.flows.iter().find(|flow| flow.locals.contains(&id)))
    }

    /// The segments of a kind: those of its commonest path first, in its order.
    pub fn segments_of<'a>(&'a self, kind: &FlowKind) -> &'a [Segment] {
        let of = |segment: &&Segment| segment.kind == kind.name;
        let first = self.segments.iter().take_while(|segment| !of(segment)).count();
        let all = &self.segments[first..];
        &all[..all.iter().take_while(of).count()]
    }

    /// The kind of one of the flows.
    pub fn kind_of(&self, flow: &Flow) -> Option<&FlowKind> {
        let name = kinds::name(flow, |number| self.domain(number));
        self.kinds.iter().find(|kind| kind.name == name)
    }

    /// The flow to show when one is to stand for all: of the complete ones that crossed and have data (or else, that
    /// crossed; or else, of the complete ones; or else, of all), the one with the median total time.
    pub fn typical(&self) -> Option<&Flow> {
        let choices: [fn(&Flow) -> bool; 4] = [
            |flow| flow.complete() && flow.crossings > 0 && flow.frame.is_none_or(|frame| frame.has_data()),
            |flow| flow.complete() && flow.crossings > 0,
            Flow::complete,
            |_| true,
        ];
        choices.iter().find_map(|choice| {
            let mut chosen: Vec<&Flow> = self.flows.iter().filter(|flow| choice(flow)).collect();
            chosen.sort_by_key(|flow| (flow.total_ns(), flow.id));
            chosen.get(chosen.len().saturating_sub(1) / 2).copied()
        })
    }

    /// Keeps some flows only: segments and the summary's counts of flows are of these then. What
    /// concerns the trace as a whole (records, losses, sites, carriers) stays.
    pub fn retain(&mut self, keep: impl FnMut(&Flow) -> bool) {
        self.flows.retain(keep);
        self.recount();
    }

    /// At most that many flows: the first ones. Segments and summary stay those of all.
    pub fn truncate(&mut self, limit: usize) {
        self.flows.truncate(limit);
    }

    /// The records of a flow: those of its path in the path's order, the others among them by time.
    pub fn hops<'a>(&'a self, flow: &'a Flow) -> impl ExactSizeIterator<Item = Hop<'a>> {
        flow.steps.iter().map(|step| self.hop(&self.rows[step.row], step.on_path))
    }

    /// The path of a flow: domains and times.
    pub(crate) fn path_of<'a>(&'a self, flow: &'a Flow) -> impl Iterator<Item = (&'a str, i64)> {
        let on_path = flow.steps.iter().filter(|step| step.on_path);
        on_path.map(|step| (self.domain(self.rows[step.row].domain), self.rows[step.row].time_ns))
    }

    /// The name of a domain.
    pub(crate) fn domain(&self, number: u8) -> &str {
        self.domains.get(&number).map_or("?", String::as_str)
    }

    fn hop<'a>(&'a self, row: &'a Row, on_path: bool) -> Hop<'a> {
        let site = self.sites.get(&row.site);
        Hop {
            t_ns: row.time_ns,
            domain: self.domain(row.domain),
            function: site.map_or("?", |site| &site.function),
            offset: site.map_or(0, |site| site.offset),
            module: site.and_then(|site| site.module.as_deref()),
            file: site.and_then(|site| site.file.as_deref()),
            line: site.and_then(|site| site.line),
            cpu: row.cpu,
            pid: row.pid,
            tid: row.tid,
            comm: row.comm(),
            kind: row.kind.name(),
            site: row.site,
            on_path,
            values: row.values(),
        }
    }

    /// Numbers the functions that records come from; makes up sites that the trace lacks.
    fn name_places(&mut self) {
        let mut numbers: HashMap<String, Place> = HashMap::new();
        for row in &self.rows {
            if self.places.contains_key(&(row.domain, row.site)) {
                continue;
            }
            let site = self.sites.entry(row.site).or_insert_with(|| sites::unknown(row.site));
            let domain = self.domains.get(&row.domain).map_or("?", String::as_str);
            let name = format!("{domain}:{}", site.function);
            let next = Place::try_from(numbers.len()).unwrap_or(Place::MAX);
            let place = *numbers.entry(name.clone()).or_insert(next);
            if place == next {
                self.names.push(name);
            }
            self.places.insert((row.domain, row.site), place);
        }
    }

    fn recount(&mut self) {
        let place = |row: &Row| self.places.get(&(row.domain, row.site)).copied().unwrap_or(Place::MAX);
        let domain = |number| self.domain(number);
        (self.kinds, self.segments) = kinds::of(&self.flows, &self.rows, domain, place, &self.names);
        self.summary.count(&self.flows);
    }
}

/// A flow as the document has it.
#[derive(Serialize)]
struct FlowDocument<'a> {
    id: u64,
    name: &'a str,
    frame: Option<Frame>,
    parents: &'a [u64],
    start_ns: i64,
    end_ns: i64,
    complete: bool,
    incomplete: Option<Incomplete>,
    dropped: Option<&'a Dropped>,
    drops: u32,
    lost: u64,
    crossings: u32,
    copies: u32,
    locals: &'a [u64],
    hops: Vec<Hop<'a>>,
}

/// Written one by one: a document of millions of hops is never in memory as a whole.
struct FlowDocuments<'a>(&'a Flows);

impl Serialize for FlowDocuments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.flows.len()))?;
        for flow in &self.0.flows {
            list.serialize_element(&FlowDocument {
                id: flow.id,
                name: &flow.name,
                frame: flow.frame,
                parents: &flow.parents,
                start_ns: flow.start_ns,
                end_ns: flow.end_ns,
                complete: flow.complete(),
                incomplete: flow.incomplete,
                dropped: flow.dropped.as_ref(),
                drops: flow.drops,
                lost: flow.lost,
                crossings: flow.crossings,
                copies: flow.copies,
                locals: &flow.locals,
                hops: self.0.hops(flow).collect(),
            })?;
        }
        list.end()
    }
}

impl Serialize for Flows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            summary: &'a Summary,
            kinds: &'a [FlowKind],
            segments: &'a [Segment],
            sites: &'a [SiteCounts],
            flows: FlowDocuments<'a>,
        }
        Document {
            summary: &self.summary,
            kinds: &self.kinds,
            segments: &self.segments,
            sites: &self.site_counts,
            flows: FlowDocuments(self),
        }
        .serialize(serializer)
    }
}
