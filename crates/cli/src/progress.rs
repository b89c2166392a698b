//! What is told while a recording is prepared, made and ended: on a terminal one line that changes, elsewhere a line when a
//! phase begins, and now and then how far it is.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use xweave_record::{Analysed, Phase};
use xweave_report::number::{count, counted};

use crate::{shown, told};

/// After that, it is told how long a phase has taken.
const LONG: Duration = Duration::from_secs(1);

/// Time between two lines about one phase where there is no terminal: in its first minute, and later.
const FIRST: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(60);

/// Over that, a rate is measured.
const SPAN: Duration = Duration::from_secs(1);

/// Tells on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    story: Story,
}

impl Progress {
    /// Of a recording that ends after that time, if any.
    pub fn new(limit: Option<Duration>) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, begun: Instant::now(), story: Story::new(limit) }
    }

    /// Tells of a phase.
    pub fn show(&mut self, phase: &Phase<'_>) {
        let line = self.story.go_on(phase, self.begun.elapsed());
        match (&self.bar, line) {
            (Some(bar), Some(Line::Stays(line))) => bar.println(told::fitted(&line)),
            (Some(_), Some(Line::OfPhase(_))) => {}
            (Some(bar), None) => bar.set_message(self.story.status(self.begun.elapsed())),
            (None, Some(Line::Stays(line) | Line::OfPhase(line))) => told::write_line(line),
            (None, None) => {}
        }
    }

    /// Takes the changing line away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line to be printed.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Everywhere.
    Stays(String),
    /// Where no line changes.
    OfPhase(String),
}

/// What has been told, and what is to be. Times are since the beginning.
struct Story {
    limit: Option<Duration>,
    /// What is being done.
    title: String,
    /// How far that is.
    detail: String,
    since: Duration,
    next: Duration,
    records: Rate,
    events: Rate,
}

impl Story {
    fn new(limit: Option<Duration>) -> Self {
        Self {
            limit,
            title: String::new(),
            detail: String::new(),
            since: Duration::ZERO,
            next: Duration::ZERO,
            records: Rate::default(),
            events: Rate::default(),
        }
    }

    /// Takes what is told. Gives a line to be printed.
    fn go_on(&mut self, phase: &Phase<'_>, now: Duration) -> Option<Line> {
        let title = match phase {
            Phase::Found { line } => return Some(Line::Stays((*line).to_owned())),
            Phase::Note { line } => return Some(Line::Stays(format!("note: {line}"))),
            Phase::Diagnosed { diagnostic } => return Some(Line::Stays(shown::diagnostic(diagnostic))),
            Phase::Said { domain, line } => return Some(Line::Stays(format!("{domain}: {line}"))),
            Phase::Waiting | Phase::Attaching { .. } => self.title.clone(),
            Phase::Connecting { domain } => format!("reaching {domain}"),
            Phase::Reading { domain, kernel } => format!("reading {domain}: {kernel}"),
            Phase::Cached => "asking guests what their page caches hold".to_owned(),
            Phase::Analysing { .. } => "analysing functions".to_owned(),
            Phase::Resolving { .. } => "finding join points".to_owned(),
            Phase::Compiling { total, .. } => {
                format!("compiling {}, kept for the next time", counted(*total as u64, "object", "objects"))
            }
            Phase::Weaving { sites: 0 } => "attaching the probes of events".to_owned(),
            Phase::Weaving { sites } => format!("weaving {}", counted(*sites as u64, "site", "sites")),
            Phase::Recording { .. } => "recording".to_owned(),
            Phase::Stopping { .. } => "unweaving".to_owned(),
            Phase::Placing => "finding the places of what Xen recorded".to_owned(),
        };
        let begins = title != self.title;
        if begins {
            (self.title, self.since, self.next) = (title, now, now + FIRST);
            self.detail.clear();
        }
        if !matches!(phase, Phase::Waiting) {
            self.detail = self.detail(phase);
        }
        if begins {
            return Some(Line::OfPhase(format!("xweave: {}", self.title)));
        }
        (now >= self.next).then(|| {
            self.next = now + if now - self.since < LATER { FIRST } else { LATER };
            Line::OfPhase(format!("xweave: {}", self.status(now)))
        })
    }

