//! Pointcuts to join points, in three passes: what a pointcut's anchors name in a domain are candidates (the entries or
//! returns of functions, tracepoints, instructions); at each the pointcut is evaluated, and where it is false nothing is
//! woven; where it is not, the variables of the code are bound to what they are there.

mod candidates;

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};

use xweave_access::in_file;
use xweave_aspect::syntax::{FunctionName, Ident, Pointcut, When};
use xweave_aspect::{Aspects, Diagnostic};
use xweave_text::matches;
use xweave_wire::plan::{Hook, VariablePlace};

use crate::anchor::Anchor;
use crate::bind::{self, Bound};
use crate::condition::Condition;
use crate::draft::{AbsentDraft, ItemDraft, SkippedDraft};
use crate::instruction;
use crate::item::Item;
use crate::point::{At, JoinPoint, Place};
use crate::{Domain, Peer, Role};
use candidates::{Candidate, Candidates};

/// Join points of a domain, and what was found wrong.
pub(crate) struct Resolved<'a> {
    pub points: Vec<Point<'a>>,
    pub skipped: Vec<SkippedDraft>,
    pub absent: Vec<AbsentDraft>,
    /// In the order of [`Item::all`].
    pub items: Vec<ItemDraft>,
}

/// A join point, and all that is woven there.
pub(crate) struct Point<'a> {
    pub at: JoinPoint<'a>,
    /// Where variables lie, at an instruction: see [`xweave_wire::plan::PlanSite::places`].
    pub places: Vec<VariablePlace>,
    /// In the order in which it runs.
    pub applied: Vec<Applied<'a>>,
    /// Whether anything was to be woven here and nowhere else.
    pub needed: bool,
}

/// A clause or piece of advice at a join point.
pub(crate) struct Applied<'a> {
    pub item: Item<'a>,
    /// Its place in [`Item::all`].
    pub number: u32,
    /// What is left to be decided when it runs.
    pub condition: Condition<'a>,
    pub bound: Bound,
    /// Whether it is about the calls of a function, and not about what an instruction of it touches.
    pub of_calls: bool,
}

/// Finds the join points of a domain, in the order of functions' names. `peers` are all domains of the recording, this
/// one among them.
pub(crate) fn resolve<'a>(aspects: &'a Aspects, peers: &'a [Peer], domain: &'a Domain<'a>) -> Resolved<'a> {
    let resolver = Resolver { aspects, peers, domain, ambiguous: OnceCell::new() };
    let mut points = BTreeMap::new();
    let (mut skipped, mut absent) = (Vec::new(), Vec::new());
    let mut items = Vec::new();
    for (number, item) in (0..).zip(Item::all(aspects)) {
        let mut work =
            Work { number, item, draft: ItemDraft::default(), skipped: Vec::new(), absent: Vec::new() };
        let candidates = resolver.candidates(&mut work);
        let selected = resolver.select(&mut work, candidates);
        resolver.bind(&mut work, selected, &mut points);
        items.push(work.draft);
        skipped.append(&mut work.skipped);
        absent.extend(work.absent.into_iter().map(|name| AbsentDraft { item: number, name }));
    }
    Resolved { points: points.into_values().collect(), skipped, absent, items }
}

/// Why an item that has a join point in none of the domains is woven nowhere; nothing if that is as it should be.
pub(crate) fn nowhere(aspects: &Aspects, peers: &[Peer], item: Item<'_>) -> Option<Diagnostic> {
    let anchors = Anchor::all(&item);
    let is_meant = |name: Option<&Ident>| peers.iter().any(|peer| means(peers, name, &peer.name, peer.role));
    let absent = |anchor: &Anchor<'_>| !is_meant(anchor.domain());
    let first = anchors.first()?;
    let known: Vec<_> = peers.iter().map(|peer| format!("`{}`", peer.name)).collect();
    if anchors.iter().all(absent) {
        let wanted = first.domain().map_or("", |domain| &domain.text);
        let role = [Role::Host, Role::Guest].iter().any(|role| role.name() == wanted);
        let known = known.join(", ");
        // To watch the host's half alone makes sense, and is said once; a name that nobody has is a mistake.
        return Some(if role {
            let message =
                format!("no domain is a `{wanted}` (there is {known}): what belongs there is not woven");
            aspects.error(first.span(), message).as_warning()
        } else {
            let name = item.name();
            let message =
                format!("`{name}` is woven nowhere: no domain is called `{wanted}` (there is {known})");
            aspects.error(first.span(), message)
        });
    }
    if anchors.iter().all(Anchor::optional) {
        return None;
    }
    let message = format!("`{}` has no join point in any domain ({})", item.name(), known.join(", "));
    Some(aspects.error(first.span(), message))
}

