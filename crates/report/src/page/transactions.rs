//! The transactions of a page: what `xweave explain --json` prints, of the transactions a choice with their steps.

use xweave_document::{
    explain::Summary,
    page::explained::{self, Message, MessageKind, PageSummary, PageTransaction},
    value::Time,
};
use xweave_flow::choice::Choice;
use xweave_model::{
    Census, Explained, Objects, Outcome, Spec, Tally, explain,
    parts::Totals,
    sequence::{Basic, sequence},
};
use xweave_trace::Trace;

use super::{
    bounded::{Budget, cut, cut_causes},
    levels::{Levels, build_classes, build_passed},
};
use crate::{
    document::{
        explain::{build_summary, build_transaction},
        lives,
    },
    losses, words,
};

/// So many kinds of transactions are explained of the trace's own, and so many if some are asked for: each takes a pass over
/// the events.
const KINDS: usize = 3;
pub(super) const ASKED: usize = 4;

/// Of each, so many of the slowest and at even shares of the others are shown, out of so many.
const SLOWEST: usize = 40;
const QUANTILES: usize = 40;
const SAMPLE: usize = 256;

/// Room for the transactions of a kind, for one of them, and for each list of the summary, in bytes.
const TRANSACTIONS: usize = 9 << 17;
const ONE: usize = 224 << 10;
pub(super) const LIST: usize = 64 << 10;

/// What there is at most of each.
const CAUSES: usize = 60;
const PARTS: usize = 500;
const MESSAGES: usize = 500;
pub(super) const PROGRAMS: usize = 200;

/// The transactions of a kind.
pub(super) struct Kind {
    pub(super) spec: Spec,
    pub(super) totals: Totals,
    /// What a reader must know before trusting them.
    pub(super) remarks: Vec<String>,
    pub(super) document: explained::Explained,
    /// What was gone through; of the kind that varies, that is with its variation.
    pub(super) outcome: Outcome,
}

/// Explains the kinds that are asked for, also if there are none of them, and of the kinds that are asked for most likely those
/// that have any. Of flows those of these IDs, in ascending order, are among the ones that are shown, if there is room.
/// The kind that varies is among the latter; what was `explained` already is not explained again.
pub(super) fn of(
    trace: &Trace,
    asked: &[Spec],
    varies: Option<&Spec>,
    mut explained: Option<Kind>,
    chosen: &[u64],
) -> Vec<Kind> {
    let specs = specs(trace, varies.or(explained.as_ref().map(|kind| &kind.spec)));
    let mut explain = |spec: Spec| match explained.take_if(|kind| kind.spec == spec) {
        Some(kind) => kind,
        None => kind(trace, spec, chosen, &mut |_, _| ()),
    };
    let mut kinds: Vec<Kind> = asked.iter().map(|spec| explain(spec.clone())).collect();
    let others = specs.into_iter().filter(|spec| asked.iter().all(|other| sort(other) != sort(spec)));
    let found = others.map(explain).filter(|kind| kind.totals.transactions() > 0);
    kinds.extend(found.take(KINDS.min(ASKED - asked.len().min(ASKED))));
    kinds
}

/// What is asked for most likely: flows, the requests that were chosen, then the most frequent one of each other sort.
fn specs(trace: &Trace, chosen: Option<&Spec>) -> Vec<Spec> {
    let mut specs: Vec<Spec> = trace.has_flows().then_some(Spec::Flow(None)).into_iter().collect();
    specs.extend(chosen.cloned());
    for (text, _) in Census::of(trace).transactions {
        let Ok(spec) = text.parse::<Spec>() else { continue };
        // A connection's beginning is a part of what its requests are told of.
        if !matches!(spec, Spec::Connect(_)) && specs.iter().all(|known| sort(known) != sort(&spec)) {
            specs.push(spec);
        }
    }
    specs
}

/// A kind of transactions, short enough for a sentence.
pub(super) fn called(spec: &Spec) -> String {
    let Spec::Between(between) = spec else { return spec.to_string() };
    match between.places() {
        [first, _, .., last] => format!("{first} to {last}, {} points", between.places().len()),
        _ => spec.to_string(),
    }
}

/// What such transactions are, whichever of them.
fn sort(spec: &Spec) -> std::mem::Discriminant<Spec> {
    std::mem::discriminant(spec)
}

