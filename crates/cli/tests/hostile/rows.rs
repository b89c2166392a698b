//! One attack a test.

use std::{fs, io, thread, time::Duration};

use xweave_synthetic::agent::{Done, Moment, Voice, by, clock};
use xweave_wire::{
    message::{
        ClockSample, Disk, Event, Failure, FailureKind, Loss, ModuleInfo, Reply, Request, SiteLoss, Woven,
    },
    record::{Kind, Record},
};

use crate::stage::{Domain, Recording, is_obeyed, record};

/// How soon the controller obeys Ctrl-C.
const OBEYED: Duration = Duration::from_secs(2);

/// How long anything may take that has no deadline of its own, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A guest that does so, beside an honest host.
fn beside_an_honest_host(guest: Domain, arguments: &str) -> Recording {
    record(vec![Domain::honest("host"), guest], arguments)
}

/// Never does anything again.
fn silent() -> io::Result<Done> {
    thread::sleep(Duration::from_secs(3600));
    Ok(Done::Leave)
}

#[test]
fn honest_domains_are_recorded_whole() {
    let guest = Domain::honest("vm1");
    let ended = beside_an_honest_host(guest, "--duration 1s").end_within(PATIENCE);
    ended.said(0, &["10000 records of host, vm1"]);
    assert_eq!((ended.records("host"), ended.records("vm1")), (5000, 5000));
    ended.wrote_nothing_else();
}

#[test]
fn a_path_is_no_identity() {
    let mut guest = Domain::honest("vm1");
    guest.facts.build_id = "../../outside".to_owned();
    let ended = beside_an_honest_host(guest, "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["domain vm1", "build ID", "../../outside"]);
    ended.wrote_nothing_else();

    let mut guest = Domain::honest("vm1");
    let module =
        ModuleInfo { name: "tun".into(), btf_sha256: "/../../../outside".into(), ..Default::default() };
    guest.facts.modules.push(module);
    beside_an_honest_host(guest, "--duration 1s").end_within(PATIENCE).said(1, &["domain vm1", "module"]);
}

#[test]
fn no_text_of_a_guest_becomes_part_of_a_path() {
    let mut guest = Domain::honest("vm1");
    let up = || "../../../outside".to_owned();
    let facts = &mut guest.facts;
    (facts.hostname, facts.kernel) = (up(), format!("6.12.0/{}", up()));
    (facts.boot_id, facts.vendor) = (up(), up());
    facts.disks.push(Disk { name: up(), major: 254, minor: 0 });
    let ended = beside_an_honest_host(guest, "--duration 1s").end_within(PATIENCE);
    ended.wrote_nothing_else();
    let of_trace = |folder: &str| {
        let files = fs::read_dir(ended.path("trace").join(folder)).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert!(of_trace("records").iter().all(|name| !name.contains("outside")), "{:?}", of_trace("records"));
    // It was taken for what it says, or refused: in neither case did it harm the host's part.
    assert!(ended.output.contains("outside"), "{}", ended.output);
    assert_eq!(ended.records("host"), if ended.status == Some(0) { 5000 } else { 0 });
}

#[test]
fn facts_beyond_all_bounds_are_refused() {
    let mut guest = Domain::honest("vm1");
    guest.facts.modules = vec![ModuleInfo { name: "m".into(), ..ModuleInfo::default() }; 10_000];
    let ended = beside_an_honest_host(guest, "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["domain vm1", "10000 modules"]);
    ended.within_budget();
}

#[test]
fn a_frame_longer_than_what_was_asked_for_is_not_read() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::DomainInfo) => {
            voice.raw(&(60u32 << 20).to_le_bytes())?;
            loop {
                voice.raw(&[0; 1 << 16])?;
            }
        }
        _ => Ok(Done::Nothing),
    });
    let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["domain vm1", "62914560 bytes"]);
    ended.within_budget();
}

#[test]
fn a_flood_before_the_preamble_is_refused() {
    let guest = by(|_, voice: &mut Voice| {
        loop {
            voice.raw(&[b'A'; 1 << 16])?;
        }
    });
    let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["domain vm1", "does not speak xweave's protocol"]);
    ended.within_budget();
}

