//! What `xweave compare --transaction --json` prints: the two sides, and where the difference lies.
//!
//! The keys are described in `docs/compare.md`, and with [`ContrastDocument`].

use std::io::{self, Write};

use serde::Serialize;
use xweave_model::{
    Contrast, Spec,
    contrast::{By, Cause, Part, Side},
    recorded::LeftOut,
};

use super::parts::{RoleFields, SuchFields};
use crate::words::{Sentence, causes, objects};

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    /// The kind of transactions, as `--transaction` writes it.
    transaction: String,
    #[serde(flatten)]
    contrast: ContrastDocument<'a>,
}

/// Two sides of transactions compared.
#[derive(Clone, Debug, Serialize)]
pub struct ContrastDocument<'a> {
    /// Fast and slow, or first and second.
    sides: [SideDocument; 2],
    /// How much longer the second side's took: the difference of the means.
    difference_ns: i64,
    /// The standard error of that.
    error_ns: u64,
    /// Whether the difference is beyond noise.
    differs: bool,
    /// What only one of two runs recorded: what these events tell of is something else in the other run.
    #[serde(skip_serializing_if = "<[LeftOut]>::is_empty")]
    left_out: &'a [LeftOut],
    /// What kept them, what changed most first; these sum to the difference, too.
    causes: Vec<CauseDocument>,
    /// What the time was spent on, what changed most first.
    parts: Vec<PartDocument>,
}

/// One side.
#[derive(Clone, Debug, Serialize)]
struct SideDocument {
    /// Which transactions these are: `the middle half`, `the slowest tenth`, `the slowest quarter`.
    of: Sentence,
    /// How many the run has.
    transactions: u64,
    /// How many of them are on this side.
    chosen: u64,
    /// Mean time of those, in nanoseconds.
    mean_ns: u64,
    /// The median of all of the run.
    p50_ns: u64,
    /// The 99th percentile of all.
    p99_ns: u64,
    /// The ID of one with the median time of this side's.
    example: u64,
}

/// What kept transactions of either side, in means of these.
#[derive(Clone, Debug, Serialize)]
struct CauseDocument {
    /// As in `explain`'s document: `vCPUs of vm1 waited for a CPU of host`.
    what: Sentence,
    /// [`DelayKind::name`](xweave_model::delay::DelayKind::name).
    kind: &'static str,
    /// How long, on either side.
    ns: [u64; 2],
    /// How much longer on the second side.
    difference_ns: i64,
    /// The standard error of that.
    error_ns: u64,
    /// Whether the difference is beyond noise.
    differs: bool,
    /// By whom, as far as that is known, what changed most first.
    by: Vec<ByDocument>,
}

/// A share of what kept transactions.
#[derive(Clone, Debug, Serialize)]
struct ByDocument {
    /// Threads of a name, the vCPUs of a guest, a disk.
    who: Sentence,
    /// How long, on either side.
    ns: [u64; 2],
    /// How much longer on the second side.
    difference_ns: i64,
    #[serde(flatten)]
    role: Option<RoleFields>,
}

/// What the time was spent on, in means.
#[derive(Clone, Debug, Serialize)]
struct PartDocument {
    #[serde(flatten)]
    such: SuchFields,
    /// How long, on either side. All parts of a side sum to its mean.
    ns: [u64; 2],
    /// How much longer on the second side. All parts' sum to the difference.
    difference_ns: i64,
    /// How many transactions of either side had any of it.
    transactions: [u64; 2],
}

impl<'a> ContrastDocument<'a> {
    /// As the document has it.
    pub fn new(of: &'a Contrast) -> Self {
        Self {
            sides: of.sides.each_ref().map(side),
            difference_ns: of.difference_ns,
            error_ns: of.error_ns,
            differs: of.differs,
            left_out: &of.left_out,
            causes: of.causes.iter().map(cause).collect(),
            parts: of.parts.iter().map(part).collect(),
        }
    }
}

fn side(of: &Side) -> SideDocument {
    let Side { share, transactions, chosen, mean_ns, p50_ns, p99_ns, example } = *of;
    SideDocument { of: causes::share(share), transactions, chosen, mean_ns, p50_ns, p99_ns, example }
}

fn cause(of: &Cause) -> CauseDocument {
    CauseDocument {
        what: causes::delay(&of.delay),
        kind: of.delay.kind.name(),
        ns: of.ns,
        difference_ns: of.difference_ns,
        error_ns: of.error_ns,
        differs: of.differs,
        by: of.by.iter().map(by).collect(),
    }
}

fn by(of: &By) -> ByDocument {
    ByDocument {
        who: objects::offender(&of.who),
        ns: of.ns,
        difference_ns: of.difference_ns,
        role: of.who.objects().map(RoleFields::new),
    }
}

fn part(of: &Part) -> PartDocument {
    PartDocument {
        such: SuchFields::new(&of.such),
        ns: of.ns,
        difference_ns: of.difference_ns,
        transactions: of.transactions,
    }
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, contrast: &Contrast, spec: &Spec) -> io::Result<()> {
    super::stream(out, &Document { transaction: spec.to_string(), contrast: ContrastDocument::new(contrast) })
}
