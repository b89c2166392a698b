//! Files that claim more than they hold, and name things so that a terminal obeys them.

use crate::common::xentrace;
use std::time::Instant;

use crate::common::{Scratch, unpacked};
use xweave_import::{Error, ErrorKind, Input, Options, Sink, decode};
use xweave_trace::{
    Event,
    event::{Kind, Name, Names},
    xen,
};

/// Counts events, and keeps none.
#[derive(Default)]
struct Counted {
    names: Names,
    events: u64,
}

impl Sink for Counted {
    fn name(&mut self, text: &str) -> Name {
        self.names.give(text)
    }

    fn event(&mut self, _: Event) -> Result<(), Error> {
        self.events += 1;
        Ok(())
    }
}

fn events(file: Vec<u8>) -> Result<(u64, Vec<String>), Error> {
    let mut out = Counted::default();
    let outcome = decode(vec![("file".into(), Input::of(file))], &Options::default(), &mut out)?;
    Ok((out.events, outcome.damage))
}

/// What a text in a trace.dat is behind.
fn place(file: &[u8], of: &[u8]) -> usize {
    file.windows(of.len()).position(|bytes| bytes == of).unwrap()
}

/// The options of a trace.dat of version 6 tell of a buffer whose options are the same ones, and tell of it again.
#[test]
fn a_buffer_that_tells_of_itself_ends() {
    let mut file = unpacked("bash-v6.dat");
    let options = place(&file, b"options  \0");
    // An option of kind 3, a buffer: where it is, and its name.
    let mut buffer = vec![3, 0, 10, 0, 0, 0];
    buffer.extend((options as u64).to_le_bytes());
    buffer.extend([b'x', 0]);
    file.splice(options + 10..options + 10, buffer);
    let start = Instant::now();
    assert!(events(file).is_err());
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn more_processors_than_there_are_is_damage() {
    let file = unpacked("bash-v6.dat");
    let options = place(&file, b"options  \0");
    let mut many = file.clone();
    many[options - 4..options].copy_from_slice(&(1u32 << 31).to_le_bytes());
    let error = events(many).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("2147483648 CPUs"), "{error}");
}

