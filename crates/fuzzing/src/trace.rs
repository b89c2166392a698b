//! Target `trace`: any files in a trace directory are read or reported as damaged. No panic leaves the reader, batches and
//! rows are bounded by the size of the files, and no text contains control sequences of terminals. The input is the
//! manifest, the sites, a segment of records, and one of events.

use std::path::Path;

use tempfile::TempDir;
use xweave_trace::{Domain, DomainVm, Exit, Loss, Manifest, Site, SiteLoss, Trace, Writer};
use xweave_wire::message::DropReason;

use crate::parts::{join_parts, split_parts};
use crate::samples::{create_records, create_symbol};

/// Rows that the reader accepts in addition to one per byte of a file.
const FREE_ROWS: usize = 2 << 20;

thread_local! {
    /// The trace directory that this thread's inputs are written to.
    static FOLDER: TempDir = {
        let folder = create_folder();
        create_segment_folders(folder.path());
        folder
    };
}

/// Creates a folder where `TMPDIR` says (`scripts/fuzz` deletes that one), or in memory if possible: ext4 writes a file to
/// the disk when it is overwritten.
fn create_folder() -> TempDir {
    let in_memory = std::env::var_os("TMPDIR").is_none().then(|| tempfile::tempdir_in("/dev/shm"));
    in_memory.and_then(Result::ok).unwrap_or_else(|| tempfile::tempdir().expect("a temporary folder"))
}

/// Runs the target. The reader catches panics of the Parquet library: these are no failures.
pub fn run(input: &[u8]) {
    FOLDER.with(|folder| {
        write_files(folder.path(), input);
        check_trace(folder.path(), split_parts(input));
    });
}

/// Creates the folders within a trace directory that [`write_files`] writes to. Panics if they cannot be created.
pub fn create_segment_folders(folder: &Path) {
    for name in ["records", "events"] {
        std::fs::create_dir_all(folder.join(name)).expect("a writable folder");
    }
}

/// Writes the files that an input consists of, into the folder of a trace. Panics if they cannot be written.
pub fn write_files(folder: &Path, input: &[u8]) {
    let [manifest, sites, records, events] = split_parts(input);
    for (name, bytes) in [
        ("trace.json", manifest),
        ("sites.parquet", sites),
        ("records/0.parquet", records),
        ("events/0-1.parquet", events),
    ] {
        std::fs::write(folder.join(name), bytes).expect("a writable folder");
    }
}

fn check_trace(folder: &Path, [_, _, records, events]: [&[u8]; 4]) {
    let trace = match Trace::open(folder) {
        Ok(trace) => trace,
        Err(error) => return check_text(&error.to_string()),
    };
    let _ = trace.manifest().loss.total();
    trace.manifest().domains.iter().for_each(|domain| check_text(&domain.name));
    trace.sites_damaged().into_iter().for_each(|damaged| check_text(&damaged.to_string()));
    for site in trace.sites().iter().take(64) {
        assert!(trace.site(site.site).is_some());
        check_text(&site.function);
    }
    // Few bytes can encode millions of equal rows: the first parts suffice.
    let mut rows = 0;
    for part in trace.parts().take(64) {
        match part {
            Ok(part) => {
                assert!(part.rows.len() <= 8 << 10);
                rows += part.rows.len();
                part.rows.first().into_iter().for_each(|row| check_text(&row.comm()));
            }
            Err(damaged) => check_text(&damaged.to_string()),
        }
    }
    assert!(rows <= records.len() + FREE_ROWS);
    let mut all = trace.events();
    assert!(all.by_ref().take(8 * (16 << 10)).count() <= events.len() + FREE_ROWS);
    all.names().all().for_each(check_text);
    all.damaged().iter().for_each(|damaged| check_text(&damaged.to_string()));
}

/// Checks that a text is free of control sequences of terminals.
fn check_text(text: &str) {
    assert_eq!(xweave_text::lines(text), text);
}

/// Makes a seed of all kinds of files that a trace consists of.
pub fn make_seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path().join("seed");
    let vm = DomainVm { host: "host".into(), pid: 4242, cid: Some(3) };
    let domain = Domain {
        name: "host".into(),
        number: 1,
        vm: Some(vm),
        drop_reasons: vec![DropReason { value: 3, name: "NO_SOCKET".into() }],
        symbols: vec![create_symbol()],
        exit: Some(Exit::Lost { reason: "went".into() }),
        ..Domain::default()
    };
    let loss =
        Loss { sites: vec![SiteLoss { site: 1, dropped: 2, ..SiteLoss::default() }], ..Loss::default() };
    let manifest = Manifest { reference: "host".into(), domains: vec![domain], loss, ..Manifest::default() };
    let mut writer = Writer::replace(&folder, manifest).expect("a folder for a trace");
    let site =
        Site { site: 1, domain: "host".into(), function: "f".into(), line: Some(3), ..Site::default() };
    writer.sites(&[site]).expect("sites can be written");
    for (time, record) in (0..).zip(create_records()) {
        writer.append(1, time, &record).expect("records can be written");
    }
    let name = writer.name("nginx");
    for (nth, kind) in (0..).zip(xweave_trace::event::Kind::ALL) {
        let event = xweave_trace::Event::new(kind, 1, nth, 0, 7);
        writer.event(xweave_trace::Event { name, object: 5, ..event }).expect("events can be written");
    }
    writer.finish().expect("a trace can be finished");
    let segment = |name: &str| {
        let segments = std::fs::read_dir(folder.join(name)).expect("there are segments");
        segments.flatten().next().expect("there is a segment").path()
    };
    let files =
        [folder.join("trace.json"), folder.join("sites.parquet"), segment("records"), segment("events")];
    vec![join_parts(&files.map(|file| std::fs::read(file).expect("a file that was written")))]
}