    /// What is being done, how far it is, and for how long it has been done.
    fn status(&self, now: Duration) -> String {
        let took = now.saturating_sub(self.since);
        let recording = self.title == "recording";
        let elapsed = if took < LONG || recording { String::new() } else { format!(" ({})", seconds(took)) };
        format!("{}{}{elapsed}", self.title, self.detail)
    }

    fn detail(&mut self, phase: &Phase<'_>) -> String {
        match phase {
            Phase::Analysing { parts } => {
                let parts: Vec<_> = parts.iter().map(analysed).collect();
                format!(": {}", parts.join(", "))
            }
            Phase::Resolving { done, total } => {
                format!(": {done} of {}", counted(*total as u64, "domain", "domains"))
            }
            Phase::Compiling { done, total } if *total > 1 => format!(": {done} done"),
            Phase::Attaching { domain, done, total } => {
                format!(
                    ": {} of {} in {domain}",
                    count((*done).into()),
                    counted((*total).into(), "hook", "hooks")
                )
            }
            Phase::Recording { elapsed, records, events, lost } => {
                let of = self.limit.map_or(String::new(), |limit| format!(" of {}", seconds(limit)));
                let end = if self.limit.is_none() { " (Ctrl-C ends)" } else { "" };
                let mut parts = Vec::new();
                if *records > 0 || *events == 0 {
                    parts.push(self.records.told("records", *records, *elapsed));
                }
                if *events > 0 {
                    parts.push(self.events.told("events", *events, *elapsed));
                }
                format!(" {}{of}{end}: {}, {} lost", seconds(*elapsed), parts.join(", "), count(*lost))
            }
            Phase::Stopping { waiting_for } => {
                let of = if waiting_for.is_empty() {
                    String::new()
                } else {
                    format!(" {}", waiting_for.join(", "))
                };
                format!("{of} (a second Ctrl-C stops immediately)")
            }
            _ => String::new(),
        }
    }
}

/// Short, as three domains are to fit into a terminal's line.
fn analysed(part: &Analysed<'_>) -> String {
    match part.total {
        0 => format!("{} …", part.domain),
        total => format!("{} {}/{}", part.domain, count(part.done.into()), count(total.into())),
    }
}

/// How many came in the last second.
#[derive(Default)]
struct Rate {
    /// When it was measured last, and how many there were.
    last: (Duration, u64),
    per_second: Option<u64>,
}

