//! The one pass over a trace's events that adds up what objects did.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use xweave_replay::{ByCpu, Cpu as ReplayedCpu, CpuId, Losses, Replay, ThreadId, Transition, between};
use xweave_trace::{
    TimeSpan, Trace,
    event::{Access, Connection, Event, Kind, Name, Names, Sending, State},
};

use crate::{
    by_domain::ByDomain,
    disk::{DiskId, DiskNames, Disks},
    group::{ObjectGroup, Recorders, ThreadFacts, service},
    guests::Guests,
    interrupt::Interrupt,
    lock::Waits,
    recorded::Seen,
    usage::{Figures, Key, Usage, UsageObject},
    vcpu::Guest,
    vcpu_numbers::VcpuNumbers,
};

mod cpu;
mod history;
mod qdiscs;
mod roles;
mod runs;
pub mod states;
mod vcpus;
mod waited;

use cpu::{Cpu, busy};
use history::History;
use qdiscs::QdiscUse;
use roles::Roles;
use states::States;
use vcpus::Out;

/// Events after which accesses that are over are forgotten.
const ROUND: u64 = 1 << 16;

/// So many pairs of who waited and who had the processor are told apart: names may be anything.
const PAIRS: usize = 1 << 16;

/// A thread that is alive.
#[derive(Clone, Debug, Default)]
struct Live {
    process: u64,
    name: Name,
    /// The place of its processes' figures, once that was asked for.
    group: Option<usize>,
    /// Not yet added to those.
    done: Figures,
    ready: Option<i64>,
    /// The CPU that it waits for, where that is known, and since when.
    queued: Option<(u32, i64)>,
    /// How long it was blocked last, until something accounts for it.
    waited: u64,
    locks: Waits,
    /// As a vCPU: the place of its figures, and since when it is inside.
    vcpu: Option<(usize, Option<i64>)>,
    /// The CPU of a guest among the domains that it is.
    runs: Option<CpuId>,
    /// The exit that it is out for.
    out: Option<Out>,
}

/// The one pass over the events.
pub(crate) struct Accounting {
    domains: FxHashMap<u8, String>,
    names_of_disks: DiskNames,
    guests: Vec<Guest>,
    vcpu_numbers: VcpuNumbers,
    recorders: Recorders,
    places: FxHashMap<Key, usize>,
    keys: Vec<Key>,
    figures: Vec<Figures>,
    threads: FxHashMap<ThreadId, Live>,
    /// What processes are called: their first threads' names.
    processes: FxHashMap<(u8, u64), Name>,
    replay: Replay,
    /// What came of the event that is being taken in.
    transitions: Vec<Transition>,
    cpus: ByCpu<Cpu>,
    disks: Disks,
    /// Who asked for each access that is not forgotten: the place of its processes' figures.
    askers: FxHashMap<u64, usize>,
    last_done: FxHashMap<DiskId, i64>,
    uses: FxHashMap<(DiskId, usize), usize>,
    qdiscs: QdiscUse,
    written: FxHashMap<DiskId, u64>,
    /// How long the processes of one place waited for those of another; for those of none that is told apart, without.
    waited: FxHashMap<(usize, Option<usize>), u64>,
    /// By domain.
    states: ByDomain<States>,
    /// Without a port: the recorder's.
    ports: FxHashMap<(u8, bool, Option<u16>), usize>,
    roles: Roles,
    interrupts: FxHashMap<(u8, bool, u64), usize>,
    exits: FxHashMap<(usize, i32), usize>,
    locks: FxHashMap<usize, usize>,
    /// By domain: of its first event and its last.
    times: ByDomain<Option<TimeSpan>>,
    events: u64,
    seen: Seen,
    /// Where it is asked for.
    history: Option<History>,
}

