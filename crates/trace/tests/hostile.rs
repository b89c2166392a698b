//! Traces whose makers mean harm: whose they are, what is in the place of their files, how much they claim to hold.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod child;

use std::{
    fs::{self, File},
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::Path,
    sync::Arc,
};

use child::in_child;
use parquet::{
    basic::{Compression, Encoding, Type},
    column::{
        page::{CompressedPage, Page, PageWriter as _},
        writer::ColumnCloseResult,
    },
    file::{
        metadata::ColumnChunkMetaData,
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite},
    },
    schema::{parser::parse_message_type, types::ColumnDescPtr},
};
use xweave_trace::{Domain, ErrorKind, Manifest, Site, Trace, Writer};
use xweave_wire::record::{Kind, Record};

fn manifest() -> Manifest {
    let domain = Domain { name: "host".into(), number: 1, ..Domain::default() };
    Manifest { reference: "host".into(), domains: vec![domain], ..Manifest::default() }
}

/// A trace with a segment of so many records.
fn write(dir: &Path, records: u64) {
    let mut writer = Writer::create(dir, manifest()).unwrap();
    fill(&mut writer, records);
    writer
        .sites(&[Site { site: 1, domain: "host".into(), function: "f".into(), ..Site::default() }])
        .unwrap();
    writer.finish().unwrap();
}

fn fill(writer: &mut Writer, records: u64) {
    for time_ns in 0..records {
        let record = Record {
            time_ns,
            flow: 1 << 56 | time_ns,
            site: 1,
            pid: 7,
            tid: 7,
            cpu: 0,
            kind: Kind::Hop,
            comm: *b"a\x1b[2J\xc2\x9b\xe2\x80\xae\n\0\0\0\0\0",
            values: vec![time_ns],
        };
        writer.append(1, i64::try_from(time_ns).unwrap(), &record).unwrap();
    }
}

fn open_error(dir: &Path) -> (ErrorKind, String) {
    Trace::open(dir).err().map(|error| (error.kind(), error.to_string())).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives something to somebody else; false, and says so, where only root could.
fn give_away(path: &Path) -> bool {
    // SAFETY: it has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: only root can give {} away", path.display());
        return false;
    }
    chown(path, Some(65534), Some(65534)).unwrap();
    true
}

fn mkfifo(path: &Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the name ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

#[test]
fn a_trace_is_nobody_elses_under_any_umask() {
    if !in_child("a_trace_is_nobody_elses_under_any_umask") {
        return;
    }
    for umask in [0, 0o022, 0o277] {
        let parent = tempfile::tempdir().unwrap();
        // SAFETY: it has no preconditions, and this process has this test only.
        unsafe { libc::umask(umask) };
        let dir = parent.path().join("new/trace");
        let mut writer = Writer::create(&dir, manifest()).unwrap();
        fill(&mut writer, 10);
        writer.name("x");
        let event = xweave_trace::Event::new(xweave_trace::event::Kind::Switch, 1, 5, 0, 7);
        writer.event(event).unwrap();
        writer.sites(&[]).unwrap();
        writer.flush().unwrap();
        fill(&mut writer, 70_000);
        let mut files = 0;
        for folder in [dir.clone(), dir.join("records"), dir.join("events")] {
            assert_eq!(mode(&folder), 0o700, "{} under {umask:o}", folder.display());
            for entry in fs::read_dir(&folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
                assert_eq!(mode(&entry.path()), 0o600, "{} under {umask:o}", entry.path().display());
                files += 1;
            }
        }
        assert_eq!(files, 5, "manifest, sites, two segments, and one under way");
        drop(writer);
        // SAFETY: as above.
        unsafe { libc::umask(0o022) };
    }
}

#[test]
fn only_an_empty_directory_or_a_trace_of_ours_is_written_to() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("home");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    for begin in [Writer::create, Writer::replace] {
        let error = begin(&dir, manifest()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Exists);
        assert!(error.to_string().contains("notes.txt") && error.to_string().contains("-o"), "{error}");
    }
    let foreseen = |dir: &Path, replace| Writer::check(dir, replace).map_err(|error| error.kind());
    assert_eq!([false, true].map(|replace| foreseen(&dir, replace)), [Err(ErrorKind::Exists); 2]);
    assert_eq!(mode(&dir) & 0o077, 0o055, "it is not closed to those who read it");
    fs::remove_file(dir.join("notes.txt")).unwrap();
    assert_eq!(foreseen(&dir, false), Ok(()));
    write(&dir, 1);
    assert_eq!(mode(&dir), 0o700);
    assert_eq!([false, true].map(|replace| foreseen(&dir, replace)), [Err(ErrorKind::Exists), Ok(())]);
    assert_eq!(foreseen(&parent.path().join("new"), false), Ok(()));
    assert!(!parent.path().join("new").exists(), "looking makes nothing");

    set_mode(&dir, 0o777);
    assert_eq!(foreseen(&dir, true), Err(ErrorKind::Distrusted));
    let error = Writer::replace(&dir, manifest()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Distrusted);
    assert!(error.to_string().contains("chmod go-w"), "{error}");
    set_mode(&dir, 0o755);
    let link = parent.path().join("link");
    symlink(&dir, &link).unwrap();
    let error = Writer::replace(&link, manifest()).err().unwrap().to_string();
    assert!(error.contains("is a symbolic link, not a folder; name another directory with -o"), "{error}");
    if give_away(&dir) {
        let error = Writer::replace(&dir, manifest()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Distrusted);
        assert!(error.to_string().contains("belongs to user 65534"), "{error}");
    }
}