/// Explains the transactions of a kind. Each is given to `also`, with the objects' names so far.
pub(super) fn kind(
    trace: &Trace,
    spec: Spec,
    chosen: &[u64],
    also: &mut dyn FnMut(&Explained, &Objects),
) -> Kind {
    let mut tally = Tally::of(&spec, true);
    let mut levels = Levels::default();
    let mut choice = Choice::new(SLOWEST, QUANTILES, SAMPLE);
    let mut asked = Vec::new();
    let of_flows = matches!(spec, Spec::Flow(_));
    let outcome = explain(trace, &spec, &mut |transaction, objects| {
        also(&transaction, objects);
        let kept = tally.add(&transaction, objects);
        levels.add(&transaction, &kept);
        choice.offer(transaction.total_ns, transaction.id, || transaction.clone());
        if of_flows && asked.len() < SAMPLE && chosen.binary_search(&transaction.id).is_ok() {
            asked.push(transaction);
        }
    });
    let mut shown = choice.into_chosen();
    let known: std::collections::HashSet<u64> = shown.iter().map(|one| one.id).collect();
    shown.extend(asked.into_iter().filter(|one| !known.contains(&one.id)));
    let mut budget = Budget::of(TRANSACTIONS);
    let mut transactions: Vec<PageTransaction> = Vec::new();
    for transaction in &shown {
        let built = one(transaction, &outcome.objects);
        if budget.admit(&built) {
            transactions.push(built);
        }
    }
    transactions.sort_by_key(|one| one.transaction.start_ns);
    let remarks = losses::remarks(&outcome, trace.manifest());
    let programs = tally.programs.as_ref().map(|programs| programs.all(&outcome.objects));
    let document = explained::Explained {
        transaction: spec.to_string(),
        summary: cut_summary(build_summary(&outcome, &tally.totals)),
        transactions,
        bins: levels.build_bins(),
        over_time: levels.build_over_time(),
        sizes: build_classes(&tally),
        by_size: levels.build_grid(),
        points: tally.intervals.as_ref().map(|of| build_passed(of, &outcome)),
        intervals: tally.intervals.as_ref().map(|of| levels.build_intervals(of)),
        lives: programs.map(|programs| cut(programs.iter().map(lives::build), PROGRAMS, LIST)),
    };
    Kind { spec, totals: tally.totals, remarks, document, outcome }
}

fn cut_summary(of: Summary) -> PageSummary {
    PageSummary {
        figures: of.figures,
        causes: cut_causes(of.causes, CAUSES, LIST),
        parts: cut(of.parts, PARTS, LIST),
        losses: cut(of.losses, CAUSES, LIST),
        late: cut(of.late, CAUSES, LIST),
        outside: cut(of.outside, CAUSES, LIST),
        damaged: cut(of.damaged, CAUSES, LIST),
    }
}

/// A transaction with its steps and the messages between its objects; without these, or with its parts only, where there
/// are too many.
fn one(transaction: &Explained, objects: &Objects) -> PageTransaction {
    let fits = |of: &PageTransaction| Budget::of(ONE).admit(of);
    let build = |with_steps, messages| PageTransaction {
        transaction: build_transaction(transaction, objects, with_steps),
        messages,
    };
    let mut whole = build(true, None);
    if fits(&whole) {
        whole.messages = messages(transaction, objects);
        if !fits(&whole) {
            whole.messages = None;
        }
        return whole;
    }
    let mut parts = build(false, None);
    parts.transaction.parts.truncate(PARTS);
    parts
}

/// Its basic events, as of the diagram; none, if there are too many to be drawn.
fn messages(transaction: &Explained, objects: &Objects) -> Option<Vec<Message>> {
    let messages = sequence(transaction);
    if messages.len() > MESSAGES {
        return None;
    }
    let called = |object| {
        let object = objects.get(object);
        [words::objects::domain(&object.domain).into(), words::objects::object(object).into()]
    };
    let message = |of: &xweave_model::sequence::Message| Message {
        t_ns: Time(of.time),
        basic: message_kind(of.basic),
        from: called(of.from),
        to: called(of.to),
    };
    Some(messages.iter().map(message).collect())
}

fn message_kind(of: Basic) -> MessageKind {
    match of {
        Basic::Request => MessageKind::Request,
        Basic::Accept => MessageKind::Accept,
        Basic::Finish => MessageKind::Finish,
        Basic::Pause => MessageKind::Pause,
        Basic::Resume => MessageKind::Resume,
    }
}