impl Accounting {
    pub(crate) fn new(
        domains: FxHashMap<u8, String>,
        names_of_disks: DiskNames,
        guests: Vec<Guest>,
        replay: Replay,
    ) -> Self {
        Self {
            domains,
            names_of_disks,
            guests,
            vcpu_numbers: VcpuNumbers::default(),
            recorders: Recorders::default(),
            places: FxHashMap::default(),
            keys: Vec::new(),
            figures: Vec::new(),
            threads: FxHashMap::default(),
            processes: FxHashMap::default(),
            replay: replay.without_history(),
            transitions: Vec::new(),
            cpus: ByCpu::default(),
            disks: Disks::default(),
            askers: FxHashMap::default(),
            last_done: FxHashMap::default(),
            uses: FxHashMap::default(),
            qdiscs: QdiscUse::default(),
            written: FxHashMap::default(),
            waited: FxHashMap::default(),
            states: ByDomain::default(),
            ports: FxHashMap::default(),
            roles: Roles::default(),
            interrupts: FxHashMap::default(),
            exits: FxHashMap::default(),
            locks: FxHashMap::default(),
            times: ByDomain::default(),
            events: 0,
            seen: Seen::default(),
            history: None,
        }
    }

    /// Also tells when objects did what they did.
    pub(crate) fn over_time(self) -> Self {
        Self { history: Some(History::default()), ..self }
    }

    fn place(&mut self, domain: u8, object: UsageObject) -> usize {
        let domain = self.domains.get(&domain).cloned().unwrap_or_else(|| format!("domain {domain}"));
        let key = Key { domain, object };
        let (keys, figures) = (&mut self.keys, &mut self.figures);
        *self.places.entry(key.clone()).or_insert_with(|| {
            keys.push(key);
            figures.push(Figures::default());
            figures.len() - 1
        })
    }

    /// The place of the figures of a thread's processes.
    fn group(&mut self, id: ThreadId, names: &Names) -> usize {
        let live = self.threads.entry(id).or_default();
        if let Some(group) = live.group {
            return group;
        }
        let (own, process, vcpu) = (live.name, live.process, live.vcpu.is_some());
        let name = self.processes.get(&(id.domain, process)).copied().unwrap_or(own);
        let service = service(names.text(own));
        let guest = self.guest(id.domain, service.map_or(process, |(_, process)| process));
        let text = names.text(name);
        let records = guest.is_none() && self.recorders.has(id.domain, process, text);
        let facts = ThreadFacts { name: text, is_vcpu: vcpu, guest, serves: service.map(|(is, _)| is) };
        let processes = if records { ObjectGroup::Recorder } else { facts.group() };
        let group = self.place(id.domain, UsageObject::Process(processes));
        if let Some(live) = self.threads.get_mut(&id) {
            live.group = Some(group);
        }
        group
    }

    /// The processes whose figures are at a place that [`Self::group`] gave.
    fn processes(&self, group: usize) -> &ObjectGroup {
        self.keys[group].object.group().unwrap_or(&ObjectGroup::Others)
    }

    /// The guest that a process of a domain runs.
    fn guest(&self, host: u8, process: u64) -> Option<&str> {
        let guest = Guest::of_process(&self.guests, host, process)?;
        self.domains.get(&guest).map(String::as_str)
    }

    /// What a thread has done goes to its processes'.
    fn settle(&mut self, id: ThreadId, names: &Names) {
        let group = self.group(id, names);
        if let Some(live) = self.threads.get_mut(&id) {
            self.figures[group].add(&std::mem::take(&mut live.done));
        }
    }

    fn describe(&mut self, event: &Event, names: &Names) {
        let id = ThreadId { domain: event.domain, tid: event.other };
        if self.threads.get(&id).is_some_and(|live| live.name != event.name && live.done.count > 0) {
            self.settle(id, names);
        }
        let live = self.threads.entry(id).or_default();
        if live.name != event.name || live.process != event.object {
            (live.process, live.name, live.group) = (event.object, event.name, None);
        }
        if event.object == u64::from(event.other) {
            self.processes.insert((event.domain, event.object), event.name);
        }
    }

