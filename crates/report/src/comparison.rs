//! Two traces side by side: what explains the difference, and the figures of the objects that changed.

use std::cmp::Reverse;

use xweave_model::{
    Comparison, UsageKind,
    comparison::{Compared, FACTOR, Finding, LEAST_NS, SHARE},
    recorded::LeftOut,
};

use crate::{
    View,
    folded::{self, Column},
    number, table,
    words::{changes, objects},
};

/// What shares mean.
const OVERLAP: &str = "\n≤: at most so much of the difference. Objects work at the same time: the shares\n\
                       overlap and do not add up.\n";

/// Findings that are told, and objects that are shown, unless all are asked for: what is read at once.
const FINDINGS: usize = 6;
const OBJECTS: usize = 8;

/// What took longer, and what explains that: first what worked more or less, then what waited.
pub fn findings(comparison: &Comparison, which: Which, view: View) -> String {
    let mut text = headline(comparison);
    for left in &comparison.left_out {
        text.push_str(&left_out(left));
    }
    if comparison.findings.is_empty() {
        let nothing = format!(
            "No object changed beyond noise: by a factor of {FACTOR}, {:.0} % of the longer run and {}.",
            100.0 * SHARE,
            number::span(LEAST_NS)
        );
        return format!("{text}\n{}", table::paragraph(&nothing, view));
    }
    let (waits, work): (Vec<_>, Vec<_>) = comparison.findings.iter().partition(|finding| finding.may_be_idle);
    let (most, most_waits) = if which.all { (usize::MAX, usize::MAX) } else { (FINDINGS, FINDINGS / 2) };
    if !work.is_empty() {
        text.push_str(&format!("\n{}", table_of_changes(comparison, &work, most, view)));
        if comparison.took_longer() {
            text.push_str(OVERLAP);
        }
    }
    if !waits.is_empty() {
        text.push_str("\nWaits, which may be idle time or follow from something else:\n\n");
        text.push_str(&table_of_changes(comparison, &waits, most_waits, view));
    }
    text
}

/// The difference in one line.
pub(crate) fn headline(comparison: &Comparison) -> String {
    let [events_a, events_b] = comparison.events.map(number::count);
    format!("{}; events: {events_a} → {events_b}\n", longer(comparison))
}

/// Which took how much longer.
pub(crate) fn longer(comparison: &Comparison) -> String {
    let [a, b] = comparison.span_ns.map(number::span);
    let by = number::span(comparison.difference_ns.unsigned_abs());
    match comparison.difference_ns {
        _ if !comparison.took_longer() => format!("both took as long: {a} → {b}"),
        0.. => format!("second took {by} longer: {a} → {b}"),
        _ => format!("second took {by} less: {a} → {b}"),
    }
}

/// What is not compared, and why.
fn left_out(left: &LeftOut) -> String {
    let what = match left.events {
        "sched" => "processes, locks and interrupts",
        "block" => "disks",
        "net" => "peers and services",
        _ => "vCPUs and exits",
    };
    format!("{}: {what} are not compared\n", lacks(left))
}

/// Which of two runs lacks which events.
pub(crate) fn lacks(left: &LeftOut) -> String {
    let which = ["first", "second"][left.missing_in.min(1)];
    let of = if left.everywhere { String::new() } else { format!(" of {}", left.domains.join(", ")) };
    format!("{which} has no {} events{of}", left.events)
}

fn table_of_changes(comparison: &Comparison, findings: &[&Finding], most: usize, view: View) -> String {
    let (findings, left) = findings.split_at(findings.len().min(most));
    let column = |of: fn(&Finding) -> String| findings.iter().map(|finding| of(finding)).collect();
    let mut about = vec![Column::numbers("Change", column(change))];
    if comparison.took_longer() && findings.iter().any(|finding| !finding.may_be_idle) {
        let shares = findings.iter().map(|finding| share(finding.explained_ns, comparison.difference_ns));
        about.push(Column::numbers("Explains", shares.collect()));
    }
    about.push(Column::names("Domain", column(|finding| finding.domain.clone())));
    let texts = column(|finding| table::unbroken(&changes::finding(finding).to_string()));
    let mut text = folded::text(&about, &[Column::prose("What changed, first to second", texts)], view);
    if !left.is_empty() {
        let changes = number::counted(left.len() as u64, "smaller change", "smaller changes");
        text.push_str(&format!("… and {changes}: --all lists them\n"));
    }
    text
}

fn change(finding: &Finding) -> String {
    let sign = if finding.changed_ns < 0 { '-' } else { '+' };
    format!("{sign}{}", number::span(finding.changed_ns.unsigned_abs()))
}

/// At most so much of the difference; of what changed the other way, nothing.
fn share(explained_ns: i64, difference_ns: i64) -> String {
    if explained_ns == 0 {
        return "–".to_owned();
    }
    format!("≤ {}", number::percent(explained_ns as f64 / difference_ns as f64))
}