/// Whether a name is meant in this domain. A domain with the name wins over those of the role.
pub(crate) fn means(peers: &[Peer], wanted: Option<&Ident>, domain: &str, role: Role) -> bool {
    match wanted {
        None => true,
        Some(wanted) if peers.iter().any(|other| other.name == wanted.text) => wanted.text == domain,
        Some(wanted) => wanted.text == role.name(),
    }
}

/// Whether a function is one that a name in a pointcut may mean.
fn is_named(name: &FunctionName, function: &str) -> bool {
    name.patterns().any(|pattern| matches(pattern, function))
}

/// What all items of a domain have in common.
struct Resolver<'a> {
    aspects: &'a Aspects,
    peers: &'a [Peer],
    domain: &'a Domain<'a>,
    /// Names that several of the domain's functions have, once they were asked for.
    ambiguous: OnceCell<HashSet<&'a str>>,
}

/// An item being resolved, and what has become of it.
struct Work<'a> {
    /// Its place in [`Item::all`].
    number: u32,
    item: Item<'a>,
    draft: ItemDraft,
    skipped: Vec<SkippedDraft>,
    /// Functions and tracepoints that the kernel may lack, and does.
    absent: Vec<String>,
}

impl Work<'_> {
    fn skip(&mut self, at: &JoinPoint<'_>, reason: impl Into<String>) {
        self.skipped.push(SkippedDraft {
            item: self.number,
            function: at.name().to_owned(),
            module: at.module().map(str::to_owned),
            offset: at.offset(),
            reason: reason.into(),
        });
    }
}

/// A candidate at which the pointcut is not false.
struct Selected<'a> {
    place: Place,
    candidate: Candidate<'a>,
    condition: Condition<'a>,
}