    pub(crate) fn feed(&mut self, event: &Event, names: &Names) {
        let Event { time_ns: time, domain, tid, .. } = *event;
        let id = ThreadId { domain, tid };
        self.events += 1;
        self.seen.add(domain, event.kind);
        // The list of threads at the beginning is none of its moments: perf gives it the time 0.
        if event.kind != Kind::Thread {
            if let Some(history) = &mut self.history {
                history.begin(time);
            }
            self.times[domain].get_or_insert(TimeSpan::at(time)).to = time;
        }
        let mut transitions = std::mem::take(&mut self.transitions);
        self.replay.feed(event, &mut transitions);
        transitions.iter().for_each(|transition| self.take_transition(transition, names));
        transitions.clear();
        self.transitions = transitions;
        match event.kind {
            Kind::Thread | Kind::Fork => self.describe(event, names),
            Kind::DiskQueue => {
                let group = self.group(id, names);
                self.askers.insert(self.disks.queue(event), group);
            }
            Kind::DiskIssue => self.disks.issue(event),
            Kind::DiskComplete => self.disk_done(event),
            Kind::DiskRemap => {
                for (old, new) in self.disks.remap(event) {
                    if let Some(&group) = self.askers.get(&old) {
                        self.askers.insert(new, group);
                    }
                }
            }
            Kind::Send | Kind::Receive => self.message(event, id, names),
            Kind::Socket | Kind::Accept => self.roles.take(event),
            Kind::LockWait => self.threads.entry(id).or_default().locks.begin(event.object, time),
            Kind::LockAcquired => {
                let since = self.threads.get_mut(&id).and_then(|live| live.locks.end(event.object));
                if let Some(since) = since {
                    let group = self.group(id, names);
                    self.lock(domain, group, between(since, time));
                }
            }
            Kind::VmEnter => self.enter(event, id, names),
            Kind::VmExit => self.exit(event, id),
            Kind::VmHalt => self.halt(event, id),
            Kind::QdiscEnqueue => self.enqueue(event),
            Kind::QdiscDequeue => self.dequeue(event, names),
            _ => {}
        }
        if self.events.is_multiple_of(ROUND) {
            self.replay.forget_before(time);
            self.disks.forget_before(time);
            self.askers.retain(|number, _| self.disks.access(*number).is_some());
        }
    }

    fn take_transition(&mut self, transition: &Transition, names: &Names) {
        match *transition {
            Transition::Ran { cpu, tid, from, to } => self.run(cpu, tid, from, to, names),
            Transition::Left { thread, cpu, time, state } => self.leave(thread, cpu, time, state, names),
            Transition::Dispatched { thread, cpu, time } => self.dispatch(thread, cpu, time, names),
            Transition::Woken { thread, time, since, whole: true, cpu, .. } => {
                let live = self.threads.entry(thread).or_default();
                live.waited = between(since, time);
                self.states[thread.domain].woke(live.waited);
                live.ready = Some(time);
                live.queued = cpu.map(|cpu| (cpu, time));
            }
            // How long it has waited is not known.
            Transition::Woken { .. } => {}
            Transition::Migrated { thread, time, to } => {
                let queued =
                    self.threads.get_mut(&thread).and_then(|live| Some((live.queued.take()?, live.group)));
                if let Some((queued, group)) = queued {
                    self.waited_for(thread, group, queued, None, time, names);
                }
                if let Some(live) = self.threads.get_mut(&thread).filter(|live| live.ready.is_some()) {
                    live.queued = Some((to, time));
                }
            }
            Transition::Began { thread, time } => {
                self.threads.entry(thread).or_default().ready = Some(time);
                self.states[thread.domain].began += 1;
            }
            Transition::InterruptBegan { cpu, tid, .. } => {
                self.cpus.get_or_insert_with(cpu, || Cpu::of(tid));
            }
            Transition::InterruptEnded { cpu, soft, number, own_ns } => {
                let place = self.interrupt(cpu.domain, soft, number);
                let figures = &mut self.figures[place];
                (figures.time_ns, figures.count) = (figures.time_ns + own_ns, figures.count + 1);
            }
            Transition::Lost { loss, had } => {
                self.qdiscs.lose(loss.cpu.domain);
                if let Some(live) = self.threads.get_mut(&had) {
                    live.out = None;
                    live.vcpu.iter_mut().for_each(|(_, since)| *since = None);
                }
                if let Some(here) = self.cpus.get_mut(loss.cpu) {
                    here.runs.clear();
                }
            }
        }
    }

