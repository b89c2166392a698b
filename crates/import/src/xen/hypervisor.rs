//! Xen's records, one after the other, as events of the domain `xen`: its threads are vCPUs, its processes domains.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use xweave_trace::{
    VmName,
    event::{Context, Event, Kind, State},
    xen::Exit,
};

use super::{
    clock::Clock,
    names,
    order::Next,
    record::{Runstate, Vcpu, What},
    stay::Stay,
};
use crate::{error::Error, kernel::Kernel, sink::Sink};

/// So many vCPUs are told apart, domains, and kinds of records: more are no real machine's.
const VCPUS: usize = 1 << 16;
const DOMAINS: usize = 1 << 10;
const KINDS: usize = 1 << 10;

/// A physical CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Who has it; none if nothing has told.
    current: Option<Vcpu>,
    /// Who is about to leave it, and how.
    leaving: Option<(Vcpu, State)>,
    stay: Stay,
    /// It is in Xen, on behalf of a PV guest or for itself.
    in_xen: bool,
    /// The interrupt whose handler is at work.
    irq: Option<u32>,
}

/// How long a vCPU has been blocked.
#[derive(Debug, Default)]
struct Halt {
    blocked: bool,
    /// Since when, once it has left its CPU.
    since: Option<i64>,
    /// Since it last had a CPU, in nanoseconds.
    ns: u64,
}

/// What is known of a machine while its records go by.
pub(super) struct Hypervisor<'a, S> {
    kernel: &'a mut Kernel,
    out: &'a mut S,
    clock: &'a Clock,
    cpus: FxHashMap<u32, Cpu>,
    /// By their numbers as threads.
    vcpus: FxHashMap<u32, Halt>,
    /// Domains whose entries and exits are told by the hardware's.
    hvm: FxHashSet<u16>,
    domains: BTreeSet<u16>,
    /// Kinds of records that become events without one: their places in `kernel`.
    others: FxHashMap<u32, usize>,
    /// Records that Xen had no room for.
    pub lost: u64,
}

impl<'a, S: Sink> Hypervisor<'a, S> {
    /// Before the first record. `begin`: by CPU, who has it then.
    pub(super) fn new(
        kernel: &'a mut Kernel,
        out: &'a mut S,
        clock: &'a Clock,
        begin: &FxHashMap<u32, Option<Vcpu>>,
    ) -> Self {
        let cpus = begin.iter().map(|(cpu, current)| (*cpu, Cpu { current: *current, ..Cpu::default() }));
        Self {
            kernel,
            out,
            clock,
            cpus: cpus.collect(),
            vcpus: FxHashMap::default(),
            hvm: FxHashSet::default(),
            domains: BTreeSet::new(),
            others: FxHashMap::default(),
            lost: 0,
        }
    }

    /// The domains, as virtual machines that `xen` runs.
    pub(super) fn guests(&self) -> Vec<VmName> {
        let vm = |&domain: &u16| VmName { pid: super::process(domain), name: format!("d{domain}") };
        self.domains.iter().map(vm).collect()
    }

