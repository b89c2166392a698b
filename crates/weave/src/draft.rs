//! What weaving finds in one domain, before anything is compiled; and what becomes of the drafts of all.
//!
//! A draft is made of what the domain says that it is, and of the aspects, by a process that may be given up to the
//! domain: so it says nothing of the aspects but the numbers of their items, and nothing of other domains. What needs
//! all of them, that an item is woven nowhere, which numbers sites have, is decided where they are put together.

mod bounds;

use serde::{Deserialize, Serialize};
use xweave_aspect::{Diagnostic, Severity};
use xweave_wire::bounded::list;
use xweave_wire::message::DropReason;
use xweave_wire::plan::{EventProgram, Hook, PlanProgram};

pub(crate) use bounds::DROP_REASONS;
pub use bounds::{DraftError, fit};

use crate::Counts;
use crate::event_object::EventConstants;

/// What is to be woven into a domain, and the C that is to be compiled for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Draft {
    /// By item of the aspects: a clause or a piece of advice, in the order in which they run.
    #[serde(deserialize_with = "list::<{ bounds::ITEMS }, _, _>")]
    pub items: Vec<ItemDraft>,
    /// All join points: the first has the number 1.
    #[serde(deserialize_with = "list::<{ bounds::SITES }, _, _>")]
    pub sites: Vec<SiteDraft>,
    /// As in [`xweave_wire::plan::Plan::programs`], whose objects are those of [`Draft::ready`], or the only one that the
    /// text is compiled to.
    #[serde(deserialize_with = "list::<{ bounds::SITES }, _, _>")]
    pub programs: Vec<PlanProgram>,
    /// By program: the words of its context that its arguments are in.
    #[serde(deserialize_with = "list::<{ bounds::SITES }, _, _>")]
    pub arguments: Vec<Vec<u8>>,
    /// Numbers of the library's objects that have the programs; none if these are to be compiled.
    #[serde(deserialize_with = "list::<{ bounds::OBJECTS }, _, _>")]
    pub ready: Vec<u32>,
    /// Why the library's programs for these aspects do not fit this kernel, if there are such.
    #[serde(deserialize_with = "list::<{ bounds::DIAGNOSTICS }, _, _>")]
    pub unfit: Vec<String>,
    /// What patterns matched, but no hook can reach.
    #[serde(deserialize_with = "list::<{ bounds::SITES }, _, _>")]
    pub skipped: Vec<SkippedDraft>,
    /// What the aspects name, and say that a kernel may lack, and this one does.
    #[serde(deserialize_with = "list::<{ bounds::SITES }, _, _>")]
    pub absent: Vec<AbsentDraft>,
    /// See [`crate::Woven::inlined`].
    #[serde(deserialize_with = "list::<{ bounds::SITES }, _, _>")]
    pub inlined: Vec<Inlined>,
    /// Why the kernel drops packets, where a program asks it.
    #[serde(deserialize_with = "list::<{ bounds::DROP_REASONS }, _, _>")]
    pub drop_reasons: Vec<DropReason>,
    /// The C of the programs; `None` where nothing is to be compiled, or there are mistakes.
    pub text: Option<Text>,
    /// The built-in probes of events, if any are wanted.
    pub events: EventsDraft,
}

/// What a domain says of an item.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ItemDraft {
    /// Whether it has join points there, skipped ones included.
    pub selected: bool,
    /// What is wrong with it, or should be known.
    #[serde(deserialize_with = "list::<{ bounds::DIAGNOSTICS }, _, _>")]
    pub diagnostics: Vec<Diagnostic>,
    /// Why none of the places that it names there is one, where that can be said: a mistake if it has none elsewhere.
    pub lacking: Option<Diagnostic>,
    /// That it names no place there: a mistake if it names none elsewhere.
    pub unmatched: Option<Diagnostic>,
    /// How many join points it has or would have. The clause is left empty: it is the item's.
    pub counts: Counts,
}

/// As [`crate::SiteInfo`], with what the item tells left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SiteDraft {
    /// The item's place among all.
    pub item: u32,
    /// See [`crate::SiteInfo::hook`].
    pub hook: Hook,
    /// See [`crate::SiteInfo::function`].
    pub function: String,
    /// See [`crate::SiteInfo::module`].
    pub module: Option<String>,
    /// See [`crate::SiteInfo::offset`].
    pub offset: u32,
    /// See [`crate::SiteInfo::file`].
    pub file: Option<String>,
    /// See [`crate::SiteInfo::line`].
    pub line: Option<u32>,
}

/// As [`crate::Skipped`], with the item's place among all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SkippedDraft {
    /// The item's place among all.
    pub item: u32,
    /// See [`crate::Skipped::function`].
    pub function: String,
    /// See [`crate::Skipped::module`].
    pub module: Option<String>,
    /// See [`crate::Skipped::offset`].
    pub offset: u32,
    /// See [`crate::Skipped::reason`].
    pub reason: String,
}

/// As [`crate::Absent`], with the item's place among all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AbsentDraft {
    /// The item's place among all.
    pub item: u32,
    /// See [`crate::Absent::name`].
    pub name: String,
}

/// Calls of a function that its hook does not see, since they are inlined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inlined {
    /// The number of a site that is the function's.
    pub site: u32,
    /// How many.
    pub calls: u32,
    /// Into how many functions.
    pub functions: u32,
    /// Some of these.
    #[serde(deserialize_with = "list::<{ bounds::CALLERS }, _, _>")]
    pub into: Vec<String>,
}

/// C that is to be compiled, besides what is the same for all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Text {
    /// The programs.
    pub programs: String,
    /// The kernel's types, as far as these name them.
    pub types: String,
    /// The names of the headers that they use.
    #[serde(deserialize_with = "list::<{ bounds::HEADERS }, _, _>")]
    pub headers: Vec<String>,
}

/// The built-in probes of a domain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EventsDraft {
    /// As in [`xweave_wire::plan::EventPlan::programs`].
    #[serde(deserialize_with = "list::<{ bounds::PROBES }, _, _>")]
    pub programs: Vec<EventProgram>,
    /// What their object is to be told of the kernel.
    pub constants: EventConstants,
    /// What the kernel has no place for, and why, for people.
    #[serde(deserialize_with = "list::<{ bounds::PROBES }, _, _>")]
    pub left_out: Vec<String>,
}

/// All that the compiler reads, by name.
pub type Files<'a> = Vec<(String, &'a str)>;

/// Whether something of it cannot be woven.
pub(crate) fn has_errors(items: &[ItemDraft]) -> bool {
    let mut diagnostics = items.iter().flat_map(|item| &item.diagnostics);
    diagnostics.any(|diagnostic| diagnostic.severity == Severity::Error)
}
