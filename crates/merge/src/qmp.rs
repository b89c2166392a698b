//! Has QEMU mark a guest's memory for KSM by itself, as whoever may command it can: by QMP, the monitor protocol.
//!
//! Its memory backends have a property `merge`, which it applies when it changes (backends/hostmem.c,
//! `host_memory_backend_set_merge`): all of a guest's memory, or none. QEMU's from commit 5becdc0ab083 on until that was put
//! right take note of it and do nothing: so whoever asks here is to look afterwards.
//!
//! Nothing is asked for but which backends there are, and nothing is changed but that property.

mod client;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use xweave_system::command_line::{CommandLine, Monitor};
use xweave_text::{argument, printable};

use client::Client;

/// How long QEMU may take to answer, which is done within its main loop; and to take marks away, as it copies each page
/// that is merged.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
const COPIES_WITHIN: Duration = Duration::from_secs(60);

/// Sockets that are tried of one process, and backends that are asked of one.
const SOCKETS: usize = 4;
const BACKENDS: usize = 256;

/// Why QEMU does not mark memory.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// It listens nowhere.
    #[error(
        "process {0} has no socket for QMP in its command line: name it with --qmp NAME=PATH, or start QEMU with \
         -qmp unix:PATH,server=on,wait=off"
    )]
    NoSocket(u32),
    /// Its only socket is that of whoever started it.
    #[error("its socket for QMP is libvirt's: have that ask for it, `{0}`, and run this again")]
    Held(String),
    /// It cannot be connected to.
    #[error("{path}: {source}: name its socket for QMP with --qmp NAME=PATH")]
    Connect {
        /// The socket.
        path: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// It is another's.
    #[error(
        "{path}: process {by} listens there, and not {pid}: name its socket for QMP with --qmp NAME=PATH"
    )]
    Others {
        /// The socket.
        path: String,
        /// Whose it is.
        by: i32,
        /// Whose it was to be.
        pid: u32,
    },
    /// It says nothing.
    #[error(
        "{path}: no answer within {seconds} s: QEMU speaks with one program at a time, so end the other, or name another \
         socket for QMP with --qmp NAME=PATH"
    )]
    Silent {
        /// The socket.
        path: String,
        /// For how long.
        seconds: u64,
    },
    /// What it says is not QMP.
    #[error("{path}: {why}: that is no QEMU, or it is not right")]
    Wrong {
        /// The socket.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// It refuses.
    #[error("QEMU refused {command}: {said}")]
    Refused {
        /// What it was asked for.
        command: &'static str,
        /// Why, in its words.
        said: String,
    },
    /// None of its memory is of a kind that may be merged.
    #[error("QEMU has no memory backend of its own that could be merged")]
    NoMemory,
    /// It took note of it, and that was all.
    #[error(
        "QEMU took `merge` for its memory, and nothing came of it (VmFlags `mg` in /proc/{0}/smaps), as in some versions: use \
         --allow inject, or start it with -machine mem-merge=on"
    )]
    Nothing(u32),
    /// Somebody has ended it.
    #[error("it was ended before QEMU had answered")]
    Ended,
}

/// A guest's QEMU, and where it is spoken to.
#[derive(Clone, Copy, Debug)]
pub struct Qemu<'q> {
    /// Its process.
    pub pid: u32,
    /// Its socket, if its user names it.
    pub socket: Option<&'q Path>,
}

impl Qemu<'_> {
    /// Has it mark all of the guest's memory, or take all marks away. It applies only what changes: where memory is not `as
    /// it says`, the contrary is set first. It is left when `ended` says so.
    ///
    /// # Errors
    /// [`QmpError`].
    pub fn set_merge(self, to: bool, as_it_says: bool, ended: &dyn Fn() -> bool) -> Result<(), QmpError> {
        let mut client = self.connect(ended)?;
        let mut has_memory = false;
        for Backend { id, merge } in backends(&mut client)? {
            has_memory = true;
            let steps: &[bool] = if merge != to {
                &[to]
            } else if as_it_says {
                &[]
            } else {
                &[!to, to]
            };
            for value in steps {
                let path = format!("/objects/{id}");
                let arguments = json!({"path": path, "property": "merge", "value": value});
                let within = if *value { ANSWERS_WITHIN } else { COPIES_WITHIN };
                client.ask("qom-set", arguments, within)?;
            }
        }
        if has_memory { Ok(()) } else { Err(QmpError::NoMemory) }
    }

    fn connect<'c>(&self, ended: &'c dyn Fn() -> bool) -> Result<Client<'c>, QmpError> {
        if let Some(path) = self.socket {
            return Client::connect(path, None, ANSWERS_WITHIN, ended);
        }
        let line = CommandLine::read(self.pid);
        let mut why = QmpError::NoSocket(self.pid);
        for monitor in line.monitors().into_iter().take(SOCKETS) {
            match monitor {
                Monitor::Path(path) => {
                    let client = Client::connect(&self.seen(&path), Some(self.pid), ANSWERS_WITHIN, ended);
                    match client {
                        Err(error) => why = error,
                        client => return client,
                    }
                }
                Monitor::Given if matches!(why, QmpError::NoSocket(_)) => why = QmpError::Held(virsh(&line)),
                Monitor::Given => {}
            }
        }
        Err(why)
    }

    /// Where we see what it sees at that path: it may have another root, or be started elsewhere.
    fn seen(&self, path: &Path) -> PathBuf {
        let of = |what| PathBuf::from(format!("/proc/{}/{what}", self.pid));
        path.strip_prefix("/").map_or_else(|_| of("cwd").join(path), |path| of("root").join(path))
    }
}

/// By what command libvirt has QEMU mark a guest's memory: for each part of it.
fn virsh(line: &CommandLine) -> String {
    let name = Some(line.name()).filter(|name| !name.is_empty()).unwrap_or_else(|| "GUEST".to_owned());
    let mut memory = line.memory_backends();
    memory.truncate(BACKENDS);
    if memory.is_empty() {
        memory.push("pc.ram".to_owned());
    }
    let command = |id: &String| {
        let arguments = json!({"path": format!("/objects/{id}"), "property": "merge", "value": true});
        let command = json!({"execute": "qom-set", "arguments": arguments});
        let (name, command) = (argument(&name), command.to_string());
        printable(&format!("virsh qemu-monitor-command {name} {}", argument(&command))).into_owned()
    };
    memory.iter().map(command).collect::<Vec<String>>().join("; ")
}

/// Memory that QEMU has.
struct Backend {
    id: String,
    /// Whether it is marked, as far as QEMU knows.
    merge: bool,
}

/// Those that it shares with nobody.
fn backends(client: &mut Client<'_>) -> Result<Vec<Backend>, QmpError> {
    let told = client.ask("query-memdev", Value::Null, ANSWERS_WITHIN)?;
    let all = told.as_array().ok_or_else(|| client.wrong("query-memdev is not answered with a list"))?;
    let mut backends = Vec::new();
    for one in all.iter().take(BACKENDS) {
        let (id, merge) = (one["id"].as_str(), one["merge"].as_bool());
        // Before 6.1 it is not told.
        if one["share"] == true {
            continue;
        }
        match id.zip(merge) {
            Some((id, merge)) if !id.is_empty() && !id.contains('/') => {
                backends.push(Backend { id: id.to_owned(), merge });
            }
            _ => return Err(client.wrong("query-memdev is answered with what is no memory")),
        }
    }
    Ok(backends)
}

#[cfg(test)]
mod tests;
