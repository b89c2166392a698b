//! What threads are called, as the viewer is told of them.

use std::io;

use perfetto_trace_proto::{
    ProcessTree,
    process_tree::{Process, Thread},
    trace_packet::Data,
};
use rustc_hash::FxHashMap;
use xweave_trace::event::{Event, Name, Names};

use crate::packets::{MachineId, Packets, shown};

/// The threads that were met, and what they are called: by domain and number.
#[derive(Default)]
pub(crate) struct Threads(FxHashMap<(u8, u32), Known>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    process: u64,
    name: Name,
}

/// A number as the viewer has those of threads and processes.
pub(crate) fn number(tid: u32) -> i32 {
    i32::try_from(tid).unwrap_or(i32::MAX)
}

impl Threads {
    /// What a thread is called: as perf does, `:812` if that is not known.
    pub(crate) fn called(&self, domain: u8, tid: u32, cpu: u32, names: &Names) -> String {
        let name = self.0.get(&(domain, tid)).map(|known| names.text(known.name));
        match name.filter(|name| !name.is_empty()) {
            _ if tid == 0 => format!("swapper/{cpu}"),
            Some(name) => shown(name),
            None => format!(":{tid}"),
        }
    }

    /// The process of a thread, if it is known.
    pub(crate) fn process(&self, domain: u8, tid: u32) -> Option<u64> {
        self.0.get(&(domain, tid)).map(|known| known.process)
    }

    /// A thread ended: another may have its number from now on.
    pub(crate) fn end(&mut self, domain: u8, tid: u32) {
        self.0.remove(&(domain, tid));
    }

    /// An event tells what thread `event.other` of process `event.object` is called. Whether that is new.
    pub(crate) fn know(&mut self, event: &Event) -> bool {
        let known = Known { process: event.object, name: event.name };
        self.0.insert((event.domain, event.other), known) != Some(known)
    }

    /// The same, and the viewer is told.
    pub(crate) fn tell(
        &mut self,
        event: &Event,
        machine: MachineId,
        names: &Names,
        packets: &mut Packets<'_>,
    ) -> io::Result<()> {
        let Event { time_ns, other: tid, object: process, name, .. } = *event;
        if !self.know(event) || tid == 0 {
            return Ok(());
        }
        let (tid_number, text) = (number(tid), shown(names.text(name)));
        let pid = i32::try_from(process).unwrap_or(i32::MAX);
        let leads = process == u64::from(tid);
        let process = Process {
            pid: Some(pid),
            cmdline: vec![text.clone()],
            cmdline_is_comm: Some(true),
            ..Default::default()
        };
        let thread =
            Thread { tid: Some(tid_number), tgid: Some(pid), name: Some(text), ..Default::default() };
        let tree = ProcessTree {
            processes: if leads { vec![process] } else { Vec::new() },
            threads: vec![thread],
            ..Default::default()
        };
        packets.write(machine, Some(time_ns), Data::ProcessTree(tree))
    }
}
