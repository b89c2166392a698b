//! What `xweave explain --json` prints: `schema`, the kind of `transaction`, the `transactions` as they are found, a
//! `summary`, and [the same divided](super::divided); of a trace without flows and requests, where nobody asked for a kind, what its `machines` did.

use std::io::{self, Write};

use serde::Serialize;
use xweave_model::{
    Explained, LossOfDomain, Objects, Outcome, Spec,
    lives::Lives,
    parts::{Totals, parts},
};

use xweave_trace::Late;

use super::{
    SCHEMA,
    divided::{Interval, Point, Size},
    encode,
    machines::Machines,
    parts::{KeptDocument, PartDocument, TotalDocument, kept, totals as total_documents},
};
use crate::words::{self, Sentence};

/// The document, written transaction by transaction: there may be more than memory holds.
pub struct Stream<W> {
    out: W,
    first: bool,
}

impl<W: Write> Stream<W> {
    /// Begins the document of transactions of a kind.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn begin(mut out: W, spec: &Spec) -> io::Result<Self> {
        let spec = encode(&spec.to_string())?;
        write!(out, "{{\"schema\":{SCHEMA},\"transaction\":{spec},\"transactions\":[")?;
        Ok(Self { out, first: true })
    }

    /// Writes the next one.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn transaction(&mut self, transaction: &Transaction<'_>) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.out, "{comma}{}", encode(transaction)?)
    }

    /// Ends the document with what is told of all transactions; where nobody asked for a kind of these, with what the
    /// machines did.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn end(mut self, all: &All, machines: Option<&Machines<'_>>) -> io::Result<()> {
        write!(self.out, "],\"summary\":{},\"sizes\":{}", encode(&all.summary)?, encode(&all.sizes)?)?;
        if let Some((points, intervals)) = &all.divided {
            write!(self.out, ",\"points\":{},\"intervals\":{}", encode(points)?, encode(intervals)?)?;
        }
        if let Some(lives) = &all.lives {
            write!(self.out, ",\"lives\":{}", encode(lives)?)?;
        }
        if let Some(machines) = machines {
            write!(self.out, ",\"machines\":{}", encode(machines)?)?;
        }
        writeln!(self.out, "}}")
    }
}

/// What is told of all transactions of a kind.
pub struct All {
    /// `summary`
    pub summary: Summary,
    /// `sizes`: the same by how much data they carried.
    pub sizes: Vec<Size>,
    /// `points` and `intervals`, of those that pass several places.
    pub divided: Option<(Vec<Point>, Vec<Interval>)>,
    /// `lives`: processes and threads, by program.
    pub lives: Option<Vec<Lives>>,
}

/// A transaction, broken down.
#[derive(Clone, Debug, Serialize)]
pub struct Transaction<'a> {
    /// Its number in the trace, from 1; a flow's ID.
    pub id: u64,
    /// What tells it from others.
    pub name: &'a str,
    /// The domain that it ended in.
    pub domain: &'a str,
    /// When it began, in nanoseconds.
    pub start_ns: i64,
    /// How long it took: the sum of its parts.
    pub total_ns: i64,
    /// How much it sent, or wrote to a disk; if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// How much it received, or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// When it passed each of its places, if it passes more than a first and a last one.
    #[serde(skip_serializing_if = "<[i64]>::is_empty")]
    pub points_ns: &'a [i64],
    /// What its time was spent on, the most first.
    pub parts: Vec<PartDocument<'a>>,
    /// Its time in order and without gaps; only where one transaction was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
}

/// A part of a transaction's time.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Its beginning, in nanoseconds.
    pub t_ns: i64,
    /// How long it took.
    pub ns: i64,
    /// The domain whose time it was.
    pub domain: Sentence,
    /// What took it.
    pub object: Sentence,
    /// What it was spent on.
    pub state: &'static str,
    /// For how many others, each waiting for the next, the object worked.
    pub depth: u8,
    /// What more is known of why, in words.
    pub why: Option<Sentence>,
}

impl<'a> Transaction<'a> {
    /// Of a transaction, without its steps or with them.
    pub fn new(transaction: &'a Explained, objects: &'a Objects, with_steps: bool) -> Self {
        let step = |step: &xweave_model::Step| {
            let object = objects.get(step.object);
            Step {
                t_ns: step.from,
                ns: step.to - step.from,
                domain: words::objects::domain(&object.domain),
                object: words::objects::object(object),
                state: step.spent.name(),
                depth: step.depth,
                why: step.cause.map(|cause| words::causes::cause(cause, objects)),
            }
        };
        Self {
            id: transaction.id,
            name: &transaction.name,
            domain: objects.domain(transaction.domain),
            start_ns: transaction.start_ns,
            total_ns: transaction.total_ns,
            sent_bytes: transaction.bytes.map(|bytes| bytes.sent),
            received_bytes: transaction.bytes.map(|bytes| bytes.received),
            points_ns: Some(&*transaction.points).filter(|points| points.len() > 2).unwrap_or_default(),
            parts: parts(transaction).iter().map(|part| PartDocument::new(part, objects)).collect(),
            steps: with_steps.then(|| transaction.steps.iter().map(step).collect()),
        }
    }
}

