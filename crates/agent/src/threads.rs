//! The threads that there are when a recording of events begins.

use std::{fs, path::Path};

use xweave_wire::event::{Event, Kind};

/// An event for each thread, encoded, with that time: a thread that goes meanwhile may be missing, one that comes
/// is told by its fork.
pub(crate) fn threads(time_ns: u64) -> Vec<u8> {
    in_folder(Path::new("/proc"), time_ns)
}

fn in_folder(proc: &Path, time_ns: u64) -> Vec<u8> {
    let mut events = Vec::new();
    for process in numbered(proc) {
        let tasks = proc.join(process.to_string()).join("task");
        for thread in numbered(&tasks) {
            let Ok(name) = fs::read(tasks.join(thread.to_string()).join("comm")) else { continue };
            let mut event = Event::new(Kind::Thread, time_ns, 0, 0);
            (event.other, event.object) = (thread, process.into());
            let name = name.strip_suffix(b"\n").unwrap_or(&name);
            // The kernel's names have 15 bytes, but those of its workers are shown with what they do.
            for (to, from) in event.name[..15].iter_mut().zip(name) {
                *to = *from;
            }
            event.encode(&mut events);
        }
    }
    events
}

/// The entries of a folder that are numbers.
fn numbered(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use xweave_wire::event::decode_events;

    #[test]
    fn this_thread_is_among_them() {
        let name = fs::read_to_string("/proc/thread-self/comm").unwrap();
        let path = fs::read_link("/proc/thread-self").unwrap();
        let own: u32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let (events, left) = decode_events(&threads(7));
        let found = events.iter().find(|event| event.other == own).unwrap();
        assert_eq!((found.name().as_str(), left), (name.trim(), 0));
        assert_eq!((found.time_ns, found.object, found.tid), (7, std::process::id().into(), 0));
    }
}
