//! What `xweave compare --json` prints: the objects of both runs, and what explains the difference.
//!
//! The keys are described in `docs/compare.md`, and with [`ComparedDocument`] and [`FindingDocument`].

use std::io::{self, Write};

use serde::Serialize;
use xweave_model::{
    Comparison,
    comparison::{Compared, Finding},
    recorded::LeftOut,
};

use super::parts::RoleFields;
use crate::words::{Sentence, changes, objects};

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    /// Time from each one's first event to its last, in nanoseconds.
    span_ns: [u64; 2],
    /// How much longer the second took; less, if negative.
    difference_ns: i64,
    /// How many events each has.
    events: [u64; 2],
    /// What only one of them recorded: nothing of that is among the objects.
    #[serde(skip_serializing_if = "<[LeftOut]>::is_empty")]
    left_out: &'a [LeftOut],
    /// All objects of both.
    objects: Vec<ComparedDocument<'a>>,
    /// What explains the difference, what explains most first; what may be idle time comes last. Empty if nothing differs
    /// beyond noise.
    findings: Vec<FindingDocument<'a>>,
}

/// An object of which both traces tell; one that a trace lacks all the same has done nothing in it.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedDocument<'a> {
    /// What it is called.
    object: Sentence,
    /// What it is: [`UsageKind::name`](xweave_model::UsageKind::name).
    kind: &'static str,
    /// The domain that it belongs to.
    domain: &'a str,
    /// How long it worked, in nanoseconds.
    time_ns: [u64; 2],
    /// How often.
    count: [u64; 2],
    /// How much data.
    bytes: [u64; 2],
    /// How long was waited, for a processor or for it, in nanoseconds.
    wait_ns: [u64; 2],
    /// Disks: sums of the requests' times in the disk, from being given to being done, in nanoseconds.
    device_ns: [u64; 2],
    /// Disks: bytes between the end of a request and the beginning of the next, either way.
    seek_bytes: [u64; 2],
    #[serde(flatten)]
    role: Option<RoleFields>,
}

impl<'a> ComparedDocument<'a> {
    /// As the document has it.
    pub fn new(of: &'a Compared) -> Self {
        Self {
            object: objects::usage(&of.key.object),
            kind: of.key.kind().name(),
            domain: &of.key.domain,
            time_ns: of.time_ns,
            count: of.count,
            bytes: of.bytes,
            wait_ns: of.wait_ns,
            device_ns: of.device_ns,
            seek_bytes: of.seek_bytes,
            role: of.key.object.group().map(RoleFields::new),
        }
    }
}

/// Something that explains a difference.
#[derive(Clone, Debug, Serialize)]
pub struct FindingDocument<'a> {
    /// What changed: [`ChangeKind::name`](xweave_model::comparison::ChangeKind::name).
    what: &'static str,
    /// The object's domain.
    domain: &'a str,
    /// The object.
    object: Sentence,
    /// The object's kind.
    kind: &'static str,
    /// At most so much of the difference of the whole is due to it, in nanoseconds: of the same sign and never more; 0 if it
    /// changed the other way. Times of objects that work at once overlap: findings do not sum to the difference.
    explained_ns: i64,
    /// The time that the second trace has more of it (less, if negative), in nanoseconds: never more than the longer trace.
    changed_ns: i64,
    /// Whether it is a wait that may be for want of anything to do, or a consequence of other findings.
    may_be_idle: bool,
    /// The finding in words.
    text: Sentence,
}

impl<'a> FindingDocument<'a> {
    /// As the document has it.
    pub fn new(of: &'a Finding) -> Self {
        Self {
            what: of.change().name(),
            domain: &of.domain,
            object: changes::object(&of.object),
            kind: of.kind().name(),
            explained_ns: of.explained_ns,
            changed_ns: of.changed_ns,
            may_be_idle: of.may_be_idle,
            text: changes::finding(of),
        }
    }
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    let document = Document {
        span_ns: comparison.span_ns,
        difference_ns: comparison.difference_ns,
        events: comparison.events,
        left_out: &comparison.left_out,
        objects: comparison.objects.iter().map(ComparedDocument::new).collect(),
        findings: comparison.findings.iter().map(FindingDocument::new).collect(),
    };
    super::stream(out, &document)
}