    /// A CPU ran a thread; where that began before the first event, since that.
    fn run(&mut self, cpu: CpuId, tid: u32, from: i64, to: i64, names: &Names) {
        let first = self.times[cpu.domain].map_or(to, |span| span.from);
        let from = from.max(first);
        if tid == 0 {
            self.cpus.get_or_insert_with(cpu, || Cpu::of(tid));
            return;
        }
        let (id, ran) = (ThreadId { domain: cpu.domain, tid }, between(from, to));
        let live = self.threads.entry(id).or_default();
        live.done.time_ns += ran;
        let group = match live.group {
            Some(group) => group,
            None => self.group(id, names),
        };
        let here = self.cpus.get_or_insert_with(cpu, || Cpu::of(tid));
        here.busy = here.busy.saturating_add(ran);
        let inside = self.recorder_inside(id, from, to);
        if let Some(here) = self.cpus.get_mut(cpu) {
            let mut at = from;
            for (begin, end, recorder) in inside {
                here.runs.add(at, begin, group);
                here.runs.add(begin, end, recorder);
                at = end;
            }
            here.runs.add(at, to, group);
        }
        if let Some(history) = &mut self.history {
            history.time(group, from, to);
        }
    }

    fn leave(&mut self, id: ThreadId, cpu: u32, time: i64, state: State, names: &Names) {
        self.states[id.domain].left(state);
        let live = self.threads.entry(id).or_default();
        live.out.iter_mut().for_each(|out| out.leaves(time));
        live.ready = None;
        match state {
            State::Runnable => (live.ready, live.queued) = (Some(time), Some((cpu, time))),
            State::Dead => {
                self.settle(id, names);
                self.threads.remove(&id);
                self.processes.remove(&(id.domain, u64::from(id.tid)));
            }
            _ => {}
        }
    }

    fn dispatch(&mut self, id: ThreadId, cpu: u32, time: i64, names: &Names) {
        let live = self.threads.entry(id).or_default();
        live.done.count += 1;
        let ready = live.ready.take();
        if let Some(out) = &mut live.out {
            out.gets(time, ready.map_or(0, |since| between(since, time)));
        }
        if let Some(since) = ready {
            live.done.wait_ns += between(since, time);
            self.states[id.domain].got(between(since, time));
            let (queued, group) = (live.queued.take().unwrap_or((cpu, since)), live.group);
            self.waited_for(id, group, queued, Some(cpu), time, names);
        }
    }

    /// A thread has waited for a CPU since that time: others had it. Where it `got` one, that one's last run is over.
    fn waited_for(
        &mut self,
        id: ThreadId,
        group: Option<usize>,
        (cpu, since): (u32, i64),
        got: Option<u32>,
        now: i64,
        names: &Names,
    ) {
        let group = group.unwrap_or_else(|| self.group(id, names));
        let place = CpuId { domain: id.domain, cpu };
        let running = self.replay.cpu(place).and_then(ReplayedCpu::running);
        let running = running.filter(|(tid, _)| *tid != 0 && got != Some(cpu));
        let running = running.map(|(tid, began)| (tid, began.max(since)));
        let inside = running.map_or_else(Vec::new, |(tid, since)| {
            self.recorder_inside(ThreadId { domain: id.domain, tid }, since, now)
        });
        let inside: Vec<_> =
            inside.into_iter().map(|(begin, end, by)| (Some(by), between(begin, end))).collect();
        let running = running.map(|(tid, since)| {
            let by = self.group(ThreadId { domain: id.domain, tid }, names);
            (Some(by), inside.iter().fold(between(since, now), |left, (_, ns)| left.saturating_sub(*ns)))
        });
        let Some(here) = self.cpus.get(place) else { return };
        for (by, ns) in here.runs.since(since).chain(running).chain(inside) {
            let full = self.waited.len() >= PAIRS && !self.waited.contains_key(&(group, by));
            *self.waited.entry((group, by.filter(|_| !full))).or_default() += ns;
        }
    }