    /// Takes in the next record; `time` is that of its event.
    pub(super) fn record(&mut self, time: i64, next: &Next) -> Result<(), Error> {
        let what = next.record.what();
        let cpu = next.cpu;
        let here = self.here(cpu);
        let (entered, current) = (here.stay.take(&what), here.current);
        let current = match current {
            Some(current) if self.knows(current, time)? => Some(current),
            _ => None,
        };
        let event = Event::new(Kind::Other, self.kernel.domain(), time, cpu, current.map_or(0, Vcpu::tid));
        if let Some(exit) = entered {
            self.here(cpu).in_xen = true;
            match current {
                Some(current) => self.leaves_guest(event, current, exit)?,
                None if matches!(what, What::Entry(_)) => self.other(event, next)?,
                None => {}
            }
        }
        match what {
            What::Lost { count, since, current } => self.lose(event, count, since, current)?,
            What::Runstate { vcpu, from, to } => self.runstate(event, vcpu, from, to)?,
            What::Continues(vcpu) | What::Leaves { vcpu, .. } => {
                self.here(cpu).current.get_or_insert(vcpu);
            }
            What::VmEntry => self.hardware(Event { kind: Kind::VmEnter, ..event }, current)?,
            What::VmExit(reason) => {
                let code = reason.cast_signed();
                self.hardware(Event { kind: Kind::VmExit, code, ..event }, current)?;
            }
            What::Inject(vector) => {
                let (kind, position) = (Kind::VmInject, vector.into());
                let object = current.map_or(0, |current| current.number.into());
                self.emit(Event { kind, object, position, ..event })?;
            }
            What::IrqBegan(irq) => {
                self.here(cpu).irq = Some(irq);
                self.emit(Event { kind: Kind::IrqEnter, object: irq.into(), ..event })?;
            }
            What::IrqHandled(irq) => {
                if self.here(cpu).irq.take() != Some(irq) {
                    self.emit(Event { kind: Kind::IrqEnter, object: irq.into(), ..event })?;
                }
                self.emit(Event { kind: Kind::IrqExit, object: irq.into(), ..event })?;
            }
            What::IdleEnters(state) => {
                let code = state.cast_signed().max(0);
                self.emit(Event { kind: Kind::CpuIdle, code, ..event })?;
            }
            What::IdleExits => self.emit(Event { kind: Kind::CpuIdle, code: -1, ..event })?,
            What::Frequency(mhz) => {
                let (object, bytes) = (cpu.into(), u64::from(mhz) * 1000);
                self.emit(Event { kind: Kind::CpuFrequency, object, bytes, ..event })?;
            }
            // Told by states, and by why Xen was entered.
            What::Switch | What::Entry(_) => {}
            What::Schedules | What::Scheduler | What::Wake | What::Rests | What::Subcall(_) => {
                self.other(event, next)?;
            }
            What::Service | What::Other => self.other(event, next)?,
        }
        let here = self.here(cpu);
        let goes_on = next.followed.is_some_and(|next| here.stay.goes_on(&next.what()));
        if here.in_xen && !goes_on {
            self.returns(event)?;
        }
        Ok(())
    }

    /// Whether more are wanted.
    pub(super) fn goes_on(&mut self) -> Result<(), Error> {
        self.out.goes_on()
    }

    fn here(&mut self, cpu: u32) -> &mut Cpu {
        self.cpus.entry(cpu).or_default()
    }

    fn emit(&mut self, event: Event) -> Result<(), Error> {
        self.kernel.emit(event, self.out)
    }

    /// Whether a vCPU is one of those that are told apart; it is told of when it is first seen.
    fn knows(&mut self, vcpu: Vcpu, time: i64) -> Result<bool, Error> {
        let tid = vcpu.tid();
        if tid == 0 || self.vcpus.contains_key(&tid) {
            return Ok(true);
        }
        if self.vcpus.len() >= VCPUS {
            return Ok(false);
        }
        self.vcpus.insert(tid, Halt::default());
        if self.domains.len() < DOMAINS {
            self.domains.insert(vcpu.domain);
        }
        let name = format!("d{}v{}", vcpu.domain, vcpu.number);
        self.kernel.thread(time, tid, vcpu.process(), name.as_bytes(), self.out)?;
        Ok(true)
    }

    /// Whether Xen's records are all that tells when a vCPU is in its guest.
    fn pv(&self, vcpu: Vcpu) -> bool {
        vcpu.tid() != 0 && !self.hvm.contains(&vcpu.domain)
    }

    /// The vCPU that has a CPU enters Xen.
    fn leaves_guest(&mut self, event: Event, current: Vcpu, exit: Exit) -> Result<(), Error> {
        if !self.pv(current) {
            return Ok(());
        }
        let object = current.number.into();
        self.emit(Event { kind: Kind::VmExit, object, code: exit.code(), ..event })
    }

    /// Xen goes back to the vCPU that has the CPU now.
    fn returns(&mut self, event: Event) -> Result<(), Error> {
        let here = self.here(event.cpu);
        // Another one is about to have it.
        if here.leaving.is_some() {
            return Ok(());
        }
        here.in_xen = false;
        here.stay.returns();
        match here.current.filter(|current| self.pv(*current)) {
            Some(current) => {
                let (tid, object) = (current.tid(), current.number.into());
                self.emit(Event { kind: Kind::VmEnter, tid, object, ..event })
            }
            None => Ok(()),
        }
    }

