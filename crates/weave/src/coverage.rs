//! What of the library works on a kernel.

use std::collections::BTreeSet;
use std::fmt;

use xweave_aspect::{Aspects, Diagnostic, Severity};
use xweave_code::Kernel;

use crate::drafting::{draft, each_once};
use crate::error::Error;
use crate::program_object::Library;
use crate::{Domain, EventChoice, Group, Peer, Role};

/// A part of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoveredPart {
    /// An aspect, by its name, on one side of the boundary.
    Aspect(&'static str, Role),
    /// A group of events.
    Events(Group),
    /// What `merge` reads in the kernel of a host, or of a guest.
    Merge(Role),
}

/// Whether a part works on a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it does, with the programs that are compiled already.
    Whole,
    /// What is left out, one reason each. The rest works.
    Without(Vec<String>),
    /// It works, with programs that are compiled for this kernel: why those that are compiled already do not fit.
    NeedsCompiler(Vec<String>),
    /// It does not: why.
    Refused(Vec<String>),
    /// It has nothing to do there: an aspect that only weaves into the other side.
    Nothing,
}

impl fmt::Display for CoveredPart {
    /// As a user names it: `virtio-net in a guest`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, role) = match self {
            Self::Events(group) => return write!(f, "events {}", group.name()),
            Self::Aspect(name, role) => (*name, role),
            Self::Merge(role) => ("merge", role),
        };
        write!(f, "{what} in a {}", role.name())
    }
}

impl Verdict {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Whole | Self::Nothing => "whole",
            Self::Without(_) => "in part",
            Self::NeedsCompiler(_) => "with clang",
            Self::Refused(_) => "refused",
        }
    }

    /// What is missing, or why it is so, one reason each.
    pub fn reasons(&self) -> &[String] {
        match self {
            Self::Whole | Self::Nothing => &[],
            Self::Without(reasons) | Self::NeedsCompiler(reasons) | Self::Refused(reasons) => reasons,
        }
    }
}

/// What of the library works on a kernel, part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// The part.
    pub part: CoveredPart,
    /// Whether it works.
    pub verdict: Verdict,
}

/// Judges each aspect of the library and each group of events for a kernel.
///
/// # Errors
///
/// An object of the library is damaged.
pub fn coverage(
    aspects: &[(&'static str, Aspects)],
    library: &Library<'_>,
    kernel: &Kernel,
) -> Result<Vec<Coverage>, Error> {
    let mut all = Vec::new();
    for (name, aspects) in aspects {
        for role in [Role::Host, Role::Guest] {
            let verdict = judge_aspect(aspects, role, library, kernel)?;
            all.push(Coverage { part: CoveredPart::Aspect(name, role), verdict });
        }
    }
    for group in Group::ALL {
        let found = crate::events::draft(kernel, &EventChoice::new(vec![group], None), library.events)?;
        let verdict = match found.left_out {
            left_out if left_out.is_empty() => Verdict::Whole,
            left_out => Verdict::Without(left_out),
        };
        all.push(Coverage { part: CoveredPart::Events(group), verdict });
    }
    Ok(all)
}

fn judge_aspect(
    aspects: &Aspects,
    role: Role,
    library: &Library<'_>,
    kernel: &Kernel,
) -> Result<Verdict, Error> {
    let peers = Peer::of_each_role();
    let domain = Domain { name: role.name().to_owned(), role, number: 1, kernel, code: &[] };
    let draft = draft(aspects, &peers, &domain, &EventChoice::default(), library)?;
    let said: Vec<_> = draft.items.iter().flat_map(|item| item.diagnostics.clone()).collect();
    let errors: Vec<_> = each_once(said).into_iter().filter(|of| of.severity == Severity::Error).collect();
    if !errors.is_empty() {
        // Whoever asks knows which kernel it is.
        let place = domain.in_type_information();
        let reason = |of: Diagnostic| of.message.replace(&place, "");
        return Ok(Verdict::Refused(errors.into_iter().map(reason).collect()));
    }
    if draft.programs.is_empty() {
        return Ok(Verdict::Nothing);
    }
    let absent: BTreeSet<_> = draft.absent.iter().map(|of| of.name.clone()).collect();
    let skipped = draft.skipped.iter().map(|of| format!("{}: {}", of.function, of.reason));
    let without: Vec<_> = absent.into_iter().chain(skipped).collect();
    Ok(match (without.is_empty(), draft.text.is_none()) {
        (false, true) => Verdict::Without(without),
        (true, true) => Verdict::Whole,
        (_, false) => Verdict::NeedsCompiler(draft.unfit),
    })
}