impl<'a> Resolver<'a> {
    fn select(&self, work: &mut Work<'a>, candidates: Candidates<'a>) -> Vec<Selected<'a>> {
        let mut selected = Vec::new();
        let lacking = self.lacking(work.item, &candidates);
        work.draft.unmatched = if candidates.is_empty() { self.unmatched(work.item) } else { None };
        for (place, candidate) in candidates {
            let condition = match &candidate.at.at {
                At::Instruction(touch) => touch.condition.clone(),
                _ => {
                    Condition::of(work.item.pointcut(), &|atom| self.decides(atom, &work.item, &candidate.at))
                }
            };
            if matches!(condition, Condition::Known(false)) {
                continue;
            }
            // What an access() selects was counted when it was chosen.
            if !matches!(candidate.anchor, Anchor::Access(_)) {
                work.draft.counts.add_one();
            }
            selected.push(Selected { place, candidate, condition });
        }
        work.draft.selected = !selected.is_empty();
        work.draft.lacking = lacking.filter(|_| selected.is_empty());
        selected
    }

    /// A parameter or variable that none of the candidates has.
    fn lacking(&self, item: Item<'a>, candidates: &Candidates<'a>) -> Option<Diagnostic> {
        let first = candidates.values().next()?;
        let kernel = self.domain.kernel;
        let mut lacking = None;
        item.pointcut().atoms(&mut |atom| {
            let (of, is_argument) = match atom {
                Pointcut::Arg(of) => (of, true),
                Pointcut::LocalVar(of) => (of, false),
                _ => return,
            };
            let name = &of.of;
            let is_there = |at: &JoinPoint<'_>| match is_argument {
                true => at.argument(kernel, &name.text, &name.text).is_some(),
                false => at.local(kernel, &name.text, &name.text).is_some(),
            };
            let all_functions = candidates.values().all(|of| !matches!(of.at.at, At::Instruction(_)));
            if lacking.is_none() && all_functions && !candidates.values().any(|of| is_there(&of.at)) {
                let (at, kernel) = (first.at.described(), kernel.release());
                let message = format!("{at} has no parameter `{}` (kernel {kernel})", name.text);
                lacking = Some(self.aspects.error(name.span, message).with_help(first.at.parameters()));
            }
        });
        lacking
    }

    /// Whether an atom selects a join point that is no instruction; none where it does not depend on the join point.
    fn decides(&self, atom: &Pointcut, item: &Item<'_>, at: &JoinPoint<'_>) -> Option<bool> {
        let kernel = self.domain.kernel;
        let returns = matches!(at.hook, Hook::Return | Hook::ProbeReturn | Hook::UserReturn);
        let after = item.when() == When::After;
        let any = |names: &[FunctionName], fits: &dyn Fn(&FunctionName) -> bool| {
            names.iter().any(|name| self.means(name.domain.as_ref()) && fits(name))
        };
        Some(match (&at.at, atom) {
            (_, Pointcut::Xflow(_) | Pointcut::If(_) | Pointcut::Pid(..) | Pointcut::Comm(_)) => return None,
            (At::Function { function: of, .. }, Pointcut::Execution(names)) => {
                returns == after && any(names, &|name| is_named(name, &of.name))
            }
            (At::Function { function: of, .. }, Pointcut::Returning(names)) => {
                returns && any(names, &|name| is_named(name, &of.name))
            }
            (At::Function { function: of, .. }, Pointcut::WithinFunction(names)) => {
                any(names, &|name| is_named(name, &of.name))
            }
            (At::Function { function: of, .. }, Pointcut::WithinFile(names)) => {
                let file = instruction::file_of(self.domain.code, &of.name, of.module.as_deref());
                file.is_some_and(|file| any(names, &|name| in_file(&name.path(), file)))
            }
            (At::Tracepoint(of), Pointcut::Tracepoint(wanted)) => {
                self.means(wanted.domain.as_ref()) && wanted.name == of.name
            }
            (At::User { path, function }, Pointcut::User(wanted)) => {
                let same = wanted.path == *path && wanted.function == *function;
                self.means(wanted.domain.as_ref()) && same && returns == after
            }
            (At::Function { .. } | At::Tracepoint(_), Pointcut::LocalVar(of)) => {
                at.local(kernel, &of.of.text, &of.of.text).is_some()
            }
            (_, Pointcut::Arg(of)) => at.argument(kernel, &of.of.text, &of.of.text).is_some(),
            // What the instruction decides, for which the function stands, is decided.
            (At::Function { target: Some(_), .. }, Pointcut::Access(_) | Pointcut::Target(_)) => true,
            _ => false,
        })
    }

    fn bind(
        &self,
        work: &mut Work<'a>,
        selected: Vec<Selected<'a>>,
        points: &mut BTreeMap<Place, Point<'a>>,
    ) {
        let (kernel, item, number) = (self.domain.kernel, work.item, work.number);
        let all = selected.len();
        let instructions = selected.iter().map(|selected| &selected.candidate.at);
        let variables = bind::variables(kernel, item, instructions);
        let mut unreadable = Vec::new();
        for Selected { place, candidate: Candidate { at, anchor }, condition } in selected {
            let mut places = points.get(&place).map(|point| point.places.clone()).unwrap_or_default();
            match bind::bind(kernel, &at, item, &condition, &variables, &mut places) {
                Ok(bound) => {
                    let point = points.entry(place).or_insert(Point {
                        at,
                        places: Vec::new(),
                        applied: Vec::new(),
                        needed: false,
                    });
                    point.needed |= !anchor.selects_many();
                    point.places = places;
                    let of_calls = matches!(anchor, Anchor::Function(..));
                    point.applied.push(Applied { item, number, condition, bound, of_calls });
                }
                Err(errors) if matches!(at.at, At::Instruction(_)) => unreadable.push((at, errors)),
                Err(errors) => work.draft.diagnostics.extend(self.cannot_bind(errors)),
            }
        }
        // Of many instructions some do without what the code reads, unless all do.
        if unreadable.len() < all {
            for (at, errors) in unreadable {
                work.skip(&at, errors.into_iter().map(|(_, message)| message).next().unwrap_or_default());
            }
        } else if let Some((_, errors)) = unreadable.into_iter().next() {
            work.draft.diagnostics.extend(self.cannot_bind(errors));
        }
    }

    fn means(&self, wanted: Option<&Ident>) -> bool {
        means(self.peers, wanted, &self.domain.name, self.domain.role)
    }

    /// The names that several functions of the domain have.
    fn ambiguous(&self) -> &HashSet<&'a str> {
        self.ambiguous.get_or_init(|| instruction::ambiguous(self.domain.code))
    }

    fn cannot_bind(&self, errors: bind::Errors) -> impl Iterator<Item = Diagnostic> {
        let of = format!("domain `{}`, kernel {}", self.domain.name, self.domain.kernel.release());
        errors.into_iter().map(move |(span, why)| self.aspects.error(span, format!("{why} ({of})")))
    }
}
