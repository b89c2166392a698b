//! Threads, and what each was doing when: the state machine of the scheduler's events.
//!
//! A thread's line is a row of segments without gaps, from when it was first seen. It runs, is ready and has no
//! processor, or waits. What it waited for is known when the wait is over, from who ended it and what was under
//! way then.
//!
//! ```text
//!            Switch to it                 Switch from it, left runnable
//!   Ready ───────────────► Running ──────────────────────────────────────► Ready
//!     ▲                       │
//!     │ Wake                  │ Switch from it, left in another state
//!     └────── Waiting ◄───────┘
//! ```
//!
//! Oddities of real traces, and what is made of them:
//! - A wake-up is recorded while the thread runs. Either it had set its state and did not come to wait: then that is all,
//!   and what it waits for later has nothing to do with it. Or it was leaving its processor already: then the next that
//!   is seen of it is that it goes on, without another wake-up, and it was `Ready` all the time. So what a wait was shows
//!   when it is over.
//! - The first that is seen of a thread may be any of the three events: before it, it was in a state that is not
//!   known, and its line begins there.
//! - Events were lost on a processor: what the thread did that ran there is not known from then on, nor of those that
//!   did not run elsewhere, for they may have been woken and run there. What a thread has done since the loss shows
//!   from the next event of it, and until then is not known either.
//! - A switch from a thread that was not known to run (events were lost): the line has said something else up to
//!   now, and goes on with what the switch says.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_trace::{
    TimeSpan,
    event::{Name, Quota, State},
};

use crate::{gaps::Gaps, ids::ThreadId};

/// So many segments behind a moment are looked at for the next processor: who is ready runs next, unless events were
/// lost.
const AHEAD: usize = 64;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// It runs on this processor.
    Running {
        /// Logical CPU.
        cpu: u32,
    },
    /// It could run, and has no processor.
    Ready {
        /// Whose turn it waits for, if that was recorded.
        cpu: Option<u32>,
        /// How it came to that.
        since: Since,
    },
    /// It waits.
    Waiting {
        /// How it was left.
        state: State,
        /// What ended the wait; `None` while it lasts.
        over: Option<Ended>,
    },
    /// Events were lost: it is not known.
    Unknown,
}

/// How a thread came to be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// It was woken, begun, or given to another processor.
    Woken,
    /// It was woken, and no quota of processor time kept it from running.
    Unthrottled,
    /// It had the processor and was made to leave it.
    Preempted,
    /// The same, because a quota of processor time was used up; or that was so when it was woken.
    Throttled,
}

/// Whose an interrupt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A timer's: a time was over.
    Timer,
    /// The network's: something came.
    Network,
    /// Another one's, or it is not known.
    Other,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A thread woke it.
    Thread {
        /// Which.
        by: ThreadId,
        /// In a softirq that it had raised, as by sending to its own machine.
        softirq: bool,
    },
    /// An interrupt's handler woke it, of a device or of a timer.
    Interrupt {
        /// The access to a disk that this interrupt had ended, by its number.
        access: Option<u64>,
        /// Whose it was.
        source: Source,
        /// The processor that it came to.
        cpu: u32,
    },
    /// It was seen to go on, and no wake-up was.
    Unseen,
    /// Events were lost, its end or its beginning perhaps among them: for what it waited is not known.
    Lost,
}

impl Ended {
    /// The processor whose interrupt ended it.
    pub fn cpu(self) -> Option<u32> {
        match self {
            Self::Interrupt { cpu, .. } => Some(cpu),
            Self::Thread { .. } | Self::Unseen | Self::Lost => None,
        }
    }
}

/// A part of a thread's line, until the next one's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    from: i64,
    to: i64,
    doing: ThreadState,
}

