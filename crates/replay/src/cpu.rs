//! A CPU: who runs on it, and the interrupts above that.

use std::collections::VecDeque;

use xweave_trace::{
    TimeSpan,
    event::{Context, Event, VECTORS},
};

use crate::{
    gaps::Gaps,
    ids::{ThreadId, between},
    thread::{Ended, Source},
};

/// Most I/O requests that the interrupts under way on a CPU complete: more are made up.
const COMPLETIONS: usize = 1 << 10;

/// Most interrupts of a CPU that are above one another: a softirq, hard interrupts and their handlers, and one that cannot
/// be masked. Of what is beyond, the end of the oldest was not seen.
const NESTED: usize = 16;

/// Softirqs, as `include/linux/interrupt.h` numbers them.
mod softirq {
    pub(super) const TIMER: u64 = 1;
    pub(super) const NET_TX: u64 = 2;
    pub(super) const NET_RX: u64 = 3;
    pub(super) const HRTIMER: u64 = 8;
}

/// `LOCAL_TIMER_VECTOR` of arch/x86/include/asm/irq_vectors.h.
const LOCAL_TIMER: u64 = VECTORS | 0xec;

/// Nanoseconds within which a handler completes a request and wakes who waits for it. Used only where interrupts
/// themselves were not recorded: a request that was completed longer ago belongs to another interrupt.
const HANDLER: i64 = 100_000;

/// A time in which a CPU ran one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its beginning, in nanoseconds.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// The thread that had the CPU; 0 is the idle one.
    pub tid: u32,
}

/// An interrupt, hard or soft, above a thread.
#[derive(Clone, Copy, Debug)]
struct Frame {
    from: i64,
    soft: bool,
    number: u64,
    /// A softirq that the thread below raised, by what it did.
    by_thread: bool,
    source: Source,
    /// Nanoseconds that the interrupts above it took.
    above: u64,
}

/// An I/O request that an interrupt has completed.
#[derive(Clone, Copy, Debug)]
struct Completion {
    time: i64,
    /// How many interrupts were under way.
    depth: usize,
    request: u64,
    /// The thread that queued it.
    by: Option<ThreadId>,
}

/// A CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    tid: u32,
    /// Since when; `None` before the first switch that was seen.
    since: Option<i64>,
    frames: Vec<Frame>,
    /// Since a hard interrupt ended, nothing but interrupts has happened.
    after_irq: bool,
    /// The thread woken by the event before this one.
    waking: Option<ThreadId>,
    /// Requests that interrupts under way have completed, in the order of their depths.
    completions: Vec<Completion>,
    threads: Past,
    /// Interrupts, the outermost only.
    interrupts: Past,
    /// When its events were lost.
    gaps: Gaps,
    /// Since the last of these times nothing has shown who runs.
    lost: Option<i64>,
    /// Nor whether an interrupt is under way.
    unsure: Option<i64>,
}

impl Cpu {
    /// Nothing was seen of it yet.
    pub(crate) fn new(forgets: bool) -> Self {
        let past = || Past { intervals: VecDeque::new(), forgets };
        Self { threads: past(), interrupts: past(), ..Self::default() }
    }

