//! What a recording tells while it goes on, and when it is over.

use std::{path::PathBuf, process::ExitStatus, time::Duration};

use xweave_aspect::Diagnostic;
use xweave_trace::{Exit, Manifest};

use crate::{remaining::LeftOut, settings::Made};

/// How far the analysis of a domain's code has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analysed<'a> {
    /// The domain.
    pub domain: &'a str,
    /// Functions that are done, of those which are known to be there; 0 where the domain was not begun with.
    pub done: u32,
    /// All of them.
    pub total: u32,
}

/// What a recording is doing.
#[derive(Clone, Debug)]
pub enum Phase<'a> {
    /// Reaching a domain's agent.
    Connecting {
        /// The domain.
        domain: &'a str,
    },
    /// What a domain turned out to be: told of all before anything is asked of their kernels.
    Found {
        /// Fit to be shown.
        line: &'a str,
    },
    /// Something to be known of what is recorded, as soon as it is known.
    Note {
        /// Fit to be shown.
        line: &'a str,
    },
    /// The same of aspects.
    Diagnosed {
        /// A warning.
        diagnostic: &'a Diagnostic,
    },
    /// The phase goes on: told many times a second.
    Waiting,
    /// Asking what a domain's kernel is.
    Reading {
        /// The domain.
        domain: &'a str,
        /// `uname -r`.
        kernel: &'a str,
    },
    /// Asking domains what their page caches hold.
    Cached,
    /// Finding out what the instructions of kernels touch.
    Analysing {
        /// The domains whose code is looked into.
        parts: &'a [Analysed<'a>],
    },
    /// Resolving pointcuts.
    Resolving {
        /// Domains that are done.
        done: usize,
        /// All of them.
        total: usize,
    },
    /// Compiling advice and the probes of events: what was not compiled before.
    Compiling {
        /// Objects that are done.
        done: usize,
        /// All of them.
        total: usize,
    },
    /// Loading and attaching, in all domains.
    Weaving {
        /// Sites in all domains.
        sites: usize,
    },
    /// The same: how far one of them has come.
    Attaching {
        /// The domain.
        domain: &'a str,
        /// Hooks that are attached.
        done: u32,
        /// All of them.
        total: u32,
    },
    /// Records are coming in.
    Recording {
        /// Since the start.
        elapsed: Duration,
        /// Records so far.
        records: u64,
        /// Events so far.
        events: u64,
        /// Lost so far.
        lost: u64,
    },
    /// Letting flows under way end, detaching, collecting what is left.
    Stopping {
        /// The domains that have not ended yet.
        waiting_for: &'a [&'a str],
    },
    /// Giving what Xen recorded its places.
    Placing,
    /// The command that reaches a domain said a line on its standard error.
    Said {
        /// The domain.
        domain: &'a str,
        /// Fit to be shown.
        line: &'a str,
    },
}

/// How a recording went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The trace directory.
    pub trace: PathBuf,
    /// The trace's manifest, as written.
    pub manifest: Manifest,
    /// Guests that were named and are not recorded.
    pub left_out: Vec<LeftOut>,
    /// Places that a pointcut selects but that cannot be hooked, per domain: what the kernels had to say only
    /// when they were asked is among the manifest's warnings.
    pub skipped: Vec<(String, xweave_weave::Skipped)>,
    /// How many of the manifest's warnings were told as [`Phase::Note`] before anything was recorded: the first. What is
    /// skipped was told, too.
    pub told: usize,
    /// What the checker wanted to be known.
    pub warnings: Vec<Diagnostic>,
    /// How the command ended, if there was one.
    pub command: Option<ExitStatus>,
    /// What was set meanwhile, as the domains have read it then.
    pub settings: Vec<Made>,
    /// Sites woven, in all domains.
    pub sites: usize,
    /// How long loading and attaching took.
    pub weaving: Duration,
    /// How long detaching took, the domain's that took longest.
    pub unweaving: Duration,
}

impl Outcome {
    /// What is missing from the trace that was to be in it, in words: domains that were lost, a command that failed. What
    /// guests there are that were left out is not among it.
    pub fn missing(&self) -> Vec<String> {
        let lost = self.manifest.domains.iter().filter_map(|domain| match &domain.exit {
            Some(Exit::Lost { reason }) => {
                Some(format!("domain {} was lost while recording: {reason}", domain.name))
            }
            _ => None,
        });
        let failed = self.command.filter(|status| !status.success());
        lost.chain(failed.map(|status| format!("the recorded command failed: {status}"))).collect()
    }
}
