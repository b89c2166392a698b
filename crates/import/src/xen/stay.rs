//! Whether a CPU is in Xen or in a PV guest.
//!
//! Xen traces why it was entered, and not when it goes back to the guest. What tells is what it traces meanwhile: from an
//! entry on, the CPU is in Xen until the last record that can only be made within that entry, such as the wake-up that an
//! `evtchn_op` causes, or all that the scheduler does after `sched_op`. So the time in Xen is a lower bound, and
//! never another's. Interrupts and timers have no record of their entry: what Xen does in them is its beginning.

use xweave_trace::xen::{Exit, Hypercall};

use super::record::What;

/// What Xen does, as far as its records tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing that could have a further record: the guest may run.
    #[default]
    Guest,
    /// It serves a hypercall, which may be one of several in a `multicall`.
    Hypercall { op: u8, multi: bool },
    /// It wakes a vCPU; in a hypercall that does so, or not.
    Wakes { asked: bool },
    /// It has put the vCPU to sleep: the scheduler comes next.
    Rests,
    /// The scheduler is at work.
    Schedules,
    /// An interrupt's handler is at work.
    Irq,
}

/// Where one CPU is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stay(Phase);

impl Stay {
    /// Takes in a record: why Xen was entered, if it was by this one.
    pub(super) fn take(&mut self, what: &What) -> Option<Exit> {
        if says_nothing(what) {
            return None;
        }
        let begins = !self.goes_on(what);
        self.0 = match (*what, self.0) {
            (What::Entry(Exit::Hypercall(Hypercall { op, .. })), _) => {
                Phase::Hypercall { op, multi: op == Hypercall::MULTICALL }
            }
            (What::Subcall(Hypercall { op, .. }), _) => Phase::Hypercall { op, multi: true },
            (What::Entry(_) | What::IrqHandled(_), _) => Phase::Guest,
            (What::IrqBegan(_), _) => Phase::Irq,
            (What::Wake, Phase::Hypercall { .. } | Phase::Wakes { asked: true }) => {
                Phase::Wakes { asked: !begins }
            }
            (What::Wake, Phase::Irq) => Phase::Irq,
            (What::Wake, _) => Phase::Wakes { asked: false },
            (What::Rests, _) => Phase::Rests,
            (What::Runstate { from, to, .. }, phase) if !from.runs() && !to.runs() => phase,
            (What::Scheduler, Phase::Wakes { .. } | Phase::Irq) | (What::Service, _) => self.0,
            _ => Phase::Schedules,
        };
        let exit = match *what {
            What::Entry(exit) => exit,
            _ => Exit::Interrupt,
        };
        begins.then_some(exit)
    }

    /// Whether Xen cannot have been left between the last record and this one.
    pub(super) fn goes_on(&self, what: &What) -> bool {
        let phase = self.0;
        let rests = matches!(phase, Phase::Hypercall { op, .. } if rests(op)) || phase == Phase::Rests;
        let wakes = matches!(phase, Phase::Wakes { .. } | Phase::Irq);
        match what {
            What::IrqHandled(_) => phase == Phase::Irq,
            What::Wake => match phase {
                Phase::Hypercall { op, .. } => wakes_others(op),
                // One event may be for several.
                Phase::Wakes { asked } => asked,
                phase => phase == Phase::Irq,
            },
            What::Rests => rests,
            // It runs when Xen is about to go back to the guest; at once, only if that has nothing to do.
            What::Schedules => rests,
            What::Leaves { .. } | What::Switch | What::Continues(_) => rests || phase == Phase::Schedules,
            What::Runstate { from, to, .. } if from.runs() || to.runs() => rests || phase == Phase::Schedules,
            What::Runstate { .. } | What::Scheduler => rests || wakes || phase == Phase::Schedules,
            What::Subcall(_) => matches!(phase, Phase::Hypercall { multi: true, .. }),
            What::Service => matches!(phase, Phase::Hypercall { op, .. } if op != Hypercall::IRET),
            _ => false,
        }
    }

    /// Whether a wake-up is what the guest asked for, by a hypercall.
    pub(super) fn asked(&self) -> bool {
        self.0 == Phase::Wakes { asked: true }
    }

    /// The CPU is in the guest.
    pub(super) fn returns(&mut self) {
        self.0 = Phase::Guest;
    }
}

