//! The whole result: flows, segments, sites and summary of a trace.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    convert::Infallible,
};

use xweave_trace::{Damage, Damaged, Row, Site, Trace};

use crate::{
    functions::{Function, Functions},
    graph::Flow,
    join::Join,
    keys::Keys,
    kinds::{FlowKind, KindName, Kinds, Told},
    places::Place,
    sample::Sample,
    segments::Segment,
    sites::{self, SiteCounts},
    summary::{FlowCounts, Summary},
    takers,
};

/// Flows of which the typical one is chosen, where not all are kept.
const STAND_INS: usize = 1 << 10;

/// What is known of the flows of a trace, and all of them, or some.
pub struct Flows {
    scene: Scene,
    flows: Vec<Flow>,
    /// Of the likes of the typical flow some, where not all flows are kept.
    stand_ins: Vec<Flow>,
    told: Told,
    site_counts: Vec<SiteCounts>,
    summary: Summary,
}

/// Which flows of a trace are looked at, and how many of them are kept. All others are as if they were not there; what
/// concerns the trace as a whole (records, losses, sites, carriers) stays.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// Whether a flow is looked at.
    pub of: &'w dyn Fn(&Flow) -> bool,
    /// So many are kept, the first ones; the others are counted and let go. None: all.
    pub kept: Option<usize>,
}

/// One record of a flow, with what is known of where it was made.
#[derive(Clone, Debug)]
pub struct Hop<'a> {
    /// When, in nanoseconds of the reference domain's `CLOCK_MONOTONIC`.
    pub t_ns: i64,
    /// Where.
    pub domain: &'a str,
    /// The function; `site N` if the trace does not tell.
    pub function: Cow<'a, str>,
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
    /// What is stored there, as it is written in the aspect.
    pub stores: &'a [String],
}

/// What sites and domains are called.
struct Scene {
    sites: HashMap<u32, Site>,
    domains: BTreeMap<u8, String>,
}

impl Flows {
    /// Joins the records of a trace. Damaged files are left out, and said in the summary.
    pub fn of(trace: &Trace) -> Self {
        Self::read(trace, Join::of(trace), Wanted { of: &|_| true, kept: None })
    }

    /// The flows of a join that are wanted.
    pub fn read(trace: &Trace, join: Join<'_>, wanted: Wanted<'_>) -> Self {
        let Ok(flows) = Self::each(trace, join, wanted, |_| Ok::<_, Infallible>(()));
        flows
    }

    /// As [`Flows::read`]; does something with each flow that is wanted, kept or not, in the order in which they come:
    /// window by window ([`crate::join`]).
    ///
    /// # Errors
    /// Those of `each`, at once.
    pub fn each<E>(
        trace: &Trace,
        mut join: Join<'_>,
        wanted: Wanted<'_>,
        mut each: impl FnMut(NamedFlow<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (scene, keys) = (Scene::of(trace), Keys::of(trace));
        let (mut tally, mut flows, mut rows, mut too_many) = (Tally::default(), Vec::new(), 0, false);
        let mut stand_ins = (usize::MAX, Sample::of_at_most(STAND_INS));
        let kept = wanted.kept.unwrap_or(usize::MAX);
        // With the flows, some 8 GB.
        let most = join.most().saturating_mul(2);
        'all: for window in &mut join {
            let keyed = window.into_iter().map(|mut flow| {
                if let Some((key, head)) = keys.key(&flow, |row| scene.function(row.site)) {
                    (flow.key, flow.head) = (Some(key), head);
                }
                flow
            });
            for flow in keyed.filter(|flow| (wanted.of)(flow)) {
                tally.add(&flow, &scene);
                each(NamedFlow { flow: &flow, scene: &scene })?;
                if wanted.kept.is_some() {
                    let class = TYPICAL.iter().position(|is| is(&flow)).unwrap_or(usize::MAX);
                    if class < stand_ins.0 {
                        stand_ins = (class, Sample::of_at_most(STAND_INS));
                    }
                    if class == stand_ins.0 {
                        stand_ins.1.offer_with(|| flow.clone());
                    }
                }
                if flows.len() < kept {
                    rows += flow.steps.len();
                    flows.push(flow);
                    too_many = rows > most;
                    if too_many {
                        break 'all;
                    }
                }
            }
        }
        // Flows under way at the end of a window come with a later one.
        flows.sort_by_key(|flow| (flow.start_ns, flow.id));
        let mut totals = join.finish();
        if too_many {
            let damage = Damage::Memory { most };
            totals.damaged.push(Damaged::new(trace.dir().join("records"), damage));
        }
        let site_counts = sites::of(trace, &totals.by_site);
        let (told, counts) = tally.told(&scene);
        let summary = Summary::of(trace, totals, counts);
        let stand_ins = stand_ins.1.into_chosen();
        Ok(Self { scene, flows, stand_ins, told, site_counts, summary })
    }

