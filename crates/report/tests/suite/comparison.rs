//! Two traces side by side, as a terminal of 80 and one of 160 columns shows them.

use xweave_model::{Comparison, ExitReason, Usage, UsageObject, usage::Figures};
use xweave_report::{
    View,
    comparison::{self, Which},
    words,
};

use crate::objects::{
    disk as disk_named, disk_user, exits, key, process as process_named, qemu, threads, vcpu,
};

const SECOND: u64 = 1_000_000_000;

const ALL: Which = Which { limit: None, all: true };

/// A run that takes so many tenths of a second, with so many requests to a disk.
fn usage(tenths: u64, requests: u64) -> Usage {
    let busy = tenths * SECOND / 10 - 2 * SECOND;
    let disk = Figures {
        time_ns: busy,
        device_ns: busy,
        count: requests,
        bytes: 96 << 20,
        distance: requests << 12,
        wait_ns: 3 * busy,
        ..Figures::default()
    };
    let process = |time_ns, wait_ns, count| Figures { time_ns, wait_ns, count, ..Figures::default() };
    let objects = [
        (key("host", disk_named("nvme0n1")), disk),
        (key("host", disk_user(qemu("vm1"), "nvme0n1")), disk),
        (key("vm1", process_named("reader")), process(SECOND + busy / 8, busy / 4, requests)),
        (key("vm1", process_named("sshd")), process(7_000_000, 0, 41)),
        (key("host", vcpu(0, "vm1")), process(2 * SECOND, 2 * busy, 3 * requests)),
        (key("host", vcpu(1, "vm1")), process(SECOND, SECOND, 900)),
    ];
    let cpus = [("host".to_owned(), 2), ("vm1".to_owned(), 2)].into();
    Usage {
        objects: objects.into(),
        span_ns: tenths * SECOND / 10,
        cpus,
        events: 100 * tenths,
        ..Usage::default()
    }
}

fn shown(width: u16, all: bool) -> String {
    let compared = Comparison::of(&usage(58, 1_500), &usage(92, 18_000));
    let view = View { width, color: false };
    let which = Which { limit: None, all };
    comparison::findings(&compared, which, view) + &comparison::tables(&compared, which, view)
}

