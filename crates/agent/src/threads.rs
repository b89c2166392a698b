//! The threads that there are when a recording of events begins.

use std::{fs, path::Path};

use xweave_wire::event::{Event, Kind};

/// Bytes of events in one message, at most.
const BATCH: usize = 256 << 10;

/// An event for each thread, encoded, with that time: a thread that goes meanwhile may be missing, one that comes
/// is told by its fork. They are given in batches, as long as they are taken.
pub(crate) fn threads<E>(time_ns: u64, send: impl FnMut(Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    in_folder(Path::new("/proc"), time_ns, BATCH, send)
}

fn in_folder<E>(
    proc: &Path,
    time_ns: u64,
    most: usize,
    mut send: impl FnMut(Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
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
            let before = events.len();
            event.encode(&mut events);
            if events.len() > most {
                let last = events.split_off(before);
                send(std::mem::replace(&mut events, last))?;
            }
        }
    }
    if events.is_empty() { Ok(()) } else { send(events) }
}

/// The entries of a folder that are numbers.
pub(crate) fn numbered(folder: &Path) -> impl Iterator<Item = u32> {
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
        let mut batch = Vec::new();
        threads::<()>(7, |more| {
            batch.extend(more);
            Ok(())
        })
        .unwrap();
        let (events, left) = decode_events(&batch);
        let found = events.iter().find(|event| event.other == own).unwrap();
        assert_eq!((found.name().as_str(), left), (name.trim(), 0));
        assert_eq!((found.time_ns, found.object, found.tid), (7, std::process::id().into(), 0));
    }

    #[test]
    fn many_threads_are_told_in_batches() {
        let proc = tempfile::tempdir().unwrap();
        for thread in 1..=10 {
            let tasks = proc.path().join(format!("1/task/{thread}"));
            fs::create_dir_all(&tasks).unwrap();
            fs::write(tasks.join("comm"), "worker\n").unwrap();
        }
        let batches = |most| {
            let mut batches = Vec::new();
            in_folder::<()>(proc.path(), 7, most, |batch| {
                batches.push(decode_events(&batch).0.len());
                assert!(batch.len() <= most);
                Ok(())
            })
            .unwrap();
            batches
        };
        assert_eq!(batches(BATCH), [10]);
        let mut one = Vec::new();
        in_folder::<()>(proc.path(), 7, BATCH, |batch| {
            one.extend(batch);
            Ok(())
        })
        .unwrap();
        assert_eq!(batches(one.len() / 10 * 4), [4, 4, 2]);
        // And whoever does not take one is not sent the next.
        assert!(in_folder(proc.path(), 7, one.len() / 2, Err).is_err_and(|batch| !batch.is_empty()));
    }
}
