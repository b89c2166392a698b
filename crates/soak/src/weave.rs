//! One batch: woven into a guest, recorded while the load runs, unwoven; and whether the guest is well after it.

use crate::batch::Batch;
use crate::error::{At, Error};
use crate::guest::{Guest, Sick, Stop};
use crate::signs;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use xweave_interrupt as interrupt;

/// So much work a recording may be for the machine before it counts as stuck.
const RECORDING: Duration = Duration::from_secs(900);
/// And as long as nothing of what is freed after it goes.
const FREEING: Duration = Duration::from_secs(30);
/// How long `xweave record` may take to go when it is asked to.
const FAREWELL: Duration = Duration::from_secs(120);
/// What is hooked by ftrace, kprobes' list, and BPF programs, and then what the kernel has said since this was asked.
const LEFT: &str = "cat /sys/kernel/tracing/enabled_functions /sys/kernel/debug/kprobes/list; \
                    bpftool prog show | grep -v '^[[:space:]]'; echo --; dmesg -c";

/// Of these words one is in what xweave says when it, or the kernel, refuses a function.
const REFUSALS: &[&str] =
    &["refused", "could not load", "could not hook", "could be hooked", "cannot be hooked", "error: "];

/// What came of a batch.
#[derive(Debug)]
pub enum Woven {
    /// It was woven, but for those that the kernel has no place for, and the guest is well.
    Well(Done),
    /// Some of it was refused, or could not be recorded; what xweave said.
    Refused(String),
    /// Nothing was woven, for another reason, and the guest is well; what xweave said.
    Failed(String),
}

/// What was woven.
#[derive(Debug, Default)]
pub struct Done {
    /// The functions that were hooked.
    pub hooked: BTreeSet<String>,
    /// Why others were not.
    pub why_not: String,
    /// Records in the trace.
    pub records: u64,
    /// What was counted as lost.
    pub lost: u64,
}

/// What `xweave record --json` prints, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Recorded {
    records: u64,
    lost: u64,
    warnings: Vec<String>,
}

/// What weaving needs besides a guest.
pub struct Weaver<'a> {
    /// The program.
    pub xweave: &'a Path,
    /// For the aspect, the trace, and what is compiled.
    pub folder: &'a Path,
}

impl Weaver<'_> {
    /// Weaves a batch.
    pub fn weave(&self, guest: &mut Guest, batch: &Batch) -> Result<Woven, Stop> {
        let aspect = self.folder.join("batch.aspect");
        fs::write(&aspect, batch.aspect()).at("write", &aspect)?;
        let mut recorder = self.record(guest, &aspect)?;
        let recorded = guest.wait(RECORDING, "stuck", |_| match recorder.ended()? {
            Some(status) => Ok(ControlFlow::Break(status)),
            None if interrupt::pending() => Err(Error::Interrupted.into()),
            None => Ok(ControlFlow::Continue("`xweave record` did not end, and the kernel answers".into())),
        });
        // An ill guest's agent does not answer any more.
        let patience = if matches!(recorded, Err(Stop::Sick(_))) { Duration::ZERO } else { FAREWELL };
        recorder.end(patience)?;
        let status = recorded?;
        let said = recorder.said();
        if !status.success() {
            // What it could not do may be the first sign.
            let well = guest.look().and_then(|()| self.left(guest));
            // Its document is there, and yet the agent was lost or the load failed: too much was woven for this machine,
            // or too much in one of the functions. Parts will tell.
            let recorded = fs::metadata(&recorder.out).is_ok_and(|document| document.len() > 0);
            return match well {
                Err(stop) => Err(stop),
                Ok(()) if recorded || REFUSALS.iter().any(|word| said.contains(word)) => {
                    Ok(Woven::Refused(said))
                }
                Ok(()) => Ok(Woven::Failed(said)),
            };
        }
        let done = self.done(&recorder)?;
        self.left(guest)?;
        Ok(Woven::Well(done))
    }

    fn record(&self, guest: &Guest, aspect: &Path) -> Result<Recorder, Error> {
        let agent = format!("host={} xweave agent --stdio", guest.exec(self.xweave));
        let (out, err) = (self.folder.join("record.json"), self.folder.join("record.log"));
        let (stdout, stderr) =
            (File::create(&out).at("create", &out)?, File::create(&err).at("create", &err)?);
        // What is compiled is never compiled again: it is thrown away with the trace.
        let cache = self.folder.join("cache");
        let _ = fs::remove_dir_all(cache.join("advice"));
        let child = Command::new(self.xweave)
            .arg("record")
            .arg(aspect)
            .args(["--domain", &agent, "--force", "--json", "--buffer", "256K", "--flow-table", "4096"])
            .arg("-o")
            .arg(self.trace())
            .arg("--")
            .args(guest.burst(self.xweave))
            .env("XWEAVE_CACHE", cache)
            // Ctrl-C is for the soak, which lets a batch be unwoven.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .at("start", self.xweave)?;
        Ok(Recorder { child, out, err })
    }

    fn trace(&self) -> PathBuf {
        self.folder.join("trace")
    }

    fn done(&self, recorder: &Recorder) -> Result<Done, Error> {
        const READING: &str = "reading what `xweave record` left";
        let text = fs::read(&recorder.out).at("read", &recorder.out)?;
        let recorded: Recorded = serde_json::from_slice(&text).map_err(|error| Error::by(READING, error))?;
        let trace = xweave_trace::Trace::open(&self.trace()).map_err(|error| Error::by(READING, error))?;
        let hooked = trace.sites().iter().map(|site| site.function.clone()).collect();
        let why_not = recorded.warnings.join("; ");
        Ok(Done { hooked, why_not, records: recorded.records, lost: recorded.lost })
    }

    /// Waits until nothing is hooked any more, and looks at what the kernel has said.
    fn left(&self, guest: &mut Guest) -> Result<(), Stop> {
        guest.wait(FREEING, "left hooks behind", |guest| {
            let text = guest.shell(LEFT)?;
            let text = String::from_utf8_lossy(&text);
            let (left, said) = text.split_once("--\n").unwrap_or((&text, ""));
            if let Some(sign) = signs::first(said) {
                return Err(Stop::Sick(Sick { kind: "warned", evidence: sign.to_owned() }));
            }
            let count = left.lines().count();
            Ok(match left.lines().next() {
                Some(first) => ControlFlow::Continue(format!("{count} of them, the first: {first}")),
                None => ControlFlow::Break(()),
            })
        })
    }
}

/// `xweave record` at work.
struct Recorder {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Recorder {
    fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().at("wait for", "xweave record")
    }

    /// Has it end by itself, and ends it where it does not.
    fn end(&mut self, patience: Duration) -> Result<(), Error> {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap_or(0);
        let asked = Instant::now();
        // SAFETY: a signal for a child that has not been waited for, so that the number is its own; 0 never is.
        let signal = |number| unsafe { libc::kill(-pid, number) };
        if self.ended()?.is_some() || pid == 0 {
            return Ok(());
        }
        signal(libc::SIGINT);
        while self.ended()?.is_none() {
            if asked.elapsed() > patience {
                signal(libc::SIGKILL);
                self.child.wait().at("wait for", "xweave record")?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What it said besides how far it has come.
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.err).unwrap_or_default();
        let progress =
            ["reaching", "reading", "looking into", "compiling", "weaving", "recording", "unweaving"];
        let told = |line: &&str| {
            !line
                .strip_prefix("xweave: ")
                .is_some_and(|rest| progress.iter().any(|word| rest.starts_with(word)))
        };
        text.lines().filter(told).collect::<Vec<_>>().join("\n")
    }
}
