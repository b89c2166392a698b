//! Lives of processes and threads.

use rustc_hash::FxHashMap;
use xweave_replay::ThreadId;
use xweave_trace::event::{Event, Kind, Names};

use super::Transaction;
use crate::{
    breakdown::{breakdown, time_on_cpu},
    machine::Machine,
};

/// From the beginnings of processes or threads to their ends.
#[derive(Debug)]
pub struct Lifetimes {
    name: Option<String>,
    /// Of all threads, not only of processes.
    threads: bool,
    begun: FxHashMap<ThreadId, Life>,
}

/// A life that is under way.
#[derive(Clone, Copy, Debug)]
struct Life {
    from: i64,
    /// Since when it is in a system call: it begins in the one that made it.
    in_call: Option<i64>,
    /// How long it ran in those that are over.
    in_calls_ns: u64,
    /// Some were recorded.
    has_calls: bool,
}

impl Life {
    /// A system call is over.
    fn leaves(&mut self, thread: ThreadId, machine: &Machine, now: i64) {
        if let Some(since) = self.in_call.take() {
            let ns = time_on_cpu(machine, thread, since, now);
            self.in_calls_ns = self.in_calls_ns.saturating_add(ns);
        }
    }
}

impl Lifetimes {
    pub(super) fn of(name: Option<String>, threads: bool) -> Self {
        Self { name, threads, begun: FxHashMap::default() }
    }

    /// When the earliest began that is under way.
    pub(super) fn earliest(&self) -> Option<i64> {
        self.begun.values().map(|life| life.from).min()
    }

    /// How many are under way.
    pub(super) fn open(&self) -> usize {
        self.begun.len()
    }

    pub(super) fn feed(&mut self, event: &Event, machine: &Machine, names: &Names) -> Option<Transaction> {
        let id = |tid| ThreadId { domain: event.domain, tid };
        match event.kind {
            // Some tools do not tell the process: then it may be a thread.
            Kind::Fork if self.threads || [0, u64::from(event.other)].contains(&event.object) => {
                let from = event.time_ns;
                let life = Life { from, in_call: Some(from), in_calls_ns: 0, has_calls: false };
                self.begun.insert(id(event.other), life);
                None
            }
            Kind::SyscallEnter => {
                let life = self.begun.get_mut(&id(event.tid))?;
                (life.in_call, life.has_calls) = (Some(event.time_ns), true);
                None
            }
            Kind::SyscallExit => {
                let thread = id(event.tid);
                let life = self.begun.get_mut(&thread)?;
                life.has_calls = true;
                life.leaves(thread, machine, event.time_ns);
                None
            }
            Kind::Exit => {
                let thread = id(event.tid);
                let mut life = self.begun.remove(&thread)?;
                let name = names.text(machine.threads().get(thread)?.name);
                if self.name.as_ref().is_some_and(|wanted| wanted != name) {
                    return None;
                }
                let pieces = breakdown(machine, thread, life.from, event.time_ns);
                life.leaves(thread, machine, event.time_ns);
                let in_calls_ns = life.has_calls.then_some(life.in_calls_ns);
                let name = format!("{name}/{}", event.tid);
                Some(Transaction { in_calls_ns, ..Transaction::new(name, thread, pieces) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Finder;

    #[test]
    fn threads_begin_and_end_within_processes() {
        // Thread 8 is one of process 7's; 9 is a process.
        let fork = |time, tid: u32, process: u32| Event {
            other: tid,
            object: process.into(),
            ..Event::new(Kind::Fork, 1, time, 0, 7)
        };
        let exit = |time, tid| Event::new(Kind::Exit, 1, time, 0, tid);
        let events = [fork(10, 8, 7), fork(20, 9, 9), exit(50, 8), exit(90, 9)];
        let found = |spec: &str| {
            let mut finder = Finder::new(&spec.parse().unwrap(), &|_| None).unwrap();
            let (mut machine, names) = (Machine::default(), Names::default());
            let mut found = Vec::new();
            for event in &events {
                machine.feed(event);
                found.extend(finder.feed(event, &machine, &names));
            }
            let took = |of: &Transaction| of.pieces.iter().map(|piece| piece.to - piece.from).sum::<i64>();
            found.iter().map(|of| (of.thread.tid, took(of))).collect::<Vec<_>>()
        };
        assert_eq!(found("process"), [(9, 70)]);
        assert_eq!(found("thread"), [(8, 40), (9, 70)]);
    }
}
