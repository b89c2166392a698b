//! A trace directory as a whole: round trip, killed in the middle, damaged, full disk.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod child;
mod made;

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use child::in_child;
use made::{fill, manifest, record, segments};

use proptest::prelude::*;
use xweave_trace::{
    ErrorKind, Event, EventLoss, Loss, Row, SCHEMA, Site, SiteLoss, Trace, Unloaded, Writer, event,
};
use xweave_wire::record::{Kind, Record};

fn any_record() -> impl Strategy<Value = Record> {
    (
        any::<[u64; 2]>(),
        any::<[u32; 3]>(),
        any::<u16>(),
        0u8..=6,
        "[a-z:/ü]{0,9}",
        proptest::collection::vec(any::<u64>(), 0..=7),
    )
        .prop_map(|([time_ns, flow], [site, pid, tid], cpu, kind, name, values)| {
            let mut comm = [0; 16];
            let name = &name.as_bytes()[..name.len().min(16)];
            // The kernel cuts names anywhere; whole characters are what survives the trip exactly.
            if std::str::from_utf8(name).is_ok() {
                comm[..name.len()].copy_from_slice(name);
            }
            let kind = Kind::from_byte(kind).unwrap();
            Record { time_ns, flow, site, pid, tid, cpu, kind, comm, values }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_is_read(
        batches in proptest::collection::vec(
            proptest::collection::vec((1u8..=2, any::<i64>(), any_record()), 0..40),
            0..5,
        )
    ) {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("trace");
        let mut writer = Writer::create(&dir, manifest()).unwrap();
        let mut expected: Vec<Row> = Vec::new();
        for batch in &batches {
            for (domain, time, record) in batch {
                writer.append(*domain, *time, record).unwrap();
                expected.push(Row::new(*domain, *time, record));
            }
            writer.flush().unwrap();
        }
        let written = writer.finish().unwrap();
        let trace = Trace::open(&dir).unwrap();
        prop_assert_eq!(trace.manifest(), &written);
        prop_assert!(written.complete);
        prop_assert_eq!(written.records, expected.len() as u64);
        let (rows, damaged) = trace.rows();
        prop_assert!(damaged.is_empty());
        // Order is kept within a domain; domains are in files of their own.
        for domain in 1..=2 {
            let of = |rows: &[Row]| {
                let mut rows: Vec<Row> = rows.iter().filter(|r| r.domain == domain).copied().collect();
                rows.sort_by_key(|r| (r.time_ns, r.flow));
                rows
            };
            prop_assert_eq!(of(&rows), of(&expected));
        }
    }
}

#[test]
fn sites_survive_with_and_without_debug_information() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path();
    let full = Site {
        site: 7,
        domain: "vm1".into(),
        aspect: "virtio-net".into(),
        advice: "transit".into(),
        function: "virtqueue_add_outbuf".into(),
        offset: 0x1c,
        address: 0xffff_ffff_c012_3456,
        module: Some("virtio_ring".into()),
        file: Some("drivers/virtio/virtio_ring.c".into()),
        line: Some(2211),
        action: "xin".into(),
        xflow: Some("virtio_tx".into()),
        carrier: Some("virtqueue".into()),
        hook: Some("kprobe".into()),
        values: vec!["len".into(), "ifindex".into()],
    };
    let bare = Site { site: 8, domain: "host".into(), function: "netif_rx".into(), ..Site::default() };
    let mut writer = Writer::create(dir, manifest()).unwrap();
    writer.sites(std::slice::from_ref(&bare)).unwrap();
    writer.sites(&[full.clone(), bare.clone()]).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(dir).unwrap();
    assert_eq!(trace.sites(), [full.clone(), bare]);
    assert_eq!(trace.site(7), Some(&full));
    assert!(trace.site(1).is_none() && trace.sites_damaged().is_none());
}

#[test]
fn a_killed_recording_leaves_what_was_closed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    let mut writer = Writer::create(&dir, manifest()).unwrap();
    fill(&mut writer, 1, 100);
    writer.flush().unwrap();
    fill(&mut writer, 2, 70_000);
    assert_eq!(segments(&dir).len(), 2, "one closed, one under way");
    // As SIGKILL would: nothing is closed, nothing cleaned up.
    std::mem::forget(writer);
    let trace = Trace::open(&dir).unwrap();
    assert!(!trace.manifest().complete);
    assert_eq!(trace.manifest().records, 100);
    let (rows, damaged) = trace.rows();
    assert_eq!((rows.len(), damaged.len()), (100, 0));
}