#[test]
fn links_in_a_trace_are_neither_followed_nor_removed() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, precious) = (parent.path().join("trace"), parent.path().join("precious"));
    fs::write(&precious, "precious").unwrap();
    let beside = parent.path().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("x.parquet"), "precious").unwrap();
    let begin = || {
        let _ = fs::remove_dir_all(&dir);
        write(&dir, 3);
    };
    // In place of a segment, a file of the trace, and a folder of it.
    begin();
    symlink(&precious, dir.join("records/link.parquet")).unwrap();
    let (rows, damaged) = Trace::open(&dir).unwrap().rows();
    assert_eq!((rows.len(), damaged.len()), (3, 1));
    assert!(damaged[0].to_string().contains("a symbolic link, not a regular file"), "{}", damaged[0]);
    let refused = Writer::replace(&dir, manifest()).err().unwrap().to_string();
    assert!(refused.contains("link.parquet is a symbolic link"), "{refused}");
    assert!(dir.join("trace.json").exists(), "what is left is a trace");

    begin();
    fs::remove_file(dir.join("trace.json")).unwrap();
    symlink(&precious, dir.join("trace.json")).unwrap();
    assert_eq!(Writer::create(&dir, manifest()).err().unwrap().kind(), ErrorKind::Exists);
    assert!(Writer::replace(&dir, manifest()).is_err());
    assert_eq!(open_error(&dir).0, ErrorKind::Damaged);

    begin();
    fs::remove_dir_all(dir.join("records")).unwrap();
    symlink(&beside, dir.join("records")).unwrap();
    assert!(Writer::replace(&dir, manifest()).is_err());
    assert_eq!(open_error(&dir).0, ErrorKind::Damaged);

    // At the name that the next segment has until it is whole.
    begin();
    let mut writer = Writer::replace(&dir, manifest()).unwrap();
    symlink(&precious, dir.join("records/.host-000001.parquet.tmp")).unwrap();
    fill(&mut writer, 5);
    assert!(writer.flush().unwrap_err().to_string().contains("host-000001.parquet.tmp"));
    // And in place of the whole folder, when it is open already.
    fs::rename(&dir, parent.path().join("aside")).unwrap();
    symlink(&beside, &dir).unwrap();
    fill(&mut writer, 5);
    writer.finish().unwrap();
    assert_eq!(Trace::open(&parent.path().join("aside")).unwrap().rows().0.len(), 5);

    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(fs::read_dir(&beside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(beside.join("x.parquet")).unwrap(), "precious");
}