/// A thread's line.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The process it belongs to, 0 if unknown.
    pub process: u64,
    /// What it is called.
    pub name: Name,
    /// What it does, and since when.
    now: ThreadState,
    since: i64,
    /// It was told to be there, and nothing yet of what it does: that comes to light with the next event of it.
    guessed: bool,
    /// When it began, and who made it: that is known of those that began in the trace.
    born: Option<(i64, ThreadId)>,
    /// How it was woken while it ran; that may be why it does not wait after all.
    woken: Option<Since>,
    /// What was over is forgotten at once.
    forgets: bool,
    past: VecDeque<Segment>,
}

impl Thread {
    fn new(now: ThreadState, since: i64, forgets: bool) -> Self {
        Self {
            process: 0,
            name: Name::default(),
            now,
            since,
            guessed: false,
            born: None,
            woken: None,
            forgets,
            past: VecDeque::new(),
        }
    }

    #[inline]
    fn go(&mut self, time: i64, next: ThreadState) {
        if time > self.since && !self.forgets {
            self.past.push_back(Segment { from: self.since, to: time, doing: self.now });
        }
        (self.now, self.since) = (next, time);
    }

    /// What it did until now shows from what it does next.
    #[inline]
    fn turns_out(&mut self, doing: ThreadState) {
        if std::mem::take(&mut self.guessed) {
            self.now = doing;
        }
    }

    #[inline]
    fn end_wait(&mut self, by: Ended) {
        match &mut self.now {
            ThreadState::Waiting { over: over @ None, .. } => *over = Some(by),
            // Its beginning was lost, and with it what it was for, unless that shows from who ended it.
            ThreadState::Waiting { over: over @ Some(Ended::Lost), .. }
                if !matches!(by, Ended::Unseen | Ended::Interrupt { access: None, .. }) =>
            {
                *over = Some(by);
            }
            _ => {}
        }
    }

    /// It is heard of. If events were lost in these times since it last was, it may have done anything then if it did
    /// not run elsewhere; since their end it has been `doing` this.
    fn lose(&mut self, time: i64, gaps: &Gaps, doing: ThreadState) {
        let (None, Some(to)) = (self.runs(), gaps.end()) else { return };
        let Some(TimeSpan { from, .. }) = gaps.after(self.since).next() else { return };
        if std::mem::take(&mut self.guessed) {
            self.now = ThreadState::Unknown;
        }
        self.woken = None;
        self.end_wait(Ended::Lost);
        self.go(from.max(self.since), ThreadState::Unknown);
        self.go(to.min(time).max(self.since), doing);
    }

    #[inline]
    fn runs(&self) -> Option<u32> {
        match self.now {
            ThreadState::Running { cpu } => Some(cpu),
            _ => None,
        }
    }

    /// Who made it, if it began at this time.
    #[inline]
    pub fn born_of(&self, time: i64) -> Option<ThreadId> {
        self.born.filter(|(born, _)| *born == time).map(|(_, by)| by)
    }

    /// The processor that it had next, at this time or later.
    #[inline]
    pub fn next_cpu(&self, time: i64) -> Option<u32> {
        let first = self.past.partition_point(|segment| segment.to <= time);
        let past = self.past.range(first..).map(|segment| segment.doing);
        // Where events were lost, it may have had another.
        let mut known = past.chain([self.now]).take(AHEAD).take_while(|doing| *doing != ThreadState::Unknown);
        known.find_map(|doing| match doing {
            ThreadState::Running { cpu } => Some(cpu),
            _ => None,
        })
    }

    /// Since when it was ready at that time, and which thread had woken it for that.
    fn ready_since(&self, at: i64) -> Option<(i64, ThreadId)> {
        let next = self.past.partition_point(|segment| segment.to <= at);
        let (since, doing) =
            self.past.get(next).map_or((self.since, self.now), |segment| (segment.from, segment.doing));
        let before = self.past.get(next.checked_sub(1)?)?;
        match (doing, before.doing) {
            (
                ThreadState::Ready { .. },
                ThreadState::Waiting { over: Some(Ended::Thread { by, .. }), .. },
            ) if since <= at => Some((since, by)),
            _ => None,
        }
    }