/// What lies below an error, the nearest first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

#[test]
fn a_damaged_file_is_named_and_the_others_are_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path();
    let mut writer = Writer::create(dir, manifest()).unwrap();
    for _ in 0..3 {
        fill(&mut writer, 1, 500);
        writer.flush().unwrap();
    }
    writer.sites(&[Site::default()]).unwrap();
    writer.finish().unwrap();
    let broken = &segments(dir)[1];
    let whole = fs::read(broken).unwrap();
    for damage in [&whole[..whole.len() / 2], b"", b"PAR1 but nothing else PAR1"] {
        fs::write(broken, damage).unwrap();
        let (rows, damaged) = Trace::open(dir).unwrap().rows();
        assert_eq!(rows.len(), 1000);
        assert_eq!(damaged.iter().map(|d| &d.file).collect::<Vec<_>>(), [broken]);
        assert!(!damaged[0].reason().is_empty());
        assert!(causes(&damaged[0]).any(|cause| cause.to_string() == damaged[0].reason()), "{damaged:?}");
    }
    fs::write(dir.join("sites.parquet"), b"no").unwrap();
    let trace = Trace::open(dir).unwrap();
    assert!(trace.sites_damaged().unwrap().to_string().contains("sites.parquet cannot be read"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever a disk does to a file, reading ends, and never in a panic.
    #[test]
    fn flipped_bytes_do_no_harm(flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path();
        let mut writer = Writer::create(dir, manifest()).unwrap();
        fill(&mut writer, 1, 60);
        writer.sites(&[Site { function: "f".into(), ..Site::default() }]).unwrap();
        writer.finish().unwrap();
        for path in [segments(dir)[0].clone(), dir.join("sites.parquet")] {
            let mut bytes = fs::read(&path).unwrap();
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            fs::write(&path, bytes).unwrap();
        }
        let _ = Trace::open(dir).unwrap().rows();
    }
}

/// Bytes that a file of this process may have.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is read only; a signal that is ignored has no handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

#[test]
fn a_full_disk_costs_the_open_segment_only_and_is_counted() {
    // Limits are a process's: the other tests go on without.
    if !in_child("a_full_disk_costs_the_open_segment_only_and_is_counted") {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path();
    let mut writer = Writer::create(dir, manifest()).unwrap();
    fill(&mut writer, 1, 100);
    writer.flush().unwrap();
    // No file may become as large as the next segment of the host.
    limit_files(16 << 10);
    fill(&mut writer, 1, 5000);
    fill(&mut writer, 2, 30);
    let error = writer.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(error.to_string().contains("host-000002.parquet"), "{error}");
    assert!(causes(&error).any(|cause| cause.is::<io::Error>()), "{error:?}");
    limit_files(libc::RLIM_INFINITY);
    fill(&mut writer, 1, 10);
    let manifest = writer.finish().unwrap();
    assert_eq!((manifest.records, manifest.loss.unwritten, manifest.lost), (140, 5000, 5000));
    assert_eq!(Trace::open(dir).unwrap().rows().0.len(), 140);
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path();
    let kind = |dir: &Path| Trace::open(dir).err().map(|e| (e.kind(), e.to_string())).unwrap();
    assert_eq!(kind(&dir.join("missing")).0, ErrorKind::NotATrace);
    assert_eq!(kind(dir).0, ErrorKind::NotATrace);
    fs::write(dir.join("trace.json"), "{").unwrap();
    assert_eq!(kind(dir).0, ErrorKind::Damaged);
    fs::write(dir.join("trace.json"), "{}").unwrap();
    assert_eq!(kind(dir).0, ErrorKind::NotATrace);
    let newer = format!(r#"{{"schema": {}, "xweave": "9.9", "domains": "of another shape"}}"#, SCHEMA + 1);
    fs::write(dir.join("trace.json"), newer).unwrap();
    let (newer, message) = kind(dir);
    assert_eq!(newer, ErrorKind::NewerSchema);
    assert!(message.contains("9.9"), "{message}");
    // Fields that came later, and fields that another program left out.
    fs::write(
        dir.join("trace.json"),
        r#"{"schema": 1, "later": [1], "domains": [{"name": "a", "number": 3}]}"#,
    )
    .unwrap();
    assert_eq!(Trace::open(dir).unwrap().domain(3).unwrap().name, "a");
}

#[test]
fn a_trace_is_replaced_only_when_asked() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path();
    let mut writer = Writer::create(dir, manifest()).unwrap();
    fill(&mut writer, 1, 10);
    writer.finish().unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    assert_eq!(Writer::create(dir, manifest()).err().unwrap().kind(), ErrorKind::Exists);
    let mut writer = Writer::replace(dir, manifest()).unwrap();
    fill(&mut writer, 1, 4);
    writer.finish().unwrap();
    assert_eq!(Trace::open(dir).unwrap().rows().0.len(), 4);
    assert!(dir.join("notes.txt").exists());
}

#[test]
fn misuse_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let mut twice = manifest();
    twice.domains[1].number = 1;
    assert_eq!(Writer::create(parent.path(), twice).err().unwrap().kind(), ErrorKind::Misuse);
    let mut writer = Writer::create(parent.path(), manifest()).unwrap();
    assert_eq!(writer.append(9, 0, &record(0)).unwrap_err().kind(), ErrorKind::Misuse);
}

#[test]
fn loss_is_added_up_over_domains() {
    use xweave_wire::message;
    let site = |site, dropped, missed| message::SiteLoss {
        site,
        dropped,
        missed,
        table_full: 1,
        faults: 5,
        overwritten: 6,
    };
    let mut loss = Loss { unwritten: 5, ..Loss::default() };
    let event = message::EventLoss { kind: event::Kind::Switch, dropped: 20, missed: 4 };
    let gone = message::Unloaded { module: "tun".into(), sites: 3 };
    let of_host = message::Loss {
        sites: vec![site(1, 2, 0)],
        flows: vec![(9, 2)],
        unattributed: 1,
        ..Default::default()
    };
    let of_guest = message::Loss {
        sites: vec![site(2, 0, 3)],
        unattributed: 1,
        events: vec![event],
        unloaded: vec![gone],
        ..Default::default()
    };
    loss.set(&[("host", &of_host), ("vm1", &of_guest)]);
    assert_eq!((loss.total(), loss.unattributed, loss.flows.len()), (34, 2, 1));
    let switches = EventLoss { domain: "vm1".into(), kind: "switch".into(), dropped: 20, missed: 4 };
    assert_eq!(loss.events, [switches]);
    assert_eq!(
        loss.sites[1],
        SiteLoss { site: 2, dropped: 0, missed: 3, table_full: 1, faults: 5, overwritten: 6 }
    );
    assert_eq!(loss.unloaded, [Unloaded { domain: "vm1".into(), module: "tun".into(), sites: 3 }]);
}

#[test]
fn parts_are_bounded() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path();
    let mut writer = Writer::create(dir, manifest()).unwrap();
    fill(&mut writer, 1, 150_000);
    writer.finish().unwrap();
    let sizes: Vec<usize> = Trace::open(dir).unwrap().parts().map(|part| part.unwrap().rows.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 150_000);
    assert!(sizes.iter().all(|&n| n <= 8_192), "{sizes:?}");
}

