//! What `xweave vary` looks like in a narrow terminal and where there is room, text by text: `tests/look/`.

use crate::snapshot::{assert_looks, views};
use xweave_model::Outcome;
use xweave_report::{View, variation};
use xweave_vary::{
    Variation,
    cause::{Kind, Remedied},
    settings::{Setting, What},
    variation::{By, Found, Gain, Others, Segment, Shares, Spikes, Startup, Times},
};

fn shares(of_variance: f64, of_tail: f64) -> Shares {
    let bounds = |share: f64| [share - 0.05, share + 0.05];
    Shares {
        share_of_variance: of_variance,
        variance_bounds: bounds(of_variance),
        share_of_tail: of_tail,
        tail_bounds: bounds(of_tail),
    }
}

fn segment(name: &str, p50_ns: u64, of_variance: f64) -> Segment {
    let if_steady = Times { p50_ns: 400_000, p99_ns: 900_000, deviation_ns: 100_000 };
    Segment {
        name: name.into(),
        p50_ns,
        p99_ns: 10 * p50_ns,
        shares: shares(of_variance, of_variance * 0.9),
        if_steady,
        others: name.contains("socket").then_some(Others {
            p50: 0,
            p99: 7,
            max: 11,
            mean_in_tail: 5.25,
            mean_typically: 0.1,
        }),
        spent_ns: [("running", p50_ns), ("preempted", 3 * p50_ns), ("exit", 0)].into(),
    }
}

fn found(kind: Kind, cause: &str, by: &[(&str, u64)], of_variance: f64) -> Found {
    let offenders: Vec<By> = by.iter().map(|(who, ns)| By { who: (*who).into(), ns: *ns }).collect();
    Found {
        kind,
        cause: cause.into(),
        by: offenders.first().map(|by| by.who.clone()),
        offenders,
        requests: 812,
        ns: 930_000_000,
        segment: Some("request, ring host→vm1".into()),
        shares: shares(of_variance, of_variance * 0.9),
        named: of_variance > 0.1,
        evidence: vec![
            "930 ms in 812 of 1200 requests".into(),
            "3.10 ms in each of the slowest 12, 20 µs in typical ones".into(),
        ],
        remedy: (kind != Kind::Running).then(|| "let KVM poll before it halts a vCPU".into()),
        gain: Gain { remedied: Remedied::Steady, p50_ns: 20_000, p99_ns: 3_100_000 },
        example: 17,
    }
}

fn varied() -> Variation {
    Variation {
        requests: 1_320,
        kept: 1_320,
        startup: Some(Startup { requests: 120, ns: 1_200_000_000, p50_ns: 2_400_000 }),
        times: Times { p50_ns: 412_000, p99_ns: 4_900_000, deviation_ns: 800_000 },
        steady: false,
        spikes: Spikes { spikes: 3, requests: 41, share_of_variance: 0.62 },
        segments: vec![
            segment("request, stack of host", 20_000, 0.004),
            segment("request, ring host→vm1", 40_000, 0.71),
            segment("request, socket of vm1", 30_000, 0.2),
            segment("server in vm1", 300_000, 0.08),
        ],
        causes: vec![
            found(Kind::VcpuHalted, "vCPUs of vm1 were halted, and had to be woken", &[], 0.68),
            found(Kind::RunQueue, "sipserver in vm1 waited for a CPU", &[("cron", 3), ("sshd", 1)], 0.14),
            found(Kind::Running, "sipserver in vm1 ran", &[], 0.05),
            found(Kind::VcpuExits, "vCPUs of vm1 were out of the guest", &[], 0.001),
        ],
        settings: vec![
            Setting {
                what: What::HaltPolling,
                domain: "host".into(),
                setting: "halt_poll_ns of KVM".into(),
                now: "0".into(),
                ns: 930_000_000,
                requests: 812,
                remedy:
                    "let KVM poll for longer before it halts a vCPU: xweave vary --try halt_poll_ns=0,200000"
                        .into(),
            },
            Setting {
                what: What::Queues,
                domain: "vm1".into(),
                setting: "queues of network devices".into(),
                now: "1 for 4 CPUs".into(),
                ns: 41_000_000,
                requests: 17,
                remedy: "give its network device more (ethtool -L DEVICE combined N)".into(),
            },
        ],
        outcome: Outcome::default(),
    }
}

fn all(of: &Variation, view: View) -> String {
    let all = [
        variation::headline(of, "exchange:5060", view),
        variation::segments(of, false, view),
        variation::causes(of, false, view),
        variation::settings(of, view),
        variation::queues(of, view),
        variation::spikes(of, view),
    ];
    all.join("\n")
}

#[test]
fn of_all_segments_it_is_told_what_their_time_was_spent_on() {
    let of = varied();
    let text = variation::segments(&of, true, View { width: 120, color: false });
    let first = &of.segments[0];
    let told = text.split_once("Spent on").unwrap().1.lines().nth(1).unwrap();
    assert!(told.starts_with(&first.name) && told.ends_with("preempted 75 %, running 25 %"), "{text}");
}

#[test]
fn first_what_varies_then_the_segments_and_the_causes() {
    for view in views() {
        assert_looks(&all(&varied(), view), "vary", view);
    }
}

#[test]
fn where_little_varies_nothing_is_blamed() {
    let causes = varied().causes.into_iter().map(|found| Found { named: false, ..found }).collect();
    let steady = Variation {
        steady: true,
        times: Times { p50_ns: 400_000, p99_ns: 500_000, deviation_ns: 50_000 },
        causes,
        startup: None,
        settings: Vec::new(),
        spikes: Spikes { spikes: 0, requests: 0, share_of_variance: 0.0 },
        ..varied()
    };
    for view in views() {
        let text = all(&steady, view);
        assert!(text.contains("They vary little: no cause is named.") && !text.contains("Try:"), "{text}");
        assert!(!text.contains("Settings"), "{text}");
        assert!(text.contains("No request stands out"), "{text}");
    }
    // One slow request of fewer than a hundred is their 99th percentile.
    let once =
        Variation { kept: 50, requests: 50, times: Times { p99_ns: 900_000, ..steady.times }, ..steady };
    let text = all(&once, views()[1]);
    assert!(
        text.contains("half take at most 400.0 µs, the slowest takes 900.0 µs (2.2 times as long)."),
        "{text}"
    );
    assert!(text.contains("But for one, they vary little: no cause is named."), "{text}");
}
