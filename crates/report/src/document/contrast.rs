//! The document of `xweave compare --transaction`: the two sides, and where their difference lies.

use std::io::{self, Write};

use xweave_document::{
    contrast::{Contrast, ContrastCause, ContrastFigures, ContrastOffender, ContrastPart, ContrastSide},
    value::Id,
};
use xweave_model::{
    Spec,
    contrast::{By, Cause, Part, Side},
};

use super::{
    compare::build_left_out,
    parts::{build_role, build_state},
};
use crate::words::{causes, objects};

/// Builds the sides and their difference.
pub fn build_figures(of: &xweave_model::Contrast) -> ContrastFigures {
    ContrastFigures {
        sides: of.sides.each_ref().map(build_side),
        difference_ns: of.difference_ns,
        error_ns: of.error_ns,
        differs: of.differs,
        left_out: build_left_out(&of.left_out),
    }
}

fn build_side(of: &Side) -> ContrastSide {
    let Side { share, transactions, chosen, mean_ns, p50_ns, p99_ns, example } = *of;
    let (of, example) = (causes::share(share).into(), Id(example));
    ContrastSide { of, transactions, chosen, mean_ns, p50_ns, p99_ns, example }
}

/// Builds the row of a delay.
pub fn build_cause(of: &Cause) -> ContrastCause {
    ContrastCause {
        what: causes::delay(&of.delay).into(),
        kind: of.delay.kind.name(),
        ns: of.ns,
        difference_ns: of.difference_ns,
        error_ns: of.error_ns,
        differs: of.differs,
        by: of.by.iter().map(build_offender).collect(),
    }
}

fn build_offender(of: &By) -> ContrastOffender {
    ContrastOffender {
        who: objects::offender(&of.who).into(),
        ns: of.ns,
        difference_ns: of.difference_ns,
        role: of.who.objects().map(build_role),
    }
}

/// Builds the row of a state.
pub fn build_part(of: &Part) -> ContrastPart {
    ContrastPart {
        state: build_state(&of.such),
        ns: of.ns,
        difference_ns: of.difference_ns,
        transactions: of.transactions,
    }
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, contrast: &xweave_model::Contrast, spec: &Spec) -> io::Result<()> {
    let document = Contrast {
        transaction: spec.to_string(),
        figures: build_figures(contrast),
        causes: contrast.causes.iter().map(build_cause).collect(),
        parts: contrast.parts.iter().map(build_part).collect(),
    };
    super::stream(out, &document)
}
