//! A process that can do nothing but what it was started for.
//!
//! Whoever reads what a guest or a stranger sent may be taken over by it: parsers have mistakes, libbpf and clang are
//! large programs in C and C++. So they read it in a process that has nothing to give away:
//!
//! ```text
//! Job ──► a process of its own ──► Confinement::apply ──► reads, answers on standard output
//!  │                                        │
//!  │ deadline, size of the answer,          │ required: no_new_privs, no capabilities, limits, seccomp
//!  │ Ctrl-C, our own death                  │ where the kernel has it: another user, Landlock, namespaces
//! ```
//!
//! A command that reads a user's files confines itself instead ([`Confinement::apply`]), when it knows which these are.
//!
//! What is required is there on every kernel that xweave runs on, and its lack is an error. What an older kernel or a
//! container does not allow is left out, and [`Layers`] says what holds: `xweave doctor` shows it.
//!
//! Modules: `rights` are users and capabilities, `files` is Landlock, `calls` is seccomp, `limits` are resource limits,
//! [`job`] is the process that starts another and waits for it, [`attempt`] is what the confined one tries in tests.

pub mod attempt;
mod calls;
mod files;
pub mod job;
mod limits;
mod rights;

use std::{fmt, fs, io, path::PathBuf, time::Duration};

pub use job::{Job, run_all, run_counting};
pub use limits::{Limits, share_of_memory};

/// What could not be taken from the process: it must not go on.
#[derive(Debug, thiserror::Error)]
#[error("this process cannot be confined: {layer}: {source}")]
pub struct Error {
    /// Which part of the confinement.
    pub layer: &'static str,
    /// Why.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl Error {
    fn new(layer: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { layer, source: source.into() }
    }

    fn last(layer: &'static str) -> Self {
        Self::new(layer, io::Error::last_os_error())
    }
}

/// Why it is not known what this machine allows.
#[derive(Debug, thiserror::Error)]
pub enum Untold {
    /// Nothing can be confined here.
    #[error("{0}")]
    Failed(#[from] job::Failed),
    /// The process that was asked says something else.
    #[error("it says nothing that is understood")]
    Nonsense,
}

/// Whose rights to files the process goes on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum User {
    /// Where root may change users: that of a user whom nobody else is, so that neither files nor signals of
    /// anyone are within reach. What the process needs it holds open.
    #[default]
    Nobody,
    /// The one who started it: it opens files by their names.
    Same,
}

/// What a process may go on doing.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    user: User,
    reads: Vec<PathBuf>,
    writes: Vec<PathBuf>,
    programs: Vec<PathBuf>,
    emptied: Vec<PathBuf>,
    processes: Option<u64>,
    this_kernel: bool,
    broker: Option<i32>,
}

impl Confinement {
    /// Nothing but computing on what it has open.
    pub fn new(user: User) -> Self {
        Self { user, ..Self::default() }
    }

    /// It may read this file, or what is in this folder.
    #[must_use]
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.reads.push(path.into());
        self
    }

    /// It may read, make, write and remove what is in this folder, or write this file.
    #[must_use]
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.writes.push(path.into());
        self
    }

    /// It may start programs: those in the system's folders, and this one with what lies beside it.
    #[must_use]
    pub fn programs(mut self, program: Option<PathBuf>) -> Self {
        self.programs.extend(files::SYSTEM.map(PathBuf::from));
        self.programs.extend(program.iter().flat_map(|program| files::installation(program)));
        self
    }

    /// It may remove empty folders from this one.
    #[must_use]
    pub fn remove_folders(mut self, path: impl Into<PathBuf>) -> Self {
        self.emptied.push(path.into());
        self
    }

    /// It may read the running kernel's types, symbols and code, as root may. Where it is taken over, so may whoever did.
    #[must_use]
    pub fn this_kernel(mut self) -> Self {
        self.this_kernel = true;
        self.reads.extend(files::OF_KERNEL.map(PathBuf::from));
        self
    }

    /// It may talk to its [broker](crate::broker), over this descriptor.
    #[must_use]
    pub fn broker(mut self, descriptor: i32) -> Self {
        self.broker = Some(descriptor);
        self
    }

    /// It, and what it starts, are at most so many processes and threads.
    #[must_use]
    pub fn processes(mut self, most: u64) -> Self {
        self.processes = Some(most);
        self
    }

    /// Gives up everything else, for this process and all that it starts. There is no way back.
    ///
    /// # Errors
    ///
    /// When a required layer cannot be set, or the process has several threads: most of it holds for a thread.
    pub fn apply(&self) -> Result<Layers, Error> {
        alone()?;
        let parent = std::os::unix::process::parent_id();
        no_new_privileges()?;
        let namespaces = self.user == User::Nobody && rights::own_namespaces();
        // Folders are opened by names, which the rights to follow may be gone afterwards.
        let files = files::Files::open(self)?;
        let nobody = rights::drop(self)?;
        if self.user == User::Nobody {
            // Another user's process would go on when the one that waits for it is gone.
            job::end_with(parent).map_err(|error| Error::new("end with its parent", error))?;
        }
        if let Some(most) = self.processes {
            limits::processes(most, nobody)?;
        }
        undumpable()?;
        let landlock = files.restrict()?;
        let programs = !self.programs.is_empty();
        let by_name = [&self.reads, &self.writes, &self.emptied].iter().any(|paths| !paths.is_empty());
        calls::restrict(programs, by_name || programs, self.broker)?;
        let layers = Layers { landlock, nobody, namespaces };
        verified(layers)
    }
}