    /// What it did between two times, as segments that leave no gap; `None` for what is not known, before its
    /// line begins. What lasts is told up to `to`. What was lost on other processors is not looked at.
    #[inline]
    fn between(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, Option<ThreadState>)> + '_ {
        let begun = self.past.front().map_or(self.since, |first| first.from);
        let unknown = (from < begun).then(|| (from, begun.min(to), None));
        let first = self.past.partition_point(|segment| segment.to <= from);
        let past = self.past.range(first..).map(|segment| (segment.from, segment.to, Some(segment.doing)));
        let last = std::iter::once((self.since, i64::MAX, Some(self.now)));
        let known = past.chain(last).map(move |(a, b, doing)| (a.max(from), b.min(to), doing));
        unknown.into_iter().chain(known.take_while(move |(a, ..)| *a < to)).filter(|(a, b, _)| a < b)
    }
}

/// All threads of all domains.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    all: FxHashMap<ThreadId, Thread>,
    /// What was over is forgotten at once.
    forgets: bool,
    /// When events were lost, by domain.
    lost: FxHashMap<u8, Gaps>,
}

impl Threads {
    /// None yet, of which only what they do now will be known.
    pub(crate) fn without_history() -> Self {
        Self { forgets: true, ..Self::default() }
    }

    /// A thread's line, if it was seen.
    #[inline]
    pub fn get(&self, id: ThreadId) -> Option<&Thread> {
        self.all.get(&id)
    }

    /// Returns the process of a thread; 0 if it is not known.
    #[inline]
    pub fn process(&self, id: ThreadId) -> u64 {
        self.get(id).map_or(0, |thread| thread.process)
    }

    /// What a thread did between two times, as segments that leave no gap; `None` before its line begins. Where events
    /// were lost, only of one that ran elsewhere is it known.
    #[inline]
    pub fn line(&self, id: ThreadId, from: i64, to: i64) -> Vec<(i64, i64, Option<ThreadState>)> {
        let Some(thread) = self.get(id) else { return vec![(from, to, None)] };
        let Some(gaps) = self.lost.get(&id.domain) else { return thread.between(from, to).collect() };
        let mut line: Vec<_> = thread.between(from, to).collect();
        // What it did before it was last heard of is settled. Since then, after a loss it may be doing anything.
        if let Some(TimeSpan { from: lost, .. }) =
            gaps.after(thread.since).next().filter(|_| thread.runs().is_none())
            && let Some((a, b, doing)) = line.pop_if(|(a, b, _)| *a >= thread.since && *b > lost)
        {
            let doing = doing.map(|doing| match doing {
                ThreadState::Waiting { state, .. } => ThreadState::Waiting { state, over: Some(Ended::Lost) },
                other => other,
            });
            let lost = lost.max(a);
            line.extend((a < lost).then_some((a, lost, doing)));
            line.push((lost, b, Some(ThreadState::Unknown)));
        }
        line
    }

    /// Whether the kernel kept a thread from running from that time on, because a quota was used up.
    #[inline]
    pub fn is_throttled(&self, id: ThreadId, at: i64) -> bool {
        let line = self.line(id, at, at + 1);
        matches!(line[..], [(_, _, Some(ThreadState::Ready { since: Since::Throttled, .. })), ..])
    }

    /// Whether events of a domain were lost between two times.
    #[inline]
    pub fn lost(&self, domain: u8, from: i64, to: i64) -> bool {
        self.lost.get(&domain).is_some_and(|gaps| gaps.between(from, to).next().is_some())
    }

    /// When the last loss of a domain's events was over.
    #[inline]
    pub fn last_loss(&self, domain: u8) -> Option<i64> {
        self.lost.get(&domain)?.end()
    }

