//! How long calls of functions took, from their entry to their return.

use std::collections::{BTreeMap, HashMap, HashSet};

use xweave_trace::{Damaged, Row, Trace};

use crate::{durations::Durations, histogram::Histogram};

/// Names of the advice at entries and at returns.
const ENTERED: &str = "entered";
const RETURNED: &str = "returned";

/// Calls that are under way at once in a thread, one within the other: of more, the innermost are followed.
const NESTED: usize = 64;

/// Threads in which calls are under way: more have no call in common with what a kernel does.
const THREADS: usize = 1 << 20;

/// Records that are kept until all of before their times are read.
const AHEAD: usize = 1 << 20;

/// Returns the aspect that records the calls of these functions, as pointcuts name them: `vfs_read`, `tcp_%@vm1`.
pub fn aspect(functions: &[String]) -> String {
    let names = functions.join(", ");
    format!(
        "advice {ENTERED} execution({names}) {{ STORE_DATA1(1); }}\n\
         advice {RETURNED} returning({names}) {{ STORE_DATA1(1); }}\n"
    )
}

/// Returns the functions whose calls a trace was to have, by domain and name.
pub fn functions(trace: &Trace) -> Vec<FunctionName> {
    sites(trace).0
}

/// The calls of a trace that was recorded with [`aspect`].
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Those of each function, by domain and name; the ones that took longest in all first.
    pub functions: Vec<FunctionLatency>,
    /// Those of all functions together.
    pub all: Latency,
    /// Calls of the recorder's own processes, which are not among them.
    pub of_recorder: u64,
    /// Calls without a beginning or an end in the trace, which are not among them.
    pub partial: u64,
    /// Files that could not be read, or not to their ends.
    pub damaged: Vec<Damaged>,
}

/// The calls of a function in a domain.
#[derive(Clone, Debug)]
pub struct FunctionLatency {
    /// The domain's name.
    pub domain: String,
    /// The function's.
    pub function: String,
    /// How long they took.
    pub latency: Latency,
}

/// How long calls took, in nanoseconds. Percentiles are those of all calls up to 65,536, and of a uniform choice of as many
/// beyond.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// How many.
    pub calls: u64,
    /// All of them together.
    pub total_ns: u64,
    /// The shortest.
    pub min_ns: i64,
    /// The median.
    pub p50_ns: i64,
    /// What 99 of a hundred do not exceed.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
    /// How many took how long.
    pub histogram: Histogram,
}

/// Calls that are added up.
#[derive(Clone, Debug, Default)]
struct Sum {
    durations: Durations,
    total_ns: u64,
    histogram: Histogram,
}

impl Sum {
    fn add(&mut self, ns: i64) {
        self.durations.add(ns);
        self.total_ns = self.total_ns.saturating_add(u64::try_from(ns).unwrap_or(0));
        self.histogram.add(ns);
    }

    fn spread(mut self) -> Latency {
        let spread = self.durations.spread();
        Latency {
            calls: self.durations.count(),
            total_ns: self.total_ns,
            min_ns: spread.min_ns,
            p50_ns: spread.p50_ns,
            p99_ns: spread.p99_ns,
            max_ns: spread.max_ns,
            histogram: self.histogram,
        }
    }
}

/// What runs calls one within the other: a thread, or the idle thread of a CPU with the interrupts above it.
type Context = (u8, u32, u32);

/// A function of a domain, by its number.
type FunctionNumber = usize;

/// A domain's name, and a function's.
pub type FunctionName = (String, String);

/// By the numbers of sites: the function, and which end of its calls.
type Sites = HashMap<u32, (FunctionNumber, End)>;

/// Which end of a call a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Entry,
    Return,
}

/// A thread passed an end of a call.
#[derive(Clone, Copy, Debug)]
struct Passed {
    time_ns: i64,
    context: Context,
    function: FunctionNumber,
    end: End,
}

impl Passed {
    fn new(row: &Row, function: FunctionNumber, end: End) -> Self {
        // Each CPU has an idle thread of that number.
        let cpu = if row.tid == 0 { row.cpu } else { 0 };
        Self { time_ns: row.time_ns, context: (row.domain, row.tid, cpu), function, end }
    }
}

