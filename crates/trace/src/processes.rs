//! Which process each thread is of, so that events of vCPUs can say which virtual machine they are of.

use rustc_hash::FxHashMap;

use crate::event::{Event, Kind};

/// So many threads of a domain are remembered: there may be more only where they end unseen, or are made up.
const MOST: usize = 1 << 20;

/// What has been told of each domain's threads that have not ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(FxHashMap<u8, FxHashMap<u32, u32>>);

impl Processes {
    /// Takes what an event says of a thread; gives one of a vCPU the process that runs it, if that is known.
    pub(crate) fn see(&mut self, event: &mut Event) {
        match event.kind {
            Kind::Fork | Kind::Thread => {
                let threads = self.0.entry(event.domain).or_default();
                if let Ok(process) = u32::try_from(event.object)
                    && (threads.len() < MOST || threads.contains_key(&event.other))
                {
                    threads.insert(event.other, process);
                }
            }
            Kind::Exit => {
                self.0.get_mut(&event.domain).and_then(|threads| threads.remove(&event.tid));
            }
            Kind::VmEnter | Kind::VmExit | Kind::VmHalt | Kind::VmInject if event.other == 0 => {
                let process = self.0.get(&event.domain).and_then(|threads| threads.get(&event.tid));
                event.other = process.copied().unwrap_or(0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_that_makes_up_threads_takes_no_others_away() {
        let mut processes = Processes::default();
        let mut tell = |domain, thread, process: u32| {
            let event = Event::new(Kind::Thread, domain, 0, 0, 0);
            processes.see(&mut Event { other: thread, object: process.into(), ..event });
        };
        let most = u32::try_from(MOST).unwrap();
        (1..=most).for_each(|thread| tell(2, thread, 7));
        tell(2, most + 1, 7);
        tell(2, 5, 8);
        tell(1, 5, 9);
        let mut process = |domain, tid| {
            let mut event = Event::new(Kind::VmEnter, domain, 0, 0, tid);
            processes.see(&mut event);
            event.other
        };
        assert_eq!(process(1, 5), 9, "the host's is known all the same");
        assert_eq!((process(2, 5), process(2, 6)), (8, 7), "what is told again is as it was told last");
        assert_eq!(process(2, most + 1), 0);
    }
}
