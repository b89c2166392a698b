//! vCPUs: threads of the host that go into the guest, come out, halt and are kicked.

use xweave_trace::event::Kind;

use crate::{
    id::Cpu,
    state::{EXIT_INTERRUPT, Irq, Mode, Now, Phase, Simulation, Vcpu, Wait},
};

/// Why a guest was left, as AMD's SVM numbers it; see [`EXIT_INTERRUPT`].
const EXIT_HALT: i32 = 0x78;
const EXIT_MSR: i32 = 0x7c;

/// The vector by which one processor tells another to look for threads.
const RESCHEDULE: u64 = 253;

impl Simulation {
    /// Where a guest's processor is.
    pub(crate) fn mode(&self, guest: Cpu) -> Mode {
        self.cpus[guest].vcpu.as_ref().map_or(Mode::Guest, |vcpu| vcpu.mode)
    }

    /// Time passes while the host works for it.
    pub(crate) fn out(&mut self, guest: Cpu, step: i64) {
        if let Some(Vcpu { mode: Mode::Out { left }, .. }) = &mut self.cpus[guest].vcpu {
            *left -= step;
        }
    }

    /// A guest's processor, which runs, comes out of the guest.
    pub(crate) fn come_out(&mut self, guest: Cpu, why: i32, left: i64) {
        let number = u64::from(self.cpus[guest].number);
        let Some(vcpu) = &mut self.cpus[guest].vcpu else { return };
        vcpu.mode = Mode::Out { left };
        let host = self.threads[vcpu.thread].cpu;
        self.tell(Kind::VmExit, host, |event| (event.object, event.code) = (number, why));
    }

    /// A guest's processor has nothing to do.
    pub(crate) fn halt(&mut self, guest: Cpu) {
        self.come_out(guest, EXIT_HALT, 900);
        if let Some(vcpu) = &mut self.cpus[guest].vcpu {
            vcpu.halting = true;
        }
    }

    /// Goes on with a vCPU, whose thread has a processor; whether that changed anything.
    pub(crate) fn settle_guest(&mut self, cpu: Cpu, guest: Cpu) -> bool {
        let number = u64::from(self.cpus[guest].number);
        let Some(vcpu) = &mut self.cpus[guest].vcpu else { return false };
        match vcpu.mode {
            Mode::Guest => {
                self.settle(guest);
                return self.mode(guest) != Mode::Guest;
            }
            Mode::Out { left } if left > 0 => return false,
            Mode::Out { .. } => {}
        }
        let thread = vcpu.thread;
        for (other, irq) in std::mem::take(&mut vcpu.kicks) {
            self.kick(cpu, other, irq);
        }
        let Some(vcpu) = &mut self.cpus[guest].vcpu else { return false };
        if std::mem::take(&mut vcpu.halting) && vcpu.injected.is_empty() {
            vcpu.halted = Some(self.now);
            self.block(thread, cpu, Wait::Halted);
            return true;
        }
        vcpu.mode = Mode::Guest;
        let halted = vcpu.halted.take();
        let injected = std::mem::take(&mut vcpu.injected);
        if let Some(since) = halted {
            let asleep = since.abs_diff(self.now);
            self.tell(Kind::VmHalt, cpu, |event| (event.object, event.bytes) = (number, asleep));
        }
        for irq in injected {
            let vector = irq.object;
            self.tell(Kind::VmInject, cpu, |event| (event.object, event.position) = (number, vector));
            self.cpus[guest].pending.push_back(irq);
        }
        self.tell(Kind::VmEnter, cpu, |event| event.object = number);
        true
    }

    /// A guest's processor gets an interrupt from what runs on a processor of the host.
    pub(crate) fn kick(&mut self, cpu: Cpu, guest: Cpu, irq: Irq) {
        let Some(vcpu) = &mut self.cpus[guest].vcpu else { return };
        vcpu.injected.push_back(irq);
        let thread = vcpu.thread;
        match self.threads[thread].now {
            Now::Waiting(_) => self.wake_from(thread, Wait::Halted, cpu),
            Now::Running if self.live(guest) => {
                self.come_out(guest, EXIT_INTERRUPT, 700);
                self.changed.push(guest);
            }
            _ => {}
        }
    }

    /// A guest's processor tells another one, which halts or is about to, that it has a thread to run.
    pub(crate) fn kick_from(&mut self, from: Cpu, guest: Cpu) {
        if self.mode(from) == Mode::Guest {
            self.come_out(from, EXIT_MSR, 1_500);
        } else {
            self.out(from, -1_500);
        }
        let irq = Irq { object: RESCHEDULE, phases: [Phase::Work(800)].into() };
        if let Some(vcpu) = &mut self.cpus[from].vcpu {
            vcpu.kicks.push((guest, irq));
        }
    }
}