#[test]
fn records_before_the_recording_are_refused() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::DomainInfo) => loop {
            voice.event(Event::Records(vec![0; 1 << 18]))?;
        },
        _ => Ok(Done::Nothing),
    });
    let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["domain vm1", "before it was asked to record"]);
    ended.within_budget();
}

#[test]
fn who_dribbles_the_preamble_does_not_keep_ctrl_c_waiting() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Hello => {
            voice.raw(b"X")?;
            silent()
        }
        _ => Ok(Done::Nothing),
    });
    let mut recording = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s");
    recording.wait_for("reaching vm1");
    recording.go_on(Duration::from_millis(300));
    recording.interrupt();
    recording.end_within(OBEYED).said(130, &["interrupted"]);
}

type Is = fn(&Request) -> bool;

/// A guest that never says a word from that request on.
fn silent_from(first: Is) -> Domain {
    let script = by(move |moment, _: &mut Voice| match moment {
        Moment::Asked(request) if first(request) => silent(),
        _ => Ok(Done::Nothing),
    });
    Domain::new("vm1", script)
}

#[test]
fn who_does_not_answer_does_not_keep_ctrl_c_waiting() {
    let phases: [(Is, &str); 4] = [
        (|request| matches!(request, Request::DomainInfo), "reaching vm1"),
        (|request| matches!(request, Request::Btf(_)), "reading vm1"),
        (|request| matches!(request, Request::Clock), "reading vm1"),
        (|request| matches!(request, Request::Weave(_)), "weaving"),
    ];
    for (silent, said) in phases {
        let mut recording = beside_an_honest_host(silent_from(silent), "--duration 1s");
        recording.wait_for(said);
        recording.go_on(Duration::from_millis(300));
        recording.interrupt();
        recording.end_within(OBEYED).said(130, &["interrupted"]);
    }
}

#[test]
fn weaving_without_end_does_not_keep_ctrl_c_waiting() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::Weave(_)) => loop {
            voice.event(Event::Weaving { done: 1, total: 2 })?;
        },
        _ => Ok(Done::Nothing),
    });
    let mut recording = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s");
    recording.wait_for("weaving");
    recording.go_on(Duration::from_millis(500));
    recording.interrupt();
    let ended = recording.end_within(OBEYED);
    ended.said(130, &["interrupted"]);
    ended.within_budget();
}

#[test]
fn who_dribbles_an_answer_does_not_keep_ctrl_c_waiting() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::DomainInfo) => loop {
            // A frame of a hundred bytes that comes a byte at a time.
            voice.raw(&100u32.to_le_bytes())?;
            for _ in 0..100 {
                voice.raw(&[0])?;
                thread::sleep(Duration::from_millis(50));
            }
        },
        _ => Ok(Done::Nothing),
    });
    let mut recording = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s");
    recording.wait_for("reaching vm1");
    recording.go_on(Duration::from_millis(500));
    recording.interrupt();
    recording.end_within(OBEYED).said(130, &["interrupted"]);
}

/// A guest that reads its clocks at that moment as often as it can, each time a tenth of a second later.
fn clocks_without_end(from: Is) -> Domain {
    let guest = by(move |moment, voice: &mut Voice| match moment {
        Moment::Asked(request) if from(request) => {
            let mut sample = clock();
            loop {
                sample.mono_ns += 100_000_000;
                (sample.tsc_before, sample.tsc_after) = (sample.mono_ns * 2, sample.mono_ns * 2 + 100);
                voice.event(Event::Clock(sample))?;
            }
        }
        _ => Ok(Done::Nothing),
    });
    Domain::new("vm1", guest)
}

#[test]
fn clocks_without_end_take_no_memory_without_end() {
    let mut recording =
        beside_an_honest_host(clocks_without_end(|request| matches!(request, Request::Weave(_))), "");
    recording.wait_for("weaving");
    recording.go_on(Duration::from_secs(10));
    recording.interrupt();
    let ended = recording.end_within(OBEYED);
    ended.said(130, &["interrupted"]);
    ended.within_budget();

    let mut recording =
        beside_an_honest_host(clocks_without_end(|request| matches!(request, Request::Loss)), "");
    recording.wait_for("recording");
    recording.go_on(Duration::from_secs(10));
    recording.interrupt();
    recording.wait_for("unweaving");
    recording.interrupt();
    let ended = recording.end_within(Duration::from_secs(1));
    assert_eq!(ended.records("host"), 5000);
    ended.within_budget();
}

