//! What a thread's moment is spent on, from what it is really waiting for.

use crate::{
    id::{Cpu, Thread},
    state::{Call, Now, Simulation, Stage, Wait},
    truth::{Outside, Part, Processor, Who},
};

impl Simulation {
    /// What this moment is spent on for a thread.
    pub(crate) fn part(&self, thread: Thread) -> Part {
        let who = self.who(thread);
        let cpu = self.threads[thread].cpu;
        match self.threads[thread].now {
            Now::Running => self.outside(cpu).unwrap_or_else(|| self.running(who, cpu)),
            Now::Ready if self.threads[thread].quota.is_some_and(|quota| quota.used_up) => {
                Part::Throttled(who)
            }
            Now::Ready => self.outside(cpu).unwrap_or_else(|| Part::Ready { who, had: self.has(cpu) }),
            Now::Waiting(wait) => self.waiting(thread, wait),
            // Nobody waits for what has ended.
            Now::Dead => Part::Sleep(who),
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

    fn waiting(&self, thread: Thread, wait: Wait) -> Part {
        let who = self.who(thread);
        let state = &self.threads[thread];
        match wait {
            Wait::Sleep if state.late => Part::Late(who),
            Wait::Sleep | Wait::Calls | Wait::Halted => Part::Sleep(who),
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
                    return self.part(state.giver.or(lock.owner).unwrap_or(next));
                }
                let holder = self.who(lock.owner.unwrap_or(lock.last));
                Part::Lock { address: lock.address, holder }
            }
            Wait::Child(child) => self.part(child),
            Wait::Answer => match state.call {
                Call::There(server) => self.part(server),
                // Over the loopback device it is on its way as long as the one that answers sends it.
                Call::Coming(server) if self.threads[server].domain == state.domain => self.part(server),
                // What is on its way to one who is busy delays nothing.
                Call::Going(server) if self.threads[server].now != Now::Waiting(Wait::Calls) => {
                    self.part(server)
                }
                Call::Going(server) => Part::Flight { from: who.domain, to: self.who(server).domain },
                Call::Coming(server) => Part::Flight { from: self.who(server).domain, to: who.domain },
                // It is being woken.
                Call::Back => Part::Sleep(who),
            },
        }
    }
}
