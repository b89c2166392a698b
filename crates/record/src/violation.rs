//! What ends a domain's part of a recording: it said what no agent of ours says.

use xweave_wire::event::Kind;

use crate::question::Question;

/// What a domain said that it may not, or that cannot be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// Records or events that are none.
    #[error("{bytes} bytes of {of} could not be understood")]
    Undecodable { bytes: usize, of: &'static str },
    #[error("it sent what is recorded before it was asked to record")]
    NotRecording,
    #[error("it sent an event of kind {0}, which is not in its plan")]
    Event(Kind),
    #[error("it sent a record of site {0}, which is not in its plan")]
    RecordOfSite(u32),
    #[error("it sent a record of flow {0:#x}, whose number is another domain's")]
    RecordOfFlow(u64),
    #[error("it tells losses of site {0}, which is not in its plan")]
    LossOfSite(u32),
    #[error("it tells losses of flow {0:#x}, whose number is another domain's")]
    LossOfFlow(u64),
    #[error("it speaks of site {0}, which is not in its plan")]
    Site(u32),
    #[error("it answered what it was not asked")]
    NotAsked,
    #[error("it names more cached files and pages than may be")]
    Cached,
    #[error("its answer does not fit the question ({0:?})")]
    Answer(Question),
    #[error("it tells how far weaving has come, and was not asked to weave")]
    NotWeaving,
    #[error("it tells that {done} of {total} hooks are attached; its plan has {hooks}")]
    Hooks { done: u32, total: u32, hooks: u32 },
    /// Bytes that wait for its clocks.
    #[error(
        "{} MiB of what it sent lies beyond the last reading of its clocks, more than the {} MiB that a domain may have \
         waiting", waiting >> 20, budget >> 20
    )]
    Waiting { waiting: usize, budget: usize },
    /// It could not do what it was asked when others record already: its own words.
    #[error("{0}")]
    Failed(String),
}
