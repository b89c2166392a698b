//! Why a plan could not be woven, and how a controller is told.

use std::io;

use xweave_wire::message::{Failure, FailureKind};

use crate::program;

/// Why a plan could not be woven.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the kernel refused the program of {origin} for {function}: {error}\n{log}")]
    Refused {
        origin: String,
        function: String,
        #[source]
        error: io::Error,
        log: String,
    },
    #[error("could not load the compiled aspects: {error}\n{log}")]
    Load {
        #[source]
        error: libbpf_rs::Error,
        log: String,
    },
    #[error("could not hook {place} for {origin}: {error}")]
    Attach {
        origin: String,
        place: String,
        #[source]
        error: io::Error,
    },
    #[error("could not hook {function} for {origin}: {reason}")]
    Absent { origin: String, function: String, reason: String },
    #[error("none of the places of {origin} could be hooked; {place}: {reason}")]
    Nowhere { origin: String, place: String, reason: String },
    #[error("could not hook a program for {origin}: {source}")]
    Program { origin: String, source: program::Error },
    #[error("weaving was cancelled, nothing is woven")]
    Cancelled,
    #[error("module {0} no longer has type information: was it unloaded?")]
    Module(String),
    #[error("the plan does not match its BPF object: {0}")]
    Plan(String),
    #[error("the plan does not match its BPF object: {0}")]
    Copy(#[source] io::Error),
    #[error("the kernel's list of BPF programs cannot be read: {0}")]
    Running(#[source] io::Error),
    #[error("a BPF map could not be used: {0}")]
    Map(#[from] libbpf_rs::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Refused { .. } | Error::Load { .. } => FailureKind::Verifier,
            Error::Attach { .. } | Error::Absent { .. } | Error::Nowhere { .. } | Error::Program { .. } => {
                FailureKind::Attach
            }
            Error::Cancelled => FailureKind::Cancelled,
            Error::Module(_) | Error::Running(_) | Error::Map(_) => FailureKind::Unsupported,
            Error::Plan(_) | Error::Copy(_) => FailureKind::Misuse,
        };
        Self { kind, message: error.to_string() }
    }
}