/// Found by a fuzz target: a manifest whose losses are more than a number can hold.
#[test]
fn losses_without_measure_are_the_most_that_there_is() {
    let site = SiteLoss { dropped: u64::MAX, missed: 7, ..SiteLoss::default() };
    let loss = Loss { sites: vec![site, site], unwritten: 1, ..Loss::default() };
    assert_eq!(loss.total(), u64::MAX);
}

#[test]
fn events_of_a_vcpu_say_which_process_runs_it() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&parent.path().join("trace"), manifest()).unwrap();
    let thread = Event { other: 71, object: 70, ..Event::new(event::Kind::Thread, 1, 0, 0, 0) };
    let ended = Event::new(event::Kind::Exit, 1, 30, 0, 71);
    let enter = |domain, time_ns| Event::new(event::Kind::VmEnter, domain, time_ns, 0, 71);
    for event in [thread, enter(1, 10), enter(2, 20), ended, enter(1, 40)] {
        writer.event(event).unwrap();
    }
    writer.finish().unwrap();
    let trace = Trace::open(&parent.path().join("trace")).unwrap();
    let entered = trace.events().filter(|event| event.kind == event::Kind::VmEnter);
    assert_eq!(Vec::from_iter(entered.map(|event| event.other)), [70, 0, 0]);
}

