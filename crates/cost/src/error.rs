//! What can go wrong. Each message says what happened, where, and what to do.

use std::path::PathBuf;

/// The result of a measurement.
pub type Result<T> = std::result::Result<T, Error>;

/// Nothing could be measured in an environment. The doc comment of a variant is its meaning, `Display` the
/// message for people.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be used.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The verb: `read`, `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}; {remedy}")]
    Start {
        /// The program.
        program: String,
        /// What the operating system said.
        source: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The image or the process reported nothing.
    #[error("nothing was reported (at most {seconds} s were given, see --timeout){said}")]
    Silent {
        /// How long it was waited for at most.
        seconds: u64,
        /// What it said instead, in words of our own and its own.
        said: String,
    },
    /// The hypervisor's trace has none of the image's marks.
    #[error(
        "nothing was counted: it takes root, and tracefs and the tracepoint kvm:kvm_exit (KVM) or xentrace (Xen); it said: {said}"
    )]
    NotCounted {
        /// What was there instead.
        said: String,
    },
    /// The image is of another version than the host side.
    #[error("the image was built from another table of forms; use the xweave it came with")]
    OtherTable,
    /// The bare machine cannot be started by a program on it.
    #[error(
        "the bare machine is measured by booting the image on it (--image), and reading what it said (--bare)"
    )]
    NotFromHere,
    /// A console without a line of the image.
    #[error(
        "{path} has no line of the measuring image: is it what its serial port said (115200 8n1), from the beginning?"
    )]
    NoConsole {
        /// The file.
        path: PathBuf,
    },
    /// The lab failed.
    #[error("{0}")]
    Lab(#[from] xweave_lab::Error),
    /// A file of results that is none.
    #[error("{path}, line {line}: {source}: choose another file for --history, or remove the line")]
    History {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A world of another kind.
    #[error("the world {name} is no world of kind {kind}: `xweave lab list` shows the worlds")]
    OtherKind {
        /// Its name.
        name: String,
        /// The kind that is needed.
        kind: &'static str,
    },
}
