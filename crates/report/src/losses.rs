//! What a trace lacks, and what cannot be known because of that: said before anything that is.

use xweave_model::{LossOfCpu, LossOfDomain, Outcome, RecorderUse};
use xweave_trace::Manifest;

use crate::{
    View, number,
    words::{self, objects},
};

/// Of more processors, the sum is told.
const CPUS: usize = 8;

/// So many remarks are shown in a terminal, unless all are asked for.
const SHOWN: usize = 3;

/// From this share of a domain's CPUs on, what the recorder took is told before all that it may have changed.
const TELLING: f64 = 0.05;

/// What a reader must know before trusting the breakdown of a trace with this manifest, a line each. Empty if there is
/// nothing.
pub fn remarks(outcome: &Outcome, manifest: &Manifest) -> Vec<String> {
    of_outcome(outcome, manifest).chain(warnings(manifest)).collect()
}

/// The same without what was told when it was recorded.
fn of_outcome(outcome: &Outcome, manifest: &Manifest) -> impl Iterator<Item = String> {
    let unused = words::unused::unused(&outcome.unused).map(|unused| unused.to_string());
    of_recording(outcome, manifest).into_iter().chain(unused)
}

/// What was told already when it was recorded, a line each.
pub(crate) fn warnings(manifest: &Manifest) -> impl Iterator<Item = String> {
    manifest.warnings.iter().map(|warning| warning.lines().collect::<Vec<_>>().join(" "))
}

/// What the recorder took of the CPUs, if that is much; and how it takes less.
pub fn recorder(of: &RecorderUse) -> Option<String> {
    let much = of.shares.iter().filter(|(_, share)| *share >= TELLING);
    let much: Vec<_> =
        much.map(|(domain, share)| format!("{} of {domain}'s", number::percent(*share))).collect();
    let remedy = match of.background {
        true => "record fewer groups of events, or give it a CPU of its own",
        false => "record with --background, or fewer groups of events",
    };
    (!much.is_empty()).then(|| {
        format!(
            "{} took {} CPU time, and all times include that: {remedy}",
            objects::recorder(),
            much.join(", ")
        )
    })
}

/// The remarks without the requests that could not be used, for what says that itself.
fn of_recording(outcome: &Outcome, manifest: &Manifest) -> Vec<String> {
    let start_ns = manifest.start_ns;
    let mut remarks = Vec::from_iter(recorder(&outcome.recorder));
    if outcome.incomplete_flows {
        let what = "what was seen of incomplete ones is explained, from the first to the last step of each";
        remarks.push(format!("no flow is complete: {what} (xweave flows says what they lack)"));
    }
    remarks.extend(outcome.lost.iter().filter(|loss| loss.has_lost()).map(|loss| lost(loss, start_ns)));
    remarks.extend(outcome.lost.iter().filter_map(|loss| ended(loss, start_ns)));
    remarks.extend(uncertain(outcome));
    remarks.extend(unanswered(outcome));
    if outcome.unwritten > 0 {
        let count = number::counted(outcome.unwritten, "record or event", "records and events");
        remarks.push(format!("{count} arrived and could not be stored: anything may lack them"));
    }
    for late in &outcome.late {
        remarks.push(format!(
            "{}: {} came late and have a later time than their own, by up to {}: what is said of that time may be wrong",
            late.domain,
            number::counted(late.events, "event", "events"),
            number::span(late.most_ns),
        ));
    }
    for (guest, check) in &outcome.outside {
        remarks.push(format!(
            "{guest}: {} of {} happened while the vCPU was outside the guest: its CPUs are not the vCPUs that they are \
             taken for, or its clock is wrong; what is said of its vCPUs is not to be trusted",
            number::count(check.outside),
            number::counted(check.events, "event", "events"),
        ));
    }
    remarks
}

/// That transactions between two places are left out, if any are.
pub fn uncertain(outcome: &Outcome) -> Option<String> {
    let skipped = number::counted(outcome.uncertain, "transaction is", "transactions are");
    let why = "events were lost between the two places, which may have told of either";
    (outcome.uncertain > 0).then(|| format!("{skipped} left out: {why}"))
}