/// All transactions of that kind, those that are not written too.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// How many.
    pub transactions: u64,
    /// Events of the trace.
    pub events: u64,
    /// Accesses to disks.
    pub accesses: u64,
    /// Those of them whose end is not in the trace: who waited for one is not known to have waited for the disk.
    pub incomplete_ios: u64,
    /// The time of all.
    pub total_ns: u64,
    /// The median; null where there is no transaction.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// What kept the transactions, whatever objects it kept.
    pub causes: Vec<KeptDocument>,
    /// What all that time was spent on, the most first.
    pub parts: Vec<TotalDocument>,
    /// Events that were lost, in all domains.
    pub lost: u64,
    /// The same by domain; those that lost none are not there.
    pub losses: Vec<Loss>,
    /// Records and events that arrived and could not be stored.
    pub unwritten: u64,
    /// Domains of which events have a later time than their own.
    pub late: Vec<Late>,
    /// Guests with events while the vCPU was outside the guest: their CPUs are not the vCPUs that they are taken for.
    pub outside: Vec<Outside>,
    /// Whether the transactions are what was seen of incomplete flows, there being no complete one.
    pub incomplete_flows: bool,
    /// Transactions between two places that are left out: events were lost meanwhile, which may have told of either.
    pub uncertain: u64,
    /// Requests by datagrams that have no answer in the trace: they are not among the transactions.
    pub unanswered: u64,
    /// Files that could not be read, or not to their ends.
    pub damaged: Vec<String>,
}

/// Events of a guest that contradict its host's.
#[derive(Clone, Debug, Serialize)]
pub struct Outside {
    /// The guest's name.
    pub domain: String,
    /// Events while the vCPU was outside the guest.
    pub outside: u64,
    /// Of so many.
    pub events: u64,
}

/// What a domain lost.
#[derive(Clone, Debug, Serialize)]
pub struct Loss {
    /// Its name.
    pub domain: String,
    /// How many events.
    pub events: u64,
    /// Those of them of which it is not known when.
    pub untimed: u64,
    /// Its processors that lost some at times that are known.
    pub cpus: Vec<LossOfCpu>,
}

/// What a processor lost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LossOfCpu {
    /// Logical CPU.
    pub cpu: u32,
    /// How many events, as far as they were counted.
    pub events: u64,
    /// How often some were lost one after the other.
    pub gaps: u64,
    /// When the first gap began, in nanoseconds.
    pub from_ns: i64,
    /// When the last one ended.
    pub to_ns: i64,
    /// How long all gaps were.
    pub ns: u64,
}

impl Loss {
    fn new(loss: &LossOfDomain) -> Self {
        let of_cpu = |(cpu, loss): &(u32, xweave_model::LossOfCpu)| LossOfCpu {
            cpu: *cpu,
            events: loss.events,
            gaps: loss.gaps,
            from_ns: loss.from_ns,
            to_ns: loss.to_ns,
            ns: loss.ns,
        };
        Self {
            domain: loss.domain.clone(),
            events: loss.events,
            untimed: loss.untimed,
            cpus: loss.cpus.iter().map(of_cpu).collect(),
        }
    }
}

impl Summary {
    /// Of what was gone through and added up.
    pub fn new(outcome: &Outcome, totals: &Totals) -> Self {
        let outside = |(domain, check): &(String, xweave_model::vcpu::Check)| Outside {
            domain: domain.clone(),
            outside: check.outside,
            events: check.events,
        };
        Self {
            transactions: outcome.transactions,
            events: outcome.events,
            accesses: outcome.accesses,
            incomplete_ios: outcome.incomplete_ios,
            total_ns: totals.ns(),
            p50_ns: totals.quantile(0.5),
            p99_ns: totals.quantile(0.99),
            max_ns: totals.quantile(1.0),
            causes: kept(totals),
            parts: total_documents(totals),
            lost: outcome.lost.iter().map(|loss| loss.events).fold(0, u64::saturating_add),
            losses: outcome.lost.iter().map(Loss::new).collect(),
            unwritten: outcome.unwritten,
            late: outcome.late.clone(),
            outside: outcome.outside.iter().map(outside).collect(),
            incomplete_flows: outcome.incomplete_flows,
            uncertain: outcome.uncertain,
            unanswered: outcome.unanswered,
            damaged: outcome.damaged.iter().map(ToString::to_string).collect(),
        }
    }
}