/// An event of each kind, in two domains whose times alternate.
#[test]
fn events_come_back_in_the_order_of_their_times() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    let mut writer = Writer::create(&dir, manifest()).unwrap();
    let name = writer.name("nginx");
    let mut written = Vec::new();
    for (nth, kind) in (0..3).flat_map(|_| event::Kind::ALL).enumerate() {
        let nth = u32::try_from(nth).unwrap();
        let domain = u8::try_from(nth % 2 + 1).unwrap();
        let event = Event {
            other: nth % 5,
            object: u64::from(nth) << 40,
            position: u64::from(nth % 3),
            bytes: u64::MAX - u64::from(nth),
            code: 1 - i32::try_from(nth % 4).unwrap(),
            name: if nth % 2 == 0 { name } else { event::Name::default() },
            ..Event::new(kind, domain, i64::from(nth) * 10 - 50, nth % 4, nth)
        };
        writer.event(event).unwrap();
        written.push(event);
        if nth % 20 == 19 {
            writer.flush().unwrap();
        }
    }
    assert_eq!(writer.finish().unwrap().events, written.len() as u64);

    let trace = Trace::open(&dir).unwrap();
    let mut events = trace.events();
    let read: Vec<_> = events.by_ref().collect();
    assert!(events.damaged().is_empty(), "{:?}", events.damaged());
    // Names have other numbers than when they were written, and the same texts.
    let nginx = read[0].name;
    assert_eq!(events.names().text(nginx), "nginx");
    assert!(written.iter().zip(&read).all(|(a, b)| (a.name == name) == (b.name == nginx)));
    let nameless = |events: &[Event]| -> Vec<_> {
        events.iter().map(|event| Event { name: event::Name::default(), ..*event }).collect()
    };
    assert_eq!(nameless(&read), nameless(&written));

    // A damaged file costs its own events only.
    let files: Vec<_> = fs::read_dir(dir.join("events")).unwrap().map(|e| e.unwrap().path()).collect();
    fs::write(files.iter().max().unwrap(), b"PAR1 no table").unwrap();
    let mut events = trace.events();
    let left = events.by_ref().count();
    assert!(left < written.len() && left > 0 && events.damaged().len() == 1, "{left}");
}