    /// The threads of a domain that were ready at that time, after a wait that a thread ended: since when, and by whom. Looks
    /// through all threads.
    pub fn ready_at(&self, domain: u8, at: i64) -> impl Iterator<Item = (ThreadId, i64, ThreadId)> + '_ {
        let all = self.all.iter().filter(move |(id, _)| id.domain == domain);
        all.filter_map(move |(id, thread)| {
            let (since, by) = thread.ready_since(at)?;
            Some((*id, since, by))
        })
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether none was seen.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A thread was made by another.
    pub fn fork(&mut self, id: ThreadId, by: ThreadId, time: i64) {
        // Its number may have been another's.
        let ready = ThreadState::Ready { cpu: None, since: Since::Woken };
        let new = Thread { born: Some((time, by)), ..Thread::new(ready, time, self.forgets) };
        self.all.insert(id, new);
    }

    /// What a thread is called and which process it belongs to.
    pub fn describe(&mut self, id: ThreadId, process: u64, name: Name, time: i64) {
        let waits = ThreadState::Waiting { state: State::Sleeping, over: None };
        let forgets = self.forgets;
        let new = || Thread { guessed: true, ..Thread::new(waits, time, forgets) };
        let thread = self.all.entry(id).or_insert_with(new);
        (thread.process, thread.name) = (process, name);
    }

    /// Events of a processor, on which that thread had run, were lost between two times.
    pub(crate) fn lose(&mut self, had: ThreadId, cpu: u32, from: i64, to: i64) {
        self.lost.entry(had.domain).or_default().add(TimeSpan { from, to });
        if let Some(thread) = self.all.get_mut(&had).filter(|thread| thread.runs() == Some(cpu)) {
            thread.go(from.max(thread.since), ThreadState::Unknown);
        }
    }

    /// A thread does something of which it shows what it has done since events were lost.
    #[inline]
    fn heard_of(&mut self, id: ThreadId, time: i64, doing: ThreadState) {
        if let Some(gaps) = self.lost.get(&id.domain)
            && let Some(thread) = self.all.get_mut(&id)
        {
            thread.lose(time, gaps, doing);
        }
    }

    /// A thread is seen to run on a processor, and has done so since events of that were lost.
    pub(crate) fn runs(&mut self, id: ThreadId, time: i64, cpu: u32, since: i64) {
        if id.tid != 0 {
            let running = ThreadState::Running { cpu };
            self.heard_of(id, time, running);
            let forgets = self.forgets;
            let thread = self.all.entry(id).or_insert_with(|| Thread::new(running, since, forgets));
            // It was woken since then, and ran already.
            if thread.since >= since && matches!(thread.now, ThreadState::Ready { .. }) {
                thread.now = running;
            }
        }
    }

    /// A processor went from one thread to another. The idle thread has the number 0 on each processor, and no
    /// line.
    pub fn switch(&mut self, domain: u8, time: i64, cpu: u32, from: u32, state: State, to: u32) {
        let forgets = self.forgets;
        if from != 0 {
            let id = ThreadId { domain, tid: from };
            self.heard_of(id, time, ThreadState::Running { cpu });
            let new = || Thread::new(ThreadState::Running { cpu }, time, forgets);
            let thread = self.all.entry(id).or_insert_with(new);
            thread.turns_out(ThreadState::Running { cpu });
            let ready = |since| ThreadState::Ready { cpu: Some(cpu), since };
            let next = match state {
                State::Runnable => ready(Since::Preempted),
                State::Throttled => ready(Since::Throttled),
                // Who waited for its end may ask what it did before.
                _ => ThreadState::Waiting { state, over: None },
            };
            // What has ended is woken no more.
            thread.woken.take_if(|_| !matches!(next, ThreadState::Waiting { .. }) || state == State::Dead);
            thread.go(time, next);
        }
        if to != 0 {
            let next = ThreadState::Running { cpu };
            let id = ThreadId { domain, tid: to };
            self.heard_of(id, time, ThreadState::Ready { cpu: None, since: Since::Woken });
            let gaps = self.lost.get(&domain);
            let thread = self.all.entry(id).or_insert_with(|| Thread::new(next, time, forgets));
            thread.turns_out(ThreadState::Ready { cpu: None, since: Since::Woken });
            if let Some(since) = thread.woken.take()
                && matches!(thread.now, ThreadState::Waiting { .. })
            {
                // It would have waited, and did not have to.
                thread.now = ThreadState::Ready { cpu: Some(cpu), since };
            }
            thread.end_wait(Ended::Unseen);
            if let ThreadState::Ready { cpu: queued @ Some(_), since } = &mut thread.now
                && matches!(since, Since::Woken | Since::Unthrottled)
                && *queued != Some(cpu)
            {
                // It was given to another one, and that was not recorded; or lost, and when is not known.
                *queued = Some(cpu);
                if gaps.is_some_and(|gaps| gaps.between(thread.since, time).next().is_some()) {
                    thread.now = ThreadState::Unknown;
                }
            }
            thread.go(time, next);
        }
    }

