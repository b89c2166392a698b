//! Names of traces, and of what is made of them, where none is given.

use std::{
    ffi::{OsStr, OsString},
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    time::SystemTime,
};

use chrono::{DateTime, Utc};

/// What stands for the newest trace.
const LATEST: &str = "latest";

/// A trace directory, as an argument names it. `latest`, where nothing is called that, is the newest trace in the current
/// directory.
#[derive(Clone, Debug)]
pub struct TraceDir(PathBuf);

impl From<OsString> for TraceDir {
    fn from(argument: OsString) -> Self {
        let named = PathBuf::from(argument);
        match named.as_os_str() == LATEST && !named.exists() {
            true => Self(newest(Path::new("")).unwrap_or(named)),
            false => Self(named),
        }
    }
}

impl Deref for TraceDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

/// Returns the trace in a directory that was written to last.
fn newest(dir: &Path) -> Option<PathBuf> {
    let written = |name: OsString| {
        let trace = dir.join(name);
        let manifest = fs::metadata(trace.join("trace.json")).ok()?;
        Some((manifest.modified().ok()?, trace))
    };
    let here = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let names = fs::read_dir(here).ok()?.flatten().map(|entry| entry.file_name());
    names.filter_map(written).max().map(|(_, trace)| trace)
}

/// Returns the name of a new trace: the date and the time, UTC, so that names of different hosts are in the order in which
/// the traces were made.
pub fn new_trace() -> PathBuf {
    named_after(SystemTime::now().into())
}

fn named_after(time: DateTime<Utc>) -> PathBuf {
    time.format("xweave-%Y%m%d-%H%M%S").to_string().into()
}

/// Returns a directory's own name, also where it is called `.`; none for the root.
pub fn of_directory(trace: &Path) -> Option<OsString> {
    let whole = fs::canonicalize(trace).unwrap_or_else(|_| trace.to_owned());
    whole.file_name().map(OsStr::to_owned)
}

/// Returns the name of a file that is made of a trace: that of the trace's directory, with this extension, in the current
/// directory.
pub fn of_file(trace: &Path, extension: &str) -> PathBuf {
    let mut name = of_directory(trace).unwrap_or_else(|| "trace".into());
    name.push(".");
    name.push(extension);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_trace_is_the_one_written_to_last_and_no_other_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(newest(dir.path()), None);
        for (name, age) in [("old", 20), ("z", 10), ("a", 5)] {
            fs::create_dir(dir.path().join(name)).unwrap();
            let manifest = fs::File::create(dir.path().join(name).join("trace.json")).unwrap();
            manifest.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        fs::create_dir(dir.path().join("no trace")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(newest(dir.path()), Some(dir.path().join("a")));
    }

    #[test]
    fn a_name_that_is_given_is_left_as_it_is() {
        assert_eq!(&*TraceDir::from(OsString::from("some/trace/")), Path::new("some/trace/"));
    }

    #[test]
    fn names_of_new_traces_are_in_the_order_of_time() {
        let at = |seconds| named_after(DateTime::from_timestamp(seconds, 0).unwrap());
        assert_eq!(at(1_790_000_000), Path::new("xweave-20260921-141320"));
        assert!(at(1_790_000_000) < at(1_790_000_001));
    }

    #[test]
    fn files_are_called_after_the_traces_folder() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("before")).unwrap();
        assert_eq!(of_file(&dir.path().join("before/."), "html"), Path::new("before.html"));
        assert_eq!(of_file(Path::new("/"), "pftrace"), Path::new("trace.pftrace"));
    }
}