#[test]
fn a_trace_of_another_user_is_read_when_asked_only() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    write(&dir, 3);
    let segment = dir.join("records/host-000001.parquet");
    for (path, kind) in [(&dir, 0o40000), (&dir.join("trace.json"), 0), (&dir.join("records"), 0o40000)] {
        let ours = mode(path);
        set_mode(path, ours | 0o020);
        let (error, message) = open_error(&dir);
        assert_eq!(error, ErrorKind::Distrusted, "{kind:o}");
        assert!(message.contains("other users") && message.contains("--force"), "{message}");
        assert_eq!(Trace::open_forced(&dir).unwrap().rows().0.len(), 3);
        set_mode(path, ours);
    }
    set_mode(&segment, 0o602);
    let (rows, damaged) = Trace::open(&dir).unwrap().rows();
    assert!(rows.is_empty() && damaged[0].reason().contains("--force"), "{damaged:?}");
    set_mode(&segment, 0o600);
    // One that others may read is fine: of earlier versions.
    set_mode(&dir, 0o755);
    set_mode(&dir.join("trace.json"), 0o644);
    assert!(Trace::open(&dir).is_ok());
    if give_away(&segment) {
        let (rows, damaged) = Trace::open(&dir).unwrap().rows();
        assert!(rows.is_empty() && damaged[0].reason().contains("user 65534"), "{damaged:?}");
        give_away(&dir);
        let (error, message) = open_error(&dir);
        assert_eq!(error, ErrorKind::Distrusted);
        assert!(message.contains("belongs to user 65534") && message.contains("--force"), "{message}");
        let trace = Trace::open_forced(&dir).unwrap();
        assert_eq!((trace.rows().0.len(), trace.is_forced()), (3, true));
    }
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    write(&dir, 3);
    mkfifo(&dir.join("records/pipe.parquet"));
    fs::create_dir(dir.join("records/folder.parquet")).unwrap();
    fs::remove_file(dir.join("sites.parquet")).unwrap();
    mkfifo(&dir.join("sites.parquet"));
    let trace = Trace::open(&dir).unwrap();
    assert!(trace.sites_damaged().unwrap().reason().contains("a named pipe, not a regular file"));
    let (rows, damaged) = trace.rows();
    assert_eq!((rows.len(), damaged.len()), (3, 2));
    fs::remove_file(dir.join("trace.json")).unwrap();
    mkfifo(&dir.join("trace.json"));
    assert!(open_error(&dir).1.contains("trace.json is a named pipe"));
    assert!(open_error("/dev/zero".as_ref()).1.contains("is a device"));
}

#[test]
fn texts_are_fit_to_be_shown_when_they_are_read() {
    const EVIL: &str = "x\u{1b}]0;root\u{7}\u{9b}2J\u{202e}\u{2066}\r\n\u{8}y";
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    let mut evil = manifest();
    evil.domains[0].name = EVIL.into();
    evil.domains[0].kernel = EVIL.into();
    evil.warnings = vec![EVIL.into()];
    evil.command = vec![EVIL.into()];
    let mut writer = Writer::create(&dir, evil).unwrap();
    fill(&mut writer, 3);
    let name = writer.name(EVIL);
    let event = xweave_trace::Event::new(xweave_trace::event::Kind::Thread, 1, 5, 0, 7);
    writer.event(xweave_trace::Event { name, ..event }).unwrap();
    let function = format!("{EVIL}{}", "z".repeat(1 << 20));
    writer
        .sites(&[Site { site: 1, domain: EVIL.into(), function, file: Some(EVIL.into()), ..Site::default() }])
        .unwrap();
    writer.finish().unwrap();

    let trace = Trace::open(&dir).unwrap();
    let (rows, damaged) = trace.rows();
    assert_eq!((rows.len(), damaged.len()), (3, 0), "the domain is found by the name that it was given");
    let mut events = trace.events();
    let event = events.next().unwrap();
    let site = trace.site(1).unwrap();
    let texts = [
        trace.manifest().domains[0].name.clone(),
        trace.manifest().domains[0].kernel.clone(),
        trace.manifest().warnings[0].clone(),
        trace.manifest().command[0].clone(),
        rows[0].comm().into_owned(),
        events.names().text(event.name).to_owned(),
        site.domain.clone(),
        site.function.clone(),
        site.file.clone().unwrap(),
    ];
    for text in texts {
        assert_eq!(text, xweave_text::lines(&text), "nothing is left that a terminal obeys");
        assert!(text.len() <= 512 && text.contains("\\u{1b}"), "{text}");
    }
    assert_eq!(site.domain, trace.manifest().domains[0].name);
}

/// What the tables of records have, and how each of its columns is filled.
const COLUMNS: [(&str, Type); 8] = [
    ("time_ns", Type::INT64),
    ("domain", Type::BYTE_ARRAY),
    ("cpu", Type::INT32),
    ("pid", Type::INT32),
    ("tid", Type::INT32),
    ("comm", Type::BYTE_ARRAY),
    ("site", Type::INT32),
    ("kind", Type::BYTE_ARRAY),
];

/// How a file lies about its size.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bomb {
    /// One run of so many equal rows.
    Rows(u32),
    /// So many groups of 64 Ki rows, each of some bytes.
    Groups(u32),
    /// Dictionaries that claim to have so many values.
    Dictionary(u32),
    /// Pages that claim to become so many bytes.
    Page(u32),
    /// Columns that lie so deep in each other.
    Deep(u32),
}

