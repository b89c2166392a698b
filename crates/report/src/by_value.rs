//! Flows by a stored value.

use xweave_flow::by_value::{Group, Groups};

use crate::{View, number, segments::with_bars, table::Heading, words::places::flow_place};

/// Columns from which on the time of whole flows has one.
const WIDE: u16 = 100;

/// A row for each value and place in which it was stored: how many flows were there for how long. At most so many.
pub fn table(of: &Groups, name: &str, most: usize, view: View) -> String {
    let is_wide = view.width >= WIDE;
    let mut headings = vec![
        Heading(name, true),
        Heading("Domain", false),
        Heading("Where", false),
        Heading("Flows", true),
        Heading("typical (µs)", true),
        Heading("p99 (µs)", true),
    ];
    if is_wide {
        headings.push(Heading("whole flow (µs)", true));
    }
    headings.push(Heading("Share", false));
    let row = |group: &Group| {
        let stay = &group.stay;
        let mut row = vec![
            group.value.to_string(),
            stay.place.domain().to_owned(),
            flow_place(&stay.place).to_string(),
        ];
        row.push(number::count(stay.flows));
        row.extend([stay.p50_ns, stay.p99_ns].map(number::micros));
        if is_wide {
            row.push(number::micros(group.flow_p50_ns));
        }
        (row, stay.share)
    };
    let mut text = with_bars(&headings, of.groups.iter().take(most).map(row), view);
    let left = of.groups.len().saturating_sub(most);
    if left > 0 {
        let left = number::counted(left as u64, "other group", "other groups");
        text.push_str(&format!("… and {left}: --all shows them\n"));
    }
    if of.ungrouped > 0 {
        let flows = number::counted(of.ungrouped, "flow", "flows");
        text.push_str(&format!("… and {flows} with more values than are told apart\n"));
    }
    text
}
