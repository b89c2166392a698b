//! What could not be recorded is counted, and the trace tells it.

use super::*;

/// What a guest's sites, flows and probes lost, the first time it is asked.
fn first_loss() -> Loss {
    Loss {
        sites: vec![
            message::SiteLoss { site: 3, dropped: 5, missed: 2, table_full: 1, faults: 4, overwritten: 7 },
            message::SiteLoss { site: 4, dropped: 1, ..message::SiteLoss::default() },
        ],
        flows: vec![(2 << 56 | 9, 3)],
        unattributed: 2,
        events: vec![message::EventLoss { kind: event::Kind::Switch, dropped: 10, missed: 20 }],
        unloaded: vec![message::Unloaded { module: "tun".to_owned(), sites: 1 }],
    }
}

/// Asserts that the manifest tells the guest's losses, so many dropped at its first site.
fn assert_loss_is_told(manifest: &Manifest, dropped: u64) {
    let loss = &manifest.loss;
    let first = SiteLoss { site: 3, dropped, missed: 2, table_full: 1, faults: 4, overwritten: 7 };
    assert_eq!(loss.sites, [first, SiteLoss { site: 4, dropped: 1, ..SiteLoss::default() }]);
    assert_eq!(loss.flows, [FlowLoss { flow: 2 << 56 | 9, records: 3, domain: "vm1".into() }]);
    assert_eq!((loss.unattributed, loss.unwritten), (2, 0));
    let (domain, kind) = ("vm1".to_owned(), "switch".to_owned());
    assert_eq!(loss.events, [EventLoss { domain: domain.clone(), kind, dropped: 10, missed: 20 }]);
    assert_eq!(loss.unloaded, [Unloaded { domain, module: "tun".to_owned(), sites: 1 }]);
    assert_eq!(manifest.lost, dropped + 2 + 1 + 10 + 20);
}

/// A guest that tells losses whenever it is asked, and more at the end; or leaves when they are known.
fn losing(over: &Path, leaves: bool) -> Agent {
    let (over, mut told) = (over.to_owned(), 0);
    scripted(
        "vm1",
        by(move |moment, voice: &mut Voice| {
            match moment {
                // What it is asked after it was asked before is asked when that answer is known.
                Moment::Asked(Request::Loss) if told == 2 => {
                    fs::write(&over, "")?;
                    if leaves {
                        return Ok(Done::Leave);
                    }
                    voice.reply(Reply::Loss(first_loss()))?;
                }
                Moment::Asked(Request::Loss) => {
                    told += 1;
                    voice.reply(Reply::Loss(first_loss()))?;
                }
                Moment::Asked(Request::Stop) => {
                    let mut loss = first_loss();
                    loss.sites[0].dropped = 500;
                    voice.event(Event::Clock(clock()))?;
                    voice.reply(Reply::Stopped(loss))?;
                }
                _ => return Ok(Done::Nothing),
            }
            Ok(Done::All)
        }),
    )
}

#[test]
fn losses_are_told_while_recording_and_in_the_trace_by_site_flow_and_kind() {
    let stage = Stage::new();
    let mut shown = 0;
    let mut look = |phase: Phase<'_>| {
        if let Phase::Recording { lost, .. } = phase {
            shown = lost;
        }
    };
    let guest = losing(&stage.over(), false);
    let outcome = stage.record_telling(stage.until_over(), honest("host", 10), guest, &mut look).unwrap();
    let (manifest, rows) = stage.read(&outcome);
    // What was told last counts: these are totals.
    assert_loss_is_told(&manifest, 500);
    assert_eq!(shown, 5 + 2 + 1 + 10 + 20);
    assert_eq!(exits(&manifest), [Some(Exit::Stopped), Some(Exit::Stopped)]);
    assert_eq!(rows.len(), 10);
}

#[test]
fn losses_of_a_domain_that_is_lost_are_those_it_told_last() {
    let stage = Stage::new();
    let outcome = stage.record(stage.until_over(), honest("host", 10), losing(&stage.over(), true)).unwrap();
    let (manifest, rows) = stage.read(&outcome);
    assert_loss_is_told(&manifest, 5);
    assert_eq!(lost(&manifest, 1), "the other end closed the connection");
    assert_eq!(rows.len(), 10);
}

#[test]
fn records_that_have_no_place_on_the_time_line_are_counted_as_lost() {
    let stage = Stage::new();
    let beyond = || {
        by(move |moment, voice: &mut Voice| {
            if matches!(moment, Moment::Asked(Request::Stop)) {
                let mut bytes = Vec::new();
                Record { time_ns: u64::MAX, ..voice.record(1) }.encode(&mut bytes);
                voice.event(Event::Records(bytes))?;
                let mut bytes = Vec::new();
                event::Event::new(event::Kind::Switch, u64::MAX - 1, 0, 1).encode(&mut bytes);
                voice.event(Event::Events(bytes))?;
            }
            Ok(Done::Nothing)
        })
    };
    let (host, guest) = (scripted("host", beyond()), scripted("vm1", beyond()));
    let outcome = stage.record(AT_ONCE, host, guest).unwrap();
    let (manifest, rows) = stage.read(&outcome);
    assert_eq!((rows.len(), manifest.events), (0, 0));
    assert_eq!((manifest.loss.unwritten, manifest.lost), (4, 4));
}

#[test]
fn events_that_come_when_later_ones_are_written_are_counted() {
    let stage = Stage::new();
    let (over, mut told) = (stage.over(), false);
    let late = by(move |moment, voice: &mut Voice| {
        if matches!(moment, Moment::Tick) && voice.recording && !told {
            told = true;
            let now = clock().mono_ns;
            let switch = |time_ns| {
                let mut bytes = Vec::new();
                event::Event::new(event::Kind::Switch, time_ns, 0, 1).encode(&mut bytes);
                Event::Events(bytes)
            };
            voice.event(switch(now))?;
            // Twice read, the clocks settle what was before.
            for _ in 0..3 {
                voice.event(Event::Clock(clock()))?;
            }
            voice.event(switch(now - 1_000_000))?;
            fs::write(&over, "")?;
        }
        Ok(Done::Nothing)
    });
    let outcome = stage.record(stage.until_over(), scripted("host", late), honest("vm1", 0)).unwrap();
    let (manifest, _) = stage.read(&outcome);
    assert_eq!(manifest.loss.late, [Late { domain: "host".into(), events: 1, most_ns: 1_000_000 }]);
    let times: Vec<_> = Trace::open(&stage.trace()).unwrap().events().map(|event| event.time_ns).collect();
    assert_eq!((times.len(), times[0]), (2, times[1]));
    assert_eq!((manifest.start_ns, manifest.end_ns), (times[0], times[0]));
}