    fn disk_done(&mut self, event: &Event) {
        let disk = DiskId { domain: event.domain, device: event.object };
        let before = self.last_done.insert(disk, event.time_ns).unwrap_or(i64::MIN);
        let done = self.disks.done(event);
        let written = if Access::of(event.code) == Access::Write { event.bytes } else { 0 };
        *self.written.entry(disk).or_default() += written;
        // Those merged into a request have waited with its first access.
        let first = done.of.filter(|number| done.ended.contains(number));
        let first = first.and_then(|number| self.disks.access(number));
        let wait_ns =
            first.map_or(0, |access| between(access.queued, access.issued.unwrap_or(event.time_ns)));
        // Who asked is known from when the disk was given it: it may be a part of an access that goes on.
        let Some(issued) = done.issued else { return };
        let Some(&group) = done.of.and_then(|number| self.askers.get(&number)) else { return };
        let place = match self.uses.get(&(disk, group)) {
            Some(place) => *place,
            None => {
                let (user, disk_name) = (self.processes(group).clone(), self.names_of_disks.name(disk));
                let place = self.place(disk.domain, UsageObject::DiskUser { user, disk: disk_name });
                self.uses.insert((disk, group), place);
                place
            }
        };
        if let Some(history) = &mut self.history {
            history.time(place, issued.max(before), event.time_ns);
        }
        self.figures[place].add(&Figures {
            time_ns: between(issued.max(before), event.time_ns),
            count: 1,
            bytes: event.bytes,
            written,
            wait_ns,
            device_ns: between(issued, event.time_ns),
            distance: 0,
        });
    }

    fn message(&mut self, event: &Event, id: ThreadId, names: &Names) {
        let connection = Connection(event.position);
        let (local, remote) = (connection.local_port(), connection.remote_port());
        self.roles.take(event);
        let serves = self.roles.serves(event);
        let group = self.group(id, names);
        let port = (!self.processes(group).is_recorders()).then_some(if serves { local } else { remote });
        let place = match self.ports.get(&(id.domain, serves, port)) {
            Some(place) => *place,
            None => {
                let object = if serves { UsageObject::Service(port) } else { UsageObject::Peer(port) };
                let place = self.place(id.domain, object);
                self.ports.insert((id.domain, serves, port), place);
                place
            }
        };
        let figures = &mut self.figures[place];
        if event.kind == Kind::Send {
            match Sending::of(event.code) {
                Sending::Over | Sending::Begins => {}
                // What was told at the beginning, and not done.
                Sending::Shortens => {
                    figures.bytes = figures.bytes.saturating_sub(event.bytes);
                    return;
                }
                Sending::Cancels => {
                    figures.bytes = figures.bytes.saturating_sub(event.bytes);
                    figures.count = figures.count.saturating_sub(1);
                    return;
                }
            }
        }
        (figures.count, figures.bytes) = (figures.count + 1, figures.bytes.saturating_add(event.bytes));
        if let Some(history) = &mut self.history {
            history.amount(place, event.time_ns, event.bytes);
        }
        // What a thread was blocked for before it sent is not for this.
        let waited = self.threads.get_mut(&id).map_or(0, |live| std::mem::take(&mut live.waited));
        if !serves && event.kind == Kind::Receive {
            figures.time_ns += waited;
            figures.wait_ns += waited;
        }
    }

    fn interrupt(&mut self, domain: u8, soft: bool, number: u64) -> usize {
        if let Some(place) = self.interrupts.get(&(domain, soft, number)) {
            return *place;
        }
        let place = self.place(domain, UsageObject::Interrupt(Interrupt::of(soft, number)));
        self.interrupts.insert((domain, soft, number), place);
        place
    }

