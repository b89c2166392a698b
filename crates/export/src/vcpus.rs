//! vCPUs: below the thread of the host that runs one, when it was in its guest, and why not.

use std::{collections::HashMap, io};

use perfetto_trace_proto::{ThreadDescriptor, TrackDescriptor};
use rustc_hash::FxHashMap;
use xweave_model::{ExitReason, Guest, guests::Guests};
use xweave_trace::{TimeSpan, Trace, event::Event};

use crate::{
    packets::{Arg, Label, MachineId, Packets, Track},
    threads,
};

/// Times in which a vCPU was halted on one way out of its guest: more are no honest host's.
const HALTS: usize = 16;

/// A time in which a vCPU had nothing to do.
struct Halt {
    span: TimeSpan,
    polling: bool,
}

/// Where a vCPU is.
enum Whereabouts {
    /// Not known: the trace begins, or events were lost.
    Unknown,
    /// In its guest, since then.
    Inside(i64),
    /// Out of it since then, and why.
    Outside(i64, i32, Vec<Halt>),
}

struct Vcpu {
    track: Track,
    at: Whereabouts,
}

/// The vCPUs that hosts of the trace run.
pub(crate) struct Vcpus {
    guests: Vec<Guest>,
    names: HashMap<u8, String>,
    /// By the host and its thread.
    all: FxHashMap<(u8, u32), Vcpu>,
}

impl Vcpus {
    pub(crate) fn of(trace: &Trace) -> Self {
        let Guests { all: guests, names, .. } = Guests::of(trace);
        Self { guests, names: names.into_iter().collect(), all: FxHashMap::default() }
    }

    /// Thread `event.tid` enters its guest as vCPU `event.object`. `process`: what runs the guest.
    pub(crate) fn enter(
        &mut self,
        event: &Event,
        (machine, thread): (MachineId, &str),
        process: u64,
        packets: &mut Packets<'_>,
    ) -> io::Result<()> {
        let key = (event.domain, event.tid);
        if !self.all.contains_key(&key) {
            let track = self.track(event, (machine, thread), process, packets)?;
            self.all.insert(key, Vcpu { track, at: Whereabouts::Unknown });
        }
        let Some(vcpu) = self.all.get_mut(&key) else { return Ok(()) };
        let time = event.time_ns;
        match std::mem::replace(&mut vcpu.at, Whereabouts::Inside(time)) {
            Whereabouts::Outside(since, code, halts) => {
                exit(vcpu.track, TimeSpan { from: since, to: time }, code, &halts, packets)
            }
            _ => Ok(()),
        }
    }

    /// It leaves its guest.
    pub(crate) fn exit(&mut self, event: &Event, packets: &mut Packets<'_>) -> io::Result<()> {
        let Some(vcpu) = self.all.get_mut(&(event.domain, event.tid)) else { return Ok(()) };
        let out = Whereabouts::Outside(event.time_ns, event.code, Vec::new());
        match std::mem::replace(&mut vcpu.at, out) {
            Whereabouts::Inside(since) => {
                inside(vcpu.track, TimeSpan { from: since, to: event.time_ns }, packets)
            }
            _ => Ok(()),
        }
    }

    /// It has been halted for `event.bytes` nanoseconds.
    pub(crate) fn halt(&mut self, event: &Event) {
        let vcpu = self.all.get_mut(&(event.domain, event.tid));
        let Some(Whereabouts::Outside(since, _, halts)) = vcpu.map(|vcpu| &mut vcpu.at) else { return };
        let before = halts.last().map_or(*since, |halt| halt.span.to);
        let (from, to) = (event.time_ns.saturating_sub_unsigned(event.bytes).max(before), event.time_ns);
        if halts.len() < HALTS && from <= to {
            halts.push(Halt { span: TimeSpan { from, to }, polling: event.code == 1 });
        }
    }

    /// Events of a host were lost: where its vCPUs are is not known.
    pub(crate) fn lose(&mut self, host: u8) {
        let of_host = self.all.iter_mut().filter(|((of, _), _)| *of == host);
        of_host.for_each(|(_, vcpu)| vcpu.at = Whereabouts::Unknown);
    }

    /// The trace ends.
    pub(crate) fn end(self, time: i64, packets: &mut Packets<'_>) -> io::Result<()> {
        for vcpu in self.all.into_values() {
            match vcpu.at {
                Whereabouts::Unknown => {}
                Whereabouts::Inside(since) => {
                    inside(vcpu.track, TimeSpan { from: since, to: time }, packets)?;
                }
                Whereabouts::Outside(since, code, halts) => {
                    exit(vcpu.track, TimeSpan { from: since, to: time }, code, &halts, packets)?;
                }
            }
        }
        Ok(())
    }

    /// A track below the thread's own.
    fn track(
        &self,
        event: &Event,
        (machine, thread): (MachineId, &str),
        process: u64,
        packets: &mut Packets<'_>,
    ) -> io::Result<Track> {
        let of_thread = ThreadDescriptor {
            pid: Some(i32::try_from(process).unwrap_or(i32::MAX)),
            tid: Some(threads::number(event.tid)),
            thread_name: Some(thread.to_owned()),
            ..Default::default()
        };
        let thread =
            packets.track(machine, TrackDescriptor { thread: Some(of_thread), ..Default::default() })?;
        let runs = |guest: &&Guest| (guest.host, guest.process) == (event.domain, process);
        let guest = self.guests.iter().find(runs).and_then(|guest| self.names.get(&guest.domain));
        let guest = guest.map_or_else(|| format!("VM {process}"), Clone::clone);
        packets.named(Some(thread), &format!("vCPU {} of {guest}", event.object), None, 0)
    }
}

fn inside(track: Track, span: TimeSpan, packets: &mut Packets<'_>) -> io::Result<()> {
    packets.counts.in_guest += 1;
    packets.slice(track, span, &Label { name: "in guest", category: "vcpu in guest", args: &[], flow: None })
}

fn exit(
    track: Track,
    span: TimeSpan,
    code: i32,
    halts: &[Halt],
    packets: &mut Packets<'_>,
) -> io::Result<()> {
    packets.counts.exits += 1;
    let (name, args) = (format!("exit: {}", ExitReason::of(code)), [("code", Arg::Signed(code.into()))]);
    packets.begin(
        track,
        span.from,
        &Label { name: &name, category: "vcpu exit", args: &args, flow: None },
    )?;
    for halt in halts {
        let name = if halt.polling { "halted, polling" } else { "halted" };
        let label = Label { name, category: "vcpu halted", args: &[], flow: None };
        packets.slice(track, TimeSpan { to: halt.span.to.min(span.to), ..halt.span }, &label)?;
    }
    packets.end(track, span.to)
}
