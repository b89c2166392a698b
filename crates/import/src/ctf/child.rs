//! The program babeltrace2, line by line.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{self, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread::{self, JoinHandle},
};

use xweave_guard::confine::job::end_with_this_process;

use crate::{
    error::{Error, ErrorKind},
    input::shown,
};

/// How it is to print: nothing but what [`super::line`] reads, whatever its defaults are.
const PRINT: &str =
    r#"field-default="hide",name-default="show",clock-seconds=yes,no-delta=yes,color="never""#;

/// The most bytes that a line has; the rest of a longer one is passed over.
const LINE: u64 = 1 << 20;

/// Processor time that it may take, in seconds: some, and more for each MiB of a trace, of which it reads at least one a
/// second. There are descriptions of traces on which it works for ever.
const SECONDS: u64 = 60;
const SECONDS_PER_MIB: u64 = 10;

/// How many of its warnings are kept.
const WARNINGS: usize = 4;

/// What it said besides events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Events that the tracer counted as lost.
    pub lost: u64,
    /// How often it lost events that it did not count.
    pub gaps: u64,
    /// Why it did not come to the end.
    pub failure: Option<String>,
    pub warnings: Vec<String>,
}

/// babeltrace2 while it reads a trace.
pub(crate) struct Child {
    process: process::Child,
    lines: BufReader<ChildStdout>,
    errors: Option<JoinHandle<Said>>,
    line: Vec<u8>,
    /// The line was read ahead.
    ahead: bool,
}

/// The trace's description of itself.
pub(crate) fn metadata(program: &str, dir: &Path) -> Result<String, Error> {
    metadata_within(program, dir, seconds(dir))
}

fn metadata_within(program: &str, dir: &Path, seconds: u64) -> Result<String, Error> {
    let mut command = command(program, seconds);
    command.arg("--output-format=ctf-metadata").arg(dir);
    let Output { status, stdout, stderr } = command.output().map_err(|error| absent(program, error))?;
    if !status.success() {
        let said = said(&stderr[..]);
        return Err(damaged(said.warnings.into_iter().next().unwrap_or_else(|| how_it_ended(status))));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Damage that babeltrace2 found.
pub(crate) fn damaged(what: String) -> Error {
    Error::new(ErrorKind::Damaged, format!("(babeltrace2: {what})"))
}

/// The processor time for a trace, in seconds.
fn seconds(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    SECONDS + SECONDS_PER_MIB.saturating_mul(bytes >> 20)
}

/// Starts nothing yet. What it starts ends with this process, and after so many seconds of processor time.
fn command(program: &str, seconds: u64) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").env("BABELTRACE_TERM_COLOR", "NEVER").stdin(Stdio::null());
    end_with_this_process(&mut command);
    let limit = libc::rlimit { rlim_cur: seconds, rlim_max: seconds.saturating_add(1) };
    // SAFETY: between fork and exec nothing but a system call, on a structure that is there.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    command
}

/// Says how a process ended that failed without a word.
fn how_it_ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(libc::SIGXCPU) => "it used more processor time than a trace of this size takes".to_owned(),
        _ => status.to_string(),
    }
}

fn absent(program: &str, error: io::Error) -> Error {
    let what = if error.kind() == io::ErrorKind::NotFound {
        format!("is a CTF trace; reading it takes the program {program}: install the package babeltrace2")
    } else {
        format!("is a CTF trace; {program}, which reads it, cannot be run: {error}")
    };
    Error::new(ErrorKind::Foreign, what).by(error)
}

impl Child {
    /// Starts it, and waits for the first event: what cannot be read at all is known then.
    pub(crate) fn read(program: &str, dir: &Path) -> Result<Self, Error> {
        let mut command = command(program, seconds(dir));
        command.arg("convert").arg(dir).args(["--component=sink.text.pretty", "--params", PRINT]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| absent(program, error))?;
        let piped = process.stdout.take().zip(process.stderr.take());
        let (stdout, stderr) = piped.ok_or_else(|| damaged("it has no output".to_owned()))?;
        let errors = thread::spawn(move || said(BufReader::new(stderr)));
        let (lines, errors) = (BufReader::with_capacity(1 << 16, stdout), Some(errors));
        let mut child = Self { process, lines, errors, line: Vec::new(), ahead: false };
        if child.line().is_some() {
            child.ahead = true;
            return Ok(child);
        }
        let what = "has no events";
        Err(child.end().failure.map_or_else(|| Error::new(ErrorKind::Foreign, what), damaged))
    }

