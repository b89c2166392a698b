//! What was followed, and what is missing: never left unsaid.

use xweave_flow::{Summary, summary::DropCount};
use xweave_wire::record::XEN_DOMAIN;

use crate::{View, message, number, table};

/// Reasons for which flows were dropped that are told one by one: a kernel has some hundred.
const REASONS: usize = 8;

/// The closing line; more lines where something is missing or wrong.
pub fn line(summary: &Summary, view: View) -> String {
    let followed = format!(
        "{} followed, {} complete, {} crossed; {} ({}{} lost); {}; clocks within {}",
        number::counted(summary.flows, "flow", "flows"),
        number::count(summary.complete),
        number::count(summary.crossed),
        number::counted(summary.records, "record", "records"),
        if summary.uncounted_sites > 0 { "at least " } else { "" },
        number::count(summary.lost),
        number::counted(summary.negative_gaps, "negative gap", "negative gaps"),
        match summary.clock_error_ns {
            u64::MAX => "an unknown error".to_owned(),
            error => number::span(error),
        },
    );
    let mut text = String::new();
    if let Some(normal) = began_elsewhere(summary) {
        text.push_str(&format!("{normal}\n"));
    }
    for remark in remarks(summary) {
        let (on, off) = if view.color { ("\x1b[33m", "\x1b[0m") } else { ("", "") };
        text.push_str(&format!("{on}! {remark}{off}\n"));
    }
    let told = text.lines().map(|line| message::fitted(line, view.width) + "\n");
    std::iter::once(table::paragraph(&followed, view)).chain(told).collect()
}

/// That a recording has no end: until when something of it was stored, in nanoseconds since 1970.
pub fn unfinished(stored_until_ns: Option<u64>) -> String {
    let what = match stored_until_ns {
        None => "nothing was stored yet".to_owned(),
        Some(ns) => format!("what was stored until {} UTC is shown", number::time_of_day(ns)),
    };
    format!("the recording was killed, or is still running: {what}")
}

/// Kinds of frame that are named.
const KINDS: usize = 3;

/// Frames that came from machines that are not recorded; that is no fault.
pub fn began_elsewhere(summary: &Summary) -> Option<String> {
    let flows = summary.began_elsewhere();
    let kinds: Vec<&str> = summary.elsewhere.iter().take(KINDS).map(|of| of.kind.as_str()).collect();
    let more = if summary.elsewhere.len() > KINDS { ", …" } else { "" };
    let flows = (flows > 0).then(|| number::counted(flows, "flow", "flows"))?;
    let kinds = kinds.join(", ");
    Some(format!("{flows} began elsewhere ({kinds}{more}): normal, their senders are not recorded"))
}

