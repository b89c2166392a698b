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
        user_ns: None,
        system_ns: None,
    };
    let dd = Spent { on_cpu_ns: 90 * MS, ready_ns: 410 * MS, disk_ns: 5_100 * MS, ..Spent::default() };
    let sh = Spent { on_cpu_ns: 4 * MS, others_ns: 500 * MS, host_ns: 6 * MS, ..Spent::default() };
    let curl = Spent { on_cpu_ns: MS, waiting_ns: 40 * MS, ..Spent::default() };
    vec![lives("dd", 9, 5_690, dd), lives("sh", 1, 510, sh), lives("curl", 1, 41, curl)]
}

#[test]
fn each_program_has_a_row_and_what_none_was_spent_on_no_column() {
    for (width, expected) in [(80, include_str!("../lives/80.txt")), (160, include_str!("../lives/160.txt"))]
    {
        assert_eq!(lives::table(&all(), 2, View { width, color: false }), expected);
    }
}

#[test]
fn user_and_system_time_stand_behind_the_time_on_a_cpu_where_system_calls_were_recorded() {
    let mut all = all();
    (all[0].user_ns, all[0].system_ns) = (Some(20 * MS), Some(70 * MS));
    let table = lives::table(&all, 2, View { width: 300, color: false });
    let lines: Vec<_> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines[0].contains("on CPU (user) (system) ready"), "{table}");
    assert!(lines[1].contains("90.00 ms 20.00 ms 70.00 ms 410.00 ms"), "{table}");
    assert!(lines[2].contains("4.00 ms – –"), "{table}");
}
