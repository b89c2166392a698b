//! What a thread's moment is spent on, from what it is really waiting for.

use crate::{
    id::{Cpu, Thread},
    state::{Call, Now, Open, Role, Simulation, Stage, TASK, Wait},
    truth::{Outside, Part, Processor, Who},
};

/// What a moment is spent on.
#[derive(Clone, Copy)]
enum Spent {
    On(Part),
    /// Waiting for any carrier to take this task.
    Queued(Thread),
}

impl Simulation {
    /// Adds to what each transaction under way was spent on.
    pub(crate) fn account(&mut self, step: i64) {
        let mut all = std::mem::take(&mut self.open);
        for Open { thread, requests, transaction, queued } in all.iter_mut().flatten() {
            match if *requests { self.for_requests(*thread) } else { self.spent(*thread) } {
                Spent::On(part) => {
                    for (part, ns) in self.at_frequency(part, step) {
                        *transaction.parts.entry(part).or_default() += ns;
                    }
                }
                // Which one it was that it waited for shows when it is taken.
                Spent::Queued(task) => {
                    for carrier in &self.domains[self.threads[task].domain].runtime.carriers {
                        let account = queued.entry((task, *carrier)).or_default();
                        for (part, ns) in self.at_frequency(self.until_taken(task, *carrier), step) {
                            *account.entry(part).or_default() += ns;
                        }
                    }
                }
            }
        }
        self.open = all;
    }

    /// A carrier takes a task: who waited for that waited for what this one did.
    pub(crate) fn taken(&mut self, task: Thread, carrier: Thread) {
        for Open { transaction, queued, .. } in self.open.iter_mut().flatten() {
            for (part, ns) in queued.remove(&(task, carrier)).into_iter().flatten() {
                *transaction.parts.entry(part).or_default() += ns;
            }
            queued.retain(|(other, _), _| *other != task);
        }
    }

    /// What a task waits for, if this carrier will take it.
    fn until_taken(&self, task: Thread, carrier: Thread) -> Part {
        let idles = |thread: Thread| matches!(self.threads[thread].now, Now::Waiting(wait) if wait.idles());
        let runtime = &self.domains[self.threads[task].domain].runtime;
        let sleeps = Part::Sleep(self.who(carrier));
        let who = match self.threads[task].now {
            _ if !idles(carrier) => carrier,
            // Somebody is about to see what has come, and to wake this one.
            Now::Ready => match runtime
                .polls
                .into_iter()
                .chain(runtime.carriers.iter().copied())
                .find(|who| !idles(*who))
            {
                Some(who) => who,
                None => return sleeps,
            },
            Now::Waiting(_) => return self.on_its_way(task).unwrap_or(sleeps),
            Now::Running | Now::Dead => return sleeps,
        };
        match self.spent(who) {
            Spent::On(part) => part,
            // Nobody asks who has a lock that a carrier waits for.
            Spent::Queued(_) => sleeps,
        }
    }

    /// What comes for a task that waits.
    fn on_its_way(&self, task: Thread) -> Option<Part> {
        let to = self.who(task).domain;
        let flight = |from: Thread| Part::Flight { from: self.who(from).domain, to };
        match self.threads[task].asked.front() {
            Some(Call::Coming(server)) => Some(flight(*server)),
            Some(_) => None,
            None => {
                let tasks = &self.domains[self.threads[task].domain].runtime.tasks;
                tasks.iter().find(|(_, other)| **other == task).map(|(client, _)| flight(*client))
            }
        }
    }

    /// What this moment is spent on for a thread.
    fn spent(&self, thread: Thread) -> Spent {
        let who = self.who(thread);
        let cpu = self.threads[thread].cpu;
        Spent::On(match self.threads[thread].now {
            now if self.threads[thread].role == Role::Server(TASK) => return self.of_task(thread, now),
            Now::Running => self.outside(cpu).unwrap_or_else(|| self.running(who, cpu)),
            Now::Ready if self.threads[thread].quota.is_some_and(|quota| quota.used_up) => {
                Part::Throttled(who)
            }
            Now::Ready => self.outside(cpu).unwrap_or_else(|| Part::Ready { who, had: self.has(cpu) }),
            Now::Waiting(wait) => return self.waiting(thread, wait),
            // Nobody waits for what has ended.
            Now::Dead => Part::Sleep(who),
        })
    }

    /// The same for the oldest of a thread's requests.
    fn for_requests(&self, thread: Thread) -> Spent {
        let state = &self.threads[thread];
        let sent = match state.asked.front() {
            Some(Call::Coming(server)) => self.threads[*server].domain != state.domain,
            call => matches!(call, Some(Call::Back)),
        };
        let waits = state.now == Now::Waiting(Wait::Answer);
        if sent && !waits { self.spent(thread) } else { self.waiting(thread, Wait::Answer) }
    }