    /// Who had the CPU between two times.
    #[inline]
    pub fn threads(&self, from: i64, to: i64) -> impl Iterator<Item = Interval> + '_ {
        let last = self.since.map(|since| Interval { from: since, to: i64::MAX, tid: self.tid });
        self.threads.between(from, to).chain(last.into_iter().flat_map(move |s| clipped(s, from, to)))
    }

    /// The interrupts between two times, whatever thread was below. None overlaps another.
    #[inline]
    pub fn interrupts(&self, from: i64, to: i64) -> impl Iterator<Item = Interval> + '_ {
        let open =
            self.frames.first().map(|frame| Interval { from: frame.from, to: i64::MAX, tid: self.tid });
        self.interrupts.between(from, to).chain(open.into_iter().flat_map(move |s| clipped(s, from, to)))
    }

    /// When its events were lost between two times.
    #[inline]
    pub fn gaps(&self, from: i64, to: i64) -> impl Iterator<Item = TimeSpan> + '_ {
        self.gaps.between(from, to)
    }

    /// The end of its last loss.
    #[inline]
    pub(crate) fn last_loss(&self) -> Option<i64> {
        self.gaps.end()
    }

    /// The thread that runs, and since when; `None` before the first switch and after a loss.
    #[inline]
    pub fn running(&self) -> Option<(u32, i64)> {
        self.since.map(|since| (self.tid, since))
    }

    /// The thread that it ran last, 0 if that was the idle one or none was seen.
    pub(crate) fn tid(&self) -> u32 {
        self.tid
    }

    /// Whether no interrupt is under way, as far as events show.
    #[inline]
    pub fn is_in_thread(&self) -> bool {
        self.frames.is_empty()
    }

    /// The request that was completed last by the interrupt under way.
    pub fn last_completion(&self) -> Option<u64> {
        let depth = self.frames.len();
        self.completions.last().filter(|last| last.depth == depth).map(|last| last.request)
    }

    /// The request of a thread that the thread which has the CPU has just completed, as a handler of interrupts does that is a
    /// thread itself, or one that works for a device.
    #[inline]
    pub fn completed_for(&self, thread: ThreadId, time: i64) -> Option<u64> {
        if self.completions.is_empty() || !self.frames.is_empty() || self.tid == 0 {
            return None;
        }
        let just = |one: &&Completion| one.by == Some(thread) && one.time >= time.saturating_sub(HANDLER);
        self.completions.iter().rev().find(just).map(|one| one.request)
    }

    /// The interrupt under way completes a request that a thread had queued.
    pub(crate) fn complete(&mut self, time: i64, request: u64, by: Option<ThreadId>) {
        // Interrupts or their ends may not be recorded, and nothing else happen on this CPU.
        if self.completions.len() >= COMPLETIONS {
            self.completions.clear();
        }
        self.completions.push(Completion { time, depth: self.frames.len(), request, by });
    }

    /// Takes the thread that the event before this one woke, and notes whether this one is still of interrupts only.
    #[inline]
    pub(crate) fn begin_event(&mut self, of_interrupts: bool) -> Option<ThreadId> {
        // Softirqs come at once after hard interrupts that raised them: whatever else happens is the thread's.
        self.after_irq &= of_interrupts || !self.frames.is_empty();
        self.waking.take()
    }

    /// After a loss, the first event on the CPU shows who has run since its end: since when, if this is such an event.
    #[inline]
    pub(crate) fn show_running(&mut self, tid: u32, time: i64) -> Option<i64> {
        let since = self.lost.take()?.min(time);
        (self.tid, self.since) = (tid, Some(since));
        Some(since)
    }

    /// The CPU went from one thread to another. Gives the time that ends now, if the thread that left is the one that was
    /// dispatched; `i64::MIN` is the beginning of a time that began before the trace.
    pub(crate) fn switch(&mut self, time: i64, from: u32, to: u32) -> Option<Interval> {
        // Who is seen to leave it first has had it since before the trace.
        let (since, had) = self.since.replace(time).map_or((i64::MIN, from), |since| (since, self.tid));
        let ran = Interval { from: since, to: time, tid: had };
        if since < time {
            self.threads.push(ran);
        }
        self.tid = to;
        // Interrupts do not switch: an end was lost.
        self.frames.clear();
        self.completions.clear();
        self.after_irq = false;
        self.unsure = None;
        (had == from).then_some(ran)
    }

    /// Who wakes a thread: the thread that runs, or an interrupt above it.
    pub(crate) fn waker(
        &mut self,
        woken: ThreadId,
        time: i64,
        running: ThreadId,
        context: Option<Context>,
        cpu: u32,
    ) -> Ended {
        let by_thread = running.tid != 0
            && match context {
                Some(Context::Task) => true,
                // Without its beginning, nobody knows who raised it.
                Some(Context::Softirq) => {
                    !self.frames.is_empty() && self.frames.iter().all(|frame| frame.by_thread)
                }
                Some(Context::Hard) => false,
                None => self.frames.iter().all(|frame| frame.by_thread),
            };
        self.waking = Some(woken);
        if self.unsure.is_some() && self.frames.is_empty() {
            return Ended::Lost;
        }
        if by_thread {
            let softirq = context != Some(Context::Task) && !self.frames.is_empty();
            return Ended::Thread { by: running, softirq };
        }
        // Not those of an interrupt below: a timer may come above a disk's.
        let depth = self.frames.len();
        let first = self.completions.partition_point(|one| {
            one.depth < depth || depth == 0 && one.time < time.saturating_sub(HANDLER)
        });
        let completed = &self.completions[first..];
        let own = completed.iter().rev().find(|one| one.by == Some(woken));
        // Of those that others queued, only what is known to be this interrupt's may be what it waited for.
        let other = || completed.last().filter(|_| depth > 0);
        Ended::Interrupt {
            access: own.or_else(other).map(|one| one.request),
            source: self.frames.last().map_or(Source::Other, |frame| frame.source),
            cpu,
        }
    }

    /// Its events were lost between two times. Gives the time in which it ran a thread until then, if that is known.
    pub(crate) fn lose(&mut self, from: i64, to: i64) -> Option<Interval> {
        let until = |since: i64, tid| (since < from).then_some(Interval { from: since, to: from, tid });
        let ran = self.since.take().and_then(|since| until(since, self.tid));
        ran.into_iter().for_each(|ran| self.threads.push(ran));
        let outermost = self.frames.first().and_then(|frame| until(frame.from, self.tid));
        outermost.into_iter().for_each(|interrupt| self.interrupts.push(interrupt));
        self.frames.clear();
        self.completions.clear();
        self.after_irq = false;
        self.gaps.add(TimeSpan { from, to });
        (self.lost, self.unsure) = (Some(to), Some(to));
        ran
    }

    /// An interrupt begins.
    pub(crate) fn enter(&mut self, event: &Event, soft: bool) {
        let (time, number) = (event.time_ns, event.object);
        let by_thread = match Context::of(event.code).filter(|_| soft) {
            Some(raised) => raised == Context::Task,
            // Softirqs come at once after hard ones that raised them. Others than the network's are theirs anyway.
            None => {
                let network = matches!(number, softirq::NET_TX | softirq::NET_RX);
                soft && network && self.frames.is_empty() && !self.after_irq
            }
        };
        let source = match (soft, number) {
            (true, softirq::TIMER | softirq::HRTIMER) | (false, LOCAL_TIMER) => Source::Timer,
            (true, softirq::NET_TX | softirq::NET_RX) => Source::Network,
            _ => Source::Other,
        };
        if self.frames.is_empty() {
            self.completions.clear();
        } else if self.frames.len() >= NESTED {
            self.frames.remove(0);
            self.completions.clear();
        }
        self.frames.push(Frame { from: time, soft, number, by_thread, source, above: 0 });
    }

    /// The innermost interrupt of a kind ends: its number, and its time without that of others above it, in nanoseconds.
    /// `None`, if its beginning was not seen.
    pub(crate) fn leave(&mut self, time: i64, soft: bool) -> Option<(u64, u64)> {
        // An end whose beginning was not seen ends nothing, unless that was lost.
        let Some(at) = self.frames.iter().rposition(|frame| frame.soft == soft) else {
            let begun = self.unsure.take().filter(|lost| self.frames.is_empty() && *lost < time);
            if let Some(lost) = begun {
                self.interrupts.push(Interval { from: lost, to: time, tid: self.tid });
            }
            return None;
        };
        let (outermost, ended) = (self.frames[0], self.frames[at]);
        self.frames.truncate(at);
        let over = self.completions.iter().rev().take_while(|one| one.depth > at).count();
        self.completions.truncate(self.completions.len() - over);
        let took = between(ended.from, time);
        match self.frames.last_mut() {
            Some(below) => below.above += took,
            None => self.interrupts.push(Interval { from: outermost.from, to: time, tid: self.tid }),
        }
        self.after_irq |= !soft;
        Some((ended.number, took.saturating_sub(ended.above)))
    }

    pub(crate) fn forget_before(&mut self, time: i64) {
        self.threads.forget_before(time);
        self.interrupts.forget_before(time);
        self.gaps.forget_before(time);
    }
}

#[inline]
fn clipped(stretch: Interval, from: i64, to: i64) -> impl Iterator<Item = Interval> {
    let Interval { from: a, to: b, tid } = stretch;
    let (a, b) = (a.max(from), b.min(to));
    (a < b).then_some(Interval { from: a, to: b, tid }).into_iter()
}

/// Intervals that are over, in the order of their times.
#[derive(Clone, Debug, Default)]
struct Past {
    intervals: VecDeque<Interval>,
    /// None is remembered.
    forgets: bool,
}

impl Past {
    fn push(&mut self, interval: Interval) {
        if !self.forgets {
            self.intervals.push_back(interval);
        }
    }

    #[inline]
    fn between(&self, from: i64, to: i64) -> impl Iterator<Item = Interval> + '_ {
        let first = self.intervals.partition_point(|interval| interval.to <= from);
        let these = self.intervals.range(first..).copied().take_while(move |interval| interval.from < to);
        these.flat_map(move |interval| clipped(interval, from, to))
    }

    fn forget_before(&mut self, time: i64) {
        let over = self.intervals.partition_point(|interval| interval.to <= time);
        self.intervals.drain(..over);
    }
}
