//! What CPUs did: switches, wake-ups and interrupts as ftrace tells of them, of which the viewer makes its tracks of CPUs
//! and the states of threads.

use std::io;

use perfetto_trace_proto::{
    FtraceEvent, FtraceEventBundle, IrqHandlerEntryFtraceEvent, IrqHandlerExitFtraceEvent,
    SchedSwitchFtraceEvent, SchedWakingFtraceEvent, SoftirqEntryFtraceEvent, SoftirqExitFtraceEvent,
    TaskNewtaskFtraceEvent, ftrace_event::Event as Ftrace, trace_packet::Data,
};
use rustc_hash::FxHashMap;
use xweave_model::{Interrupt, Loss};
use xweave_report::words::objects::interrupt;
use xweave_trace::{
    Trace,
    event::{Context, Event, Kind, Names, State},
};

use crate::{
    Phase,
    domains::Domains,
    each_round,
    losses::Lost,
    packets::{MachineId, Packets, time},
    threads::{Threads, number},
    vcpus::Vcpus,
};

/// CPUs of a machine that the viewer has places for.
const CPUS: u32 = 4096;

/// Events of a CPU that are written together at most.
const TOGETHER: usize = 256;

/// Softirqs that the viewer knows (`include/linux/interrupt.h`, `NR_SOFTIRQS`).
const SOFTIRQS: u64 = 10;

/// Priority of a thread without one of its own, `nice` 0: events do not tell it.
const PRIORITY: i32 = 120;

/// `CLONE_THREAD` of `include/uapi/linux/sched.h`.
const CLONE_THREAD: u64 = 0x10000;

/// `enum trace_flag_type` of `include/linux/trace_events.h`.
mod flag {
    pub(super) const HARDIRQ: u32 = 0x08;
    pub(super) const SOFTIRQ: u32 = 0x10;
}

/// Writes all events. Gives the files that could not be read.
pub(crate) fn write(
    trace: &Trace,
    domains: &Domains,
    packets: &mut Packets<'_>,
    tell: &mut dyn FnMut(Phase),
) -> io::Result<Vec<String>> {
    let mut writer = Writer {
        domains,
        packets,
        threads: Threads::default(),
        vcpus: Vcpus::of(trace),
        lost: Lost::default(),
        interrupts: FxHashMap::default(),
        bundle: Bundle::default(),
    };
    let mut events = trace.events();
    let (mut count, mut last) = (0, i64::MIN);
    while let Some(event) = events.next() {
        writer.event(&event, events.names())?;
        last = last.max(event.time_ns);
        count += 1;
        each_round(count, Phase::Events, tell);
    }
    writer.end(last)?;
    Ok(events.damaged().iter().map(ToString::to_string).collect())
}

/// Events of one CPU after the other, until another's turn comes.
#[derive(Default)]
struct Bundle {
    machine: MachineId,
    cpu: u32,
    events: Vec<FtraceEvent>,
}

/// How many interrupts of a CPU are above one another.
#[derive(Clone, Copy, Default)]
struct Nested {
    hard: u32,
    soft: u32,
}

struct Writer<'p, 'w> {
    domains: &'p Domains,
    packets: &'p mut Packets<'w>,
    threads: Threads,
    vcpus: Vcpus,
    lost: Lost,
    /// Interrupts under way, by the domain and the CPU.
    interrupts: FxHashMap<(u8, u32), Nested>,
    bundle: Bundle,
}

impl Writer<'_, '_> {
    fn event(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        let Some(place) = self.domains.place(event.domain) else { return Ok(()) };
        if event.cpu >= CPUS {
            self.packets.counts.left_out += 1;
            return Ok(());
        }
        match event.kind {
            Kind::Switch => self.switch(event, place.machine, names),
            Kind::Wake => self.wake(event, place.machine, names),
            Kind::IrqEnter | Kind::SoftirqEnter => self.interrupt(event, place.machine),
            Kind::IrqExit | Kind::SoftirqExit => self.end_of_interrupt(event, place.machine),
            Kind::Fork => self.fork(event, place.machine, names),
            Kind::Thread => self.threads.tell(event, place.machine, names, self.packets),
            Kind::VmEnter => {
                let process = match event.other {
                    0 => self.threads.process(event.domain, event.tid).unwrap_or(0),
                    process => process.into(),
                };
                let called = self.threads.called(event.domain, event.tid, event.cpu, names);
                self.vcpus.enter(event, (place.machine, &called), process, self.packets)
            }
            Kind::VmExit => self.vcpus.exit(event, self.packets),
            Kind::VmHalt => {
                self.vcpus.halt(event);
                Ok(())
            }
            Kind::Lost => self.loss(event, place.machine),
            _ => Ok(()),
        }
    }

    fn switch(&mut self, event: &Event, machine: MachineId, names: &Names) -> io::Result<()> {
        // Interrupts do not switch: their ends were lost.
        self.end_interrupts(event, machine)?;
        self.packets.counts.switches += 1;
        let called = |tid| self.threads.called(event.domain, tid, event.cpu, names);
        let switch = SchedSwitchFtraceEvent {
            prev_comm: Some(called(event.tid)),
            prev_pid: Some(number(event.tid)),
            prev_prio: Some(PRIORITY),
            prev_state: Some(state(State::of(event.code))),
            next_comm: Some(called(event.other)),
            next_pid: Some(number(event.other)),
            next_prio: Some(PRIORITY),
        };
        if State::of(event.code) == State::Dead {
            self.threads.end(event.domain, event.tid);
        }
        self.ftrace(event, machine, 0, Ftrace::SchedSwitch(switch))
    }