#[test]
fn the_difference_comes_first_then_what_explains_it_then_what_changed() {
    assert_eq!(shown(80, false), include_str!("../comparison/80.txt"));
    assert_eq!(shown(160, false), include_str!("../comparison/160.txt"));
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_word_broken() {
    let whole =
        |text: &str| text.split_whitespace().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let wide = whole(&shown(1_000, true));
    for width in [80, 100, 160] {
        let text = shown(width, true);
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        assert_eq!(whole(&text), wide, "{text}");
    }
}

/// Many that changed, of each domain some.
fn crowded(factor: u64) -> Usage {
    let mut all = usage(58 * factor, 1_500 * factor);
    for domain in ["host", "vm1", "vm2", "vm3"] {
        for nth in 1..=10 {
            let ran = Figures { time_ns: factor * factor * nth * 10_000_000, count: 7, ..Figures::default() };
            all.objects.insert(key(domain, process_named(&format!("worker{nth}"))), ran);
            all.objects.insert(
                key(domain, exits(ExitReason::Other(0x1000 + i32::try_from(nth).unwrap()), domain)),
                ran,
            );
            let waited = Figures { wait_ns: ran.time_ns, ..ran };
            all.objects.insert(key(domain, UsageObject::Locks(threads(&format!("worker{nth}")))), waited);
            all.objects.insert(key(domain, disk_named(&format!("vd{nth}"))), waited);
        }
    }
    all
}

#[test]
fn what_changed_most_fits_two_screens_and_the_rest_is_counted() {
    let compared = Comparison::of(&crowded(1), &crowded(3));
    let text = |which, width| {
        let view = View { width, color: false };
        comparison::findings(&compared, which, view) + &comparison::tables(&compared, which, view)
    };
    let few = Which { limit: None, all: false };
    for width in [80, 160] {
        let text = text(few, width);
        assert!(text.lines().count() <= 90, "{} lines:\n{text}", text.lines().count());
        assert!(text.contains("smaller changes: --all lists them\n"), "{text}");
        assert!(text.contains("\n… and 156 other objects that changed less: --all lists them\n"), "{text}");
    }
    let all = text(ALL, 160);
    assert!(
        compared
            .objects
            .iter()
            .all(|object| all.contains(&words::objects::usage(&object.key.object).to_string())),
        "{all}"
    );
    assert!(!all.contains("…"), "{all}");
    let one = text(Which { limit: Some(1), ..few }, 160);
    assert!(one.contains("worker10") && !one.contains("  worker9 "), "{one}");
}

#[test]
fn what_only_one_run_recorded_is_left_out_and_told_below_the_difference() {
    let told = |of: [&[(&str, &[&'static str])]; 2]| {
        let recorded = |of: &[(&str, &[&'static str])]| {
            of.iter()
                .map(|(domain, groups)| ((*domain).to_owned(), groups.iter().copied().collect()))
                .collect()
        };
        let run = |usage: Usage, of| Usage { recorded: recorded(of), ..usage };
        let compared = Comparison::of(&run(usage(58, 1_500), of[0]), &run(usage(92, 18_000), of[1]));
        let view = View { width: 80, color: false };
        (comparison::findings(&compared, ALL, view), comparison::tables(&compared, ALL, view))
    };
    let all: &[&str] = &["block", "sched", "vm"];
    let (findings, tables) = told([&[("host", all), ("vm1", all)], &[("host", &["vm"]), ("vm1", &["vm"])]]);
    let lines: Vec<_> = findings.lines().skip(1).take(3).collect();
    assert_eq!(
        lines,
        [
            "second has no sched events: processes, locks and interrupts are not compared",
            "second has no block events: disks are not compared",
            ""
        ]
    );
    let both = findings + &tables;
    assert!(!both.contains("nvme0n1") && !both.contains("reader"), "{both}");
    assert!(both.contains("vCPU 0 of vm1"), "{both}");
    let (findings, tables) = told([&[("host", all), ("vm1", &["vm"])], &[("host", all), ("vm1", all)]]);
    assert!(
        findings
            .contains("first has no sched events of vm1: processes, locks and interrupts are not compared\n"),
        "{findings}"
    );
    assert!(tables.contains("nvme0n1") && !tables.contains("reader"), "{tables}");
}

#[test]
fn what_did_not_change_is_counted_and_shown_if_asked_for() {
    let (some, all) = (shown(160, false), shown(160, true));
    assert!(!some.contains("sshd") && !some.contains("vCPU 1 of vm1"), "{some}");
    assert!(
        some.ends_with("2 objects did not change (no more than 1.25 times): --all shows them\n"),
        "{some}"
    );
    assert!(all.contains("sshd") && all.contains("vCPU 1 of vm1") && !all.contains("--all"), "{all}");
}

#[test]
fn runs_that_take_as_long_have_nothing_to_explain_and_may_differ_all_the_same() {
    let (a, b) = (usage(58, 1_500), usage(92, 18_000));
    let view = View { width: 80, color: false };
    let same = comparison::findings(&Comparison::of(&a, &a), ALL, view);
    let told = "both took as long: 5.800 s → 5.800 s; events: 5 800 → 5 800\n\n\
                No object changed beyond noise: by a factor of 1.25, 1 % of the longer run and\n1.00 ms.\n";
    assert_eq!(same, told);
    let fixed = Usage { span_ns: a.span_ns, ..b };
    let text = comparison::findings(&Comparison::of(&a, &fixed), ALL, view);
    assert!(
        text.starts_with("both took as long") && !text.contains("Explains") && text.contains("reader"),
        "{text}"
    );
}

#[test]
fn a_second_run_that_is_faster_is_told_as_such() {
    let text = comparison::findings(
        &Comparison::of(&usage(92, 18_000), &usage(58, 1_500)),
        ALL,
        View { width: 160, color: false },
    );
    assert!(text.starts_with("second took 3.400 s less: 9.200 s → 5.800 s;"), "{text}");
    assert!(
        text.lines().any(|line| line.trim_start().starts_with("-3.4") && line.contains("≤ 100 %")),
        "{text}"
    );
}

#[test]
fn colour_is_there_only_when_asked_for() {
    let compared = Comparison::of(&usage(58, 1_500), &usage(92, 18_000));
    let which = Which { limit: None, all: false };
    assert!(comparison::tables(&compared, which, View { width: 80, color: true }).contains("\x1b["));
    assert!(!shown(80, true).contains('\x1b'));
}
