//! The TCP ports that are listened on when a recording of events begins.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Read,
    path::Path,
};

use xweave_wire::event::{Event, Kind};

use crate::threads::numbered;

/// `TCP_LISTEN` of include/net/tcp_states.h.
const LISTEN: i32 = 10;

/// Network namespaces that are looked into, at most: those of more containers than a machine has.
const NAMESPACES: usize = 256;

/// Ports that are told, at most.
const PORTS: usize = 4096;

/// Of a table of a namespace's sockets so many bytes are read: one line has 150.
const TABLE: u64 = 4 << 20;

/// An event for each port, encoded, with that time: as if it were listened on just now.
pub(crate) fn listeners(time_ns: u64) -> Vec<u8> {
    in_folder(Path::new("/proc"), time_ns)
}

fn in_folder(proc: &Path, time_ns: u64) -> Vec<u8> {
    let mut events = Vec::new();
    let (mut seen, mut told) = (HashSet::new(), 0);
    for process in numbered(proc) {
        if seen.len() >= NAMESPACES {
            break;
        }
        let process = proc.join(process.to_string());
        let Some(namespace) = namespace(&process) else { continue };
        if !seen.insert(namespace) {
            continue;
        }
        let mut ports = HashSet::new();
        for table in ["tcp", "tcp6"] {
            let mut text = String::new();
            if let Ok(file) = File::open(process.join("net").join(table)) {
                // What was read before an error is told.
                let _ = file.take(TABLE).read_to_string(&mut text);
            }
            ports.extend(text.lines().filter_map(listening));
        }
        for port in ports.into_iter().take(PORTS - told) {
            told += 1;
            let mut event = Event::new(Kind::Socket, time_ns, 0, 0);
            (event.code, event.position, event.other) = (LISTEN, u64::from(port) << 16, namespace);
            event.encode(&mut events);
        }
    }
    events
}

/// The number of a process's network namespace: the link is `net:[4026531840]`.
fn namespace(process: &Path) -> Option<u32> {
    let link = fs::read_link(process.join("ns/net")).ok()?;
    link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// The port of a line of /proc/net/tcp, if it is listened on: `0: 00000000:0050 00000000:0000 0A …`.
fn listening(line: &str) -> Option<u16> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, _, state) = (words.next()?, words.next()?, words.next()?);
    if i32::from_str_radix(state, 16).ok()? != LISTEN {
        return None;
    }
    u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use xweave_wire::event::decode_events;

    use super::*;

    #[test]
    fn a_port_that_is_listened_on_is_told_with_its_namespace() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (events, left) = decode_events(&listeners(7));
        assert_eq!(left, 0);
        let own = namespace(Path::new("/proc/self")).unwrap();
        let found = events.iter().find(|event| event.position == u64::from(port) << 16).unwrap();
        assert_eq!((found.kind, found.code, found.other, found.time_ns), (Kind::Socket, LISTEN, own, 7));
        drop(listener);
        let events = decode_events(&listeners(8)).0;
        assert!(events.iter().all(|event| event.other != own || event.position != u64::from(port) << 16));
    }

    #[test]
    fn namespaces_are_told_once_and_other_sockets_not_at_all() {
        let proc = tempfile::tempdir().unwrap();
        for (process, namespace) in [(1, 7), (2, 7), (3, 8)] {
            let folder = proc.path().join(process.to_string());
            fs::create_dir_all(folder.join("net")).unwrap();
            fs::create_dir_all(folder.join("ns")).unwrap();
            std::os::unix::fs::symlink(format!("net:[{namespace}]"), folder.join("ns/net")).unwrap();
            let table = "  sl  local_address rem_address   st\n\
                0: 00000000:0050 00000000:0000 0A 0\n\
                1: 0100007F:ACF0 0100007F:0050 01 0\n\
                2: 0100007F:C383 00000000:0000 0A 0\n\
                3: nonsense\n";
            fs::write(folder.join("net/tcp"), table).unwrap();
            fs::write(folder.join("net/tcp6"), "0: 00000000000000000000000000000000:0050 0:0000 0A 0\n")
                .unwrap();
        }
        let events = decode_events(&in_folder(proc.path(), 7)).0;
        let mut found: Vec<_> = events.iter().map(|event| (event.other, event.position >> 16)).collect();
        found.sort_unstable();
        assert_eq!(found, [(7, 80), (7, 50051), (8, 80), (8, 50051)]);
    }
}
