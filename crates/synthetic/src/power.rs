//! How processors of the host save power: idle states, and half the frequency.

use xweave_trace::event::Kind;

use crate::{
    id::Cpu,
    state::{Act, Alarm, FIRST, Phase, Simulation},
    truth::{Part, Who},
};

/// How long it takes to come out of each idle state; they are numbered from 1.
const WAYS_OUT: [i64; 3] = [2_000, 60_000, 400_000];

/// In kHz.
const HIGHEST: u64 = 3_000_000;

impl Simulation {
    /// A processor of the host has nothing to do.
    pub(crate) fn go_idle(&mut self, cpu: Cpu) {
        if !self.power || self.cpus[cpu].idle.is_some() {
            return;
        }
        let state = self.random.place(WAYS_OUT.len());
        self.cpus[cpu].idle = Some(state);
        let code = i32::try_from(state + 1).unwrap_or(1);
        self.tell(Kind::CpuIdle, cpu, |event| event.code = code);
    }

    /// What a processor has to do first, if it is idle.
    pub(crate) fn way_out(&mut self, cpu: Cpu) -> Vec<Phase> {
        let state = self.cpus[cpu].idle.take();
        state.map_or(Vec::new(), |state| vec![Phase::Work(WAYS_OUT[state]), Phase::Do(Act::ComeOut)])
    }

    /// A processor of the host goes on at the other frequency: mostly at its highest.
    pub(crate) fn change_frequency(&mut self, cpu: Cpu) {
        if !self.power || self.cpus[cpu].vcpu.is_some() {
            return;
        }
        let slow = !self.cpus[cpu].slow;
        self.cpus[cpu].slow = slow;
        let (number, khz) = (self.cpus[cpu].number, if slow { HIGHEST / 2 } else { HIGHEST });
        self.tell(Kind::CpuFrequency, cpu, |event| (event.object, event.bytes) = (number.into(), khz));
        let long = self.random.between(2_000_000, if slow { 12_000_000 } else { 30_000_000 });
        self.alarm(long, Alarm::Frequency(cpu));
    }

    /// Whether a processor is at half its frequency: a guest's, if that is true of the one that its vCPU has.
    fn is_slow(&self, cpu: Cpu) -> bool {
        let real = self.cpus[cpu].vcpu.as_ref().map_or(cpu, |vcpu| self.threads[vcpu.thread].cpu);
        self.cpus[real].slow
    }

    /// How long a processor takes for so much work.
    pub(crate) fn takes(&self, cpu: Cpu, work: i64) -> i64 {
        if self.is_slow(cpu) { work * 2 } else { work }
    }

    /// How much of its work a processor does in that time.
    pub(crate) fn done_in(&self, cpu: Cpu, time: i64) -> i64 {
        if self.is_slow(cpu) { time / 2 } else { time }
    }

    /// A time, without what it would not have taken at the highest frequency, and that.
    pub(crate) fn at_frequency(&self, part: Part, time: i64) -> impl Iterator<Item = (Part, i64)> + use<> {
        let of = |domain: u8| self.domains.iter().find(|of| of.number == domain);
        let (cpu, who) = match part {
            Part::Running(who) => {
                let thread = of(who.domain).and_then(|of| of.threads.get((who.tid - FIRST) as usize));
                (thread.map(|thread| self.threads[*thread].cpu), who)
            }
            Part::Interrupted(on) => {
                let cpu = of(on.domain).and_then(|of| of.cpus.get(on.cpu as usize)).copied();
                (cpu, Who { domain: on.domain, tid: 0 })
            }
            _ => (None, Who { domain: 0, tid: 0 }),
        };
        let more = cpu.filter(|cpu| self.is_slow(*cpu)).map_or(0, |_| time - time / 2);
        [(part, time - more), (Part::Slow(who), more)].into_iter().filter(|(_, ns)| *ns > 0)
    }
}
