//! Why response time varies: what to know first, then the segments and the causes.

use std::cmp::Reverse;

use xweave_vary::{
    settings::Setting,
    variation::{Found, LITTLE, QUICK, Segment, Times, Variation},
};

use crate::{
    View,
    folded::{self, Column},
    number,
    table::{self, Heading},
    words::{objects, places, unused::unused, variation as words},
};

/// Causes that the first lines are about, and that the table has if not all are wanted.
const FIRST: usize = 3;
const CAUSES: usize = 8;

/// A segment, a cause or who is behind it, of a smaller share is not told one by one.
const TELLING: f64 = 0.01;

/// Names of who did it.
const OFFENDERS: usize = 4;

/// The answer, in about ten lines: what varies, how much of it, why, what to try, and what that would gain.
pub fn headline(of: &Variation, what: &str, view: View) -> String {
    let mut text: String = said(of, what).iter().map(|said| table::paragraph(said, view)).collect();
    for (nth, found) in (1..).zip(named(of)) {
        text += &format!("\n{}", first(nth, found, of.times, view));
    }
    text
}

/// The causes that the first lines are about.
fn named(of: &Variation) -> impl Iterator<Item = &Found> {
    of.causes.iter().filter(|found| found.named).take(FIRST)
}

/// What is said before the causes: how long requests take, and where they vary most.
pub(crate) fn said(of: &Variation, what: &str) -> Vec<String> {
    let Times { p50_ns, p99_ns, .. } = of.times;
    let requests = number::counted(of.requests, "request", "requests");
    let times = p99_ns as f64 / p50_ns.max(1) as f64;
    let half = format!("{requests} ({what}): half take at most {}", number::span(p50_ns));
    // Of fewer than a hundred, the 99th percentile is the slowest.
    let most = match of.kept {
        ..100 => format!("the slowest takes {}", number::span(p99_ns)),
        _ => format!("one in a hundred takes {} or more", number::span(p99_ns)),
    };
    let mut said = vec![format!("{half}, {most} ({times:.1} times as long).")];
    if let Some(unused) = unused(&of.outcome.unused) {
        said[0] += &format!(" {unused}.");
    }
    if of.kept < of.requests {
        said.push(format!("Looked at: {} of them, evenly spread.", number::count(of.kept)));
    }
    if let Some(startup) = of.startup {
        said.push(format!(
            "The first {} took longer ({} typically, for {}): a slow start. What follows is about the requests after it.",
            number::counted(startup.requests, "request", "requests"),
            number::span(startup.p50_ns),
            number::span(startup.ns)
        ));
    }
    if of.quicker * QUICK as u64 > of.looked_at() {
        said.push(words::quicker(of.quicker, of.looked_at()).to_string());
    }
    if of.steady {
        said.push(words::steady(p99_ns as f64 > LITTLE * p50_ns as f64).to_string());
    } else if named(of).next().is_none() {
        let largest = of.causes.iter().filter(|found| found.shares.is_large());
        let largest = largest
            .max_by(|one, other| one.shares.share_of_variance.total_cmp(&other.shares.share_of_variance));
        said.push(words::none_named(largest, of.looked_at()).to_string());
    }
    if let Some(widest) = widest(of).filter(|_| !of.steady) {
        said.push(words::widest(widest, of.looked_at()).to_string());
    }
    said
}

/// The segment with the largest share: a sure one, if there is any.
fn widest(of: &Variation) -> Option<&Segment> {
    let most = |sure: bool| {
        let all = of.segments.iter().filter(|segment| !sure || segment.shares.is_sure_of_variance());
        all.max_by(|one, other| one.shares.share_of_variance.total_cmp(&other.shares.share_of_variance))
    };
    most(true).or_else(|| most(false))
}

/// One of the first causes: what it is, who did it, what to try, and what that would gain.
fn first(nth: usize, found: &Found, times: Times, view: View) -> String {
    let by = because_of(found);
    let inside = |at| format!(" {}", words::mostly_at(at, found.share_of_segment));
    let inside = found.segment.as_ref().map_or_else(String::new, inside);
    let share = |share: f64, bounds: [f64; 2]| {
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        format!("{} % ({} to {})", percent(share), percent(bounds[0]), percent(bounds[1]))
    };
    let evidence: Vec<_> =
        found.evidence.iter().map(|evidence| words::evidence(evidence).to_string()).collect();
    let mut lines = vec![
        format!("{nth}. {}{by}.{inside}", words::cause(&found.cause)),
        format!(
            "Share of the variance {}, of the tail {}; {}.",
            share(found.shares.share_of_variance, found.shares.variance_bounds),
            share(found.shares.share_of_tail, found.shares.tail_bounds),
            evidence.join("; ")
        ),
    ];
    if let Some(remedy) = found.remedy {
        lines.push(format!("Try: {}.", words::remedy(remedy)));
        lines.extend(words::gain(found.gain, times).map(|gain| gain.to_string()));
    }
    let narrower = View { width: view.width.saturating_sub(3), ..view };
    let mut text = String::new();
    for line in lines {
        for line in table::paragraph(&line, narrower).lines() {
            text += if text.is_empty() { "" } else { "   " };
            text += &format!("{line}\n");
        }
    }
    text
}

/// Who did most of it: `, because of nginx`; empty if that is not known, or is no part of it worth telling.
pub(crate) fn because_of(found: &Found) -> String {
    found.by().map_or_else(String::new, |by| words::because_of(by, found.share_of_first()).to_string())
}

fn gained(ns: i64) -> String {
    if ns > 0 { number::span(ns.unsigned_abs()) } else { "none".to_owned() }
}