#[test]
fn more_hooks_than_the_plan_has_are_not_believed() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::Weave(_)) => {
            voice.event(Event::Weaving { done: 1, total: 1_000_000 })?;
            Ok(Done::All)
        }
        _ => Ok(Done::Nothing),
    });
    let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["domain vm1", "1 of 1000000 hooks"]);
}

#[test]
fn who_reads_nothing_does_not_keep_ctrl_c_waiting() {
    // The plan does not fit into the pipes.
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Hello => voice.honest(moment).map(|()| Done::All),
        Moment::Asked(Request::Clock) => silent(),
        _ => Ok(Done::Nothing),
    });
    let mut recording = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s");
    recording.wait_for("reading vm1");
    recording.go_on(Duration::from_millis(300));
    recording.interrupt();
    recording.end_within(OBEYED).said(130, &["interrupted"]);
}

#[test]
fn who_falls_silent_while_recording_does_not_keep_the_others_waiting() {
    let guest = silent_from(|request| matches!(request, Request::Loss));
    let mut recording = beside_an_honest_host(guest, "");
    recording.wait_for("recording");
    recording.go_on(Duration::from_secs(3));
    recording.interrupt();
    recording.wait_for("unweaving");
    recording.go_on(Duration::from_millis(500));
    recording.interrupt();
    let ended = recording.end_within(Duration::from_secs(1));
    ended.said(1, &["domain vm1 was lost", "second Ctrl-C"]);
    assert_eq!(ended.records("host"), 5000);
}

#[test]
fn a_flood_of_records_is_read_no_faster_than_it_may_come() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Tick if voice.recording => {
            let mut bytes = Vec::new();
            let one = voice.record(1);
            (0..4000).for_each(|_| one.encode(&mut bytes));
            for _ in 0..1000 {
                voice.event(Event::Records(bytes.clone()))?;
            }
            Ok(Done::All)
        }
        _ => Ok(Done::Nothing),
    });
    let mut recording = beside_an_honest_host(Domain::new("vm1", guest), "");
    recording.wait_for("recording");
    recording.go_on(Duration::from_secs(5));
    recording.interrupt();
    recording.wait_for("unweaving");
    recording.interrupt();
    let ended = recording.end_within(Duration::from_secs(3));
    assert_eq!(ended.records("host"), 5000);
    ended.within_budget();
}

#[test]
fn records_of_times_to_come_are_cut_off_at_the_budget() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Tick if voice.recording => {
            let mut bytes = Vec::new();
            let later = Record { time_ns: clock().mono_ns + (3600 << 30), ..voice.record(1) };
            (0..4000).for_each(|_| later.encode(&mut bytes));
            loop {
                voice.event(Event::Records(bytes.clone()))?;
            }
        }
        _ => Ok(Done::Nothing),
    });
    let guest = Domain::new("vm1", guest);
    let mut recording = beside_an_honest_host(guest, "");
    recording.wait_for("recording");
    recording.go_on(Duration::from_secs(12));
    recording.interrupt();
    let ended = recording.end_within(PATIENCE);
    ended.said(1, &["domain vm1 was lost", "cut off", "256 MiB"]);
    assert_eq!(ended.records("host"), 5000);
    ended.within_budget();
}

/// A guest that does one more thing at the first tick of its recording.
fn once_recording(act: impl Fn(&mut Voice) -> io::Result<()> + Send + 'static) -> Domain {
    let mut acted = false;
    Domain::new(
        "vm1",
        by(move |moment, voice: &mut Voice| {
            if voice.recording && !acted && matches!(moment, Moment::Tick) {
                acted = true;
                act(voice)?;
            }
            Ok(Done::Nothing)
        }),
    )
}