    fn wake(&mut self, event: &Event, machine: MachineId, names: &Names) -> io::Result<()> {
        self.packets.counts.wakeups += 1;
        let target = event.object.checked_sub(1).and_then(|cpu| i32::try_from(cpu).ok());
        let waking = SchedWakingFtraceEvent {
            comm: Some(self.threads.called(event.domain, event.other, event.cpu, names)),
            pid: Some(number(event.other)),
            prio: Some(PRIORITY),
            success: Some(1),
            target_cpu: target.or_else(|| i32::try_from(event.cpu).ok()),
        };
        let flags = match Context::of(event.code) {
            Some(Context::Hard) => flag::HARDIRQ,
            Some(Context::Softirq) => flag::SOFTIRQ,
            _ => 0,
        };
        self.ftrace(event, machine, flags, Ftrace::SchedWaking(waking))
    }

    fn fork(&mut self, event: &Event, machine: MachineId, names: &Names) -> io::Result<()> {
        let thread = event.object != u64::from(event.other);
        let task = TaskNewtaskFtraceEvent {
            pid: Some(number(event.other)),
            comm: Some(crate::packets::shown(names.text(event.name))),
            clone_flags: Some(if thread { CLONE_THREAD } else { 0 }),
            oom_score_adj: None,
        };
        // It tells the viewer all that there is to know of the thread.
        self.threads.know(event);
        self.ftrace(event, machine, 0, Ftrace::TaskNewtask(task))
    }

    fn interrupt(&mut self, event: &Event, machine: MachineId) -> io::Result<()> {
        let nested = self.interrupts.entry((event.domain, event.cpu)).or_default();
        let entry = if event.kind == Kind::IrqEnter {
            nested.hard += 1;
            Ftrace::IrqHandlerEntry(IrqHandlerEntryFtraceEvent {
                irq: i32::try_from(event.object).ok(),
                name: Some(interrupt(Interrupt::of(false, event.object)).to_string()),
                handler: None,
            })
        } else {
            if event.object >= SOFTIRQS {
                return Ok(());
            }
            nested.soft += 1;
            Ftrace::SoftirqEntry(SoftirqEntryFtraceEvent { vec: u32::try_from(event.object).ok() })
        };
        self.packets.counts.interrupts += 1;
        self.ftrace(event, machine, 0, entry)
    }

    /// An end whose beginning was not seen ends nothing.
    fn end_of_interrupt(&mut self, event: &Event, machine: MachineId) -> io::Result<()> {
        let nested = self.interrupts.entry((event.domain, event.cpu)).or_default();
        let soft = event.kind == Kind::SoftirqExit;
        let depth = if soft { &mut nested.soft } else { &mut nested.hard };
        if *depth == 0 || (soft && event.object >= SOFTIRQS) {
            return Ok(());
        }
        *depth -= 1;
        self.ftrace(event, machine, 0, end_of(soft, event.object))
    }

    /// All interrupts of a CPU end.
    fn end_interrupts(&mut self, event: &Event, machine: MachineId) -> io::Result<()> {
        let nested = self.interrupts.remove(&(event.domain, event.cpu)).unwrap_or_default();
        for (soft, depth) in [(true, nested.soft), (false, nested.hard)] {
            for _ in 0..depth {
                self.ftrace(event, machine, 0, end_of(soft, 0))?;
            }
        }
        Ok(())
    }

    fn loss(&mut self, event: &Event, machine: MachineId) -> io::Result<()> {
        self.end_interrupts(event, machine)?;
        self.vcpus.lose(event.domain);
        let Some(place) = self.domains.place(event.domain) else { return Ok(()) };
        self.lost.write(&Loss::new(event), event.bytes, place.group, self.packets)
    }

    fn ftrace(&mut self, event: &Event, machine: MachineId, flags: u32, what: Ftrace) -> io::Result<()> {
        let of_another = (self.bundle.machine, self.bundle.cpu) != (machine, event.cpu);
        if of_another || self.bundle.events.len() >= TOGETHER {
            self.flush()?;
            (self.bundle.machine, self.bundle.cpu) = (machine, event.cpu);
        }
        self.bundle.events.push(FtraceEvent {
            timestamp: Some(time(event.time_ns)),
            pid: Some(event.tid),
            common_flags: (flags != 0).then_some(flags),
            event: Some(what),
        });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let event = std::mem::take(&mut self.bundle.events);
        if event.is_empty() {
            return Ok(());
        }
        let bundle = FtraceEventBundle { cpu: Some(self.bundle.cpu), event, ..Default::default() };
        self.packets.write(self.bundle.machine, None, Data::FtraceEvents(bundle))
    }

    fn end(mut self, last: i64) -> io::Result<()> {
        let open: Vec<(u8, u32)> = self.interrupts.keys().copied().collect();
        for (domain, cpu) in open {
            let Some(place) = self.domains.place(domain) else { continue };
            self.end_interrupts(&Event::new(Kind::Lost, domain, last, cpu, 0), place.machine)?;
        }
        self.flush()?;
        self.vcpus.end(last, self.packets)
    }
}

fn end_of(soft: bool, number: u64) -> Ftrace {
    if soft {
        Ftrace::SoftirqExit(SoftirqExitFtraceEvent { vec: u32::try_from(number).ok() })
    } else {
        Ftrace::IrqHandlerExit(IrqHandlerExitFtraceEvent { irq: i32::try_from(number).ok(), ret: Some(1) })
    }
}

/// As `prev_state` has it: `TASK_REPORT` of `include/linux/sched.h`, the same from 4.14 to 6.12.
fn state(state: State) -> i64 {
    match state {
        State::Runnable | State::Throttled => 0x00,
        State::Sleeping => 0x01,
        State::Blocked => 0x02,
        State::Stopped => 0x04,
        State::Dead => 0x10,
    }
}
