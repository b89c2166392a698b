//! What a flow was cut off, what was cut off it, and what that was put together to.

use xweave_flow::{Flow, ancestry::Origin};

use crate::{
    View, number,
    table::{self, Heading},
};

/// Lines that are shown.
const LINES: usize = 40;

/// A family, with times since its first flow began; `own` is the flow that was asked for. Of many, those next to it.
pub fn table(family: &[(&Flow, Origin)], own: u64, view: View) -> String {
    let headings = [
        Heading("Began (µs)", true),
        Heading("Ended (µs)", true),
        Heading("Flow", true),
        Heading("Cut, and put together", false),
    ];
    let mut table = table::new(&headings, view);
    let begun = family.iter().map(|(flow, _)| flow.start_ns).min().unwrap_or(0);
    let since = |ns: i64| number::micros(ns.saturating_sub(begun));
    let at = family.iter().position(|(flow, _)| flow.id == own).unwrap_or(0);
    let first = at.saturating_sub(LINES / 2).min(family.len().saturating_sub(LINES));
    for (flow, origin) in family.iter().skip(first).take(LINES) {
        let name = if flow.name.is_empty() { "flow" } else { &flow.name };
        let what = flow.frame.map_or_else(|| name.to_owned(), |frame| frame.to_string());
        // Blanks at the beginning would be taken off.
        let mut text = match origin {
            Origin::Root => what,
            Origin::Cut => format!("· {what}"),
            Origin::PutTogether(parts) => format!("· · {what}, put together of {parts}"),
        };
        if flow.id == own {
            text.push_str(" ← this");
        }
        table.add_row([since(flow.start_ns), since(flow.end_ns), format!("{:#x}", flow.id), text]);
    }
    let mut text = table::text(&table);
    let left = family.len().saturating_sub(LINES);
    if left > 0 {
        let left = number::counted(left as u64, "relative", "relatives");
        text.push_str(&format!("… and {left}, {first} of them before these\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use xweave_flow::{Flows, ancestry};
    use xweave_trace::{Domain, Manifest, Trace, Writer};
    use xweave_wire::record::{Kind, Record};

    use super::*;

    /// A flow, so many that are cut off it one after the other, and what is put together of the first two.
    fn flows(parts: u64) -> Flows {
        let dir = tempfile::tempdir().unwrap();
        let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
        let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
        let begin = |id: u64| if id == 0 { (Kind::Start, 0) } else { (Kind::Split, id - 1) };
        let mut records: Vec<(u64, Kind, u64)> =
            (0..=parts).map(|id| (id, begin(id).0, begin(id).1)).collect();
        records.extend([(parts + 1, Kind::Merge, 1), (parts + 1, Kind::Merge, 2)]);
        for (time_ns, (id, kind, parent)) in (0..).zip(records) {
            let (flow, time_ns, comm, values) =
                (1 << 56 | id, time_ns * 1_000, [0; 16], vec![1 << 56 | parent]);
            let record = Record { time_ns, flow, site: 1, pid: 1, tid: 1, cpu: 0, kind, comm, values };
            writer.append(1, i64::try_from(time_ns).unwrap(), &record).unwrap();
        }
        writer.finish().unwrap();
        Flows::of(&Trace::open(dir.path()).unwrap())
    }

    #[test]
    fn a_family_is_shown_with_the_one_that_was_asked_for() {
        let flows = flows(2);
        let text = table(&ancestry::family(flows.flows()), 1 << 56 | 1, View { width: 100, color: false });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[2].ends_with("0x100000000000001  · flow ← this"), "{text}");
        assert!(lines[4].contains("put together of 2"), "{text}");
    }

    #[test]
    fn of_many_relatives_those_next_to_it_are_shown_and_the_others_counted() {
        let flows = flows(200);
        let text = table(&ancestry::family(flows.flows()), 1 << 56 | 100, View { width: 100, color: false });
        assert_eq!(text.lines().count(), LINES + 2, "{text}");
        assert!(
            text.contains("← this") && text.ends_with("… and 162 relatives, 80 of them before these\n"),
            "{text}"
        );
    }
}
