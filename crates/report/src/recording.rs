//! How a recording went.

use std::collections::BTreeMap;

use xweave_record::Outcome;
use xweave_trace::{ClockBreak, Loss, Trace};

use crate::{next, number};

/// What was recorded of whom, and how much is missing; and what to do next with the trace, if it can be read.
pub fn closing(outcome: &Outcome, recorded_in: Option<&Trace>) -> String {
    let manifest = &outcome.manifest;
    let names: Vec<_> = manifest.domains.iter().map(|domain| domain.name.as_str()).collect();
    let (names, trace, lost) = (names.join(", "), outcome.trace.display(), manifest.lost);
    let least = if manifest.loss.uncounted.is_empty() { "" } else { "at least " };
    let mut text = format!("{} of {names} in {trace}; {least}{lost} lost\n", recorded(outcome));
    for command in recorded_in.map(next::commands).unwrap_or_default() {
        text.push_str(&format!("next: {command}\n"));
    }
    text
}

/// How much of what was asked for.
fn recorded(outcome: &Outcome) -> String {
    let (records, events) = (outcome.manifest.records, outcome.manifest.events);
    match (outcome.sites, events) {
        (_, 0) => format!("{records} records"),
        (0, _) => format!("{events} events"),
        _ => format!("{records} records and {events} events"),
    }
}

/// What was not known of a recording before it had ended: what is missing of it, and when its clocks were off. The trace
/// says which clause a site is of; without it, reads that failed are not told.
pub fn notes(outcome: &Outcome, trace: Option<&Trace>) -> Vec<String> {
    let manifest = &outcome.manifest;
    let faults = trace.map(|trace| faults(&manifest.loss, trace)).unwrap_or_default();
    let jumps = manifest.clocks.iter().flat_map(|clock| {
        let told = |jump: &ClockBreak| {
            format!("{}: {}; {}", clock.domain, jump.detail, when(jump, manifest.start_ns))
        };
        clock.breaks.iter().map(told)
    });
    let late = manifest.loss.late.iter().map(|late| {
        let (count, by) = (number::counted(late.events, "event", "events"), number::span(late.most_ns));
        format!("{}: {count} came late and have a later time than their own, by up to {by}", late.domain)
    });
    let untold = manifest.warnings.iter().skip(outcome.told).cloned();
    late.chain(untold).chain(faults).chain(jumps).collect()
}

/// Reads that failed: what was stored of them is 0, and looks like any other value.
fn faults(loss: &Loss, trace: &Trace) -> Vec<String> {
    let mut by_clause: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for site in loss.sites.iter().filter(|site| site.faults > 0) {
        let Some(of) = trace.site(site.site) else { continue };
        *by_clause.entry((&of.domain, &of.advice)).or_default() += site.faults;
    }
    let told = by_clause.into_iter().map(|((domain, clause), count)| {
        format!("{domain}: {count} reads of {clause} met memory that is not there and gave 0")
    });
    told.collect()
}

/// When a clock jumped, in seconds of the recording.
fn when(jump: &ClockBreak, start_ns: i64) -> String {
    let second = |ns: i64| format!("{:.3} s", ns.saturating_sub(start_ns) as f64 / 1e9);
    let place = match (jump.after_ns, jump.before_ns) {
        (Some(after), Some(before)) => format!("from {} to {}", second(after), second(before)),
        (None, Some(before)) => format!("up to {}", second(before)),
        (Some(after), None) => format!("from {} on", second(after)),
        (None, None) => "in the whole recording".to_owned(),
    };
    format!("{place} its times are not exact")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_is_told_in_seconds_of_the_recording() {
        let jump = |after_ns, before_ns| ClockBreak { after_ns, before_ns, detail: String::new() };
        let told = when(&jump(Some(3_500_000_000), Some(4_000_000_000)), 1_000_000_000);
        assert_eq!(told, "from 2.500 s to 3.000 s its times are not exact");
        assert!(when(&jump(Some(3_500_000_000), None), 1_000_000_000).starts_with("from 2.500 s on"));
        assert!(when(&jump(None, Some(i64::MAX)), i64::MIN).starts_with("up to"));
    }
}
