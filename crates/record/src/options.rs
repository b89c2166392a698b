//! What to record.

use std::{path::PathBuf, time::Duration};

use xweave_weave::EventChoice;

use crate::{budget::Budget, domain::DomainSpec, remaining::Required, settings::Settings};

/// Bytes of a domain's ring buffers, unless others are asked for.
const BUFFER: u32 = 16 << 20;

/// Keys that may carry flows at once in a domain, likewise.
const FLOWS: u32 = 1 << 16;

/// What ends a recording.
#[derive(Clone, Debug)]
pub enum Until {
    /// Ctrl-C, or SIGTERM. These end the others too.
    Interrupted,
    /// So much time.
    Elapsed(Duration),
    /// The end of a command, which is started when all is woven.
    CommandEnds {
        /// The command.
        words: Vec<String>,
        /// When it is made to end, if it has not: that is no failure of it.
        within: Option<Duration>,
    },
}

impl Until {
    /// After what time the recording ends, whatever else it waits for.
    pub fn limit(&self) -> Option<Duration> {
        match self {
            Self::Interrupted => None,
            Self::Elapsed(duration) => Some(*duration),
            Self::CommandEnds { within, .. } => *within,
        }
    }
}

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Aspect files, or names of the library's aspects.
    pub aspects: Vec<PathBuf>,
    /// Aspect text from the command line.
    pub expressions: Vec<String>,
    /// Which frames are followed, as of [`xweave_aspect::filter`]; none: all.
    pub filter: Option<String>,
    /// The events to record besides, in all domains.
    pub events: EventChoice,
    /// Whether Xen is to record what it does itself, too: the first domain is its dom0.
    pub xen: bool,
    /// The domains besides this machine.
    pub domains: Vec<DomainSpec>,
    /// Which domains it is not begun without.
    pub required: Required,
    /// The trace directory.
    pub output: PathBuf,
    /// Whether an earlier trace there may be replaced.
    pub replace: bool,
    /// When to stop.
    pub until: Until,
    /// Ring buffers of each domain, in bytes: a power of two, at least 4096. Events have as much again.
    pub buffer: u32,
    /// How many keys may carry flows at once in a domain.
    pub flow_table: u32,
    /// Whether to weave and unweave one hook after the other, and to leave the kernels' settings alone.
    pub serial_attach: bool,
    /// Whether all of xweave runs, while it records, only where no other thread wants the CPU.
    pub background: bool,
    /// Files of the kernels that domains run, with debug information: by the domains' names.
    pub symbols: Vec<(String, PathBuf)>,
    /// What the domains are set to meanwhile.
    pub settings: Settings,
    /// Whether the library's aspects are compiled for these kernels, too, instead of using what xweave was built with.
    pub compile_here: bool,
    /// Where compiled advice, type information and indices are kept.
    pub cache: PathBuf,
    /// What a guest may use of this machine.
    pub budget: Budget,
    /// The command line, for the trace's manifest.
    pub command_line: Vec<String>,
}

impl Options {
    /// Options to record nothing of this machine into a new trace until then, with buffers of 16 MiB.
    pub fn new(output: PathBuf, until: Until, cache: PathBuf) -> Self {
        Self {
            aspects: Vec::new(),
            expressions: Vec::new(),
            filter: None,
            events: EventChoice::default(),
            xen: false,
            domains: Vec::new(),
            required: Required::all_if(false),
            output,
            replace: false,
            until,
            buffer: BUFFER,
            flow_table: FLOWS,
            serial_attach: false,
            background: false,
            symbols: Vec::new(),
            settings: Settings::default(),
            compile_here: false,
            cache,
            budget: Budget::default(),
            command_line: Vec::new(),
        }
    }
}
