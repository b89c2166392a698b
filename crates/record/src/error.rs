//! What can keep a recording from happening, or end it.

use std::{io, path::PathBuf};

use xweave_aspect::Diagnostic;

/// What was at the bottom of it: another error, or words of a process or an agent.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What is wrong with aspects, or domains, one after the other.
pub(crate) fn lines(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Why there is no recording, or why it ended early. All of these are for people: what, where, what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No domain has a place for any of the probes, and there are no aspects.
    #[error("there is nothing to record: {0}")]
    NoEvents(String),
    /// Xen was to record, and there is none.
    #[error(
        "--xen: domain {domain} is no paravirtual one of Xen: the first domain has to be the dom0 whose Xen is to record, and read the machine's TSC"
    )]
    NotXen {
        /// The first domain's name.
        domain: String,
    },
    /// This machine gives no random numbers.
    #[error("/dev/urandom cannot be read: {0}")]
    Random(#[source] io::Error),
    /// There is next to no space where the trace is to be.
    #[error(
        "only {} are free where {} is to be: free some, or name another directory with -o",
        xweave_text::size(*free as f64),
        output.display()
    )]
    Space {
        /// The trace directory.
        output: PathBuf,
        /// Bytes that are free.
        free: u64,
    },
    /// How this process is scheduled cannot be changed.
    #[error("--background: the kernel does not let xweave's threads be put there (SCHED_IDLE): {0}")]
    Background(#[source] io::Error),
    /// A `--domain` argument that is not NAME=TRANSPORT.
    #[error(
        "`{0}` is not a domain: write NAME=TRANSPORT, for example vm1=vsock:3 or vm1='ssh root@vm1 xweave agent --stdio'"
    )]
    DomainSyntax(String),
    /// A transport that is nearly another one, and no command.
    #[error(
        "--domain {domain}={given}: there is no transport {given}: did you mean --domain {domain}={meant}? (A command \
         is given with its path: ./{given})"
    )]
    TransportName {
        /// The domain's name.
        domain: String,
        /// What was given.
        given: String,
        /// What was meant.
        meant: String,
    },
    /// Two domains of one name.
    #[error("two domains are called {0}: each needs a name of its own")]
    DomainTwice(String),
    /// A guest, by its address, is called what hosts are.
    #[error(
        "{domain}=vsock:{cid} is a guest of this machine, and `{domain}` is what a host is called: name it otherwise, as \
         vm1=vsock:{cid} (this machine is added as `host` by itself)"
    )]
    GuestAsHost {
        /// Its name.
        domain: String,
        /// Its context ID.
        cid: u32,
    },
    /// Two names for one kernel.
    #[error(
        "{first} and {second} are one kernel ({how}): a kernel is recorded under one name, so give one of them, or the \
         other machine"
    )]
    SameKernel {
        /// The first name.
        first: String,
        /// The other.
        second: String,
        /// What tells that.
        how: String,
    },
    /// More domains than flow IDs have room for.
    #[error("{0} domains are more than the 255 that a recording can have")]
    TooManyDomains(usize),
    /// The aspects are wrong, or do not fit the kernels.
    #[error("{}", lines(.0))]
    Aspects(Vec<Diagnostic>),
    /// An aspect is neither a file nor in the library.
    #[error("{0}")]
    AspectFile(#[from] xweave_weave::InputError),
    /// No agent answers in a domain.
    #[error("domain {domain}: no agent answers ({transport}): {reason}")]
    Unreachable {
        /// Its name.
        domain: String,
        /// How it was tried.
        transport: String,
        /// What happened, and what to do.
        #[source]
        reason: Cause,
    },
    /// The agent may not load BPF programs.
    #[error(
        "domain {domain}: the agent may not trace its kernel: run it as root (or with CAP_BPF and CAP_PERFMON)"
    )]
    NotPermitted {
        /// Its name.
        domain: String,
    },
    /// The kernel lacks type information.
    #[error(
        "domain {domain}: kernel {kernel} has no type information (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF, which all current distribution kernels have"
    )]
    NoBtf {
        /// Its name.
        domain: String,
        /// `uname -r`.
        kernel: String,
    },
    /// The kernel is too old.
    #[error("domain {domain}: kernel {kernel} is older than 6.1, the oldest that xweave traces")]
    OldKernel {
        /// Its name.
        domain: String,
        /// `uname -r`.
        kernel: String,
    },
    /// What a domain sent cannot be used.
    #[error("domain {domain}: {reason}")]
    Sent {
        /// Its name.
        domain: String,
        /// Why, and what became of the process that read it.
        #[source]
        reason: Cause,
    },
    /// Advice cannot be compiled.
    #[error("{0}")]
    Compiling(#[source] Cause),
    /// Advice is to be compiled, and there is no compiler.
    #[error(
        "there is no clang in the path, and {why}: apt install clang, or compile them on a machine that has it (xweave \
         check ASPECT… --domain {domain}=BTF --compile FILE) and record FILE"
    )]
    NoCompiler {
        /// What is to be compiled, and why.
        why: String,
        /// A domain that it is to be compiled for.
        domain: String,
    },
    /// A `--symbols` argument that is not NAME=FILE.
    #[error(
        "`{0}` names no file of a kernel: write DOMAIN=FILE, for example vm1=/usr/lib/debug/boot/vmlinux-6.1.0"
    )]
    SymbolsSyntax(String),
    /// A `--symbols` argument for no domain.
    #[error("--symbols {domain}=…: there is no such domain; there are {domains}")]
    SymbolsDomain {
        /// What was named.
        domain: String,
        /// All of them.
        domains: String,
    },
    /// Settings for no domain.
    #[error("there is no domain {0} to change settings in")]
    NoDomain(String),
    /// A file is not of the kernel that a domain runs.
    #[error("--symbols {domain}={}: that file {reason}", file.display())]
    Symbols {
        /// Of which it was said to be.
        domain: String,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        #[source]
        reason: Cause,
    },
    /// It was interrupted before the recording began.
    #[error(
        "interrupted before the recording began: nothing was {}",
        if *.woven { "recorded, and what was woven is taken out again" } else { "woven" }
    )]
    Interrupted {
        /// Whether a domain had been asked to weave.
        woven: bool,
    },
    /// An agent could not do what it was asked.
    #[error("domain {domain}: {message}")]
    Agent {
        /// Its name.
        domain: String,
        /// Its own words.
        message: String,
    },
    /// A kernel's verifier refused what an aspect has it do.
    #[error("{mistake}\ndomain {domain}: the verifier's last words:\n{log}")]
    Refused {
        /// Its name.
        domain: String,
        /// The user's line, and what to do.
        mistake: Box<Diagnostic>,
        /// The end of the verifier's log.
        log: String,
    },
    /// An agent went away before the recording began.
    #[error("domain {domain}: the agent went away: {reason}")]
    Lost {
        /// Its name.
        domain: String,
        /// What the transport said.
        reason: String,
    },
    /// Several domains are not there, or not as they should be: an error of each.
    #[error("{}", lines(.0))]
    Several(Vec<Error>),
    /// The trace cannot be written.
    #[error("{0}")]
    Trace(#[from] xweave_trace::Error),
    /// The command to record could not be started.
    #[error("the command {command} could not be started: {error}")]
    Command {
        /// Its first word.
        command: String,
        /// Why.
        #[source]
        error: io::Error,
    },
}

impl Error {
    /// The domain that is not there, or not as it should be, where there is nothing wrong with the others.
    pub(crate) fn of_domain(&self) -> Option<&str> {
        match self {
            Self::Unreachable { domain, .. }
            | Self::Lost { domain, .. }
            | Self::NotPermitted { domain }
            | Self::NoBtf { domain, .. }
            | Self::OldKernel { domain, .. }
            | Self::Agent { domain, .. }
            | Self::Refused { domain, .. }
            | Self::NoCompiler { domain, .. }
            | Self::Symbols { domain, .. }
            | Self::SameKernel { second: domain, .. }
            | Self::Sent { domain, .. } => Some(domain),
            _ => None,
        }
    }

    /// The same of each domain that is not as it should be: none if it is about something else.
    pub(crate) fn of_domains(&self) -> Vec<&Self> {
        match self {
            Self::Several(errors) => errors.iter().flat_map(Self::of_domains).collect(),
            error => error.of_domain().map(|_| error).into_iter().collect(),
        }
    }

    /// One error of these; none if there are none.
    pub(crate) fn of_all(mut errors: Vec<Self>) -> Option<Self> {
        if errors.len() > 1 { Some(Self::Several(errors)) } else { errors.pop() }
    }
}