/// That requests by datagrams have no answer, if any have none.
pub fn unanswered(outcome: &Outcome) -> Option<String> {
    let have = number::counted(outcome.unanswered, "UDP request has", "UDP requests have");
    let why = "the datagram was lost, nobody answered, or not before the recording ended";
    (outcome.unanswered > 0).then(|| format!("{have} no answer, and no place among the transactions: {why}"))
}

/// The remarks as text: all of them, or the first of those that were not told when it was recorded.
pub fn text(outcome: &Outcome, manifest: &Manifest, all: bool, view: View) -> String {
    let remarks = if all { remarks(outcome, manifest) } else { of_outcome(outcome, manifest).collect() };
    lines(remarks, all, view)
}

/// The remarks as text, without the requests that could not be used: [`variation::headline`](crate::variation::headline) has
/// these.
pub fn text_of_recording(outcome: &Outcome, manifest: &Manifest, all: bool, view: View) -> String {
    lines(of_recording(outcome, manifest), all, view)
}

/// What the recorder took as text, of a trace that is told as a whole.
pub fn text_of_recorder(of: &RecorderUse, view: View) -> String {
    lines(recorder(of).into_iter().collect(), true, view)
}

fn lines(mut remarks: Vec<String>, all: bool, view: View) -> String {
    if !all && remarks.len() > SHOWN {
        let more = remarks.len() - SHOWN;
        remarks.truncate(SHOWN);
        remarks.push(format!("and {}: --all", number::counted(more as u64, "more remark", "more remarks")));
    }
    let (on, off) = if view.color { ("\x1b[33m", "\x1b[0m") } else { ("", "") };
    remarks.into_iter().map(|remark| format!("{on}! {remark}{off}\n")).collect()
}

fn lost(loss: &LossOfDomain, start_ns: i64) -> String {
    let mut parts: Vec<String> =
        loss.cpus.iter().take(CPUS).map(|(cpu, of_cpu)| on_cpu(*cpu, of_cpu, start_ns)).collect();
    if let Some(others) = loss.cpus.get(CPUS..).filter(|others| !others.is_empty()) {
        let events = others.iter().map(|(_, of_cpu)| of_cpu.events).fold(0, u64::saturating_add);
        parts.push(format!("{} on {} other CPUs", number::count(events), others.len()));
    }
    if loss.untimed > 0 {
        parts.push(format!("{} at unknown times", number::count(loss.untimed)));
    }
    let consequence = match (loss.cpus.is_empty(), loss.untimed > 0) {
        (false, false) => "what they may have told of is unknown",
        (false, true) => "what the former may have told of is unknown, and anything may lack the latter",
        (true, _) => "anything may lack them",
    };
    let events = number::counted(loss.events, "event was lost", "events were lost");
    format!("{}: {events} ({}): {consequence}", loss.domain, parts.join("; "))
}

/// That a domain was recorded no more, though others were.
fn ended(loss: &LossOfDomain, start_ns: i64) -> Option<String> {
    let unknown = loss.ended?;
    let (last, less) = (second(unknown.from, start_ns), number::span(unknown.duration_ns()));
    Some(format!(
        "{}: its last event is at {last} s, {less} before the recording's end: nothing is known of it from then on",
        loss.domain
    ))
}

/// A time since the recording's begin, in seconds.
fn second(ns: i64, start_ns: i64) -> String {
    format!("{:.6}", ns.saturating_sub(start_ns) as f64 / 1e9)
}

fn on_cpu(cpu: u32, loss: &LossOfCpu, start_ns: i64) -> String {
    let events = match loss.events {
        0 => "not counted".to_owned(),
        events => number::count(events),
    };
    let gaps = number::counted(loss.gaps, "gap", "gaps");
    let (from, to, all) =
        (second(loss.from_ns, start_ns), second(loss.to_ns, start_ns), number::span(loss.ns));
    format!("CPU {cpu}: {events} in {gaps} of {all} together, between {from} s and {to} s")
}
