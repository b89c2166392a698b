//! What domains say of their plans: however much it is, the trace stays one that can be read.

use std::time::Duration;

use xweave_synthetic::agent::{Done, Moment, Voice, answering, by};
use xweave_wire::{
    event::Kind,
    frame, limits,
    message::{
        DomainInfo, Event, Failure, FailureKind, FromAgent, LeftOut, Loss, Reply, Request, SiteLoss,
        SkippedSite, Woven,
    },
};

use crate::stage::{Domain, record};

const PATIENCE: Duration = Duration::from_secs(60);

fn guest(answer: impl FnMut(&Request, &mut Voice) -> Option<Reply> + Send + 'static) -> Vec<Domain> {
    vec![Domain::honest("host"), Domain::new("vm1", answering(answer))]
}

#[test]
fn a_site_that_is_skipped_twice_is_refused() {
    let domains = guest(|request, voice| match request {
        Request::Weave(plan) => {
            voice.plan = Some((**plan).clone());
            let site = voice.sites()[0];
            let skipped = (0..20_000).map(|nth| SkippedSite { site, reason: format!("reason {nth}") });
            Some(Reply::Woven(Woven { skipped: skipped.collect(), ..Woven::default() }))
        }
        _ => None,
    });
    let ended = record(domains, "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["domain vm1", "skipped site", "twice"]);
}

#[test]
fn losses_of_a_site_that_are_told_twice_are_refused_and_the_trace_can_be_read() {
    let domains = guest(|request, voice| match request {
        Request::Loss => {
            let loss = SiteLoss { site: voice.sites()[0], dropped: 1, ..SiteLoss::default() };
            Some(Reply::Loss(Loss { sites: vec![loss; 100_000], ..Loss::default() }))
        }
        _ => None,
    });
    let ended = record(domains, "--duration 3s").end_within(PATIENCE);
    ended.said(1, &["domain vm1 was lost", "twice"]);
    assert_eq!(ended.records("host"), 5000);
    assert!(ended.size() < 4 << 20, "{} bytes", ended.size());
}

#[test]
fn more_probes_than_there_are_cannot_have_been_left_out() {
    let domains = guest(|request, voice| match request {
        Request::Weave(plan) => {
            voice.plan = Some((**plan).clone());
            let left = LeftOut { kind: Kind::Switch, function: "f".into(), reason: "r".repeat(500) };
            Some(Reply::Woven(Woven { left_out: vec![left; 4000], ..Woven::default() }))
        }
        _ => None,
    });
    record(domains, "--duration 1s").end_within(PATIENCE).said(1, &["domain vm1", "4000 probes"]);
}

#[test]
fn a_message_that_would_become_six_times_as_long_is_cut_before() {
    let domains = guest(|request, _| match request {
        Request::Btf(_) => {
            let message = "\u{7f}".repeat(1_000_000);
            Some(Reply::Failed(Failure { kind: FailureKind::Unsupported, message }))
        }
        _ => None,
    });
    let ended = record(domains, "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["vm1", "\\u{7f}\\u{7f}"]);
    ended.within_budget();
}

/// Says the shortest that there is to say, as often as it can.
#[test]
fn very_many_short_messages_take_no_more_than_their_budget() {
    let domains = guest(|request, voice| match request {
        Request::Weave(_) => loop {
            voice.event(Event::Weaving { done: 0, total: 2 }).ok()?;
        },
        _ => None,
    });
    let mut recording = record(domains, "");
    recording.wait_for("weaving");
    recording.go_on(Duration::from_secs(5));
    recording.interrupt();
    let ended = recording.end_within(Duration::from_secs(2));
    ended.said(130, &["interrupted"]);
    assert!(ended.peak < 100 << 20, "{} MiB", ended.peak >> 20);
}

/// Answers with a list of empty items, as long as a frame may be at that moment.
fn swelling(at: fn(&Request) -> bool, answer: Reply, length: u32) -> Domain {
    let mut prefix = Vec::new();
    frame::write_message(&mut prefix, &FromAgent::Reply(answer)).unwrap();
    // Length of the frame, message and kind; then what an empty list of it says.
    let kind = prefix[4..6].to_vec();
    let script = by(move |moment, voice: &mut Voice| match moment {
        Moment::Asked(request) if at(request) => {
            // A list of 2^28 - 1 items, of which as many follow as there is room for.
            let mut body = [&kind[..], &[0xff, 0xff, 0xff, 0x7f]].concat();
            body.resize(length as usize, 0);
            voice.raw(&length.to_le_bytes())?;
            voice.raw(&body)?;
            Ok(Done::All)
        }
        _ => Ok(Done::Nothing),
    });
    Domain::new("vm", script)
}

#[test]
fn four_guests_whose_answers_would_become_far_larger_cost_less_than_one_may() {
    let types: fn(&Request) -> bool = |request| matches!(request, Request::Btf(_));
    let plan: fn(&Request) -> bool = |request| matches!(request, Request::Weave(_));
    let guests = [
        swelling(types, Reply::Vms(Vec::new()), limits::LARGE_FRAME),
        swelling(types, Reply::Symbols(Vec::new()), limits::LARGE_FRAME),
        swelling(plan, Reply::Woven(Woven::default()), limits::WOVEN_FRAME),
        swelling(plan, Reply::Loss(Loss::default()), limits::WOVEN_FRAME),
    ];
    let mut domains = vec![Domain::honest("host"), Domain::honest("vm0")];
    domains.extend(["vm1", "vm2", "vm3", "vm4"].into_iter().zip(guests).map(|(name, guest)| {
        let facts = DomainInfo { boot_id: format!("boot of {name}"), ..guest.facts };
        Domain { name, facts, ..guest }
    }));
    let ended = record(domains, "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["vm1", "vm2", "vm3", "vm4", "10000 records of host, vm0"]);
    ended.within_budget();
}
