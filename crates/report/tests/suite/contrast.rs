//! Slow transactions beside typical ones, and those of two runs, as a terminal of 80 and one of 160 columns shows them.

use serde_json::Value;
use xweave_model::{
    Contrast, Delay, DomainRef, ObjectGroup, ObjectKind, Offender, TimeState,
    contrast::{By, Cause, Part, Share, Side},
    delay::DelayKind,
    objects::Reason,
    parts::Such,
    recorded::LeftOut,
};
use xweave_report::{
    View,
    contrast::{self, Sides},
    document,
};

use crate::objects::{threads, vcpus};

fn side(share: Share, chosen: u64, mean_ns: u64) -> Side {
    Side {
        share,
        transactions: 1_200,
        chosen,
        mean_ns,
        p50_ns: 1_190_000,
        p99_ns: 6_080_000,
        example: chosen / 7,
    }
}

fn domain(name: &str) -> DomainRef {
    DomainRef::One(name.into())
}

fn vhost() -> ObjectGroup {
    ObjectGroup::Vhost { guest: "vm2".into() }
}

fn cause(delay: Delay, ns: [u64; 2], error_ns: u64, by: &[(ObjectGroup, [u64; 2])]) -> Cause {
    let longer = |[a, b]: [u64; 2]| b.cast_signed() - a.cast_signed();
    let by = by.iter().map(|(who, ns)| By {
        who: Offender::Objects(who.clone()),
        ns: *ns,
        difference_ns: longer(*ns),
    });
    let difference_ns = longer(ns);
    let differs = difference_ns.unsigned_abs() > 2 * error_ns;
    Cause { delay, ns, difference_ns, error_ns, differs, by: by.collect() }
}

/// The slow ones were kept from the host's processors.
fn kept() -> Contrast {
    let delay = |kind, domain| Delay { kind, domain, whom: None, awaited: None };
    let causes = vec![
        cause(
            Delay { whom: Some(vcpus("vm1")), ..delay(DelayKind::CpuWait, domain("host")) },
            [180_000, 2_280_000],
            140_000,
            &[(vcpus("vm2"), [150_000, 1_950_000]), (vhost(), [30_000, 330_000])],
        ),
        cause(
            delay(DelayKind::Running, domain("vm1")),
            [900_000, 1_800_000],
            90_000,
            &[(threads("nginx"), [900_000, 1_800_000])],
        ),
        cause(
            delay(DelayKind::Disk, domain("vm1")),
            [0, 400_000],
            260_000,
            &[(ObjectGroup::Disk("vda".into()), [0, 400_000])],
        ),
        cause(
            delay(DelayKind::Network, DomainRef::Between("vm2".into(), "vm1".into())),
            [120_000, 121_000],
            3_000,
            &[],
        ),
    ];
    let part = |(group, spent, had, ns): (_, _, Option<ObjectGroup>, [u64; 2])| Part {
        such: Such {
            domain: domain("host"),
            group,
            kind: ObjectKind::Vcpu,
            spent,
            reason: had.map(Reason::Had),
        },
        ns,
        difference_ns: ns[1].cast_signed() - ns[0].cast_signed(),
        transactions: [600, 120],
    };
    let parts = [
        (vcpus("vm1"), TimeState::Preempted, Some(vcpus("vm2")), [150_000, 1_950_000]),
        (threads("nginx"), TimeState::Running, None, [900_000, 1_800_000]),
        (vcpus("vm1"), TimeState::Preempted, Some(vhost()), [30_000, 330_000]),
    ];
    Contrast {
        sides: [side(Share::MiddleHalf, 600, 1_200_000), side(Share::SlowestTenth, 120, 4_601_000)],
        difference_ns: 3_401_000,
        error_ns: 150_000,
        differs: true,
        left_out: Vec::new(),
        causes,
        parts: parts.map(part).into(),
        outcomes: Vec::new(),
    }
}

fn shown(of: &Contrast, sides: Sides, limit: Option<usize>, width: u16) -> String {
    let view = View { width, color: false };
    let mut text = contrast::headline(of, sides, "request:80", view) + "\n";
    text += &contrast::causes(of, sides, limit, view);
    if limit.is_none() {
        text += &format!("\n{}", contrast::parts(of, sides, view));
    }
    text
}

#[test]
fn the_difference_and_its_causes_come_first_then_the_table() {
    assert_eq!(shown(&kept(), Sides::OfRun, None, 80), include_str!("../contrast/80.txt"));
    assert_eq!(shown(&kept(), Sides::OfRun, Some(10), 160), include_str!("../contrast/160.txt"));
}

