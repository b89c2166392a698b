//! What costs how much, as a terminal of 80 and one of 160 columns shows it.

use std::collections::BTreeMap;

use xweave_cost::{
    Comparison, Environment, Measured,
    comparison::{Method, Row},
    forms,
    line::Kind,
    measured::{Outcome, Spread},
    tables,
};
use xweave_report::View;

fn cost(form: &str, kind: Kind, cycles: f64) -> ((usize, Kind), Outcome) {
    let spread = Spread {
        min: cycles,
        q1: cycles,
        median: cycles,
        q3: cycles,
        max: cycles,
        mean: cycles,
        ticks: cycles,
        rounds: 61,
        outliers: 0,
        discarded: 0,
    };
    let form = forms().iter().position(|one| one.name == form).expect("a form of that name");
    ((form, kind), Outcome::Cost(spread))
}

fn measured<const N: usize>(environment: Environment, outcomes: [((usize, Kind), Outcome); N]) -> Measured {
    Measured {
        environment,
        how: String::new(),
        emulated: false,
        ticks_per_cycle: 1.0,
        seconds: 1.0,
        boots: 1,
        given_up: None,
        damaged: 0,
        outcomes: outcomes.into(),
        counted: BTreeMap::default(),
    }
}

/// A guest that does most as its machine does; one instruction more slowly, one faster than is possible.
fn comparison() -> Comparison {
    let native = measured(
        Environment::Native,
        [
            cost("add r64, r64", Kind::Latency, 0.99),
            cost("add r64, r64", Kind::Throughput, 0.18),
            cost("add r64, imm", Kind::Latency, 0.99),
            cost("div one r64", Kind::Latency, 9.01),
            cost("and r64, r64", Kind::Latency, 4.0),
            cost("cpuid", Kind::Cost, 120.0),
        ],
    );
    let kvm = measured(
        Environment::Kvm,
        [
            cost("add r64, r64", Kind::Latency, 1.0),
            cost("add r64, r64", Kind::Throughput, 0.18),
            cost("add r64, imm", Kind::Latency, 0.99),
            cost("div one r64", Kind::Latency, 21.1),
            cost("and r64, r64", Kind::Latency, 0.9),
            cost("cpuid", Kind::Cost, 1650.0),
            cost("clts", Kind::Cost, 20.0),
            cost("KVM hypercall that is not", Kind::Cost, 1600.0),
        ],
    );
    Comparison { measured: vec![native, kvm] }
}

fn shown(table: fn(&Comparison, &[Row], View) -> String, width: u16) -> String {
    let comparison = comparison();
    table(&comparison, &comparison.rows(Method::Sound), View { width, color: false })
}

#[test]
fn the_medians_of_groups_and_what_is_marked_come_first() {
    assert_eq!(shown(tables::summary, 80), include_str!("tables/summary-80.txt"));
    assert_eq!(shown(tables::summary, 160), include_str!("tables/summary-160.txt"));
}

#[test]
fn all_figures_are_there_if_asked_for() {
    assert_eq!(shown(tables::all, 80), include_str!("tables/all-80.txt"));
    assert_eq!(shown(tables::all, 160), include_str!("tables/all-160.txt"));
}

#[test]
fn forms_are_a_list_that_fits_and_has_them_all() {
    let text = tables::catalogue(View { width: 80, color: false });
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(forms().iter().all(|form| text.contains(&form.name)), "{text}");
    assert!(text.lines().any(|line| line.contains("add r8, imm") && line.contains("add {a8}, 3")), "{text}");
}
