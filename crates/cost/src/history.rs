//! A file that remembers: one JSON object a line for each run, which later runs are compared with.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::measured::Measured;
use crate::{forms, measured::Outcome};

/// One environment of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in seconds since 1970.
    pub time_s: u64,
    /// The environment's name.
    pub environment: String,
    /// How it was made.
    pub how: String,
    /// The processor that it ran on.
    pub processor: String,
    /// The core's clock.
    pub cycles_per_second: f64,
    /// Core cycles by form and kind: `add r64, r64, latency`.
    pub cycles: BTreeMap<String, f64>,
}

/// A form whose cost is another than it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The environment's name.
    pub environment: String,
    /// The form and its kind.
    pub form: String,
    /// Cycles in the run before, and in this one.
    pub cycles: [f64; 2],
}

/// More than a tenth, and more than half a cycle, is a change. Where instructions are emulated nothing is,
/// short of half as much again: other work on the machine is in every figure.
fn differs(before: f64, now: f64, emulated: bool) -> bool {
    let share = if emulated { 0.5 } else { 0.1 };
    (now - before).abs() > (before * share).max(0.5)
}

impl Entry {
    /// What is remembered of an environment.
    ///
    /// `tsc_hz`: TSC ticks in a second; `time_s`: when, in seconds since 1970.
    pub fn of(measured: &Measured, processor: &str, tsc_hz: f64, time_s: u64) -> Self {
        let cycles = measured
            .outcomes
            .iter()
            .filter_map(|((form, kind), outcome)| match outcome {
                Outcome::Cost(spread) => {
                    let name = format!("{}, {}", forms().get(*form)?.name, kind.name());
                    Some((name, (spread.median * 1000.0).round() / 1000.0))
                }
                _ => None,
            })
            .collect();
        Self {
            time_s,
            environment: measured.environment.name().into(),
            how: measured.how.clone(),
            processor: processor.into(),
            cycles_per_second: (tsc_hz / measured.ticks_per_cycle).round(),
            cycles,
        }
    }
}

/// The last run of an environment that the file remembers.
pub fn last(path: &Path, environment: &str) -> Result<Option<Entry>> {
    Ok(read(path)?.into_iter().rev().find(|entry| entry.environment == environment))
}

fn read(path: &Path) -> Result<Vec<Entry>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.map_err(|source| Error::Io { what: "read", path: path.to_owned(), source })?,
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let entry = |(at, line)| {
        serde_json::from_str(line).map_err(|source| Error::History {
            path: path.to_owned(),
            line: at + 1,
            source,
        })
    };
    lines.map(entry).collect()
}

/// Appends a run to the file, and tells what changed since the last one of the same environment on the same
/// processor. A file that is not there yet is made. The arguments are those of [`Entry::of`].
pub fn remember(
    path: &Path,
    measured: &[Measured],
    processor: &str,
    tsc_hz: f64,
    time_s: u64,
) -> Result<Vec<Change>> {
    let io = |what, source| Error::Io { what, path: path.to_owned(), source };
    let entries = read(path)?;
    let mut file =
        OpenOptions::new().create(true).append(true).open(path).map_err(|error| io("open", error))?;
    let mut changes = Vec::new();
    for one in measured {
        let now = Entry::of(one, processor, tsc_hz, time_s);
        let same = |entry: &&Entry| {
            (&entry.environment, &entry.how, &entry.processor) == (&now.environment, &now.how, &now.processor)
        };
        if let Some(before) = entries.iter().rev().find(same) {
            for (form, cycles) in &now.cycles {
                let Some(old) = before.cycles.get(form) else { continue };
                if differs(*old, *cycles, one.emulated) {
                    let environment = now.environment.clone();
                    changes.push(Change { environment, form: form.clone(), cycles: [*old, *cycles] });
                }
            }
        }
        let mut line = serde_json::to_vec(&now).unwrap_or_default();
        line.push(b'\n');
        file.write_all(&line).map_err(|error| io("write", error))?;
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::line::{Kind, scan, write};
    use crate::measured::Collected;

    fn measured(ticks: u32) -> Measured {
        let mut collected = Collected::default();
        let line = format!("R 0 4c 1 1 0 0 0 0 0 {0:x} {0:x} {0:x} {0:x} {0:x} 0 0 0 0 0", ticks);
        collected.add(scan(write(&line).as_bytes()));
        Measured {
            environment: Environment::Native,
            how: "here".into(),
            emulated: false,
            ticks_per_cycle: 1.0,
            seconds: 0.1,
            boots: 1,
            given_up: None,
            damaged: 0,
            outcomes: collected.outcomes(Some(1.0)),
            counted: Default::default(),
        }
    }

    #[test]
    fn what_changed_since_the_last_run_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        assert_eq!(measured(10).cycles(0, Kind::Latency), Some(10.0));
        assert!(remember(&path, &[measured(10)], "a", 1e9, 1).unwrap().is_empty(), "nothing to compare with");
        assert!(remember(&path, &[measured(10)], "a", 1e9, 2).unwrap().is_empty());
        let changes = remember(&path, &[measured(20)], "a", 1e9, 3).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].cycles, [10.0, 20.0]);
        assert!(remember(&path, &[measured(50)], "another", 1e9, 4).unwrap().is_empty());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
        let last = last(&path, "native").unwrap().unwrap();
        assert_eq!((last.time_s, last.cycles_per_second), (4, 1e9));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        fs::write(&path, "{}\n").unwrap();
        let error = remember(&path, &[measured(1)], "a", 1e9, 1).unwrap_err().to_string();
        assert!(error.contains("line 1: missing field"), "{error}");
    }
}
