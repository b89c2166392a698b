//! Values of arguments that several commands have, or that say more than a number does.

use std::{env, path::PathBuf, time::Duration};

use xweave_weave::{Group, UnknownGroup};

use crate::failure::Failure;

/// Groups of events that one argument names.
#[derive(Clone)]
pub struct Groups(pub Vec<Group>);

impl Groups {
    /// Reads `sched,net`, or `all`.
    pub fn parse(text: &str) -> Result<Self, UnknownGroup> {
        Group::list(text).map(Self)
    }
}

/// That aspects or events are named, for `xweave` that command; and that no aspect is a group of events.
pub fn something_named(
    command: &str,
    aspects: &[PathBuf],
    expressions: &[String],
    events: Option<&Groups>,
) -> Result<(), Failure> {
    // Other tools have -e for events, with their systems: sched:sched_switch.
    let system = |text: &String| text.split(':').next().unwrap_or_default().to_owned();
    if let Some(text) = expressions.iter().find(|text| Group::list(&system(text)).is_ok()) {
        let tracepoint = match text.contains(':') {
            true => format!(", and 'tracepoint({text}) {{ STORE_DATA1(1); }}' is an aspect of a tracepoint"),
            false => String::new(),
        };
        return Err(Failure::Usage(format!(
            "-e {text} is no aspect: events are recorded by their groups, --events {}{tracepoint}",
            system(text)
        )));
    }
    if !aspects.is_empty() || !expressions.is_empty() || events.is_some() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "nothing to {command} is named: give an aspect (xweave {command} virtio-net …, a file, or -e 'TEXT'), event \
         groups (--events sched,block,net,vm), or both"
    )))
}

/// The command line, as a trace keeps it: for people, so that what is no text in it does no harm.
pub fn command_line() -> Vec<String> {
    env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// Reads an ID, of a flow or another transaction.
pub fn id(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|e| format!("{e}: an ID is a decimal number, or a hexadecimal one after 0x"))
}

/// Reads `500ms`, `10s`, `2m`, or bare seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write 500ms, 10s or 2m");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let scale = match unit.trim() {
        "us" | "µs" => 0.000_001,
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let duration = Duration::try_from_secs_f64(number * scale).map_err(|_| wrong())?;
    if duration.is_zero() {
        Err(format!("`{text}` is no time at all: write 500ms, 10s or 2m"))
    } else {
        Ok(duration)
    }
}

/// Reads a ring buffer's size: the kernel wants a power of two of at least a page.
pub fn buffer(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is not a buffer size: write a power of two from 4K to 1024M");
    let size =
        xweave_text::parse_size(text).ok().and_then(|size| u32::try_from(size).ok()).ok_or_else(wrong)?;
    if size.is_power_of_two() && (4096..=1 << 30).contains(&size) { Ok(size) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_with_their_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "s", "-1s", "10y", "1e400s", "0", "0ms"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(buffer("16M"), Ok(16 << 20));
        assert_eq!(buffer("4096"), Ok(4096));
        for wrong in ["", "M", "3K", "2048", "4096M", "4G"] {
            assert!(buffer(wrong).is_err(), "{wrong}");
        }
    }
}
