//! What `xweave flows` looks like in a narrow terminal and where there is room, text by text: `tests/look/`.

mod made_up;

use std::{fs, path::Path};

use xweave_flow::{Flows, Join, Wanted, by_value};
use xweave_report::{View, by_value as grouped, closing, hops, hops::Steps, places};

/// That a text is the one in that file, and that its lines fit.
fn assert_looks(text: &str, name: &str, view: View) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/look/{name}-{}.txt", view.width));
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(text == expected, "{} should be:\n{text}", file.display());
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= usize::from(view.width)), "{widest:?} columns:\n{text}");
}

fn views() -> [View; 2] {
    [80, 160].map(|width| View { width, color: false })
}

#[test]
fn first_where_the_time_goes_then_a_typical_flow_with_the_time_of_each_step() {
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&made_up::write(dir.path(), 100, false));
    let flow = flows.typical().unwrap();
    let kind = flows.kind_of(flow).unwrap();
    let of_kind = flows.places_of(kind);
    for view in views() {
        let head = places::headline(kind, of_kind);
        let places = places::table(of_kind, view);
        let hops = hops::table(&flows, flow, Steps::OfPath, view);
        let closing = closing::line(flows.summary(), view);
        // Of one line, which no terminal's width changes.
        let closing = closing.lines().skip(1).collect::<String>();
        assert_looks(&format!("{head}\n{places}\n{hops}"), "flows", view);
        assert!(closing.contains("14 incomplete flows"), "{closing}");
    }
}

#[test]
fn groups_by_a_stored_value_fit_too() {
    let dir = tempfile::tempdir().unwrap();
    let trace = made_up::write(dir.path(), 20, false);
    let wanted = Wanted { of: &|_| true, kept: Some(0) };
    let (_, groups) = by_value::read(&trace, Join::of(&trace), wanted, "v1");
    for view in views() {
        assert_looks(&grouped::table(&groups, "v1", 4, view), "by-value", view);
    }
}