/// Three threads that wait come before one that runs for longer than each of them waits.
#[test]
fn what_belongs_together_is_counted_together_in_the_headline() {
    let waits = |who: &str, ns| {
        let delay = Delay {
            whom: Some(threads(who)),
            ..Delay { kind: DelayKind::CpuWait, domain: domain("vm1"), whom: None, awaited: None }
        };
        cause(delay, [0, ns], 1_000, &[(threads("gzip"), [0, ns])])
    };
    let mut of = kept();
    of.causes.retain(|cause| cause.delay.kind == DelayKind::Running);
    of.causes.extend([waits("nginx", 800_000), waits("php", 700_000), waits("mysqld", 600_000)]);
    let text = shown(&of, Sides::OfRun, Some(10), 1_000);
    let said = "1.20 ms → 4.60 ms: waiting for a CPU +2.10 ms (nginx waited for a CPU of vm1 +800.0 µs by gzip, php waited for \
                a CPU of vm1 +700.0 µs by gzip, mysqld waited for a CPU of vm1 +600.0 µs by gzip); running in vm1 +900.0 µs by \
                nginx\n";
    assert!(text.contains(said), "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [80, 100, 160] {
        let text = shown(&kept(), Sides::OfRuns, None, width);
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
    }
}

#[test]
fn less_and_as_long_are_said_of_two_runs() {
    let mut of = kept();
    of.difference_ns = -of.difference_ns;
    for cause in &mut of.causes {
        cause.difference_ns = -cause.difference_ns;
        cause.ns.reverse();
    }
    of.sides.reverse();
    let text = shown(&of, Sides::OfRuns, Some(2), 1_000);
    let said = "Typical transactions (request:80) of the second run took 3.40 ms less, 4.60 ms → 1.20 ms: \
                vCPUs of vm1 waited for a CPU of host -2.10 ms by vCPUs of vm2; running in vm1 -900.0 µs by nginx\n";
    assert!(text.starts_with(said), "{text}");
    assert!(text.contains("\n -2.10 ms  280.0 µs   62 %  2.28 ms → 180.0 µs  vCPUs"), "{text}");
    assert!(text.ends_with("2 other causes: -401.0 µs together; --all shows all\n"), "{text}");
    (of.differs, of.error_ns) = (false, 1_800_000);
    let text = shown(&of, Sides::OfRuns, Some(10), 1_000);
    let said = "Typical transactions (request:80) of the second run took as long within ±3.60 ms: 4.60 ms → 1.20 ms\n";
    assert!(text.starts_with(said), "{text}");
    assert!(!text.contains("Share"), "{text}");
}

#[test]
fn what_one_run_did_not_record_is_said_before_the_table_and_in_the_document() {
    let lacks = |events, missing_in, everywhere| LeftOut {
        events,
        missing_in,
        domains: vec!["vm1".into(), "vm2".into()],
        everywhere,
    };
    let of = Contrast { left_out: vec![lacks("block", 1, true), lacks("vm", 0, false)], ..kept() };
    let text = shown(&of, Sides::OfRuns, None, 160);
    let said = "second has no block events: there, waits for disks are waits for nothing that is known, and what differs by \
                that says nothing\n";
    assert!(text.contains(said), "{text}");
    assert!(text.contains("first has no vm events of vm1, vm2: there, what vCPUs were outside"), "{text}");
    let mut written = Vec::new();
    document::contrast::write(&mut written, &of, &"request:80".parse().unwrap()).unwrap();
    let told: Value = serde_json::from_slice(&written).unwrap();
    let left = serde_json::json!({"events": "block", "missing_in": 1, "domains": ["vm1", "vm2"]});
    assert_eq!(told["left_out"][0], left);
}

#[test]
fn the_document_has_each_cause_and_part_on_both_sides() {
    let mut written = Vec::new();
    document::contrast::write(&mut written, &kept(), &"request:80".parse().unwrap()).unwrap();
    let told: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!((&told["schema"], &told["transaction"]), (&2.into(), &"request:80".into()));
    assert_eq!(told["sides"][1]["of"], "the slowest tenth");
    assert_eq!(told["causes"][0]["by"][1]["difference_ns"], 300_000);
    assert_eq!(told["parts"][1]["ns"], serde_json::json!([900_000, 1_800_000]));
    assert!(told.get("outcomes").is_none());
}