/// A file in the form of a segment, of some kilobytes.
fn bomb(path: &Path, bomb: Bomb) {
    if let Bomb::Deep(levels) = bomb {
        return deep(path, levels);
    }
    let fields: Vec<String> = COLUMNS
        .iter()
        .map(|(name, of)| match of {
            Type::INT64 => format!("required int64 {name};"),
            Type::INT32 => format!("required int32 {name};"),
            _ => format!("required binary {name} (STRING);"),
        })
        .collect();
    let schema = Arc::new(parse_message_type(&format!("message record {{ {} }}", fields.concat())).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_offset_index_disabled(true).build());
    let mut file = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    let described = file.schema_descr().columns().to_vec();
    let (groups, rows) = match bomb {
        Bomb::Rows(rows) => (1, rows),
        Bomb::Groups(groups) => (groups, 1 << 16),
        Bomb::Dictionary(_) | Bomb::Page(_) | Bomb::Deep(_) => (1, 100),
    };
    for _ in 0..groups {
        let mut group = file.next_row_group().unwrap();
        for (column, (_, of)) in described.iter().zip(COLUMNS) {
            let (bytes, close) = chunk(column.clone(), of, rows, bomb);
            group.append_column(&bytes::Bytes::from(bytes), close).unwrap();
        }
        group.close().unwrap();
    }
    file.close().unwrap();
}