/// Whether a record may be made at any time, or is of an HVM guest, whose entries and exits are told.
fn says_nothing(what: &What) -> bool {
    match what {
        What::Lost { .. } | What::VmEntry | What::VmExit(_) | What::Inject(_) => true,
        What::IdleEnters(_) | What::IdleExits | What::Frequency(_) | What::Other => true,
        What::Runstate { .. } | What::Continues(_) | What::Leaves { .. } | What::Switch => false,
        What::Schedules | What::Scheduler | What::Wake | What::Rests | What::Service => false,
        What::Entry(_) | What::Subcall(_) | What::IrqBegan(_) | What::IrqHandled(_) => false,
    }
}

/// Hypercalls that may wake a vCPU.
fn wakes_others(op: u8) -> bool {
    [
        Hypercall::EVTCHN_OP_COMPAT,
        Hypercall::EVTCHN_OP,
        Hypercall::HVM_OP,
        Hypercall::DOMCTL,
        Hypercall::DM_OP,
    ]
    .contains(&op)
}

/// Those by which one gives up its CPU.
fn rests(op: u8) -> bool {
    [Hypercall::SCHED_OP, Hypercall::SCHED_OP_COMPAT].contains(&op)
}

#[cfg(test)]
mod tests {
    use super::{
        super::record::{Runstate, Vcpu},
        *,
    };

    const VCPU: Vcpu = Vcpu { domain: 1, number: 0 };

    fn call(op: u8) -> What {
        What::Entry(Exit::Hypercall(Hypercall { op, command: None }))
    }

    fn runstate(from: Runstate, to: Runstate) -> What {
        What::Runstate { vcpu: VCPU, from, to }
    }

    /// Of each record, whether Xen was entered by it.
    fn entered<const N: usize>(records: [What; N]) -> [bool; N] {
        let mut stay = Stay::default();
        records.map(|what| stay.take(&what).is_some())
    }

    #[test]
    fn who_blocks_is_in_xen_until_another_has_the_cpu() {
        let (running, runnable, blocked) = (Runstate::Running, Runstate::Runnable, Runstate::Blocked);
        let records = [
            call(Hypercall::SCHED_OP),
            What::Rests,
            What::Schedules,
            What::Scheduler,
            What::Leaves { vcpu: VCPU, ran_ns: 5 },
            What::Switch,
            runstate(running, blocked),
            runstate(runnable, running),
            What::Scheduler,
            // The next one's.
            call(Hypercall::IRET),
        ];
        assert_eq!(entered(records), [true, false, false, false, false, false, false, false, false, true]);
    }

    #[test]
    fn a_wake_up_is_of_the_hypercall_that_may_have_caused_it() {
        let woken = runstate(Runstate::Blocked, Runstate::Runnable);
        let mut stay = Stay::default();
        for what in [call(Hypercall::EVTCHN_OP), What::Wake, woken] {
            stay.take(&what);
        }
        assert!(stay.asked() && stay.goes_on(&What::Scheduler) && !stay.goes_on(&What::Schedules));
        for before in [call(Hypercall::IRET), What::Entry(Exit::PageFault), What::IrqBegan(3)] {
            stay.take(&before);
            stay.take(&What::Wake);
            stay.take(&woken);
            assert!(!stay.asked(), "{before:?}");
        }
    }

    #[test]
    fn what_nothing_announced_is_an_interrupt() {
        let mut stay = Stay::default();
        let iret = Hypercall { op: Hypercall::IRET, command: None };
        assert_eq!(stay.take(&call(Hypercall::IRET)), Some(Exit::Hypercall(iret)));
        assert_eq!(stay.take(&What::Schedules), Some(Exit::Interrupt));
        assert_eq!(stay.take(&What::Scheduler), None);
        assert_eq!(stay.take(&What::IrqBegan(3)), Some(Exit::Interrupt));
        assert_eq!([stay.take(&What::Wake), stay.take(&What::IrqHandled(3))], [None, None]);
        assert_eq!(stay.take(&What::Service), Some(Exit::Interrupt));
    }

    #[test]
    fn calls_within_others_enter_nothing() {
        let subcall = What::Subcall(Hypercall { op: 20, command: Some(0) });
        let records = [
            call(Hypercall::MULTICALL),
            subcall,
            What::Service,
            subcall,
            What::Schedules,
            call(20),
            What::Service,
        ];
        assert_eq!(entered(records), [true, false, false, false, true, true, false]);
    }
}
