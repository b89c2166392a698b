//! Lives of processes by program, as terminals of 80 and of 160 columns show them.

use xweave_model::lives::{Lives, Spent};
use xweave_report::{View, lives};

const MS: u64 = 1_000_000;

fn all() -> Vec<Lives> {
    let lives = |program: &str, lives: u64, span: u64, spent: Spent| Lives {
        domain: "vm1".into(),
        program: program.into(),
        lives,
        span_ns: span * MS,
        elapsed_ns: spent.ns(),
        min_ns: 5 * MS,
        max_ns: spent.ns() / lives,
        spent,
    };
    let dd = Spent { on_cpu_ns: 90 * MS, ready_ns: 410 * MS, disk_ns: 5_100 * MS, ..Spent::default() };
    let sh = Spent { on_cpu_ns: 4 * MS, others_ns: 500 * MS, host_ns: 6 * MS, ..Spent::default() };
    let curl = Spent { on_cpu_ns: MS, waiting_ns: 40 * MS, ..Spent::default() };
    vec![lives("dd", 9, 5_690, dd), lives("sh", 1, 510, sh), lives("curl", 1, 41, curl)]
}

#[test]
fn each_program_has_a_row_and_what_none_was_spent_on_no_column() {
    for (width, expected) in [(80, include_str!("lives/80.txt")), (160, include_str!("lives/160.txt"))] {
        assert_eq!(lives::table(&all(), 2, View { width, color: false }), expected);
    }
}