    fn lock(&mut self, domain: u8, group: usize, waited: u64) {
        let place = match self.locks.get(&group) {
            Some(place) => *place,
            None => {
                let place = self.place(domain, UsageObject::Locks(self.processes(group).clone()));
                self.locks.insert(group, place);
                place
            }
        };
        let figures = &mut self.figures[place];
        figures.time_ns += waited;
        figures.wait_ns += waited;
        figures.count += 1;
    }

    /// What all did until the last event.
    pub(crate) fn finish(mut self, names: &Names) -> Usage {
        // Of who was interrupted on a CPU that has not switched, nothing else tells that it ran.
        let runs = |(cpu, here): (CpuId, &Cpu)| {
            let unseen = (here.tid, i64::MIN);
            (cpu, self.replay.cpu(cpu).and_then(ReplayedCpu::running).unwrap_or(unseen))
        };
        let running: Vec<_> = self.cpus.iter().map(runs).collect();
        for (cpu, (tid, since)) in running {
            let last = self.times[cpu.domain].map_or(since, |span| span.to);
            self.run(cpu, tid, since, last, names);
        }
        let mut left: Vec<_> = self.threads.keys().copied().collect();
        left.sort_unstable();
        for id in left {
            if self.threads[&id].done != Figures::default() {
                self.settle(id, names);
            }
        }
        for (disk, used) in self.disks.used() {
            let place = self.place(disk.domain, UsageObject::Disk(self.names_of_disks.name(disk)));
            self.figures[place] = Figures {
                time_ns: used.busy_ns,
                count: used.accesses,
                bytes: used.bytes,
                written: self.written.get(&disk).copied().unwrap_or(0).min(used.bytes),
                wait_ns: used.queue_ns,
                device_ns: used.device_ns,
                distance: used.distance * 512,
            };
        }
        let busy = busy(&self.cpus, &self.domains);
        let cpus = busy
            .iter()
            .map(|(domain, cpus)| (domain.clone(), u32::try_from(cpus.len()).unwrap_or(u32::MAX)))
            .collect();
        let times = || self.times.iter().filter_map(|(domain, times)| Some((domain, (*times)?)));
        let whole = times().map(|(_, span)| span).reduce(TimeSpan::joined);
        let waited = waited::told(&self.waited, &self.keys);
        let domains = &self.domains;
        let states = states::told(&self.states, domains, &busy);
        let span = |(number, span): (u8, TimeSpan)| Some((domains.get(&number)?.clone(), span.duration_ns()));
        let spans = times().filter_map(span).collect();
        let figures = self.figures;
        let over_time = self.history.map(|history| history.told(&self.keys));
        let objects = self.places.into_iter().map(|(key, place)| (key, figures[place]));
        Usage {
            objects: objects.filter(|(_, figures)| *figures != Figures::default()).collect(),
            waited,
            states,
            span_ns: whole.map_or(0, TimeSpan::duration_ns),
            spans,
            cpus,
            recorded: BTreeMap::new(),
            busy,
            events: self.events,
            over_time,
            damaged: Vec::new(),
        }
    }
}

impl Usage {
    /// Goes over a trace.
    pub fn of(trace: &Trace) -> Self {
        Self::added_up(trace, |accounting| accounting)
    }

    /// The same, and when objects did what they did: [`Usage::over_time`].
    pub fn of_times(trace: &Trace) -> Self {
        Self::added_up(trace, Accounting::over_time)
    }

    fn added_up(trace: &Trace, with: impl FnOnce(Accounting) -> Accounting) -> Self {
        let Guests { all, names, .. } = Guests::of(trace);
        let replay = Replay::of(&mut Losses::of(trace));
        let mut accounting = with(Accounting::new(names, DiskNames::of(trace), all, replay));
        (accounting.recorders, accounting.vcpu_numbers) = (Recorders::of(trace), VcpuNumbers::of(trace));
        let mut events = trace.events();
        while let Some(event) = events.next() {
            accounting.feed(&event, events.names());
        }
        let names = events.names().clone();
        let recorded = accounting.seen.groups(trace);
        Self { damaged: events.damaged().to_vec(), recorded, ..accounting.finish(&names) }
    }
}

#[cfg(test)]
mod tests;