    /// The same for a task.
    fn of_task(&self, task: Thread, now: Now) -> Spent {
        let state = &self.threads[task];
        match (now, state.carries, state.asked.front()) {
            (Now::Running, Some(carrier), _) => self.spent(carrier),
            // What is on its way to carriers that are busy delays nothing.
            (Now::Waiting(Wait::Answer), _, Some(Call::Coming(server)))
                if self.threads[*server].domain != state.domain =>
            {
                Spent::Queued(task)
            }
            (Now::Waiting(wait @ Wait::Answer), ..) => self.waiting(task, wait),
            _ => Spent::Queued(task),
        }
    }

    fn idle(&self, cpu: Cpu) -> Who {
        Who { domain: self.domains[self.cpus[cpu].domain].number, tid: 0 }
    }

    /// The thread that has a processor.
    fn has(&self, cpu: Cpu) -> Who {
        self.cpus[cpu].current.map_or(self.idle(cpu), |current| self.who(current))
    }

    fn processor(&self, cpu: Cpu) -> Processor {
        let here = &self.cpus[cpu];
        Processor { domain: self.domains[here.domain].number, cpu: here.number }
    }

    /// What a guest's processor does outside the guest; none if it is inside, or no guest's.
    fn outside(&self, cpu: Cpu) -> Option<Part> {
        let vcpu = self.cpus[cpu].vcpu.as_ref().filter(|_| !self.live(cpu))?;
        let thread = &self.threads[vcpu.thread];
        let outside = match thread.now {
            Now::Ready if thread.quota.is_some_and(|quota| quota.used_up) => Outside::Throttled,
            Now::Ready => Outside::Ready(self.has(thread.cpu)),
            Now::Waiting(_) | Now::Dead => Outside::Halted,
            Now::Running if self.cpus[thread.cpu].frames.is_empty() => Outside::Working,
            Now::Running => Outside::Interrupted,
        };
        Some(Part::Outside(self.processor(cpu), outside))
    }

    fn running(&self, who: Who, cpu: Cpu) -> Part {
        if self.cpus[cpu].frames.is_empty() {
            return Part::Running(who);
        }
        Part::Interrupted(self.processor(cpu))
    }

    fn waiting(&self, thread: Thread, wait: Wait) -> Spent {
        let who = self.who(thread);
        let state = &self.threads[thread];
        Spent::On(match wait {
            Wait::Sleep if state.late => Part::Late(who),
            Wait::Sleep | Wait::Calls | Wait::Halted | Wait::Poll | Wait::Park => Part::Sleep(who),
            Wait::Disk => {
                let (disk, stage) = state.access;
                let device = self.disks[disk].device;
                match stage {
                    Stage::Queued => Part::DiskQueue(who.domain, device),
                    Stage::Given => Part::DiskDevice(who.domain, device),
                    Stage::Done(told) => Part::DiskCompletion(who.domain, device, !told),
                    Stage::Over => Part::DiskCompletion(who.domain, device, false),
                }
            }
            Wait::Lock(lock) => {
                let lock = &self.locks[lock];
                if lock.futex {
                    // Where nobody has it, who is to have it does not run yet.
                    let next = lock.next.filter(|next| *next != thread).unwrap_or(lock.last);
                    return self.spent(state.giver.or(lock.owner).unwrap_or(next));
                }
                let holder = self.who(lock.owner.unwrap_or(lock.last));
                Part::Lock { address: lock.address, holder }
            }
            Wait::Child(child) => return self.spent(child),
            Wait::Answer => match state.asked.front() {
                Some(Call::There(server)) => return self.spent(*server),
                // Over the loopback device it is on its way as long as the one that answers sends it.
                Some(Call::Coming(server)) if self.threads[*server].domain == state.domain => {
                    return self.spent(*server);
                }
                // What is on its way to one who is busy delays nothing.
                Some(Call::Going(server))
                    if self.level(*server) == Some(TASK)
                        || self.threads[*server].now != Now::Waiting(Wait::Calls) =>
                {
                    return self.spent(*server);
                }
                Some(Call::Going(server)) => Part::Flight { from: who.domain, to: self.who(*server).domain },
                Some(Call::Coming(server)) => Part::Flight { from: self.who(*server).domain, to: who.domain },
                // It is being woken.
                Some(Call::Back) | None => Part::Sleep(who),
            },
        })
    }
}