    /// An HVM guest is entered or left.
    fn hardware(&mut self, event: Event, current: Option<Vcpu>) -> Result<(), Error> {
        let Some(current) = current.filter(|current| current.tid() != 0) else { return Ok(()) };
        self.hvm.insert(current.domain);
        self.emit(Event { object: current.number.into(), ..event })
    }

    fn runstate(&mut self, event: Event, vcpu: Vcpu, from: Runstate, to: Runstate) -> Result<(), Error> {
        let (time, cpu, tid) = (event.time_ns, event.cpu, vcpu.tid());
        if !self.knows(vcpu, time)? {
            return Ok(());
        }
        let halt = self.vcpus.entry(tid).or_default();
        if let Some(since) = halt.since.take() {
            halt.ns = halt.ns.saturating_add(u64::try_from(time.saturating_sub(since)).unwrap_or(0));
        }
        halt.blocked = to == Runstate::Blocked;
        halt.since = (halt.blocked && from != Runstate::Running).then_some(time);
        match (from, to) {
            (Runstate::Running, _) => {
                let here = self.here(cpu);
                here.current = Some(vcpu);
                here.leaving = Some((vcpu, to.state()));
                Ok(())
            }
            (_, Runstate::Running) => {
                let halted = std::mem::take(&mut halt.ns);
                let here = self.here(cpu);
                let left = here.leaving.take().or(here.current.map(|current| (current, State::Runnable)));
                here.current = Some(vcpu);
                let (tid, code) = left.map_or((0, 0), |(left, state)| (left.tid(), state.code()));
                // Another CPU may have woken it since it was about to leave this one.
                if let Some(halt) = self.vcpus.get_mut(&tid).filter(|halt| halt.blocked) {
                    halt.since = Some(time);
                }
                let other = vcpu.tid();
                self.emit(Event { kind: Kind::Switch, tid, other, code, ..event })?;
                if halted == 0 || other == 0 {
                    return Ok(());
                }
                let (kind, object) = (Kind::VmHalt, vcpu.number.into());
                self.emit(Event { kind, tid: other, object, bytes: halted, ..event })
            }
            (Runstate::Blocked | Runstate::Offline, Runstate::Runnable) if tid != 0 => {
                let here = self.here(cpu);
                let context =
                    if here.stay.asked() && here.irq.is_none() { Context::Task } else { Context::Hard };
                self.emit(Event { kind: Kind::Wake, other: tid, code: context.code(), ..event })
            }
            _ => Ok(()),
        }
    }

    /// Records of a CPU are missing.
    fn lose(&mut self, event: Event, count: u32, since: u64, current: Vcpu) -> Result<(), Error> {
        self.lost = self.lost.saturating_add(count.into());
        let time = event.time_ns;
        let since = self.clock.ns(since);
        // What comes next is seen: the last that is missing came before it.
        let position = u64::try_from(time.saturating_sub(since)).unwrap_or(0).max(1);
        let (kind, tid, bytes) = (Kind::Lost, current.tid(), count.into());
        self.emit(Event { kind, tid, object: 1, position, bytes, ..event })?;
        *self.here(event.cpu) = Cpu { current: Some(current), ..Cpu::default() };
        if self.knows(current, time)? { self.returns(event) } else { Ok(()) }
    }

    /// A record that no kind of events stands for.
    fn other(&mut self, event: Event, next: &Next) -> Result<(), Error> {
        let what = next.record.what();
        let (key, name) = match what {
            What::Subcall(call) => {
                let exit = Exit::Hypercall(call);
                (1 << 28 | exit.code().cast_unsigned(), format!("subcall:{exit}").into())
            }
            What::Entry(exit) => (exit.code().cast_unsigned() | 1 << 29, exit.to_string().into()),
            _ => (next.record.event, names::of(next.record.event)),
        };
        let full = self.others.len() >= KINDS;
        let (key, name) = if full && !self.others.contains_key(&key) {
            (u32::MAX, "records of other kinds".into())
        } else {
            (key, name)
        };
        let place = *self.others.entry(key).or_insert_with(|| self.kernel.of_no_kind(&name));
        self.kernel.other(place, event.time_ns, event.cpu, event.tid, self.out)
    }
}