/// What a reader must know before trusting the numbers; empty if there is nothing.
pub fn remarks(summary: &Summary) -> Vec<String> {
    let mut remarks = Vec::new();
    let reasons = summary.incomplete;
    let elsewhere = summary.began_elsewhere();
    let incomplete = (summary.flows - summary.complete).saturating_sub(elsewhere);
    if incomplete > 0 {
        let causes = [
            (reasons.lost, "lost records"),
            (reasons.no_start.saturating_sub(elsewhere), "have no start"),
            (reasons.unmatched, "were not seen to arrive"),
            (reasons.dropped, "were dropped"),
            (reasons.no_end, "have no end"),
        ];
        let causes: Vec<String> = causes
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, cause)| format!("{} {cause}", number::count(*n)))
            .collect();
        let flows = number::counted(incomplete, "incomplete flow", "incomplete flows");
        remarks.push(format!("{flows}: {}", causes.join(", ")));
    }
    if !summary.dropped.is_empty() {
        let reason = |of: &DropCount| format!("{} {}", number::count(of.flows), of.reason);
        let mut reasons: Vec<String> = summary.dropped.iter().take(REASONS).map(reason).collect();
        let others: u64 = summary.dropped.iter().skip(REASONS).map(|of| of.flows).sum();
        if others > 0 {
            reasons.push(format!("{} for other reasons", number::count(others)));
        }
        remarks.push(format!("dropped by the kernel: {}", reasons.join(", ")));
    }
    for carrier in &summary.carriers {
        // What strangers put on is taken off only.
        let only_off = carrier.unmatched_xout.saturating_sub(carrier.strangers);
        if carrier.unmatched_xin > 0 || only_off > 0 {
            remarks.push(format!(
                "carrier {}: {} joined; {} only put on (xin), {} only taken off (xout)",
                carrier.carrier,
                number::count(carrier.crossings),
                number::count(carrier.unmatched_xin),
                number::count(only_off),
            ));
        }
    }
    let refused: u64 = summary.carriers.iter().map(|carrier| carrier.refused).sum();
    if refused > 0 {
        let keys = number::counted(refused, "pair of equal keys was", "pairs of equal keys were");
        remarks.push(format!("{keys} not joined: the ring's index had come round between them"));
    }
    if summary.negative_gaps > 0 {
        let gaps = number::counted(summary.negative_gaps, "crossing contradicts", "crossings contradict");
        remarks.push(format!("{gaps} causality: the clocks err by more than they say"));
    }
    if summary.clock_breaks > 0 {
        let breaks = number::counted(summary.clock_breaks, "clock break", "clock breaks");
        remarks.push(format!(
            "{breaks}: a domain was paused, migrated, or its TSC written; its times there are not exact"
        ));
    }
    for found in &summary.found {
        let peer = match found.pid.checked_sub(XEN_DOMAIN) {
            Some(domid) => format!("domain {domid} of Xen"),
            None => format!("process {}", found.pid),
        };
        remarks.push(format!(
            "{} is taken for {peer}: {} of its rings agree ({} of the next best)",
            found.domain,
            number::counted(found.keys, "key", "keys"),
            number::count(found.next_best),
        ));
    }
    if summary.set_down > 0 {
        let n = number::counted(summary.set_down, "flow was", "flows were");
        remarks.push(format!(
            "{n} under way beside more than memory should hold: what came of them later is told as flows of its own"
        ));
    }
    if summary.overwritten > 0 {
        let n = number::counted(summary.overwritten, "flow", "flows");
        remarks.push(format!("{n} ended where no site is: their memory was used again, for other data"));
    }
    if summary.lost_unattributed > 0 {
        let n = number::counted(summary.lost_unattributed, "lost record", "lost records");
        remarks.push(format!("{n} of unknown flows: any flow may miss one"));
    }
    if summary.uncounted_sites > 0 {
        let sites = number::counted(summary.uncounted_sites, "site", "sites");
        remarks.push(format!(
            "what the kernel skipped at {sites} cannot be counted (before 6.8): flows may lack steps there"
        ));
    }
    if !summary.recording_complete {
        remarks.push(unfinished(summary.stored_until_ns));
    }
    remarks.extend(summary.damaged.iter().cloned());
    if summary.unreadable > 0 {
        let n = number::counted(summary.unreadable, "record", "records");
        remarks.push(format!("{n} could not be read"));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use xweave_flow::{KindCount, crossing::CarrierCounts};

    use super::*;

    #[test]
    fn strangers_on_one_carrier_hide_nothing_of_another() {
        let carrier = |name: &str, unmatched_xout, strangers| CarrierCounts {
            carrier: name.to_owned(),
            crossings: 9,
            unmatched_xout,
            strangers,
            ..CarrierCounts::default()
        };
        let carriers = vec![carrier("virtio_net", 30, 30), carrier("virtio_blk", 2, 0), carrier("xen", 5, 4)];
        let elsewhere = vec![KindCount { kind: "ARP".to_owned(), flows: 34 }];
        let summary = Summary { carriers, elsewhere, recording_complete: true, ..Summary::default() };
        let expected = [
            "carrier virtio_blk: 9 joined; 0 only put on (xin), 2 only taken off (xout)",
            "carrier xen: 9 joined; 0 only put on (xin), 1 only taken off (xout)",
        ];
        assert_eq!(remarks(&summary), expected);
    }
}
