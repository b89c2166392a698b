//! What a trace lacks, and what cannot be known because of that: said before anything that is.

use xweave_model::{LossOfCpu, LossOfDomain, Outcome};

use crate::{View, number, words};

/// Of more processors, the sum is told.
const CPUS: usize = 8;

/// What a reader must know before trusting the breakdown, a line each; times are told since `start_ns`. Empty if there
/// is nothing.
pub fn remarks(outcome: &Outcome, start_ns: i64) -> Vec<String> {
    let unused = words::unused::unused(&outcome.unused).map(|unused| unused.to_string());
    of_recording(outcome, start_ns).into_iter().chain(unused).collect()
}

/// The same without the requests that could not be used, for what says that itself.
fn of_recording(outcome: &Outcome, start_ns: i64) -> Vec<String> {
    let mut remarks = Vec::new();
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

/// The remarks as text.
pub fn text(outcome: &Outcome, start_ns: i64, view: View) -> String {
    lines(remarks(outcome, start_ns), view)
}

/// The remarks as text, without the requests that could not be used: [`variation::headline`](crate::variation::headline) has
/// these.
pub fn text_of_recording(outcome: &Outcome, start_ns: i64, view: View) -> String {
    lines(of_recording(outcome, start_ns), view)
}

fn lines(remarks: Vec<String>, view: View) -> String {
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
