//! The document of `xweave explain`.

use std::io::{self, Write};

use serde::Serialize;
use xweave_document::{
    explain::{
        Explain, LateEvents, LossOfCpu, LossOfDomain, OutsideEvents, Step, Summary, SummaryFigures,
        Transaction,
    },
    machines::Machines,
    value::{Id, Time},
};
use xweave_model::{Explained, Objects, Outcome, Spec, parts::Totals};
use xweave_trace::Late;

use super::{
    SCHEMA,
    divided::build_times,
    encode,
    parts::{build_causes, build_part, build_totals, build_unused},
};
use crate::words::{causes, objects as words};

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
    pub fn transaction(&mut self, transaction: &Transaction) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.out, "{comma}{}", encode(transaction)?)
    }

    /// Ends the document with what is about all transactions; if no kind of these was asked for, with what the machines did.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn end(mut self, all: &Explain, machines: Option<&Machines>) -> io::Result<()> {
        self.out.write_all(b"]")?;
        self.member("summary", Some(&all.summary))?;
        self.member("other_services", Some(&all.other_services).filter(|others| !others.is_empty()))?;
        self.member("sizes", Some(&all.sizes))?;
        self.member("points", all.points.as_ref())?;
        self.member("intervals", all.intervals.as_ref())?;
        self.member("lives", all.lives.as_ref())?;
        self.member("machines", machines)?;
        writeln!(self.out, "}}")
    }

    fn member(&mut self, name: &str, value: Option<&impl Serialize>) -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        write!(self.out, ",\"{name}\":{}", encode(value)?)
    }
}

/// Builds the row of a transaction, without its steps or with them.
pub fn build_transaction(of: &Explained, objects: &Objects, with_steps: bool) -> Transaction {
    Transaction {
        id: Id(of.id),
        name: of.name.to_string(),
        domain: objects.domain(of.domain).to_owned(),
        start_ns: Time(of.start_ns),
        total_ns: of.total_ns,
        sent_bytes: of.bytes.map(|bytes| bytes.sent),
        received_bytes: of.bytes.map(|bytes| bytes.received),
        points_ns: Some(&*of.points).filter(|points| points.len() > 2).unwrap_or_default().to_vec(),
        parts: xweave_model::parts::parts(of).iter().map(|part| build_part(part, objects)).collect(),
        steps: with_steps.then(|| of.steps.iter().map(|step| build_step(step, objects)).collect()),
    }
}

fn build_step(of: &xweave_model::Step, objects: &Objects) -> Step {
    let object = objects.get(of.object);
    Step {
        t_ns: Time(of.from),
        ns: of.to - of.from,
        domain: words::domain(&object.domain).into(),
        object: words::object(object).into(),
        state: of.spent.name(),
        depth: of.depth,
        why: of.cause.map(|cause| causes::cause(cause, objects).into()),
    }
}

fn build_loss(loss: &xweave_model::LossOfDomain) -> LossOfDomain {
    let of_cpu = |(cpu, loss): &(u32, xweave_model::LossOfCpu)| LossOfCpu {
        cpu: *cpu,
        events: loss.events,
        gaps: loss.gaps,
        from_ns: loss.from_ns,
        to_ns: loss.to_ns,
        ns: loss.ns,
    };
    LossOfDomain {
        domain: loss.domain.clone(),
        events: loss.events,
        untimed: loss.untimed,
        cpus: loss.cpus.iter().map(of_cpu).collect(),
        ended_ns: loss.ended.map(|unknown| unknown.from),
    }
}

fn build_late(of: &Late) -> LateEvents {
    LateEvents { domain: of.domain.clone(), events: of.events, most_ns: of.most_ns }
}

fn build_outside((domain, check): &(String, xweave_model::vcpu::Check)) -> OutsideEvents {
    OutsideEvents { domain: domain.clone(), outside: check.outside, events: check.events }
}

/// Builds the summary of all transactions.
pub fn build_summary(outcome: &Outcome, totals: &Totals) -> Summary {
    let figures = SummaryFigures {
        transactions: outcome.transactions,
        events: outcome.events,
        accesses: outcome.accesses,
        incomplete_ios: outcome.incomplete_ios,
        times: build_times(totals),
        lost: outcome.lost.iter().map(|loss| loss.events).fold(0, u64::saturating_add),
        unwritten: outcome.unwritten,
        incomplete_flows: outcome.incomplete_flows,
        uncertain: outcome.uncertain,
        unanswered: outcome.unanswered,
        unused: build_unused(outcome.unused),
    };
    Summary {
        figures,
        causes: build_causes(totals),
        parts: build_totals(totals),
        losses: outcome.lost.iter().map(build_loss).collect(),
        late: outcome.late.iter().map(build_late).collect(),
        outside: outcome.outside.iter().map(build_outside).collect(),
        damaged: outcome.damaged.iter().map(ToString::to_string).collect(),
    }
}