    /// A thread was made able to run, on that processor if it is known, as far as its quota lets it. If that ended a wait,
    /// since when it waited, and whether the beginning of the wait was seen.
    pub fn wake(
        &mut self,
        id: ThreadId,
        time: i64,
        by: Ended,
        cpu: Option<u32>,
        quota: Option<Quota>,
    ) -> Option<(i64, bool)> {
        self.heard_of(id, time, ThreadState::Waiting { state: State::Sleeping, over: Some(Ended::Lost) });
        let forgets = self.forgets;
        let thread = self.all.entry(id).or_insert_with(|| {
            // It was waiting when the trace began, for what is not known.
            let waits = ThreadState::Waiting { state: State::Sleeping, over: None };
            Thread { guessed: true, ..Thread::new(waits, time, forgets) }
        });
        let whole = !std::mem::take(&mut thread.guessed);
        let woken = match quota {
            None => Since::Woken,
            Some(Quota::Left) => Since::Unthrottled,
            Some(Quota::UsedUp) => Since::Throttled,
        };
        match thread.now {
            ThreadState::Waiting { .. } => {
                // What woke it before it waited has not kept it from that.
                thread.woken = None;
                thread.end_wait(by);
                let since = thread.since;
                thread.go(time, ThreadState::Ready { cpu, since: woken });
                return Some((since, whole));
            }
            ThreadState::Running { .. } => thread.woken = Some(woken),
            ThreadState::Ready { .. } | ThreadState::Unknown => {}
        }
        None
    }

    /// A thread is given from one processor to another. If it waits for one it waits for that one from now on; from the beginning
    /// if it is `being_woken`, since who wakes it chooses the processor only then.
    pub fn migrate(&mut self, id: ThreadId, time: i64, from: u32, to: u32, being_woken: bool) {
        let Some(thread) = self.all.get_mut(&id) else { return };
        match &mut thread.now {
            ThreadState::Ready { cpu, since } if being_woken => {
                *cpu = Some(to);
                // That is of another processor, where there may be some.
                if *since == Since::Throttled {
                    *since = Since::Woken;
                }
            }
            ThreadState::Ready { cpu, .. } => {
                cpu.get_or_insert(from);
                thread.go(time, ThreadState::Ready { cpu: Some(to), since: Since::Woken });
            }
            ThreadState::Running { .. } | ThreadState::Waiting { .. } | ThreadState::Unknown => {}
        }
    }

    /// Forgets what no question can be about any more: all that was over before this time.
    pub fn forget_before(&mut self, time: i64) {
        let ended = |thread: &Thread| matches!(thread.now, ThreadState::Waiting { state: State::Dead, .. });
        self.all.retain(|_, thread| !ended(thread) || thread.since > time);
        for (id, thread) in &mut self.all {
            // That it has not been heard of since then is all that is remembered of a loss.
            if thread.runs().is_none()
                && let Some(gaps) = self.lost.get(&id.domain)
                && let Some(TimeSpan { from, .. }) =
                    gaps.after(thread.since).next().filter(|gap| gap.to <= time)
            {
                thread.end_wait(Ended::Lost);
                thread.go(from.max(thread.since), ThreadState::Unknown);
            }
            let over = thread.past.partition_point(|segment| segment.to <= time);
            thread.past.drain(..over);
        }
        self.lost.values_mut().for_each(|gaps| gaps.forget_before(time));
    }
}
