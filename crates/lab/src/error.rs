//! What can go wrong in the lab. Each message says what happened, where, and what to do.

use std::path::PathBuf;

/// The result of every lab operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A lab operation failed. The doc comment of a variant is its meaning, `Display` the message for people.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be used.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The verb: `read`, `create`, `lock`, …
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A world of KVM cannot count instructions for time.
    #[error(
        "--steady is for worlds of Xen: emulated virtualization, which guests of KVM need, does not work with it"
    )]
    Steady,
    /// CPUs cannot be made to leave idle slowly.
    #[error(
        "--idle-exit-latency is for hosts of KVM that QEMU 11.1 or newer emulates in software, and at most 1 s: leave it out"
    )]
    IdleExitLatency,
    /// A program that the lab needs is not installed.
    #[error("{program} is not installed: run scripts/setup, or install the Debian package {package}")]
    MissingProgram {
        /// The program that could not be started.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program that the lab runs ended with an error.
    #[error("{program} failed ({status}) while {doing}:\n{stderr}")]
    Command {
        /// The program.
        program: String,
        /// Its exit status.
        status: String,
        /// What the lab was about to do.
        doing: String,
        /// The last lines it printed.
        stderr: String,
    },
    /// No suite has a kernel of the wanted series.
    #[error(
        "Debian has no {flavour} kernel {series}: choose one of these series with --kernel: {known}; if 6.1 or 6.12 is \
         missing, run `apt-get update`, and enable bookworm-backports and bookworm-security in the apt sources"
    )]
    NoKernel {
        /// The series, as `6.12`.
        series: String,
        /// The flavour, as `cloud`.
        flavour: &'static str,
        /// The series that there are, with commas between.
        known: String,
    },
    /// A kernel package does not have what the lab needs.
    #[error("the kernel package {package} has no {missing}: choose another kernel with --kernel")]
    Kernel {
        /// The package's name and version.
        package: String,
        /// The file or module that was looked for.
        missing: String,
    },
    /// A package does not have what the lab needs.
    #[error(
        "the package {package} has no {missing}: run `apt-get update`, and enable Debian 12's own apt sources"
    )]
    Package {
        /// The package's name.
        package: String,
        /// What was looked for.
        missing: String,
    },
    /// The machine is not one the lab's images can be built on.
    #[error(
        "the lab's images are built from Debian packages, and this machine's apt has no Debian source: {detail}"
    )]
    NotDebian {
        /// What was found instead.
        detail: String,
    },
    /// A name that the user chose is not usable.
    #[error("invalid {what} `{name}`: {rule}")]
    Name {
        /// What the name is for.
        what: &'static str,
        /// The name.
        name: String,
        /// What it must look like.
        rule: &'static str,
    },
    /// A world of that name exists.
    #[error(
        "the world `{name}` exists and is {state}: end it with `xweave lab down {name}`, or choose another --name"
    )]
    Exists {
        /// The world.
        name: String,
        /// Its state, as `lab list` shows it.
        state: String,
    },
    /// A world of that name exists, but its domains cannot be used.
    #[error(
        "the world `{name}` is {state}: `xweave lab console {name} {host}` shows the end of its host's console, \
         `xweave lab down {name}` ends it"
    )]
    NotUp {
        /// The world.
        name: String,
        /// Its state, as `lab list` shows it.
        state: String,
        /// Its host.
        host: &'static str,
    },
    /// There is no world of that name.
    #[error("there is no world `{name}`: {instead}")]
    NoWorld {
        /// The name asked for.
        name: String,
        /// Those there are, or how to start one.
        instead: String,
    },
    /// A world has no such domain.
    #[error("the world `{world}` has no domain `{domain}`: {known}")]
    NoDomain {
        /// The world.
        world: String,
        /// The domain asked for.
        domain: String,
        /// The domains it has.
        known: String,
    },
    /// The folder of the running worlds belongs to someone else or is open to others.
    #[error(
        "{path} is not a private folder of this user (mode 0700): remove it, or set XDG_RUNTIME_DIR to a folder of your own"
    )]
    Runtime {
        /// The folder.
        path: PathBuf,
    },
    /// A domain did not come up.
    #[error(
        "{domain} of the world `{world}` did not come up: {why}\n--- last lines of its console\n{console}\n---"
    )]
    Boot {
        /// The world.
        world: String,
        /// The domain.
        domain: String,
        /// Ended, or not ready within the limit.
        why: String,
        /// The console's last lines.
        console: String,
    },
    /// A world's state file cannot be understood.
    #[error("{path} is damaged ({source}): end the world with `xweave lab down`")]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The far end of the exec channel refused, or did not do what was asked.
    #[error("the exec channel to {domain} failed: {why}")]
    Exec {
        /// The domain.
        domain: String,
        /// What happened.
        why: String,
    },
    /// The exec channel cannot be opened, or broke.
    #[error("the exec channel to {domain} failed: {source}")]
    Channel {
        /// The domain.
        domain: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Commands cannot be served in a domain.
    #[error("cannot serve commands at {at}: {source}")]
    Serve {
        /// The address, or the vsock port.
        at: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A signal asked to stop.
    #[error("stopped by a signal")]
    Interrupted,
    /// The test load failed.
    #[error("cannot {doing}: {source}")]
    Load {
        /// What it was about to do.
        doing: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A test load is to go to what is no address.
    #[error("`{0}` is not an address: write ADDRESS:PORT")]
    LoadAddress(String),
    /// A test load that cannot be made.
    #[error("this load needs {0}")]
    LoadOptions(String),
}

impl Error {
    /// Whether it is a matter of what was asked for, and not of what came of it.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Name { .. } | Self::LoadAddress(_) | Self::LoadOptions(_))
    }
}

/// Attaches what was done, and to which path, to an operating system error.
pub(crate) trait At<T> {
    /// Turns the error into [`Error::Io`].
    fn at(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::Io { what, path: path.into(), source })
    }
}
