//! The replay: feeds the state machines of CPUs and threads, and says what comes of each event.

use std::collections::VecDeque;

use xweave_trace::{
    TimeSpan,
    event::{Context, Event, Kind, Quota, State},
};

use crate::{
    by_cpu::ByCpu,
    cpu::Cpu,
    ids::{CpuId, ThreadId},
    loss::{EarlyEnd, Loss, Losses},
    thread::Threads,
    transition::Transition,
};

/// Threads and CPUs of all domains, as far as a trace's events have told.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Threads.
    pub threads: Threads,
    cpus: ByCpu<Cpu>,
    /// Losses that lie ahead, in the order of the times.
    losses: VecDeque<Loss>,
    /// Domains that will be recorded no more, the first one first.
    ends: VecDeque<EarlyEnd>,
    /// The end of the latest loss so far.
    lost_until: i64,
    /// What was over is forgotten at once.
    forgets: bool,
}

impl Replay {
    /// Nothing was seen yet. Of the events to come, these were lost: [`Losses`] collects them, since a CPU
    /// that has lost events tells of it with the next one only.
    pub fn new(mut losses: Vec<Loss>) -> Self {
        losses.sort_unstable_by_key(|loss| loss.from);
        Self { losses: losses.into(), ..Self::default() }
    }

    /// The same of a trace's losses, which are taken out.
    pub fn of(losses: &mut Losses) -> Self {
        Self::new(losses.take_all()).ending(losses.ends().to_vec())
    }

    /// The same, of domains of which some end before the others.
    #[must_use]
    pub fn ending(self, mut ends: Vec<EarlyEnd>) -> Self {
        ends.sort_unstable_by_key(|end| end.unknown.from);
        Self { ends: ends.into(), ..self }
    }

    /// The same, for who reads transitions only: what was over is forgotten at once, and of threads and CPUs only what they do
    /// now is known.
    #[must_use]
    pub fn without_history(self) -> Self {
        Self { forgets: true, threads: Threads::without_history(), ..self }
    }