fn chunk(column: ColumnDescPtr, of: Type, rows: u32, bomb: Bomb) -> (Vec<u8>, ColumnCloseResult) {
    let text: &[u8] = if column.name() == "domain" { b"host" } else { b"hop" };
    let value = match of {
        Type::INT64 => vec![0; 8],
        Type::INT32 => vec![0; 4],
        _ => [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text].concat(),
    };
    let values = if let Bomb::Dictionary(values) = bomb { values } else { 1 };
    let dictionary = Page::DictionaryPage {
        buf: value.into(),
        num_values: values,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    // Numbers of one bit, and one run of them that are 0.
    let mut content = vec![1];
    let mut header = u64::from(rows) << 1;
    while header >= 0x80 {
        content.push(u8::try_from(header & 0x7f).unwrap() | 0x80);
        header >>= 7;
    }
    content.extend([u8::try_from(header).unwrap(), 0]);
    let data = Page::DataPage {
        buf: content.into(),
        num_values: rows,
        encoding: Encoding::RLE_DICTIONARY,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let mut file = TrackedWrite::new(Vec::new());
    let mut writer = SerializedPageWriter::new(&mut file);
    let (mut size, mut data_at) = (0, 0);
    for page in [dictionary, data] {
        let unpacked = page.buffer().len();
        let unpacked = if let Bomb::Page(size) = bomb { size as usize } else { unpacked };
        let written = writer.write_page(CompressedPage::new(page, unpacked)).unwrap();
        (size, data_at) = (size + written.bytes_written, written.offset);
    }
    writer.close().unwrap();
    let packed = matches!(bomb, Bomb::Page(_));
    let signed = i64::try_from(size).unwrap();
    let metadata = ColumnChunkMetaData::builder(column)
        .set_compression(if packed { Compression::SNAPPY } else { Compression::UNCOMPRESSED })
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE_DICTIONARY])
        .set_total_compressed_size(signed)
        .set_total_uncompressed_size(signed)
        .set_num_values(rows.into())
        .set_dictionary_page_offset(Some(0))
        .set_data_page_offset(i64::try_from(data_at).unwrap())
        .build()
        .unwrap();
    let close = ColumnCloseResult {
        bytes_written: size,
        rows_written: rows.into(),
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    (file.into_inner().unwrap(), close)
}

/// A footer whose schema is so many groups deep, and no file before it.
fn deep(path: &Path, levels: u32) {
    // FileMetaData: version 1, and the list of SchemaElement: repetition, name, number of children.
    let mut footer = vec![0x15, 2, 0x19, 0xfc];
    let mut left = levels;
    while left >= 0x80 {
        footer.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
        left >>= 7;
    }
    footer.push(u8::try_from(left).unwrap());
    for _ in 0..levels {
        footer.extend([0x35, 0, 0x18, 1, b'a', 0x15, 2, 0]);
    }
    footer.extend([0x16, 0, 0x19, 0x0c, 0]);
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    fs::write(path, [b"PAR1", &footer[..], &length, b"PAR1"].concat()).unwrap();
}

/// No more memory than this has the process from now on.
fn limit_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is read only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// Seconds of processor time that this process has had: others' do not count, however busy the machine is.
fn spent() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written only.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[test]
fn bombs_cost_neither_memory_nor_time_nor_the_other_files() {
    if !in_child("bombs_cost_neither_memory_nor_time_nor_the_other_files") {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    write(&dir, 5);
    let place = dir.join("records/bomb.parquet");
    limit_memory(512 << 20);
    let bombs = [
        Bomb::Rows((1 << 31) - 1),
        Bomb::Groups(200),
        Bomb::Dictionary((1 << 31) - 1),
        Bomb::Page((1 << 31) - 1),
        Bomb::Deep(200_000),
    ];
    for what in bombs {
        bomb(&place, what);
        let size = fs::metadata(&place).unwrap().len();
        assert!(size < 2 << 20, "{what:?}: {size}");
        let start = spent();
        let trace = Trace::open(&dir).unwrap();
        let (rows, damaged) = trace.rows();
        assert_eq!((rows.len(), damaged.len()), (5, 1), "{what:?}");
        assert_eq!(damaged[0].file, place);
        eprintln!("{what:?}, {size} bytes: {}", damaged[0]);
        // The same as sites, and among the events.
        fs::create_dir_all(dir.join("events")).unwrap();
        fs::copy(&place, dir.join("events/bomb-1.parquet")).unwrap();
        let sites = fs::read(dir.join("sites.parquet")).unwrap();
        fs::copy(&place, dir.join("sites.parquet")).unwrap();
        let trace = Trace::open(&dir).unwrap();
        assert!(trace.sites_damaged().is_some(), "{what:?}");
        let mut events = trace.events();
        assert_eq!((events.by_ref().count(), events.damaged().len()), (0, 1), "{what:?}");
        fs::write(dir.join("sites.parquet"), sites).unwrap();
        assert!(spent() - start < 1.0, "{what:?}");
    }
    // Many small ones are no better than a large one.
    for nth in 0..50 {
        bomb(&dir.join(format!("records/zz-{nth:06}.parquet")), Bomb::Rows(1 << 20));
    }
    let start = spent();
    let (mut rows, mut damaged) = (0, Vec::new());
    for part in Trace::open(&dir).unwrap().parts() {
        part.map_or_else(|of| damaged.push(of), |part| rows += part.rows.len());
    }
    assert!(rows < 3 << 20 && damaged.len() > 45, "{rows} {}", damaged.len());
    assert!(damaged.last().unwrap().reason().contains("--force"));
    assert!(spent() - start < 4.0);
}

#[test]
fn who_takes_a_bomb_all_the_same_gets_it() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    write(&dir, 5);
    bomb(&dir.join("records/bomb.parquet"), Bomb::Rows(3 << 20));
    assert_eq!(Trace::open(&dir).unwrap().rows().0.len(), 5);
    let trace = Trace::open_forced(&dir).unwrap();
    assert_eq!(trace.parts().map(|part| part.unwrap().rows.len()).sum::<usize>(), (3 << 20) + 5);
}

#[test]
fn a_manifest_is_bounded() {
    if !in_child("a_manifest_is_bounded") {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("trace");
    write(&dir, 1);
    limit_memory(512 << 20);
    let path = dir.join("trace.json");
    // Gigabytes that take no room on the disk.
    let mut file = File::create(&path).unwrap();
    file.seek(SeekFrom::Start(20 << 30)).unwrap();
    file.write_all(b"{").unwrap();
    assert!(open_error(&dir).1.contains("bytes, of which 67108864 may be"));
    let many = |list: &str, one: &str, count: usize| {
        format!(r#"{{"schema": 1, "{list}": [{}]}}"#, vec![one; count].join(","))
    };
    let nested = format!(r#"{{"schema": 1, "later": {}"#, "[".repeat(1 << 20));
    for hostile in [
        nested,
        many("domains", "{}", 1 << 20),
        many("aspects", "{}", 1 << 20),
        many("command", "\"\"", 1 << 20),
        many("domains", r#"{"disks":[{},{},{}]}"#, 256),
        many("warnings", "\"\"", 1 << 20),
    ] {
        fs::write(&path, hostile).unwrap();
        let start = spent();
        assert_eq!(open_error(&dir).0, ErrorKind::Damaged);
        assert!(spent() - start < 2.0);
    }
    fs::write(&path, many("domains", r#"{"name":"a"}"#, 255)).unwrap();
    assert!(Trace::open(&dir).is_ok());
}