    /// The same, whose [places](Flows::places) on rings say what the threads did that took the flows off: this reads the
    /// trace's events.
    #[must_use]
    pub fn with_takers(mut self, trace: &Trace) -> Self {
        let takers = takers::told(trace, &std::mem::take(&mut self.told.waits));
        self.told.places.iter_mut().zip(takers).for_each(|(place, taker)| place.taker = taker);
        self
    }

    /// The flows that are kept, in the order of their beginnings.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The kinds of flow, the commonest first.
    pub fn kinds(&self) -> &[FlowKind] {
        &self.told.kinds
    }

    /// Times between hops, kind by kind: those of the kind's commonest path first, in its order.
    pub fn segments(&self) -> &[Segment] {
        &self.told.segments
    }

    /// What each site recorded and lost, in the trace's order of sites.
    pub fn sites(&self) -> &[SiteCounts] {
        &self.site_counts
    }

    /// Counts.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The flow, of those that are kept, that has, or in some domain had, that ID.
    pub fn flow(&self, id: u64) -> Option<&Flow> {
        let exact = self.flows.iter().find(|flow| flow.id == id);
        exact.or_else(|| self.flows.iter().find(|flow| flow.locals.contains(&id)))
    }

    /// The segments of a kind: those of its commonest path first, in its order.
    pub fn segments_of<'a>(&'a self, kind: &FlowKind) -> &'a [Segment] {
        of_kind(&self.told.segments, |segment| segment.kind == kind.name)
    }

    /// Where the flows of each kind were for how long, kind by kind, in the order in which flows come there.
    pub fn places(&self) -> &[Place] {
        &self.told.places
    }

    /// The places of a kind.
    pub fn places_of<'a>(&'a self, kind: &FlowKind) -> &'a [Place] {
        of_kind(&self.told.places, |place| place.kind == kind.name)
    }

    /// The kind of one of the flows.
    pub fn kind_of(&self, flow: &Flow) -> Option<&FlowKind> {
        let name = KindName::of(flow, |number| self.domain(number)).to_string();
        self.told.kinds.iter().find(|kind| kind.name == name)
    }

    /// The flow to show when one is to stand for all: of the complete ones that crossed and have data (or else, that
    /// crossed; or else, of the complete ones; or else, of all), of the kind that most of their time is spent on, the one
    /// with the median total time.
    pub fn typical(&self) -> Option<&Flow> {
        let all = if self.stand_ins.is_empty() { &self.flows } else { &self.stand_ins };
        TYPICAL.iter().find_map(|choice| {
            let mut kinds: BTreeMap<String, Vec<&Flow>> = BTreeMap::new();
            for flow in all.iter().filter(|flow| choice(flow)) {
                kinds
                    .entry(KindName::of(flow, |number| self.domain(number)).to_string())
                    .or_default()
                    .push(flow);
            }
            let time = |of: &Vec<&Flow>| of.iter().map(|flow| flow.total_ns() as f64).sum::<f64>();
            let mut chosen = kinds.into_values().max_by(|a, b| time(a).total_cmp(&time(b)))?;
            chosen.sort_by_key(|flow| (flow.total_ns(), flow.id));
            chosen.get(chosen.len().saturating_sub(1) / 2).copied()
        })
    }

    /// The records of a flow: those of its path in the path's order, the others among them by time.
    pub fn hops<'a>(&'a self, flow: &'a Flow) -> impl ExactSizeIterator<Item = Hop<'a>> {
        self.scene.hops(flow)
    }

    /// What threads are called that made records of the flows that are kept, and of those that stand for all: by domain
    /// and number.
    pub fn threads(&self) -> HashMap<(&str, u32), Cow<'_, str>> {
        let hops = self.flows.iter().chain(&self.stand_ins).flat_map(|flow| self.hops(flow));
        hops.map(|hop| ((hop.domain, hop.tid), hop.comm)).collect()
    }

    /// The path of a flow: domains and times.
    pub(crate) fn path_of<'a>(&'a self, flow: &'a Flow) -> impl Iterator<Item = (&'a str, i64)> {
        flow.path().map(|row| (self.domain(row.domain), row.time_ns))
    }

    /// Where a record was made.
    pub(crate) fn function_of(&self, row: &Row) -> Function {
        self.scene.function_of(row)
    }

    /// The name of a domain.
    pub(crate) fn domain(&self, number: u8) -> &str {
        self.scene.domain(number)
    }

    /// Flows that are kept, with the names of their sites and domains.
    pub fn named(&self) -> impl ExactSizeIterator<Item = NamedFlow<'_>> {
        self.flows.iter().map(|flow| NamedFlow { flow, scene: &self.scene })
    }
}