/// Such a guest is cut off with these words, and the host's records are whole.
fn assert_cut_off(act: impl Fn(&mut Voice) -> io::Result<()> + Send + 'static, words: &[&str]) {
    let ended = beside_an_honest_host(once_recording(act), "--duration 2s").end_within(PATIENCE);
    ended.said(1, &["domain vm1 was lost", "cut off"]);
    ended.said(1, words);
    assert_eq!(ended.records("host"), 5000);
    let domains = &ended.manifest()["domains"];
    assert!(domains[1]["exit"]["reason"].as_str().unwrap().contains("cut off"), "{domains}");
}

fn sends(
    change: impl Fn(&mut Record) + Send + 'static,
) -> impl Fn(&mut Voice) -> io::Result<()> + Send + 'static {
    move |voice| {
        let mut record = voice.record(1);
        change(&mut record);
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        voice.event(Event::Records(bytes))
    }
}

#[test]
fn another_domains_flows_cannot_be_forged() {
    assert_cut_off(
        sends(|record| record.flow = 1 << 56 | 7),
        &["flow 0x100000000000007", "another domain's"],
    );
    assert_cut_off(
        sends(|record| {
            record.kind = Kind::Split;
            record.values = vec![1 << 56 | 7, 1, 2];
        }),
        &["flow 0x100000000000007"],
    );
}

#[test]
fn another_domains_sites_cannot_be_forged() {
    assert_cut_off(sends(|record| record.site = 1), &["site 1", "not in its plan"]);
}

#[test]
fn another_domains_losses_cannot_be_forged() {
    let lies = |loss: Loss| {
        let guest = by(move |moment, voice: &mut Voice| match moment {
            Moment::Asked(Request::Loss) => voice.reply(Reply::Loss(loss.clone())).map(|()| Done::All),
            _ => Ok(Done::Nothing),
        });
        let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 2s").end_within(PATIENCE);
        ended.said(1, &["domain vm1 was lost", "cut off", "losses of"]);
    };
    lies(Loss { sites: vec![SiteLoss { site: 1, dropped: 9, ..SiteLoss::default() }], ..Loss::default() });
    lies(Loss { flows: vec![(1 << 56 | 7, 9)], ..Loss::default() });
}

#[test]
fn bytes_that_are_no_records_end_a_domains_part() {
    assert_cut_off(|voice| voice.event(Event::Records(vec![0xff; 500])), &["could not be understood"]);
    assert_cut_off(|voice| voice.event(Event::Events(vec![0xff; 500])), &["could not be understood"]);
    assert_cut_off(|voice| voice.reply(Reply::Done), &["not asked"]);
}

#[test]
fn answers_to_other_questions_are_refused() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::DomainInfo) => voice.reply(Reply::Woven(Woven::default())).map(|()| Done::All),
        _ => Ok(Done::Nothing),
    });
    let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["domain vm1", "does not fit"]);
}

#[test]
fn what_domains_say_does_not_reach_the_terminal_unescaped() {
    const ESCAPE: &str = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}";
    let mut guest = once_recording(sends(|record| record.comm = *b"\x1b[2J\x07evil\0\0\0\0\0\0\0"));
    guest.facts.hostname = format!("h{ESCAPE}");
    guest.facts.kernel = format!("6.12{ESCAPE}");
    let ended = beside_an_honest_host(guest, "--duration 1s").end_within(PATIENCE);
    ended.said(0, &["6.12\\u{1b}]0;owned\\u{7}"]);
    assert!(!is_obeyed(&ended.output), "{:?}", ended.output);
    let flows = ended.ask(&["flows", "--limit", "100"]);
    assert!(!is_obeyed(&flows), "{flows:?}");
    assert!(!is_obeyed(&fs::read_to_string(ended.path("trace/trace.json")).unwrap()));

    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::Weave(_)) => {
            let message = format!("no{ESCAPE}\nsecond line");
            let failed = Reply::Failed(Failure { kind: FailureKind::Verifier, message });
            voice.reply(failed).map(|()| Done::All)
        }
        _ => Ok(Done::Nothing),
    });
    let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s").end_within(PATIENCE);
    ended.said(1, &["no\\u{1b}]0;owned\\u{7}", "\nsecond line"]);
    assert!(!is_obeyed(&ended.output), "{:?}", ended.output);
}