impl Rate {
    fn told(&mut self, what: &str, now_there: u64, elapsed: Duration) -> String {
        let span = elapsed.saturating_sub(self.last.0);
        if span >= SPAN {
            let came = now_there.saturating_sub(self.last.1);
            let per_second = u128::from(came) * 1000 / span.as_millis().max(1);
            self.per_second = Some(u64::try_from(per_second).unwrap_or(u64::MAX));
            self.last = (elapsed, now_there);
        }
        let rate = self.per_second.map_or(String::new(), |rate| format!(" ({}/s)", count(rate)));
        format!("{} {what}{rate}", count(now_there))
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn of_phase(line: &str) -> Option<Line> {
        Some(Line::OfPhase(line.to_owned()))
    }

    #[test]
    fn a_phase_is_told_when_it_begins_and_then_every_ten_seconds_with_how_far_it_is() {
        let mut story = Story::new(None);
        let part = |domain, done, total| Analysed { domain, done, total };
        let (before, later) =
            ([part("host", 0, 0)], [part("host", 34_120, 60_210), part("vm1", 256, 58_000)]);
        let title = "analysing functions";
        let analysing = |parts| Phase::Analysing { parts };
        assert_eq!(story.go_on(&analysing(&before), at(0)), of_phase(&format!("xweave: {title}")));
        assert_eq!(story.status(at(500)), format!("{title}: host …"));
        assert_eq!(story.go_on(&analysing(&later), at(9_900)), None);
        let status = format!("{title}: host 34 120/60 210, vm1 256/58 000 (10.0 s)");
        assert_eq!(story.go_on(&Phase::Waiting, at(10_000)), of_phase(&format!("xweave: {status}")));
        assert_eq!(story.status(at(10_000)), status);
        assert_eq!(story.go_on(&Phase::Waiting, at(10_100)), None);
        let compiling = |done| Phase::Compiling { done, total: 3 };
        assert_eq!(
            story.go_on(&compiling(0), at(20_000)),
            of_phase("xweave: compiling 3 objects, kept for the next time")
        );
        story.go_on(&compiling(2), at(22_000));
        assert_eq!(story.status(at(24_500)), "compiling 3 objects, kept for the next time: 2 done (4.5 s)");
    }

    #[test]
    fn how_many_hooks_are_attached_is_told_of_aspects_and_of_the_probes_of_events() {
        let mut story = Story::new(None);
        assert_eq!(story.go_on(&Phase::Weaving { sites: 70 }, at(0)), of_phase("xweave: weaving 70 sites"));
        let attaching = Phase::Attaching { domain: "vm1", done: 12, total: 35 };
        assert_eq!(story.go_on(&attaching, at(400)), None);
        assert_eq!(story.status(at(1_500)), "weaving 70 sites: 12 of 35 hooks in vm1 (1.5 s)");
        let mut story = Story::new(None);
        let title = "attaching the probes of events";
        assert_eq!(story.go_on(&Phase::Weaving { sites: 0 }, at(0)), of_phase(&format!("xweave: {title}")));
        let attaching = Phase::Attaching { domain: "host", done: 7, total: 38 };
        assert_eq!(story.go_on(&attaching, at(900)), None);
        assert_eq!(story.status(at(1_500)), format!("{title}: 7 of 38 hooks in host (1.5 s)"));
    }

    #[test]
    fn a_recording_tells_its_time_its_rates_and_its_losses() {
        let recording = |ms, records, events| Phase::Recording { elapsed: at(ms), records, events, lost: 3 };
        let mut story = Story::new(Some(at(60_000)));
        assert_eq!(story.go_on(&recording(0, 0, 0), at(100)), of_phase("xweave: recording"));
        story.go_on(&recording(500, 100, 0), at(600));
        assert_eq!(story.status(at(600)), "recording 0.5 s of 60.0 s: 100 records, 3 lost");
        story.go_on(&recording(1_000, 1_200, 40_000), at(1_100));
        story.go_on(&recording(2_000, 2_400, 100_000), at(2_100));
        let status = "recording 2.0 s of 60.0 s: 2 400 records (1 200/s), 100 000 events (60 000/s), 3 lost";
        assert_eq!(story.status(at(2_100)), status);
        // Every ten seconds, and after a minute every minute.
        let lines = (3..400).filter(|&second| {
            story.go_on(&recording(second * 1000, 0, 0), at(second * 1000 + 100)).is_some()
        });
        assert_eq!(lines.collect::<Vec<_>>(), [10, 20, 30, 40, 50, 60, 120, 180, 240, 300, 360]);
        let mut story = Story::new(None);
        story.go_on(&recording(500, 0, 7), at(600));
        assert_eq!(story.status(at(600)), "recording 0.5 s (Ctrl-C ends): 7 events, 3 lost");
    }

    #[test]
    fn what_is_to_be_known_stays_and_does_not_end_a_phase() {
        let mut story = Story::new(None);
        story.go_on(&Phase::Connecting { domain: "vm1" }, at(0));
        let stays = |line: &str| Some(Line::Stays(line.to_owned()));
        let found = "vm1: CID 3, hostname web1, QEMU pid 2114, Linux 6.12.9, 2 CPUs";
        assert_eq!(story.go_on(&Phase::Found { line: found }, at(5)), stays(found));
        assert_eq!(story.go_on(&Phase::Note { line: "vm1: x" }, at(6)), stays("note: vm1: x"));
        assert_eq!(story.go_on(&Phase::Said { domain: "vm1", line: "hi" }, at(7)), stays("vm1: hi"));
        assert_eq!(story.status(at(2_000)), "reaching vm1 (2.0 s)");
    }
}
