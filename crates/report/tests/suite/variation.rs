//! What `xweave vary` looks like in a narrow terminal and where there is room, text by text: `tests/look/`.

use std::sync::Arc;

use xweave_flow::{
    FlowPlace, WayPlace,
    flow_place::{Carrier, Station},
    legs::{ExchangeSide, WayPoint},
};
use xweave_model::{DomainRef, Offender, Outcome, Stretch, Unused};
use xweave_report::{View, variation, words};
use xweave_vary::{
    Cause, Variation,
    cause::{Kind, Remedied, Whom},
    settings::{Setting, Stand, What},
    variation::{By, Evidence, Found, Gain, Others, Segment, Shares, Spikes, Startup, Times},
};

use crate::{
    objects::{threads, vcpus},
    snapshot::{assert_looks, views},
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

fn at(point: WayPoint) -> Stretch {
    Stretch::Way(Arc::new(WayPlace { made: None, point }))
}

fn asked(place: FlowPlace) -> Stretch {
    at(WayPoint::Flow { side: Some(ExchangeSide::Request), place })
}

fn station(domain: &str, station: Station) -> Stretch {
    asked(FlowPlace::In { domain: domain.into(), station })
}

fn ring() -> Stretch {
    asked(FlowPlace::Carrier { carrier: Carrier::Ring, from: "host".into(), to: "vm1".into() })
}

fn segment(stretch: Stretch, p50_ns: u64, of_variance: f64) -> Segment {
    let if_steady = Times { p50_ns: 400_000, p99_ns: 900_000, deviation_ns: 100_000 };
    Segment {
        others: stretch.is_servers_socket().then_some(Others {
            p50: 0,
            p99: 7,
            max: 11,
            mean_in_tail: 5.25,
            mean_typically: 0.1,
        }),
        stretch,
        p50_ns,
        p99_ns: 10 * p50_ns,
        shares: shares(of_variance, of_variance * 0.9),
        if_steady,
        spent_ns: [("running", p50_ns), ("preempted", 3 * p50_ns), ("exit", 0)].into(),
    }
}

fn found(kind: Kind, whom: Whom, by: &[(&str, u64)], of_variance: f64) -> Found {
    let offender = |(who, ns): &(&str, u64)| By { who: Offender::Objects(threads(who)), ns: *ns };
    let cause = Cause { kind, whom };
    Found {
        remedy: cause.remedy(None, false),
        cause,
        offenders: by.iter().map(offender).collect(),
        requests: 812,
        ns: 930_000_000,
        segment: Some(ring()),
        share_of_segment: 0.9,
        shares: shares(of_variance, of_variance * 0.9),
        named: of_variance > 0.1,
        evidence: vec![
            Evidence::Total { ns: 930_000_000, requests: 812, of: 1200 },
            Evidence::Tail { slowest: 12, mean_in_tail_ns: 3_100_000, mean_typically_ns: 20_000 },
        ],
        gain: Gain { remedied: Remedied::Steady, p50_ns: 20_000, p99_ns: 3_100_000 },
        example: 17,
    }
}

fn varied() -> Variation {
    let vm1 = || Whom::Group(vcpus("vm1"));
    let server = || Whom::GroupIn(threads("sipserver"), DomainRef::One("vm1".into()));
    Variation {
        requests: 1_320,
        kept: 1_320,
        startup: Some(Startup { requests: 120, ns: 1_200_000_000, p50_ns: 2_400_000 }),
        times: Times { p50_ns: 412_000, p99_ns: 4_900_000, deviation_ns: 800_000 },
        steady: false,
        quicker: 0,
        spikes: Spikes { spikes: 3, requests: 41, share_of_variance: 0.62 },
        segments: vec![
            segment(station("host", Station::Stack), 20_000, 0.004),
            segment(ring(), 40_000, 0.71),
            segment(station("vm1", Station::Socket { reader: None }), 30_000, 0.2),
            segment(at(WayPoint::Server { domain: "vm1".into() }), 300_000, 0.08),
        ],
        causes: vec![
            found(Kind::VcpuHalted, vm1(), &[], 0.68),
            found(Kind::RunQueue, server(), &[("cron", 697_500_000), ("sshd", 232_500_000)], 0.14),
            found(Kind::Running, server(), &[], 0.05),
            found(Kind::VcpuExits, vm1(), &[], 0.001),
        ],
        settings: vec![
            Setting {
                what: What::HaltPolling,
                domain: "host".into(),
                now: Stand::HaltPolling { now_ns: 0, try_ns: 200_000 },
                ns: 930_000_000,
                requests: 812,
            },
            Setting {
                what: What::Queues,
                domain: "vm1".into(),
                now: Stand::OneQueue { cpus: 4 },
                ns: 41_000_000,
                requests: 17,
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
    let first = words::places::stretch(&of.segments[0].stretch).to_string();
    let told = text.split_once("Spent on").unwrap().1.lines().nth(1).unwrap();
    assert!(told.starts_with(&first) && told.ends_with("preempted 75 %, running 25 %"), "{text}");
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
        assert!(text.contains("No request stands out from those around it."), "{text}");
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

#[test]
fn requests_that_could_not_be_used_are_told_in_the_first_line() {
    let unused = Unused { dropped: 12, open: 1, ..Unused::default() };
    let of = Variation { outcome: Outcome { unused, ..Outcome::default() }, ..varied() };
    let text = variation::headline(&of, "exchange:5060", View { width: 2_000, color: false });
    let told = "13 more requests could not be used: 12 with frames that were dropped and not seen to be sent again, 1 not \
                answered when the recording ended.";
    assert!(text.lines().next().unwrap().ends_with(told), "{text}");
}