    /// The next line; none at the end.
    pub(crate) fn line(&mut self) -> Option<&[u8]> {
        if !std::mem::take(&mut self.ahead) {
            next(&mut self.lines, &mut self.line)?;
        }
        Some(&self.line)
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> Said {
        let status = self.process.wait();
        let said = self.errors.take().and_then(|errors| errors.join().ok());
        let mut said = said.unwrap_or_default();
        if !status.as_ref().is_ok_and(ExitStatus::success) {
            let ended = status.map_or_else(|error| error.to_string(), how_it_ended);
            // What it says first is nearest to the cause.
            let mut told = std::mem::take(&mut said.warnings).into_iter();
            said.failure = Some(told.next().unwrap_or(ended));
        }
        said
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Where the import ends early. A confined process may signal nobody: then it ends with this process.
        if self.process.kill().is_ok() {
            let _ = self.process.wait();
        }
    }
}

/// Reads a line into `line`; none at the end.
fn next(lines: &mut impl BufRead, line: &mut Vec<u8>) -> Option<()> {
    line.clear();
    let read = lines.by_ref().take(LINE).read_until(b'\n', line).ok()?;
    if read == 0 {
        return None;
    }
    if line.pop_if(|byte| *byte == b'\n').is_none() {
        lines.skip_until(b'\n').ok()?;
    }
    Some(())
}

/// What its messages say.
fn said(mut messages: impl BufRead) -> Said {
    let (mut said, mut line) = (Said::default(), Vec::new());
    while next(&mut messages, &mut line).is_some() {
        let text = String::from_utf8_lossy(&line);
        if let Some((_, lost)) = text.split_once("Tracer discarded ") {
            let mut words = lost.split_ascii_whitespace();
            let count = words.next().and_then(|count| count.parse::<u64>().ok());
            let events = words.next().is_some_and(|what| what.starts_with("event"));
            match count {
                Some(count) if events => said.lost = said.lost.saturating_add(count),
                // How many events are in a packet, nobody knows.
                Some(count) => said.gaps = said.gaps.saturating_add(count),
                None => said.gaps += 1,
            }
        } else if text.contains("Tracer may have discarded") {
            said.gaps += 1;
        } else if let Some(message) = message(&text).filter(|_| said.warnings.len() < WARNINGS) {
            said.warnings.push(shown(message.as_bytes()).chars().take(300).collect());
        }
    }
    said
}

/// What a line of its log says: `11-21 20:45:23.312  3819  3819 W PLUGIN/… function@file:line [component] text`.
fn message(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let level = words.nth(4)?;
    let (_, place) = (words.next()?, words.next()?);
    let (_, text) = line.split_once(place).filter(|_| ["W", "E", "F"].contains(&level))?;
    let text = text.trim();
    Some(text.split_once("] ").filter(|_| text.starts_with('[')).map_or(text, |(_, text)| text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn losses_and_complaints() {
        let messages = "WARNING: Tracer discarded 5 events between [1.0] and [2.0] in trace \"t\"\n\
            WARNING: Tracer discarded 1 event between [2.0] and [3.0]\n\
            WARNING: Tracer discarded 2 packets between [2.0] and [3.0]\n\
            WARNING: Tracer may have discarded events between [2.0] and [3.0]\n\
            11-21 20:45:23.312  3819  3819 W PLUGIN/SRC.CTF.FS/DS build@file.c:882 [auto] Invalid packet size: 7\n\
            \nERROR:    [Babeltrace CLI] (babeltrace2.c:2480)\n  Cannot create components.\n";
        let expected =
            Said { lost: 6, gaps: 3, failure: None, warnings: vec!["Invalid packet size: 7".to_owned()] };
        assert_eq!(said(messages.as_bytes()), expected);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = metadata("babeltrace2-is-not-there", Path::new("/")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign);
        assert!(error.to_string().contains("install the package babeltrace2"), "{error}");
    }

    #[test]
    fn a_program_that_works_for_ever_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("babeltrace2");
        fs::write(&program, "#!/bin/sh\nwhile :; do :; done\n").unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = metadata_within(program.to_str().unwrap(), folder.path(), 1).unwrap_err();
        assert!(error.to_string().contains("more processor time"), "{error}");
    }

    #[test]
    fn lines_are_bounded() {
        let bytes = [vec![b'a'; 3 << 20], b"\nshort\n\nrest".to_vec()].concat();
        let (mut lines, mut line, mut lengths) = (&bytes[..], Vec::new(), Vec::new());
        while next(&mut lines, &mut line).is_some() {
            lengths.push(line.len());
        }
        assert_eq!(lengths, [1 << 20, 5, 0, 4]);
    }

    proptest! {
        #[test]
        fn any_message_is_taken(text in "(?s).{0,200}") {
            let _ = said(text.as_bytes());
            let _ = message(&text);
        }
    }
}