impl Latencies {
    /// Goes through the records of a trace.
    pub fn of(trace: &Trace) -> Self {
        let (names, sites) = sites(trace);
        let recorders: HashSet<(u8, u32)> = trace
            .manifest()
            .domains
            .iter()
            .flat_map(|domain| domain.recorders.iter().map(|pid| (domain.number, *pid)))
            .collect();
        let mut calls = Calls { sums: vec![Sum::default(); names.len()], ..Calls::default() };
        let mut found = Self::default();
        let mut read = Vec::new();
        for part in trace.parts() {
            let part = match part {
                Ok(part) => part,
                Err(damaged) => {
                    found.damaged.push(damaged);
                    continue;
                }
            };
            for row in &part.rows {
                let Some(&(function, end)) = sites.get(&row.site) else { continue };
                match recorders.contains(&(row.domain, row.pid)) {
                    true => found.of_recorder += u64::from(end == End::Return),
                    false => read.push(Passed::new(row, function, end)),
                }
            }
            calls.add_before(part.before_ns, &mut read);
        }
        calls.add_before(i64::MAX, &mut read);
        found.partial = calls.partial + calls.open.values().map(|open| open.len() as u64).sum::<u64>();
        found.all = calls.all.spread();
        let functions = names.into_iter().zip(calls.sums);
        let of_function = |((domain, function), sum): (FunctionName, Sum)| FunctionLatency {
            domain,
            function,
            latency: sum.spread(),
        };
        found.functions = functions.map(of_function).filter(|of| of.latency.calls > 0).collect();
        found.functions.sort_by_key(|of| std::cmp::Reverse(of.latency.total_ns));
        found
    }
}

/// The functions that were recorded, and which end of which one each site is.
fn sites(trace: &Trace) -> (Vec<FunctionName>, Sites) {
    let mut numbers: BTreeMap<FunctionName, FunctionNumber> = BTreeMap::new();
    let mut names = Vec::new();
    let mut sites = HashMap::new();
    for site in trace.sites() {
        let end = match &*site.advice {
            ENTERED => End::Entry,
            RETURNED => End::Return,
            _ => continue,
        };
        let name = (site.domain.clone(), site.function.clone());
        let number = *numbers.entry(name.clone()).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        });
        sites.insert(site.site, (number, end));
    }
    (names, sites)
}

/// Calls that are under way, and those that are over.
#[derive(Debug, Default)]
struct Calls {
    /// Those that have returned, by function.
    sums: Vec<Sum>,
    all: Sum,
    /// Those under way: the function and when it was entered, the innermost last.
    open: HashMap<Context, Vec<(FunctionNumber, i64)>>,
    partial: u64,
}

impl Calls {
    /// Adds those of before a time, in the order of their times, in which a file need not have them: a thread may go on on another
    /// CPU, whose records were fetched first. Of very many, half are added whatever may come.
    fn add_before(&mut self, time: i64, read: &mut Vec<Passed>) {
        // What was recorded first at one time stays first.
        read.sort_by_key(|passed| passed.time_ns);
        let sure = read.partition_point(|passed| passed.time_ns < time);
        let crowded = if read.len() > AHEAD { read.len() / 2 } else { 0 };
        let added = if time == i64::MAX { read.len() } else { sure.max(crowded) };
        read.drain(..added).for_each(|passed| self.add(passed));
    }

    fn add(&mut self, Passed { time_ns, context, function, end }: Passed) {
        match end {
            End::Entry => {
                if self.open.len() >= THREADS && !self.open.contains_key(&context) {
                    self.partial += self.open.drain().map(|(_, open)| open.len() as u64).sum::<u64>();
                }
                let open = self.open.entry(context).or_default();
                if open.len() >= NESTED {
                    open.remove(0);
                    self.partial += 1;
                }
                open.push((function, time_ns));
            }
            End::Return => match self.close(context, function) {
                Some(since) => {
                    let ns = time_ns.saturating_sub(since);
                    self.sums[function].add(ns);
                    self.all.add(ns);
                }
                None => self.partial += 1,
            },
        }
    }

    /// Ends the innermost call of a function, and those within it, whose returns were not recorded. Returns when it began.
    fn close(&mut self, context: Context, function: FunctionNumber) -> Option<i64> {
        let open = self.open.get_mut(&context)?;
        let at = open.iter().rposition(|(of, _)| *of == function)?;
        self.partial += (open.len() - at - 1) as u64;
        let began = open.drain(at..).next().map(|(_, began)| began);
        if open.is_empty() {
            self.open.remove(&context);
        }
        began
    }
}
