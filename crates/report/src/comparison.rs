//! Two traces side by side: what explains the difference, and each object's figures.

use comfy_table::{Attribute, Cell};
use xweave_model::{
    Comparison,
    comparison::{Compared, FACTOR, LEAST_NS, SHARE},
    usage::kind,
};

use crate::{
    View, number,
    table::{self, Heading},
};

/// What explains the difference, in words.
pub fn findings(comparison: &Comparison, view: View) -> String {
    let [a, b] = comparison.span_ns.map(number::span);
    let [events_a, events_b] = comparison.events.map(|events| number::counted(events, "event", "events"));
    let mut text = format!("first: {a}, {events_a}; second: {b}, {events_b}\n\n");
    if comparison.findings.is_empty() {
        text.push_str(&format!(
            "Nothing differs beyond noise: by a factor of {FACTOR} that explains {:.0} % of the time and {}.\n",
            100.0 * SHARE,
            number::span(LEAST_NS)
        ));
        return text;
    }
    let headings = [Heading("Explains", true), Heading("Domain", false), Heading("Second vs. first", false)];
    let mut table = table::new(&headings, view);
    for finding in &comparison.findings {
        let sign = if finding.explained_ns < 0 { '-' } else { '+' };
        table.add_row([
            format!("{sign}{}", number::span(finding.explained_ns.unsigned_abs())),
            finding.domain.clone(),
            finding.text.clone(),
        ]);
    }
    text.push_str(&table::text(&table));
    text
}

/// A pair of columns: what they are called, and what they say of an object.
type Pair = (&'static str, fn(&Compared) -> [Shown; 2]);

/// A figure, and how it is shown.
struct Shown(f64, String);

/// The objects of each kind, those that differ most first; no more than `limit` of a kind.
pub fn tables(comparison: &Comparison, limit: usize, view: View) -> String {
    const BUSY: Pair = ("busy", |of| times(of.time_ns));
    const COUNT: fn(&Compared) -> [Shown; 2] = |of| of.count.map(|n| Shown(n as f64, number::count(n)));
    const DATA: Pair = ("data", |of| of.bytes.map(size));
    const MEAN: Pair = ("data each", |of| each(of.bytes, of.count).map(size));
    const QUEUED: Pair = ("wait each", |of| times(each(of.wait_ns, of.count)));
    const DEVICE: Pair = ("disk each", |of| times(each(of.device_ns, of.count)));
    const SEEK: Pair = ("seek", |of| each(of.seek_bytes, of.count).map(size));
    let kinds: [(&str, &str, &[Pair]); 9] = [
        (kind::DISK, "Disks", &[BUSY, ("I/Os", COUNT), DATA, MEAN, QUEUED, DEVICE, SEEK]),
        (kind::USE, "Disks, by who uses them", &[BUSY, ("I/Os", COUNT), DATA, MEAN, QUEUED, DEVICE]),
        (
            kind::PROCESS,
            "Processes",
            &[("running", |of| times(of.time_ns)), ("ready", |of| times(of.wait_ns)), ("switched in", COUNT)],
        ),
        (kind::PEER, "Peers", &[("waited", |of| times(of.wait_ns)), ("messages", COUNT), DATA]),
        (kind::SERVICE, "Services", &[("messages", COUNT), DATA]),
        (kind::LOCK, "Locks", &[("waited", |of| times(of.wait_ns)), ("waits", COUNT)]),
        (kind::INTERRUPT, "Interrupts", &[("time", |of| times(of.time_ns)), ("count", COUNT)]),
        (
            kind::VCPU,
            "vCPUs",
            &[("in the guest", |of| times(of.time_ns)), ("halted", |of| times(of.wait_ns)), ("exits", COUNT)],
        ),
        (kind::EXIT, "Exits", &[("outside", |of| times(of.time_ns)), ("count", COUNT)]),
    ];
    let mut text = String::new();
    for (kind, title, pairs) in kinds {
        let mut objects: Vec<_> = comparison.objects.iter().filter(|object| object.kind == kind).collect();
        if objects.is_empty() {
            continue;
        }
        let change = |object: &Compared| {
            let [a, b] = [0, 1].map(|at| object.time_ns[at].max(object.wait_ns[at]));
            a.abs_diff(b).max(object.count[0].abs_diff(object.count[1]))
        };
        objects.sort_by_key(|object| std::cmp::Reverse(change(object)));
        text.push_str(&format!("\n{title}, first → second:\n"));
        text.push_str(&one(&objects[..objects.len().min(limit)], pairs, view));
        if objects.len() > limit {
            text.push_str(&format!("and {} more: --limit {}\n", objects.len() - limit, objects.len()));
        }
    }
    text
}

fn one(objects: &[&Compared], pairs: &[Pair], view: View) -> String {
    let mut headings = vec![Heading("Domain", false), Heading("Object", false)];
    for (name, _) in pairs {
        headings.extend([Heading(name, true), Heading("", true)]);
    }
    let mut table = table::new(&headings, view);
    for object in objects {
        let mut row = vec![Cell::new(&object.domain), Cell::new(&object.object)];
        for (_, figures) in pairs {
            let [a, b] = figures(object);
            let differs = a.0.max(b.0) > FACTOR * a.0.min(b.0);
            let after = Cell::new(b.1);
            let after = if differs && view.color { after.add_attribute(Attribute::Bold) } else { after };
            row.extend([Cell::new(a.1), after]);
        }
        table.add_row(row);
    }
    table::text(&table)
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

#[cfg(test)]
mod tests {
    use xweave_model::{
        Usage,
        usage::{Figures, Key},
    };

    use super::*;

    const VIEW: View = View { width: 160, color: false };

    fn usage(seconds: u64, count: u64) -> Usage {
        let key = Key { kind: kind::DISK, domain: "vm1".into(), object: "disk 254:0".into() };
        let figures =
            Figures { time_ns: seconds * 1_000_000_000, count, bytes: 96 << 20, ..Figures::default() };
        Usage { objects: [(key, figures)].into(), span_ns: seconds * 1_000_000_000, ..Usage::default() }
    }

    #[test]
    fn findings_and_figures_are_side_by_side() {
        let comparison = Comparison::of(&usage(5, 1_000), &usage(60, 12_000));
        let text = findings(&comparison, VIEW);
        let finding = "+55.000 s  vm1     disk 254:0: 12 × the accesses for the same bytes: requests shrank from 98 KiB \
                       to 8.2 KiB";
        assert!(text.contains(finding), "{text}");
        let text = tables(&comparison, 10, VIEW);
        let row = text.lines().find(|line| line.starts_with("vm1")).unwrap_or_default();
        let row: Vec<_> = row.split_whitespace().collect();
        let start =
            ["vm1", "disk", "254:0", "5.000", "s", "60.000", "s", "1", "000", "12", "000", "96", "MiB"];
        assert_eq!(row[..start.len()], start, "{text}");
    }

    #[test]
    fn that_nothing_differs_is_said() {
        let same = usage(5, 1_000);
        let text = findings(&Comparison::of(&same, &same), VIEW);
        assert!(
            text.contains("Nothing differs beyond noise: by a factor of 1.25 that explains 1 %"),
            "{text}"
        );
    }
}
