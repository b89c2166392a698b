//! A runtime as Go's and Tokio's: tasks that a few threads carry in turns.
//!
//! Of the threads that have nothing to carry one waits for what comes for any task, the others to be needed. The one that
//! something has come for has another one wait in its place. It puts the tasks that can go on into a queue, from which
//! whoever is free takes the next; so a task goes on on any of the threads.

use crate::{
    id::{Cpu, Thread},
    state::{Now, Role, Simulation, Step, TASK, Wait},
};

impl Simulation {
    /// Makes a task of each domain's runtime for each client.
    pub(crate) fn make_tasks(&mut self) {
        let clients = (0..self.threads.len()).filter(|thread| self.threads[*thread].role == Role::Client);
        for client in clients.collect::<Vec<_>>() {
            for domain in 0..self.domains.len() {
                if self.domains[domain].runtime.carriers.is_empty() {
                    continue;
                }
                let task = self.spawn(domain, Role::Server(TASK), None);
                self.threads[task].now = Now::Waiting(Wait::Calls);
                self.threads[task].steps = [Step::Serve].into();
                self.domains[domain].runtime.tasks.insert(client, task);
            }
        }
    }

    /// The task that a thread carries; itself if it carries none.
    pub(crate) fn carried(&self, thread: Thread) -> Thread {
        match self.threads[thread].role {
            Role::Carrier => self.threads[thread].carries.unwrap_or(thread),
            _ => thread,
        }
    }

    /// How a thread, or the task that it carries, waits.
    pub(crate) fn block_of(&self, thread: Thread, wait: Wait) -> Step {
        if self.carried(thread) == thread { Step::Block(wait) } else { Step::Yield(wait) }
    }

    /// What a task waits for, if it waits for that, is there.
    pub(crate) fn readable(&mut self, task: Thread, wait: Wait, cpu: Cpu) {
        if self.threads[task].now != Now::Waiting(wait) {
            return;
        }
        self.threads[task].now = Now::Ready;
        let runtime = &mut self.domains[self.threads[task].domain].runtime;
        runtime.readable.push_back(task);
        if let Some(polls) = runtime.polls {
            self.wake_from(polls, Wait::Poll, cpu);
        }
    }

    /// A carrier takes the next task.
    pub(crate) fn carry(&mut self, carrier: Thread) {
        let runtime = &mut self.domains[self.threads[carrier].domain].runtime;
        let Some(task) = runtime.ready.pop_front() else {
            return self.first(carrier, [Step::Work(500), Step::Poll]);
        };
        let more = !runtime.ready.is_empty();
        self.threads[task].now = Now::Running;
        self.threads[task].carries = Some(carrier);
        self.threads[carrier].carries = Some(task);
        self.taken(task, carrier);
        self.threads[carrier].steps = std::mem::take(&mut self.threads[task].steps);
        self.first(carrier, [Step::Work(400)]);
        if more {
            self.first(carrier, [Step::Work(300), Step::Unpark]);
        }
    }

    /// Its task waits: the carrier has none.
    pub(crate) fn lay_down(&mut self, carrier: Thread, wait: Wait) {
        let Some(task) = self.threads[carrier].carries.take() else { return };
        self.threads[task].now = Now::Waiting(wait);
        self.threads[task].carries = None;
        self.threads[task].steps = std::mem::take(&mut self.threads[carrier].steps);
    }

    /// A carrier looks for tasks that something has come for, and waits if there are none.
    pub(crate) fn poll(&mut self, carrier: Thread) {
        let futex = self.futex(carrier);
        let runtime = &mut self.domains[self.threads[carrier].domain].runtime;
        runtime.polls.take_if(|polls| *polls == carrier);
        let found = !runtime.readable.is_empty();
        runtime.ready.append(&mut runtime.readable);
        if found {
            self.first(carrier, [Step::Work(300), Step::Unpark]);
        } else if runtime.ready.is_empty() {
            let wait = if runtime.polls.is_some() {
                Step::Futex(futex, Wait::Park)
            } else {
                runtime.polls = Some(carrier);
                Step::Block(Wait::Poll)
            };
            self.first(carrier, [wait, Step::Poll]);
        }
    }

    /// A carrier wakes another one, which has been waiting for that.
    pub(crate) fn unpark(&mut self, carrier: Thread, cpu: Cpu) {
        let carriers = &self.domains[self.threads[carrier].domain].runtime.carriers;
        let parked = |thread: &Thread| self.threads[*thread].now == Now::Waiting(Wait::Park);
        if let Some(parked) = carriers.iter().copied().find(parked) {
            self.wake_from(parked, Wait::Park, cpu);
        }
    }
}