    /// A CPU, if something was seen of it.
    #[inline]
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.get(id)
    }

    /// Whether events of a domain were lost between two times: on any of its CPUs, or on this one.
    pub fn lost(&self, domain: u8, cpu: Option<u32>, from: i64, to: i64) -> bool {
        // Nothing was lost of most traces.
        self.lost_until > from
            && self.cpus.iter().any(|(id, here)| {
                id.domain == domain
                    && cpu.is_none_or(|cpu| cpu == id.cpu)
                    && here.gaps(from, to).next().is_some()
            })
    }

    /// Takes in an event, and adds what comes of it to the transitions: losses until then, what the event means, and a loss that
    /// it lies in. A domain's events come in the order of their times.
    #[inline]
    pub fn feed(&mut self, event: &Event, transitions: &mut Vec<Transition>) {
        self.advance(event.time_ns, transitions);
        self.apply(event, transitions);
        self.resume_loss(event, transitions);
    }

    /// Whether something was lost until then that has not been told yet.
    #[inline]
    pub fn loses_until(&self, time: i64) -> bool {
        self.losses.front().is_some_and(|loss| loss.from <= time)
            || self.ends.front().is_some_and(|end| end.unknown.from <= time)
    }

    /// Time goes on until then: something may have been lost.
    #[inline]
    pub fn advance(&mut self, time: i64, transitions: &mut Vec<Transition>) {
        while self.loses_until(time) {
            match self.losses.front().copied().filter(|loss| loss.from <= time) {
                Some(loss) => {
                    self.losses.pop_front();
                    self.lose(loss, transitions);
                }
                None => self.end_first(transitions),
            }
        }
    }

    /// The first of the domains that end is recorded no more: all that its CPUs did then is lost.
    #[cold]
    fn end_first(&mut self, transitions: &mut Vec<Transition>) {
        let Some(EarlyEnd { domain, unknown: TimeSpan { from, to } }) = self.ends.pop_front() else { return };
        let all = self.cpus.iter().map(|(id, _)| id).filter(|id| id.domain == domain);
        for cpu in all.collect::<Vec<_>>() {
            self.lose(Loss { cpu, from, to }, transitions);
        }
    }

    /// What is seen amid a loss is true of that moment only: after it, the rest is lost as before.
    #[inline]
    pub fn resume_loss(&mut self, event: &Event, transitions: &mut Vec<Transition>) {
        if event.time_ns < self.lost_until {
            self.lose_rest(event, transitions);
        }
    }

    fn lose_rest(&mut self, event: &Event, transitions: &mut Vec<Transition>) {
        let time = event.time_ns;
        let cpu = CpuId { domain: event.domain, cpu: event.cpu };
        let end = self.cpu(cpu).and_then(Cpu::last_loss).filter(|to| *to > time);
        if let Some(to) = end {
            self.lose(Loss { cpu, from: time, to }, transitions);
        }
    }

    /// The interrupt under way on a CPU completes an I/O request that a thread had queued.
    pub fn complete(&mut self, cpu: CpuId, time: i64, request: u64, by: Option<ThreadId>) {
        let forgets = self.forgets;
        self.cpus.get_or_insert_with(cpu, || Cpu::new(forgets)).complete(time, request, by);
    }

    fn lose(&mut self, loss: Loss, transitions: &mut Vec<Transition>) {
        let Loss { cpu: id, from, to } = loss;
        self.lost_until = self.lost_until.max(to);
        let forgets = self.forgets;
        let here = self.cpus.get_or_insert_with(id, || Cpu::new(forgets));
        let had = ThreadId { domain: id.domain, tid: here.tid() };
        if let Some(ran) = here.lose(from, to) {
            transitions.push(Transition::Ran { cpu: id, tid: ran.tid, from: ran.from, to: ran.to });
        }
        self.threads.lose(had, id.cpu, from, to);
        transitions.push(Transition::Lost { loss, had });
    }

    /// Takes in an event alone.
    pub fn apply(&mut self, event: &Event, transitions: &mut Vec<Transition>) {
        let Event { time_ns: time, domain, cpu, tid, other, kind, .. } = *event;
        let thread = |tid| ThreadId { domain, tid };
        let id = CpuId { domain, cpu };
        let forgets = self.forgets;
        let here = self.cpus.get_or_insert_with(id, || Cpu::new(forgets));
        let of_interrupts =
            matches!(kind, Kind::IrqEnter | Kind::IrqExit | Kind::SoftirqEnter | Kind::SoftirqExit);
        let waking = here.begin_event(of_interrupts);
        // The list of threads is of any, and a loss is told later.
        if !matches!(kind, Kind::Thread | Kind::Lost)
            && let Some(since) = here.show_running(tid, time)
        {
            self.threads.runs(thread(tid), time, cpu, since);
        }
        match kind {
            Kind::Switch => {
                let state = State::of(event.code);
                if let Some(ran) = here.switch(time, tid, other) {
                    transitions.push(Transition::Ran { cpu: id, tid, from: ran.from, to: time });
                }
                self.threads.switch(domain, time, cpu, tid, state, other);
                if tid != 0 {
                    transitions.push(Transition::Left { thread: thread(tid), cpu, time, state });
                }
                if other != 0 {
                    transitions.push(Transition::Dispatched { thread: thread(other), cpu, time });
                }
            }
            Kind::Wake => {
                let context = Context::of(event.code);
                let by = here.waker(thread(other), time, thread(tid), context, cpu);
                let queue = event.object.checked_sub(1).and_then(|cpu| u32::try_from(cpu).ok());
                let quota = Quota::of(event.code);
                if let Some((since, whole)) = self.threads.wake(thread(other), time, by, queue, quota) {
                    let thread = thread(other);
                    transitions.push(Transition::Woken {
                        thread,
                        time,
                        since,
                        whole,
                        by,
                        context,
                        cpu: queue,
                    });
                }
            }
            Kind::Migrate => {
                if let [Ok(from), Ok(to)] = [event.position, event.object].map(u32::try_from) {
                    let thread = thread(other);
                    self.threads.migrate(thread, time, from, to, waking == Some(thread));
                    transitions.push(Transition::Migrated { thread, time, to });
                }
            }
            Kind::Fork => {
                self.threads.fork(thread(other), thread(tid), time);
                self.threads.describe(thread(other), event.object, event.name, time);
                transitions.push(Transition::Began { thread: thread(other), time });
            }
            Kind::Thread => self.threads.describe(thread(other), event.object, event.name, time),
            Kind::IrqEnter | Kind::SoftirqEnter => {
                let soft = kind == Kind::SoftirqEnter;
                here.enter(event, soft);
                transitions.push(Transition::InterruptBegan {
                    cpu: id,
                    tid,
                    time,
                    soft,
                    number: event.object,
                });
            }
            Kind::IrqExit | Kind::SoftirqExit => {
                let soft = kind == Kind::SoftirqExit;
                if let Some((number, own_ns)) = here.leave(time, soft) {
                    transitions.push(Transition::InterruptEnded { cpu: id, soft, number, own_ns });
                }
            }
            Kind::Lost => {
                let loss = Loss::new(event);
                // Known beforehand, unless the trace's manifest does not count it. One before the last switch says nothing of
                // who runs now.
                let is_known = here.last_loss().is_some_and(|to| to >= loss.to);
                let is_past = here.running().is_some_and(|(_, since)| since >= loss.to);
                if !is_known && !is_past {
                    self.lose(loss, transitions);
                }
            }
            _ => {}
        }
    }

    /// How many threads and CPUs are remembered: what forgetting looks through.
    pub fn remembered(&self) -> usize {
        self.threads.len() + self.cpus.len()
    }

    /// Forgets what was over before this time.
    pub fn forget_before(&mut self, time: i64) {
        self.threads.forget_before(time);
        self.cpus.values_mut().for_each(|cpu| cpu.forget_before(time));
    }
}

#[cfg(test)]
mod tests;