/// Where requests were, in turn, and how much of the variation each is; without those that are next to nothing, unless all
/// are wanted.
pub fn segments(of: &Variation, all: bool, view: View) -> String {
    let telling = |segment: &&Segment| all || segment.shares.most() >= TELLING;
    let shown: Vec<&Segment> = of.segments.iter().filter(telling).collect();
    let headings = [
        Heading("Segment", false),
        Heading("p50", true),
        Heading("p99", true),
        Heading("Of tail", true),
        Heading("Of variance", false),
    ];
    let rows = shown.iter().map(|segment| {
        let row = vec![
            places::stretch(&segment.stretch).to_string(),
            number::span(segment.p50_ns),
            number::span(segment.p99_ns),
            number::percent(segment.shares.share_of_tail),
        ];
        (row, segment.shares.share_of_variance.clamp(0.0, 1.0))
    });
    let mut text = crate::segments::with_bars(&headings, rows, view);
    if all {
        text.push('\n');
        text += &spent(&shown, view);
    }
    let left = of.segments.len() - shown.len();
    if left > 0 {
        text += &format!(
            "{} of less than 1 %\n",
            number::counted(left as u64, "other segment", "other segments")
        );
    }
    text
}

/// What the time in segments was spent on.
fn spent(segments: &[&Segment], view: View) -> String {
    let (mut names, mut times, mut on) = (Vec::new(), Vec::new(), Vec::new());
    for segment in segments {
        let all = segment.spent_ns.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        let telling = |(_, ns): &(&&str, &u64)| **ns as f64 >= TELLING / 2.0 * all.max(1) as f64;
        let mut states: Vec<_> = segment.spent_ns.iter().filter(telling).collect();
        states.sort_by_key(|(state, ns)| (Reverse(**ns), **state));
        let said =
            states.iter().map(|(state, ns)| format!("{state} {}", number::percent(**ns as f64 / all as f64)));
        names.push(places::stretch(&segment.stretch).to_string());
        times.push(number::span(all));
        on.push(said.collect::<Vec<_>>().join(", "));
    }
    let about = [Column::names("Segment", names), Column::numbers("In all", times)];
    folded::text(&about, &[Column::prose("Spent on", on)], view)
}

/// In which queues requests found others: those where the slowest found at least half of one more than typical ones did.
pub fn queues(of: &Variation, view: View) -> String {
    let queues = of.segments.iter().filter_map(|segment| Some((segment, segment.others?)));
    let telling = queues.filter(|(_, others)| others.mean_in_tail >= others.mean_typically + 0.5);
    let said = telling.map(|(segment, others)| {
        let text = format!(
            "{}: the slowest found {:.1} others there, typical ones {:.1} (at most {}).",
            places::stretch(&segment.stretch),
            others.mean_in_tail,
            others.mean_typically,
            number::count(others.max)
        );
        table::paragraph(&text, view)
    });
    said.collect()
}

/// What kept requests, the largest share first.
pub fn causes(of: &Variation, all: bool, view: View) -> String {
    let most = if all { usize::MAX } else { CAUSES };
    let telling = |found: &&Found| all || found.shares.most() >= TELLING;
    let shown: Vec<&Found> = of.causes.iter().filter(telling).take(most).collect();
    let cells = |cell: &dyn Fn(&Found) -> String| shown.iter().map(|found| cell(found)).collect::<Vec<_>>();
    let about = [
        Column::numbers("Of variance", cells(&|found| number::percent(found.shares.share_of_variance))),
        Column::numbers("Of tail", cells(&|found| number::percent(found.shares.share_of_tail))),
        Column::numbers("Gain at p99", cells(&|found| gained(found.gain.p99_ns))),
        Column::numbers("In", cells(&|found| number::count(found.requests))),
    ];
    let named = shown.iter().map(|found| found.named).collect();
    let cause = |found: &Found| {
        let share = |ns: u64| ns as f64 / found.ns.max(1) as f64;
        let by = found.offenders.iter().take(OFFENDERS).filter(|by| share(by.ns) >= TELLING);
        let by: Vec<_> = by
            .map(|by| format!("{} {}", objects::offender(&by.who), number::percent(share(by.ns))))
            .collect();
        let cause = words::cause(&found.cause);
        if by.is_empty() { cause.to_string() } else { format!("{cause}: {}", by.join(", ")) }
    };
    let mut text = folded::text(&about, &[Column::prose("Cause", cells(&cause)).strong(named)], view);
    let left = of.causes.len() - shown.len();
    if left > 0 {
        text += &format!("{}: --all\n", number::counted(left as u64, "other cause", "other causes"));
    }
    text
}

/// The settings that cost these requests time, the most first; nothing, if none did.
pub fn settings(of: &Variation, view: View) -> String {
    if of.settings.is_empty() {
        return String::new();
    }
    let cells = |cell: &dyn Fn(&Setting) -> String| of.settings.iter().map(cell).collect::<Vec<_>>();
    let about = [
        Column::numbers("Cost", cells(&|setting| number::span(setting.ns))),
        Column::numbers("In", cells(&|setting| number::count(setting.requests))),
        Column::names("Setting of", cells(&|setting| setting.domain.clone())),
    ];
    let said = [
        Column::prose(
            "Setting",
            cells(&|setting| format!("{}: {}", words::setting(setting.what), words::stand(&setting.now))),
        ),
        Column::prose("Try", cells(&|setting| words::setting_remedy(setting).to_string())),
    ];
    format!("Settings that cost these requests time:\n{}", folded::text(&about, &said, view))
}

/// How much of the variance is in spikes.
pub fn spikes(of: &Variation, view: View) -> String {
    table::paragraph(&words::spikes(of.spikes).to_string(), view)
}