/// A pair of figures: what it is called, and what it says of an object, first and second.
type Pair = (&'static str, fn(&Compared) -> [Shown; 2]);

/// A figure, and how it is shown.
struct Shown(f64, String);

/// The kinds of objects, with what is told of each.
const KINDS: [(UsageKind, &str, &[Pair]); 10] = {
    const BUSY: Pair = ("busy", |of| times(of.time_ns));
    const COUNT: fn(&Compared) -> [Shown; 2] = |of| of.count.map(|n| Shown(n as f64, number::count(n)));
    const DATA: Pair = ("data", |of| of.bytes.map(size));
    const MEAN: Pair = ("data each", |of| each(of.bytes, of.count).map(size));
    const QUEUED: Pair = ("in queue each", |of| times(each(of.wait_ns, of.count)));
    const DEVICE: Pair = ("in disk each", |of| times(each(of.device_ns, of.count)));
    const SEEK: Pair = ("apart", |of| each(of.seek_bytes, of.count).map(size));
    const WAITED: Pair = ("waited", |of| times(of.wait_ns));
    [
        (UsageKind::Disk, "Disks", &[BUSY, ("requests", COUNT), DATA, MEAN, QUEUED, DEVICE, SEEK]),
        (
            UsageKind::DiskUser,
            "Disks, by who uses them",
            &[BUSY, ("requests", COUNT), DATA, MEAN, QUEUED, DEVICE],
        ),
        (
            UsageKind::Process,
            "Processes",
            &[("running", |of| times(of.time_ns)), ("ready", |of| times(of.wait_ns)), ("switched in", COUNT)],
        ),
        (UsageKind::Peer, "Peers", &[WAITED, ("messages", COUNT), DATA]),
        (UsageKind::Service, "Services", &[("messages", COUNT), DATA]),
        (
            UsageKind::Qdisc,
            "Queueing disciplines",
            &[
                ("held frames", |of| times(of.time_ns)),
                ("frames", COUNT),
                ("each for", |of| times(each(of.wait_ns, of.count))),
            ],
        ),
        (UsageKind::Lock, "Futexes and locks", &[WAITED, ("waits", COUNT)]),
        (UsageKind::Interrupt, "Interrupts", &[("time", |of| times(of.time_ns)), ("count", COUNT)]),
        (
            UsageKind::Vcpu,
            "vCPUs",
            &[("in the guest", |of| times(of.time_ns)), ("halted", |of| times(of.wait_ns)), ("exits", COUNT)],
        ),
        (UsageKind::Exit, "Exits", &[("outside", |of| times(of.time_ns)), ("count", COUNT)]),
    ]
};

/// Which objects are shown, and how many findings.
#[derive(Clone, Copy, Debug)]
pub struct Which {
    /// At most so many of each kind; if that is not said, as many as are read at once, of whatever kind.
    pub limit: Option<usize>,
    /// Also those that did not change.
    pub all: bool,
}

impl Which {
    /// Those of these objects that are shown, which are ordered by how much they differ.
    fn chosen<'a>(self, objects: &[&'a Compared]) -> Vec<&'a Compared> {
        let Some(limit) = self.limit else {
            return objects.iter().copied().take(if self.all { usize::MAX } else { OBJECTS }).collect();
        };
        let of_kind =
            |kind| objects.iter().copied().filter(move |object| object.key.kind() == kind).take(limit);
        KINDS.iter().flat_map(|(kind, ..)| of_kind(*kind)).collect()
    }
}

/// The objects of each kind, those that differ most first; and how many are not shown.
pub fn tables(comparison: &Comparison, which: Which, view: View) -> String {
    let mut text = String::new();
    let (mut compared, same): (Vec<_>, Vec<_>) =
        comparison.objects.iter().partition(|object| which.all || object.changed());
    compared.sort_by_key(|object| Reverse(difference(object)));
    let chosen = which.chosen(&compared);
    for (kind, title, pairs) in KINDS {
        let shown: Vec<_> = chosen.iter().copied().filter(|object| object.key.kind() == kind).collect();
        if shown.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{title}, first → second:\n"));
        let names = |of: fn(&Compared) -> String| shown.iter().map(|object| of(object)).collect();
        let about = [
            Column::names("Domain", names(|object| object.key.domain.clone())),
            Column::names("Object", names(|object| objects::usage(&object.key.object).to_string())),
        ];
        let columns: Vec<_> = pairs.iter().map(|pair| column(pair, &shown)).collect();
        text.push_str(&folded::text(&about, &columns, view));
    }
    let left = compared.len() - chosen.len();
    if left > 0 {
        let others = number::counted(left as u64, "other object", "other objects");
        let how = if which.all { "leave out --limit to list them" } else { "--all lists them" };
        text.push_str(&format!("\n… and {others} that changed less: {how}\n"));
    }
    if !same.is_empty() {
        let objects = number::counted(same.len() as u64, "object", "objects");
        text.push_str(&format!(
            "\n{objects} did not change (no more than {FACTOR} times): --all shows them\n"
        ));
    }
    text
}

/// A pair of figures of all objects; what differs beyond noise is bold.
fn column((heading, figures): &Pair, of: &[&Compared]) -> Column {
    let figures: Vec<_> = of.iter().map(|object| figures(object)).collect();
    let pairs: Vec<_> = figures.iter().map(|pair| pair.each_ref().map(|shown| shown.1.clone())).collect();
    let cells = pairs.iter().zip(folded::arrows(&pairs));
    let cells = cells.map(|([first, second], arrow)| if first == second { first.clone() } else { arrow });
    let differ = figures.iter().map(|[first, second]| first.0.max(second.0) > FACTOR * first.0.min(second.0));
    Column::numbers(*heading, cells.collect()).strong(differ.collect())
}

fn difference(object: &Compared) -> u64 {
    let [a, b] = [0, 1].map(|at| object.time_ns[at].max(object.wait_ns[at]));
    a.abs_diff(b).max(object.count[0].abs_diff(object.count[1]))
}

fn times(pair: [u64; 2]) -> [Shown; 2] {
    pair.map(|ns| Shown(ns as f64, number::span(ns)))
}

fn size(bytes: u64) -> Shown {
    Shown(bytes as f64, xweave_text::size(bytes as f64))
}

fn each(sums: [u64; 2], counts: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|at| sums[at] / counts[at].max(1))
}