#[test]
fn types_that_are_none_are_an_error() {
    for btf in [Vec::new(), vec![0; 64], vec![0xff; 60 << 20]] {
        let mut guest = Domain::honest("vm1");
        guest.btf = btf;
        let ended = beside_an_honest_host(guest, "--duration 1s").end_within(PATIENCE);
        ended.said(1, &["domain vm1"]);
        ended.within_budget();
    }
}

#[test]
fn a_domain_that_fills_its_share_of_the_disk_is_cut_off() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Tick if voice.recording => {
            let mut bytes = Vec::new();
            for number in 0..4000u64 {
                let noise = |nth: u64| {
                    (number + nth).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ clock().mono_ns
                };
                Record { values: (0..7).map(noise).collect(), ..voice.record(number) }.encode(&mut bytes);
            }
            voice.event(Event::Records(bytes))?;
            Ok(Done::Nothing)
        }
        _ => Ok(Done::Nothing),
    });
    let mut recording = beside_an_honest_host(Domain::new("vm1", guest), "--max-size 16M");
    recording.wait_for("recording");
    recording.go_on(Duration::from_secs(10));
    recording.interrupt();
    let ended = recording.end_within(PATIENCE);
    ended.said(1, &["domain vm1 was lost", "cut off", "8 MiB", "--max-size"]);
    assert_eq!(ended.records("host"), 5000);
    // What is collected for a row group when the share is reached is written still.
    assert!(ended.size() < 24 << 20, "{} bytes", ended.size());
}

#[test]
fn who_does_not_stop_is_told_and_cut_off_at_the_second_ctrl_c() {
    let guest = by(|moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::Stop) => loop {
            voice.event(Event::Clock(clock()))?;
            thread::sleep(Duration::from_millis(10));
        },
        _ => Ok(Done::Nothing),
    });
    let mut recording = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s");
    recording.wait_for("unweaving");
    recording.go_on(Duration::from_secs(1));
    recording.interrupt();
    recording.go_on(Duration::from_millis(200));
    recording.interrupt();
    let ended = recording.end_within(Duration::from_secs(1));
    ended.said(1, &["domain vm1 was lost", "second Ctrl-C"]);
    assert_eq!(ended.records("host"), 5000);
}

#[test]
fn a_slow_domain_is_waited_for() {
    let guest = by(|moment, _: &mut Voice| {
        if matches!(moment, Moment::Asked(_)) {
            thread::sleep(Duration::from_millis(200));
        }
        Ok(Done::Nothing)
    });
    let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 1s").end_within(PATIENCE);
    ended.said(0, &["10000 records"]);
    assert!(ended.took > Duration::from_secs(3));
}

#[test]
fn a_clock_that_jumps_for_ever_leaves_other_domains_times_alone() {
    let mut read = 0;
    let mut jumped = move || {
        read += 1;
        // An honest clock for a second or so, as it takes to be believed; then three hours on each time.
        let hours = u64::from(read > 40) * (read - 40.min(read)) * 3;
        ClockSample { mono_ns: clock().mono_ns + hours * 3_600_000_000_000, ..clock() }
    };
    let guest = by(move |moment, voice: &mut Voice| match moment {
        Moment::Asked(Request::Clock) => voice.reply(Reply::Clock(jumped())).map(|()| Done::All),
        Moment::Tick if voice.recording => voice.event(Event::Clock(jumped())).map(|()| Done::Nothing),
        _ => Ok(Done::Nothing),
    });
    let ended = beside_an_honest_host(Domain::new("vm1", guest), "--duration 6s").end_within(PATIENCE);
    ended.said(0, &["note: vm1: its clock stepped", "its times are not exact", "10000 records"]);
    assert_eq!((ended.records("host"), ended.records("vm1")), (5000, 5000));
    let clocks = &ended.manifest()["clocks"];
    let breaks = clocks[1]["breaks"].as_array().unwrap();
    assert!((1..=65).contains(&breaks.len()), "{clocks}");
    assert!(clocks[0].get("breaks").is_none() && clocks[0]["error_ns"] == 0, "{clocks}");
    assert!(ended.ask(&["flows"]).contains("clock break"), "{}", ended.ask(&["flows"]));
    ended.within_budget();
}
