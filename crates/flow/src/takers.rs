//! What held flows on carriers to a host: what the thread did meanwhile that took them off, as the scheduler's events tell.
//!
//! In a host, a thread of vhost or of QEMU takes them. In a guest an interrupt does, above whatever ran: what that thread
//! did before says nothing, and why a vCPU did not run is for `xweave explain`.

use rustc_hash::{FxHashMap, FxHashSet};
use xweave_replay::{Losses, Replay, ThreadId, Transition};
use xweave_trace::{
    Role, Row, Trace,
    event::{Event, Kind, State},
};

/// So many events are read: what takers do in the first minutes is what they do.
const EVENTS: u64 = 1 << 24;

/// Events after which ended threads are forgotten.
const FORGET: u64 = 1 << 16;

/// A time that a flow was on a carrier, and the thread that took it off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    domain: u8,
    tid: u32,
    comm: String,
    from_ns: i64,
    until_ns: i64,
}

impl Wait {
    /// From that time until the record that it was taken off.
    pub(crate) fn until(row: &Row, from_ns: i64) -> Self {
        let (domain, tid, until_ns) = (row.domain, row.tid, row.time_ns);
        Self { domain, tid, comm: row.comm().into_owned(), from_ns, until_ns }
    }

    /// What the thread is: kernels call those of vhost by the process that they are for.
    fn taker(&self) -> &str {
        if self.comm.starts_with("vhost-") { "vhost" } else { &self.comm }
    }
}

/// The threads that take flows off a carrier, and what they did most of the time that flows waited there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taker {
    /// The threads' name; `vhost` of those of vhost.
    pub name: String,
    /// What they did.
    pub was: TakerState,
}

/// What threads did that should have taken flows off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum TakerState {
    /// They slept: nobody had woken them.
    Asleep,
    /// They could run, and had no CPU.
    Ready,
}

impl TakerState {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doing {
    /// No event has told yet.
    #[default]
    Unknown,
    Runs,
    /// It could run, and has no processor.
    Waits,
    /// Nobody has woken it.
    Sleeps,
}

/// For how long threads did what, in nanoseconds, while flows waited for them.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    all: i64,
    waits: i64,
    sleeps: i64,
}

/// What most of each of these groups' time was spent on by the threads that took the flows off. None where
/// they ran, where no event tells, or where there was more than one kind of thread.
pub(crate) fn told(trace: &Trace, groups: &[Vec<Wait>]) -> Vec<Option<Taker>> {
    let hosts: FxHashSet<u8> = {
        let domains = trace.manifest().domains.iter();
        domains.filter(|domain| domain.role == Role::Host).map(|domain| domain.number).collect()
    };
    let mut threads: FxHashMap<ThreadId, Thread<'_>> = FxHashMap::default();
    for (group, waits) in groups.iter().enumerate() {
        for wait in waits.iter().filter(|wait| hosts.contains(&wait.domain) && wait.tid != 0) {
            let thread = ThreadId { domain: wait.domain, tid: wait.tid };
            threads.entry(thread).or_default().ahead.push((group, wait));
        }
    }
    let mut sums = vec![Sums::default(); groups.len()];
    if threads.is_empty() || trace.manifest().events == 0 {
        return vec![None; groups.len()];
    }
    let mut last = i64::MIN;
    for thread in threads.values_mut() {
        // The next comes last.
        thread.ahead.sort_by_key(|(_, wait)| std::cmp::Reverse(wait.from_ns));
        last = thread.ahead.iter().map(|(_, wait)| wait.until_ns).fold(last, i64::max);
    }
    let (mut replay, mut transitions) = (Replay::of(&mut Losses::of(trace)).without_history(), Vec::new());
    for (nth, event) in (1..=EVENTS).zip(trace.events()) {
        if event.time_ns > last {
            break;
        }
        if tells(&event) && hosts.contains(&event.domain) {
            replay.feed(&event, &mut transitions);
            transitions.drain(..).for_each(|transition| follow(transition, &mut threads, &mut sums));
        }
        if nth % FORGET == 0 {
            replay.forget_before(event.time_ns);
        }
        if nth == EVENTS {
            last = event.time_ns;
        }
    }
    threads.values_mut().for_each(|thread| thread.goes_on_until(last, &mut sums));
    groups.iter().zip(sums).map(|(waits, sums)| sums.told(waits)).collect()
}

/// Whether it takes an event to know what threads do.
fn tells(event: &Event) -> bool {
    matches!(event.kind, Kind::Switch | Kind::Wake | Kind::Fork | Kind::Lost)
}

/// Notes what the threads do from a transition on.
fn follow(transition: Transition, threads: &mut FxHashMap<ThreadId, Thread<'_>>, sums: &mut [Sums]) {
    let (id, time, doing) = match transition {
        Transition::Dispatched { thread, time, .. } => (thread, time, Doing::Runs),
        Transition::Woken { thread, time, .. } => (thread, time, Doing::Waits),
        Transition::Left { thread, time, state: State::Runnable | State::Throttled, .. } => {
            (thread, time, Doing::Waits)
        }
        Transition::Left { thread, time, .. } => (thread, time, Doing::Sleeps),
        Transition::Lost { loss, .. } => {
            // Anything may have happened.
            for (_, thread) in threads.iter_mut().filter(|(id, _)| id.domain == loss.cpu.domain) {
                thread.goes_on_until(loss.from, sums);
                thread.doing = Doing::Unknown;
            }
            return;
        }
        _ => return,
    };
    if let Some(thread) = threads.get_mut(&id) {
        thread.goes_on_until(time, sums);
        thread.doing = doing;
    }
}

/// A thread that takes flows off.
#[derive(Default)]
struct Thread<'w> {
    doing: Doing,
    /// The groups of flows that will wait for it.
    ahead: Vec<(usize, &'w Wait)>,
    /// Of those that do, their groups, since when that has not been counted, and until when.
    waiting: Vec<(usize, i64, i64)>,
}

impl Thread<'_> {
    /// It has done what it does until then.
    fn goes_on_until(&mut self, now: i64, sums: &mut [Sums]) {
        while let Some((group, wait)) = self.ahead.pop_if(|(_, wait)| wait.from_ns < now) {
            self.waiting.push((group, wait.from_ns, wait.until_ns));
        }
        let doing = self.doing;
        self.waiting.retain_mut(|(group, since, until)| {
            let took = now.min(*until).saturating_sub(*since).max(0);
            *since = now;
            if let Some(sums) = sums.get_mut(*group) {
                sums.add(doing, took);
            }
            now < *until
        });
    }
}

impl Sums {
    fn add(&mut self, doing: Doing, ns: i64) {
        self.all = self.all.saturating_add(ns);
        match doing {
            Doing::Waits => self.waits = self.waits.saturating_add(ns),
            Doing::Sleeps => self.sleeps = self.sleeps.saturating_add(ns),
            Doing::Runs | Doing::Unknown => {}
        }
    }

    /// What these were waited for with.
    fn told(self, waits: &[Wait]) -> Option<Taker> {
        let taker = waits.first()?.taker();
        if waits.iter().any(|wait| wait.taker() != taker) {
            return None;
        }
        let most = |ns: i64| ns > self.all / 2;
        let was = match self {
            Self { sleeps, .. } if most(sleeps) => TakerState::Asleep,
            Self { waits, .. } if most(waits) => TakerState::Ready,
            _ => return None,
        };
        Some(Taker { name: taker.to_owned(), was })
    }
}
