//! What ran, by the frequencies of the processor: of a guest's, of the one of its host that its vCPU had.

use xweave_replay::{CpuId, ThreadState};

use super::{BackwardWalk, Cause, Object, TimeState};
use crate::machine::Machine;

impl BackwardWalk<'_> {
    /// A time in which a processor really was at something, from the last of its frequencies to the first.
    pub(super) fn at_frequencies(
        &mut self,
        cpu: CpuId,
        from: i64,
        to: i64,
        object: Object,
        spent: TimeState,
        cause: Option<Cause>,
    ) {
        let machine = self.machine;
        // What else is known of why says more.
        let known = cause.or(self.awaited).or(self.note).is_some();
        if spent != TimeState::Running || known || machine.highest.is_empty() {
            return self.because(from, to, object, spent, cause);
        }
        let mut end = to;
        for (cpu, a, b) in real(machine, cpu, from, to) {
            for (a, b, khz) in machine.power(cpu).into_iter().flat_map(|power| power.khz(a, b)).rev() {
                self.because(b, end, object, spent, None);
                self.because(a, b, object, spent, machine.highest.slow(cpu, khz).map(Cause::Power));
                end = a;
            }
        }
        self.because(from, end, object, spent, None);
    }
}

/// The processors that a processor was between two times, the last first: of a vCPU, those that its thread ran on.
fn real(machine: &Machine, cpu: CpuId, from: i64, to: i64) -> Vec<(CpuId, i64, i64)> {
    let Some(vcpu) = machine.vcpus.of(cpu, from) else { return vec![(cpu, from, to)] };
    let line = machine.threads().line(vcpu.thread, from, to).into_iter().rev();
    line.filter_map(|(a, b, doing)| match doing {
        Some(ThreadState::Running { cpu }) => Some((CpuId { domain: vcpu.thread.domain, cpu }, a, b)),
        _ => None,
    })
    .collect()
}