/// So many threads, each with a name of its own.
fn rename(writer: &mut Writer, domain: u8, names: std::ops::Range<u32>) {
    for nth in names {
        let name = writer.name_of(domain, &format!("{domain}-{nth}"));
        let event = Event::new(event::Kind::Thread, domain, nth.into(), 0, 0);
        writer.event(Event { other: nth, name, ..event }).unwrap();
    }
}

#[test]
fn names_without_end_cost_no_other_domain_its_names_and_not_the_trace() {
    const MANY: u32 = 200_000;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    let mut writer = Writer::create(&dir, manifest()).unwrap();
    for tenth in 0..10 {
        rename(&mut writer, 2, tenth * MANY / 10..(tenth + 1) * MANY / 10);
        rename(&mut writer, 1, tenth * 10..(tenth + 1) * 10);
        writer.flush().unwrap();
    }
    let manifest = writer.finish().unwrap();
    let [told] = &manifest.warnings[..] else { panic!("{:?}", manifest.warnings) };
    assert_eq!(
        told,
        "vm/1: 134464 events are stored without a name: they had more than 65536 different ones"
    );

    let trace = Trace::open(&dir).unwrap();
    let mut events = trace.events();
    let read: Vec<_> = events.by_ref().collect();
    assert_eq!((read.len(), events.damaged().len()), (MANY as usize + 100, 0));
    for event in read {
        let named = event.domain == 1 || event.other < 65_536;
        let text = if named { format!("{}-{}", event.domain, event.other) } else { String::new() };
        assert_eq!(events.names().text(event.name), text);
    }
}

/// As a version wrote it that did not count names: one domain has more than are taken, in several files.
#[test]
fn one_domains_names_beyond_all_bounds_leave_the_others_readable() {
    const MANY: u32 = 1_300_000;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    let mut written = Vec::new();
    // Each part is of a writer of its own, so that none leaves a name out; their files are put together.
    for part in 0..MANY.div_ceil(50_000) {
        let one = parent.path().join(format!("part-{part}"));
        let mut writer = Writer::create(&one, manifest()).unwrap();
        rename(&mut writer, 2, part * 50_000..(part + 1) * 50_000);
        // At the very end, so that it comes when no room is left.
        if part == MANY / 50_000 - 1 {
            rename(&mut writer, 1, MANY..MANY + 100);
        }
        writer.finish().unwrap();
        written.push(one);
    }
    Writer::create(&dir, manifest()).unwrap().finish().unwrap();
    fs::create_dir_all(dir.join("events")).unwrap();
    for (part, one) in written.iter().enumerate() {
        for file in fs::read_dir(one.join("events")).unwrap().map(|entry| entry.unwrap()) {
            let name = file.file_name().into_string().unwrap();
            let domain = name.split('-').next().unwrap();
            fs::rename(file.path(), dir.join(format!("events/{domain}-{part:06}.parquet"))).unwrap();
        }
    }
    let trace = Trace::open(&dir).unwrap();
    let mut events = trace.events();
    let read: Vec<_> = events.by_ref().collect();
    let of_host: Vec<_> = read.iter().filter(|event| event.domain == 1).collect();
    assert_eq!(of_host.len(), 100);
    assert!(of_host.iter().all(|event| events.names().text(event.name) == format!("1-{}", event.other)));
    let is_of_guest = |damaged: &xweave_trace::Damaged| {
        damaged.reason().contains("more names")
            && damaged.file.file_name().unwrap().to_str().unwrap().starts_with("vm_1-")
    };
    assert!(
        !events.damaged().is_empty() && events.damaged().iter().all(is_of_guest),
        "{:?}",
        events.damaged()
    );
    // What a domain may have, and what all may have besides, is read.
    assert!(read.len() > 1_100_000 && read.len() < MANY as usize, "{}", read.len());
    assert_eq!(events.names().all().len(), 65_536 + (1 << 20) + 100 + 1);
}

