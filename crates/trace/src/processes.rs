//! Which process each thread is of, so that events of vCPUs can say which virtual machine they are of.

use rustc_hash::FxHashMap;

use crate::event::{Event, Kind};

/// So many threads are remembered: there may be more only where they end unseen, or are made up.
const MOST: usize = 1 << 20;

/// What has been told of threads that have not ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(FxHashMap<(u8, u32), u32>);

impl Processes {
    /// Takes what an event says of a thread; gives one of a vCPU the process that runs it, if that is known.
    pub(crate) fn see(&mut self, event: &mut Event) {
        match event.kind {
            Kind::Fork | Kind::Thread if self.0.len() < MOST => {
                if let Ok(process) = u32::try_from(event.object) {
                    self.0.insert((event.domain, event.other), process);
                }
            }
            Kind::Exit => {
                self.0.remove(&(event.domain, event.tid));
            }
            Kind::VmEnter | Kind::VmExit | Kind::VmHalt | Kind::VmInject if event.other == 0 => {
                event.other = self.0.get(&(event.domain, event.tid)).copied().unwrap_or(0);
            }
            _ => {}
        }
    }
}
