//! What `xweave flows` looks like in a narrow terminal and where there is room, text by text: `tests/look/`.

use crate::made_up;
use crate::snapshot::{assert_looks, views};
use xweave_flow::{Flows, Incomplete, Join, Wanted, by_value};
use xweave_record::Check;
use xweave_report::{View, by_value as grouped, closing, doctor, hops, hops::Steps, places};

/// What comes first: where the time of the typical flow's kind goes, and the flow.
fn typical(flows: &Flows, view: View) -> String {
    let flow = flows.typical().unwrap();
    let kind = flows.kind_of(flow).unwrap();
    let of_kind = flows.places_of(kind);
    let (head, places) = (places::headline(kind, of_kind), places::table(of_kind, view));
    format!("{head}\n{places}\n{}", hops::table(flows, flow, Steps::OfPath, view))
}

#[test]
fn first_where_the_time_goes_then_a_typical_flow_with_the_time_of_each_step() {
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&made_up::write(dir.path(), 100, false));
    for view in views() {
        let closing = closing::line(flows.summary(), view);
        // Of one line, which no terminal's width changes.
        let closing = closing.lines().skip(1).collect::<String>();
        assert_looks(&typical(&flows, view), "flows", view);
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

#[test]
fn an_interrupt_is_in_the_host_until_it_crosses_and_then_in_the_guest() {
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&made_up::interrupts(dir.path(), 30));
    for view in views() {
        assert_looks(&typical(&flows, view), "interrupt", view);
    }
}

#[test]
fn a_switch_names_the_thread_that_the_flow_woke_where_that_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&made_up::interrupts(dir.path(), 6));
    let table = |flow| hops::table(&flows, flow, Steps::OfPath, views()[0]);
    let switches = |flow| -> Vec<String> {
        let table = table(flow);
        let lines = table.lines().filter(|line| line.contains("sched_switch"));
        lines
            .map(|line| line.split_once('→').unwrap().1.trim_end_matches(['0', ' ']).trim().to_owned())
            .collect()
    };
    // In the host, the vCPU's thread makes records of its own; the guest's thread made none.
    assert_eq!(switches(&flows.flows()[2]), ["CPU 0/KVM/1", "thread 7"], "{}", table(&flows.flows()[2]));
    assert_eq!(switches(&flows.flows()[0]), ["thread 7"]);
    // Also where no flow is kept but some that stand for all.
    let trace = made_up::interrupts(&dir.path().join("again"), 6);
    let few = Flows::read(&trace, Join::of(&trace), Wanted { of: &|_| true, kept: Some(0) });
    assert!(few.flows().is_empty());
    let table = hops::table(&few, &flows.flows()[2], Steps::OfPath, views()[0]);
    assert!(table.contains("→ CPU 0/KVM/10"), "{table}");
}

#[test]
fn a_long_title_is_wrapped_as_the_table_below_it() {
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&made_up::write(dir.path(), 20, false));
    let mut flow = flows.typical().unwrap().clone();
    (flow.copies, flow.lost, flow.incomplete, flow.drops) = (12, 3, Some(Incomplete::Lost), 2);
    for view in views() {
        assert_looks(&hops::table(&flows, &flow, Steps::OfPath, view), "title", view);
    }
}

#[test]
fn what_is_said_of_a_machine_stands_below_itself() {
    let check =
        |name, ok, needed, found: &str, remedy| Check { name, ok, needed, found: found.into(), remedy };
    let checks = [
        check("kernel", true, true, "6.12.117+deb12-cloud-amd64", ""),
        check(
            "confinement",
            false,
            false,
            "seccomp, no new privileges, user namespace; this kernel has no Landlock",
            "what guests and files send is read by processes without rights, which Landlock keeps from files: boot a \
             kernel with CONFIG_SECURITY_LANDLOCK, and landlock in the list lsm= if there is one",
        ),
        check("compiler for aspects", false, true, "no clang", "apt install clang"),
    ];
    for view in views() {
        assert_looks(&doctor::table(&checks, view), "doctor", view);
    }
}