/// What holds besides what always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// The version of Landlock's interface that is used; none where the kernel has it not, or not switched on.
    pub landlock: Option<u32>,
    /// Whether it is a user whom nobody else is.
    pub nobody: bool,
    /// Whether it has a network, and System V objects, of its own: empty ones.
    pub namespaces: bool,
}

impl Layers {
    /// For the process that started this one.
    pub fn encode(self) -> String {
        format!("{} {} {}", self.landlock.unwrap_or(0), u8::from(self.nobody), u8::from(self.namespaces))
    }

    /// What [`Layers::encode`] wrote.
    pub fn decode(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let landlock: u32 = words.next()?.parse().ok()?;
        let mut flag = || words.next().map(|word| word == "1");
        Some(Self { landlock: Some(landlock).filter(|abi| *abi > 0), nobody: flag()?, namespaces: flag()? })
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no_new_privs, no capabilities, resource limits, seccomp")?;
        if let Some(abi) = self.landlock {
            write!(f, ", Landlock ABI {abi}")?;
        }
        if self.nobody {
            f.write_str(", a user of its own")?;
        }
        if self.namespaces {
            f.write_str(", network, IPC and UTS namespaces")?;
        }
        let missing = [
            ("Landlock", self.landlock.is_none()),
            ("a user of its own", !self.nobody),
            ("namespaces", !self.namespaces),
        ];
        let missing: Vec<_> = missing.into_iter().filter_map(|(what, lacks)| lacks.then_some(what)).collect();
        if missing.is_empty() { Ok(()) } else { write!(f, "; without {}", missing.join(", ")) }
    }
}

/// What this machine allows: asked of a process that this program confines for it (`xweave confined layers`).
///
/// # Errors
///
/// When nothing can be confined here.
pub fn layers() -> Result<Layers, Untold> {
    let limits = Limits { memory: 256 << 20, seconds: 5, file: 0 };
    let job = Job::new("confining a process", &["confined", "layers"], limits, Duration::from_secs(20));
    let told = run_all(vec![job], &mut || true).into_iter().next();
    let told = told.unwrap_or(Err(job::Failed::Interrupted))?;
    Layers::decode(&String::from_utf8_lossy(&told)).ok_or(Untold::Nonsense)
}

/// Landlock, seccomp and capabilities are a thread's: others would go on unconfined.
pub(crate) fn alone() -> Result<(), Error> {
    let threads = fs::read_dir("/proc/self/task").map_err(|error| Error::new("/proc", error))?.count();
    if threads == 1 { Ok(()) } else { Err(Error::new("threads", format!("it has {threads}, not one"))) }
}

fn no_new_privileges() -> Result<(), Error> {
    // SAFETY: takes integers.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(Error::last("no_new_privs")),
    }
}

/// Nobody with the same user's rights may look into it, nor does it leave a core.
fn undumpable() -> Result<(), Error> {
    // SAFETY: takes integers.
    match unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(Error::last("dumpable")),
    }
}

/// Asks the kernel whether what was set is so.
fn verified(layers: Layers) -> Result<Layers, Error> {
    // SAFETY: takes integers.
    let asked = |option| unsafe { libc::prctl(option, 0, 0, 0, 0) };
    if asked(libc::PR_GET_NO_NEW_PRIVS) != 1 {
        return Err(Error::new("no_new_privs", "it is not set"));
    }
    // 2 is SECCOMP_MODE_FILTER (include/uapi/linux/seccomp.h).
    if asked(libc::PR_GET_SECCOMP) != 2 {
        return Err(Error::new("seccomp", "there is no filter"));
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_and_what_does_not_is_told() {
        let all = Layers { landlock: Some(6), nobody: true, namespaces: true };
        assert_eq!(Layers::decode(&all.encode()), Some(all));
        assert!(
            all.to_string().ends_with("Landlock ABI 6, a user of its own, network, IPC and UTS namespaces")
        );
        let none = Layers::default();
        assert_eq!(Layers::decode(&none.encode()), Some(none));
        assert!(none.to_string().ends_with("; without Landlock, a user of its own, namespaces"));
        assert_eq!(Layers::decode("x"), None);
    }

    #[test]
    fn a_process_with_other_threads_is_not_called_confined() {
        // The harness of tests is such a thread, and goes on unharmed.
        let error = std::thread::spawn(|| Confinement::new(User::Same).apply()).join().unwrap().unwrap_err();
        assert_eq!(error.layer, "threads");
    }
}