/// Which flow stands for all: of those that the first of these is true of.
const TYPICAL: [fn(&Flow) -> bool; 4] = [
    |flow| flow.complete() && flow.crossings > 0 && flow.frame.is_none_or(|frame| frame.has_data()),
    |flow| flow.complete() && flow.crossings > 0,
    Flow::complete,
    |_| true,
];

impl Scene {
    fn of(trace: &Trace) -> Self {
        let domains = trace.manifest().domains.iter();
        Self {
            sites: trace.sites().iter().map(|site| (site.site, site.clone())).collect(),
            domains: domains.map(|domain| (domain.number, domain.name.clone())).collect(),
        }
    }

    fn domain(&self, number: u8) -> &str {
        self.domains.get(&number).map_or("?", String::as_str)
    }

    fn function(&self, site: u32) -> Cow<'_, str> {
        match self.sites.get(&site) {
            Some(site) => Cow::Borrowed(&site.function),
            None => sites::unknown(site).function.into(),
        }
    }

    fn function_of(&self, row: &Row) -> Function {
        let carrier = self.sites.get(&row.site).and_then(|site| site.carrier.as_deref());
        Function::new((row.domain, self.domain(row.domain)), &self.function(row.site), carrier)
    }

    fn hops<'a>(&'a self, flow: &'a Flow) -> impl ExactSizeIterator<Item = Hop<'a>> {
        flow.steps.iter().map(|step| self.hop(&step.row, step.on_path))
    }

    fn hop<'a>(&'a self, row: &'a Row, on_path: bool) -> Hop<'a> {
        let site = self.sites.get(&row.site);
        Hop {
            t_ns: row.time_ns,
            domain: self.domain(row.domain),
            function: self.function(row.site),
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
            stores: site.map_or(&[], |site| &site.values),
        }
    }
}

/// What is added up of flows.
#[derive(Default)]
struct Tally {
    kinds: Kinds,
    counts: FlowCounts,
    functions: Functions,
}

impl Tally {
    fn add(&mut self, flow: &Flow, scene: &Scene) {
        self.counts.add(flow);
        self.kinds.add(flow, &mut self.functions, |row| scene.function_of(row));
    }

    fn told(self, scene: &Scene) -> (Told, FlowCounts) {
        (self.kinds.told(|number| scene.domain(number), &self.functions), self.counts)
    }
}

/// The part of what is listed kind by kind that is of one.
fn of_kind<T>(all: &[T], is_of: impl Fn(&T) -> bool) -> &[T] {
    let first = all.iter().position(&is_of).unwrap_or(all.len());
    let rest = &all[first..];
    &rest[..rest.iter().take_while(|one| is_of(one)).count()]
}

/// A flow with the names of its sites and domains.
#[derive(Clone, Copy)]
pub struct NamedFlow<'a> {
    flow: &'a Flow,
    scene: &'a Scene,
}

impl<'a> NamedFlow<'a> {
    /// The flow.
    pub fn flow(&self) -> &'a Flow {
        self.flow
    }

    /// Its records: those of the path in the path's order, the others among them by time.
    pub fn hops(&self) -> impl ExactSizeIterator<Item = Hop<'a>> {
        self.scene.hops(self.flow)
    }

    /// The name of its kind.
    pub fn kind(&self) -> String {
        KindName::of(self.flow, |number| self.scene.domain(number)).to_string()
    }

    /// Where a record of it was made.
    pub(crate) fn function_of(&self, row: &Row) -> Function {
        self.scene.function_of(row)
    }
}