/// One section of options follows itself: it is read until it is known that no file has as many.
#[test]
fn sections_are_bounded_together() {
    let mut file = unpacked("host.dat");
    // Magic, version, byte order, size of a long, size of a page, compression and its version; then where the first
    // section of options is.
    let packing = place(&file, b"zstd\0");
    let version = packing + 5 + file[packing + 5..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let at = file.len() as u64;
    file[version..version + 8].copy_from_slice(&at.to_le_bytes());
    // A section of options that is not packed: an unknown one of 60 MB, and the last one, which leads to this again.
    let large = 60usize << 20;
    let mut section = vec![0u8; 0];
    section.extend(0u16.to_le_bytes());
    section.extend(0u16.to_le_bytes());
    section.extend(0u32.to_le_bytes());
    let content = 6 + large + 6 + 8;
    section.extend((content as u64).to_le_bytes());
    section.extend(99u16.to_le_bytes());
    section.extend(u32::try_from(large).unwrap().to_le_bytes());
    section.resize(section.len() + large, 0);
    section.extend(0u16.to_le_bytes());
    section.extend(8u32.to_le_bytes());
    section.extend(at.to_le_bytes());
    file.extend(section);
    let start = Instant::now();
    let error = events(file).unwrap_err().to_string();
    assert!(error.contains("bytes of description"), "{error}");
    assert!(start.elapsed().as_secs() < 20);
}

/// A perf.data whose packed records become thousands of times as many bytes.
#[test]
fn packed_records_that_become_too_many_are_damage() {
    let file = unpacked("packed.data");
    // The records begin where the header says, and are all that is packed.
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let (data, length) = (usize::try_from(word(40)).unwrap(), usize::try_from(word(48)).unwrap());
    // A frame of zstd without a size, a window of 8 MiB: blocks of 128 KiB that are one byte, 8, again and again
    // (RFC 8878, 3.1.1.2.2). As records they are of kind 0x08080808 and have 0x0808 bytes.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3];
    let block = ((128u32 << 10) << 3 | 1 << 1).to_le_bytes();
    for _ in 0..12_000 {
        frame.extend([block[0], block[1], block[2], 8]);
    }
    let mut records = Vec::new();
    for piece in frame.chunks(8 << 10) {
        records.extend(81u32.to_le_bytes());
        records.extend([0, 0]);
        records.extend(u16::try_from(piece.len() + 8).unwrap().to_le_bytes());
        records.extend(piece);
    }
    let mut bomb = file[..data].to_vec();
    bomb.extend(&records);
    bomb.extend(&file[data + length..]);
    bomb[48..56].copy_from_slice(&(records.len() as u64).to_le_bytes());
    // What describes the records is behind them, and further on now.
    let moved = (records.len() as u64).wrapping_sub(length as u64);
    let features: u32 = file[72..104].iter().map(|byte| byte.count_ones()).sum();
    for nth in 0..features as usize {
        let at = data + records.len() + nth * 16;
        let place = u64::from_le_bytes(bomb[at..at + 8].try_into().unwrap()).wrapping_add(moved);
        bomb[at..at + 8].copy_from_slice(&place.to_le_bytes());
    }
    let start = Instant::now();
    let (_, damage) = events(bomb).unwrap();
    assert!(damage.iter().any(|damage| damage.contains("no records do")), "{damage:?}");
    assert!(start.elapsed().as_secs() < 30);
}

/// The names in a file are chosen by whoever ran the threads, and by whoever made the file.
#[test]
fn names_are_fit_to_be_shown() {
    for (name, texts) in [
        (
            "bash-v6.dat",
            &[("bash\0", "\u{1b}[2J\0"), ("name: sched_switch", "name: sched\u{1b}]0;x\u{7}h")][..],
        ),
        ("plain.data", &[("python3", "\u{1b}]0;x\u{7}y"), ("python3", "\u{9b}2J\u{202e}")]),
    ] {
        let scratch = Scratch::new();
        let path = scratch.file(name);
        let mut file = std::fs::read(&path).unwrap();
        let mut next = texts.iter().cycle();
        for (nice, _) in texts {
            let mut at = 0;
            while let Some(found) = file[at..].windows(nice.len()).position(|bytes| bytes == nice.as_bytes())
            {
                let (_, evil) = next.by_ref().find(|(of, _)| of == nice).unwrap();
                assert_eq!(nice.len(), evil.len(), "{nice}");
                at += found;
                file[at..at + evil.len()].copy_from_slice(evil.as_bytes());
                at += evil.len();
            }
        }
        std::fs::write(&path, &file).unwrap();
        let (outcome, trace) = scratch.import(&[path]);
        let mut events = trace.events();
        assert!(events.by_ref().count() > 0);
        let names: Vec<&str> =
            events.names().all().chain(outcome.unknown.keys().map(String::as_str)).collect();
        assert!(names.iter().any(|name| name.contains("\\u{1b}")), "{name}: {names:?}");
        for name in names {
            assert_eq!(name, xweave_text::printable(name));
        }
    }
}

/// Events of a file of xentrace whose records do not tell how fast the TSC counts.
fn xen_events(file: Vec<u8>) -> (u64, Vec<String>) {
    let options = Options { cpu_hz: Some(1_000_000_000), ..Options::default() };
    let mut out = Counted::default();
    let outcome = decode(vec![("file".into(), Input::of(file))], &options, &mut out).unwrap();
    (out.events, outcome.damage)
}

/// Windows of CPUs in turns: that of one is looked for behind those of all others. Most of them have nothing.
#[test]
fn windows_of_many_cpus_take_no_longer_than_those_of_few() {
    let call = xentrace::Window::default().at(5, xentrace::HYPERCALL, &[23]);
    let mut file = xentrace::file(&[(0, call.clone())]);
    for turn in 0..400_000u32 {
        xentrace::header(&mut file, turn % 4096, 0);
    }
    file.extend(xentrace::file(&[(0, call.clone()), (4095, call)]));
    let start = Instant::now();
    let (events, damage) = xen_events(file);
    assert_eq!((events, damage), (3, vec![]));
    assert!(start.elapsed().as_secs() < 10);
}

/// Sizes, CPUs, vCPUs and kinds of records are whatever the file says.
#[test]
fn what_xentrace_would_not_write_is_damage_or_bounded() {
    let call = xentrace::Window::default().at(5, xentrace::HYPERCALL, &[23]);
    let mut large = xentrace::file(&[(0, call.clone())]);
    xentrace::header(&mut large, 0, u32::MAX);
    let (events, damage) = xen_events(large);
    assert!(events == 1 && damage[0].contains("it ends within records of CPU 0"), "{events}, {damage:?}");
    let mut strange = xentrace::file(&[(0, call.clone())]);
    xentrace::header(&mut strange, 4096, 0);
    let (events, damage) = xen_events(strange);
    assert!(events == 1 && damage[0].contains("records of CPU 4096"), "{events}, {damage:?}");
    // Each window ends within a record: that is told of some, and counted of the others.
    let short: Vec<_> = (0..100).map(|_| (0, xentrace::Window::default().untimed(1 << 28, &[]))).collect();
    let (_, damage) = xen_events(xentrace::file(&short));
    assert_eq!(damage.len(), 9, "{damage:?}");
    assert!(damage[8].contains("92 more"), "{damage:?}");

    // More vCPUs and kinds than any machine has, one after the other, with times that go back; who runs there then is none
    // that is told apart, and still another one may.
    let mut window = xentrace::Window::default();
    for number in 0..200_000u32 {
        let time = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        window = window.at(
            time,
            xentrace::runstate(xentrace::RUNNABLE, xentrace::RUNNING),
            &[number.swap_bytes()],
        );
        window = window.at(time, 0x0fff_0000 | number & 0xffff, &[number]);
    }
    let last = u64::MAX - 9;
    let window = window
        .at(last, xentrace::LOST_RECORDS, &[1, u32::MAX - 7, 0, 0])
        .at(last, xentrace::runstate(xentrace::RUNNABLE, xentrace::RUNNING), &[0])
        .at(last, xentrace::HYPERCALL, &[23]);
    let scratch = Scratch::new();
    let path = scratch.write("many.xt", &xentrace::file(&[(0, window)]));
    let options = Options { force: true, cpu_hz: Some(1_000_000_000), ..Options::default() };
    let outcome = xweave_import::import(&[path], &scratch.dir(), &options).unwrap();
    assert!(outcome.unknown.len() <= 1025 && outcome.unknown.contains_key("records of other kinds"));
    let trace = xweave_trace::Trace::open(&scratch.dir()).unwrap();
    assert!(trace.manifest().domains[0].vms.len() <= 1024);
    let mut events = trace.events();
    let all: Vec<Event> = events.by_ref().collect();
    assert!(all.is_sorted_by_key(|event| event.time_ns) && all.len() > 100_000);
    let iret = xen::Exit::Hypercall(xen::Hypercall { op: 23, command: None }).code();
    assert!(all.iter().any(|event| (event.kind, event.tid, event.code) == (Kind::VmExit, 1, iret)));
    assert!(outcome.domains[0].late.0 > 0);
}

#[test]
fn a_pipe_is_refused_at_once() {
    let scratch = Scratch::new();
    let path = scratch.write("pipe", b"");
    std::fs::remove_file(&path).unwrap();
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the name ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for path in [path, "/dev/zero".into()] {
        let error = xweave_import::import(&[path], &scratch.dir(), &Options::default()).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}