#[test]
fn numbers_come_back_whether_few_of_them_differ_or_many() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    let mut writer = Writer::create(&dir, manifest()).unwrap();
    // Of vCPUs whose process is told, the writer would add that.
    let tells = |kind: &event::Kind| matches!(kind, event::Kind::Fork | event::Kind::Thread);
    let kinds: Vec<_> = event::Kind::ALL.into_iter().filter(|kind| !tells(kind)).collect();
    // More than a group of rows: what is few in one is many in the other.
    let written: Vec<Event> = (0..100_000u32)
        .map(|nth| {
            let early = nth < 65_536;
            Event {
                object: if early { u64::from(nth % 3) } else { u64::MAX - u64::from(nth) },
                position: u64::from(nth).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                bytes: if nth == 77_777 { 1 } else { 0 },
                other: if early { 0 } else { nth % 5000 },
                code: if nth % 2 == 0 { i32::MIN } else { i32::MAX },
                ..Event::new(kinds[nth as usize % 29], 1, i64::from(nth), nth % 2, nth % 4097)
            }
        })
        .collect();
    for event in &written {
        writer.event(*event).unwrap();
    }
    writer.finish().unwrap();
    let trace = Trace::open(&dir).unwrap();
    let mut events = trace.events();
    assert!(events.by_ref().eq(written.iter().copied()));
    assert!(events.damaged().is_empty(), "{:?}", events.damaged());
}

#[test]
fn parts_are_all_records_and_nothing_earlier_than_told_follows() {
    const RECORDS: u64 = 300_000;
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), manifest()).unwrap();
    for i in 0..RECORDS {
        // Two domains; the second's times lie apart, and a little out of order.
        let domain = u8::try_from(i % 2).unwrap() + 1;
        let time = i64::try_from(if domain == 1 { i } else { RECORDS / 2 + (i ^ 0xff) }).unwrap();
        writer.append(domain, time, &record(i)).unwrap();
    }
    writer.finish().unwrap();
    let trace = Trace::open(parent.path()).unwrap();
    let parts: Vec<_> = trace.parts().map(Result::unwrap).collect();
    assert_eq!(trace.parts().rows(), RECORDS);
    let mut least = i64::MAX;
    for part in parts.iter().rev() {
        assert!(part.before_ns <= least, "{} is told, and {least} follows", part.before_ns);
        least = part.rows.iter().map(|row| row.time_ns).min().unwrap().min(least);
    }
    // Told often enough to be done with what is read.
    let told: Vec<i64> = parts.iter().map(|part| part.before_ns).filter(|ns| *ns > i64::MIN).collect();
    assert!(told.is_sorted() && told.len() >= 4, "{told:?}");
    let sorted = |mut rows: Vec<Row>| {
        rows.sort_by_key(|row| (row.domain, row.time_ns, row.flow));
        rows
    };
    let read = parts.into_iter().flat_map(|part| part.rows).collect();
    assert!(sorted(read) == sorted(trace.rows().0), "the same records");
}

#[test]
fn parts_tell_of_a_damaged_file_once_and_go_on() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), manifest()).unwrap();
    for i in 0..200_000 {
        writer.append(u8::try_from(i % 2).unwrap() + 1, i64::try_from(i).unwrap(), &record(i)).unwrap();
    }
    writer.finish().unwrap();
    let folder = parent.path().join("records");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut bytes = fs::read(&files[0]).unwrap();
    // A page's header; then a file without an end.
    bytes[4..64].fill(0xff);
    fs::write(&files[0], &bytes).unwrap();
    fs::write(folder.join("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    let trace = Trace::open(parent.path()).unwrap();
    let (parts, damaged): (Vec<_>, Vec<_>) = trace.parts().partition(Result::is_ok);
    let rows: usize = parts.into_iter().map(|part| part.unwrap().rows.len()).sum();
    assert_eq!(damaged.len(), 2);
    assert_eq!(rows, 100_000, "the other domain's");
}
