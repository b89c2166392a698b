//! Pointcuts to join points.
//!
//! What a pointcut's anchors select in each domain are candidates: the entries or returns of functions,
//! tracepoints, instructions. At each the pointcut is evaluated; where it is false, nothing is woven.

use std::collections::{BTreeMap, HashSet};

use xweave_access::in_file;
use xweave_aspect::syntax::{FunctionName, Ident, Pointcut, When};
use xweave_aspect::{Aspects, Diagnostic, Span};
use xweave_text::matches;
use xweave_wire::plan::{Hook, VariablePlace};

use crate::anchor::Anchor;
use crate::bind::{self, Bound};
use crate::choose::{choose, function_hook, tell_apart};
use crate::condition::Condition;
use crate::draft::{ItemDraft, SkippedDraft};
use crate::instruction::{self, Touch};
use crate::item::Item;
use crate::point::{At, JoinPoint, Place};
use crate::{Counts, Domain, Peer, Role};

/// Join points of a domain, and what was found wrong.
#[derive(Default)]
pub(crate) struct Resolved<'a> {
    pub points: Vec<Point<'a>>,
    pub skipped: Vec<SkippedDraft>,
    /// In the order of [`Item::all`].
    pub items: Vec<ItemDraft>,
}

/// A join point, and all that is woven there.
pub(crate) struct Point<'a> {
    pub at: JoinPoint<'a>,
    /// Where variables lie, at an instruction: see [`xweave_wire::plan::PlanSite::places`].
    pub places: Vec<VariablePlace>,
    /// In the order in which it runs.
    pub woven: Vec<Woven<'a>>,
    /// Whether anything was to be woven here and nowhere else.
    pub needed: bool,
}

/// A clause or piece of advice at a join point.
pub(crate) struct Woven<'a> {
    pub item: Item<'a>,
    /// Its place in [`Item::all`].
    pub number: u32,
    /// What is left to be decided when it runs.
    pub condition: Condition<'a>,
    pub bound: Bound,
}

/// Finds the join points of a domain, in the order of functions' names. `peers` are all domains of the recording, this
/// one among them.
pub(crate) fn resolve<'a>(aspects: &'a Aspects, peers: &'a [Peer], domain: &'a Domain<'a>) -> Resolved<'a> {
    let mut resolver = Resolver { aspects, peers, diagnostics: Vec::new(), ambiguous: None };
    let mut found = Found::default();
    let mut items = Vec::new();
    for (nth, item) in (0..).zip(Item::all(aspects)) {
        found.item = nth;
        let mut counts = Counts::default();
        let selected = resolver.item(item, domain, &mut found, &mut counts) > 0;
        let diagnostics = std::mem::take(&mut resolver.diagnostics);
        items.push(ItemDraft { selected, diagnostics, counts });
    }
    Resolved { points: found.points.into_values().collect(), skipped: found.skipped, items }
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
        let message = format!(
            "`{}` is woven nowhere: no domain is {} `{wanted}` (there is {})",
            item.name(),
            if role { "a" } else { "called" },
            known.join(", ")
        );
        let diagnostic = aspects.error(first.span(), message);
        // To watch the host's half alone makes sense; a name that nobody has is a mistake.
        return Some(if role { diagnostic.as_warning() } else { diagnostic });
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

struct Resolver<'a> {
    aspects: &'a Aspects,
    peers: &'a [Peer],
    /// Of the item at work.
    diagnostics: Vec<Diagnostic>,
    /// Names that several of the domain's functions have, once they were asked for.
    ambiguous: Option<HashSet<&'a str>>,
}

/// What was found in a domain.
#[derive(Default)]
struct Found<'a> {
    points: BTreeMap<Place, Point<'a>>,
    skipped: Vec<SkippedDraft>,
    /// The number of the item at work.
    item: u32,
}

/// Join points that an item may be woven at, with the anchor that each is from.
type Candidates<'a> = BTreeMap<Place, (JoinPoint<'a>, Anchor<'a>)>;

impl<'a> Resolver<'a> {
    /// Weaves an item into a domain. Gives the number of join points, skipped ones included.
    fn item(
        &mut self,
        item: Item<'a>,
        domain: &'a Domain<'a>,
        found: &mut Found<'a>,
        counts: &mut Counts,
    ) -> usize {
        let anchors: Vec<_> =
            Anchor::all(&item).into_iter().filter(|anchor| self.means(anchor.domain(), domain)).collect();
        let mut candidates = Candidates::new();
        for anchor in &anchors {
            self.candidates(domain, *anchor, &mut candidates, found);
        }
        self.instructions(item, domain, &anchors, &mut candidates, found, counts);
        let variables = bind::variables(domain.kernel, item, candidates.values().map(|(at, _)| at));
        let mut selected = 0;
        let mut unreadable = Vec::new();
        for (place, (at, anchor)) in candidates {
            let condition = Condition::of(item.pointcut(), &|atom| self.selects(atom, &item, domain, &at));
            if matches!(condition, Condition::Known(false)) {
                continue;
            }
            selected += 1;
            if !matches!(at.at, At::Instruction(_)) && !matches!(anchor, Anchor::Access(_)) {
                counts.add_one();
            }
            let known = found.points.get(&place);
            let mut places = known.map(|point| point.places.clone()).unwrap_or_default();
            match bind::bind(domain.kernel, &at, item, &condition, &variables, &mut places) {
                Ok(bound) => {
                    let point = found.points.entry(place).or_insert(Point {
                        at,
                        places: Vec::new(),
                        woven: Vec::new(),
                        needed: false,
                    });
                    point.needed |= !anchor.selects_many();
                    point.places = places;
                    point.woven.push(Woven { item, number: found.item, condition, bound });
                }
                Err(errors) if matches!(at.at, At::Instruction(_)) => unreadable.push((at, errors)),
                Err(errors) => self.cannot_bind(domain, errors),
            }
        }
        // Of many instructions some do without what the code reads, unless all do.
        if unreadable.len() < selected {
            let item = found.item;
            found.skipped.extend(unreadable.into_iter().map(|(at, errors)| SkippedDraft {
                item,
                function: at.name().to_owned(),
                module: at.module().map(str::to_owned),
                offset: at.offset(),
                reason: errors.into_iter().map(|(_, message)| message).next().unwrap_or_default(),
            }));
        } else if let Some((_, errors)) = unreadable.into_iter().next() {
            self.cannot_bind(domain, errors);
        }
        selected
    }

    /// What an anchor selects, but for instructions.
    fn candidates(
        &mut self,
        domain: &'a Domain<'a>,
        anchor: Anchor<'a>,
        candidates: &mut Candidates<'a>,
        found: &mut Found<'a>,
    ) {
        let kernel = domain.kernel;
        let mut add = |at: JoinPoint<'a>| {
            candidates.entry(at.place()).or_insert((at, anchor));
        };
        match anchor {
            Anchor::Function(name, returns) => {
                let functions = kernel.functions(&name.pattern);
                if functions.is_empty() && !name.optional && !name.pattern.contains('%') {
                    return self.unknown(name, domain);
                }
                for function in functions {
                    match function_hook(kernel, &function, returns) {
                        Ok(hook) => add(JoinPoint { hook, at: At::Function { function, target: None } }),
                        Err(reason) => self.unhookable(domain, (name, returns), function, reason, found),
                    }
                }
            }
            Anchor::Tracepoint(of) => match kernel.tracepoint(&of.name) {
                Some(tracepoint) => add(JoinPoint { hook: Hook::Tracepoint, at: At::Tracepoint(tracepoint) }),
                None if of.optional => {}
                None => {
                    let message = format!(
                        "no tracepoint `{}` in domain `{}`, kernel {}; or is it in a module that is not loaded?",
                        of.name,
                        domain.name,
                        kernel.release()
                    );
                    let near = kernel.nearest_tracepoints(&of.name, 3);
                    self.diagnostics.push(self.aspects.error(of.span, message).with_help(or_write(&near)));
                }
            },
            Anchor::User(of, returns) => add(JoinPoint {
                hook: if returns { Hook::UserReturn } else { Hook::User },
                at: At::User { path: of.path.clone(), function: of.function.clone() },
            }),
            Anchor::Access(_) => {}
        }
    }

    /// The instructions that the pointcut may select, as many of them as the item asks for.
    fn instructions(
        &mut self,
        item: Item<'a>,
        domain: &'a Domain<'a>,
        anchors: &[Anchor<'a>],
        candidates: &mut Candidates<'a>,
        found: &mut Found<'a>,
        counts: &mut Counts,
    ) {
        let meant = |anchor: &&Anchor<'a>| matches!(anchor, Anchor::Access(access) if self.means(access.domain.as_ref(), domain));
        let Some(anchor) = anchors.iter().find(meant) else { return };
        if domain.code.is_empty() {
            let message = format!("the machine code of domain `{}` is not known", domain.name);
            self.diagnostics.push(self.aspects.error(anchor.span(), message));
            return;
        }
        let after = item.when() == When::After;
        let means = |name: Option<&Ident>| self.means(name, domain);
        let touches = instruction::touches(item.pointcut(), domain.code, after, &means);
        let touches: Vec<Touch<'a>> = touches
            .into_iter()
            .filter(|touch| {
                let at = JoinPoint { hook: Hook::Instruction, at: At::Instruction(touch.clone()) };
                let selects = |atom: &Pointcut| self.selects(atom, &item, domain, &at);
                !matches!(Condition::of(item.pointcut(), &selects), Condition::Known(false))
            })
            .collect();
        if let Err(error) = self.plausible(anchors, domain, &touches) {
            self.diagnostics.push(error);
        }
        let (touches, none): (Vec<_>, Vec<_>) =
            touches.into_iter().partition(|touch| touch.unhookable().is_none());
        let number = found.item;
        found.skipped.extend(none.into_iter().map(|touch| SkippedDraft {
            item: number,
            function: touch.function().to_owned(),
            module: touch.module().map(str::to_owned),
            offset: touch.offset(),
            reason: touch.unhookable().unwrap_or_default().to_owned(),
        }));
        let mut chosen = choose(domain.kernel, touches, item.exact(), counts);
        let names = self.ambiguous.get_or_insert_with(|| instruction::ambiguous(domain.code));
        tell_apart(&mut chosen, names);
        for at in chosen {
            candidates.entry(at.place()).or_insert((at, *anchor));
        }
    }

    /// Whether an atom that join points decide selects this one.
    fn selects(&self, atom: &Pointcut, item: &Item<'_>, domain: &Domain<'_>, at: &JoinPoint<'_>) -> bool {
        let returns = matches!(at.hook, Hook::Return | Hook::ProbeReturn | Hook::UserReturn);
        let after = item.when() == When::After;
        let named = |names: &[FunctionName], name: &str| {
            names.iter().any(|of| self.means(of.domain.as_ref(), domain) && matches(&of.pattern, name))
        };
        match (&at.at, atom) {
            (At::Function { function: of, .. }, Pointcut::Execution(names)) => {
                returns == after && named(names, &of.name)
            }
            (At::Function { function: of, .. }, Pointcut::Returning(names)) => {
                returns && named(names, &of.name)
            }
            (At::Function { function: of, .. }, Pointcut::WithinFunction(names)) => named(names, &of.name),
            (At::Function { function: of, .. }, Pointcut::WithinFile(names)) => {
                instruction::file_of(domain.code, &of.name, of.module.as_deref()).is_some_and(|file| {
                    names
                        .iter()
                        .any(|name| self.means(name.domain.as_ref(), domain) && in_file(&name.path(), file))
                })
            }
            (At::Tracepoint(of), Pointcut::Tracepoint(wanted)) => {
                self.means(wanted.domain.as_ref(), domain) && wanted.name == of.name
            }
            (At::User { path, function }, Pointcut::User(wanted)) => {
                let same = wanted.path == *path && wanted.function == *function;
                self.means(wanted.domain.as_ref(), domain) && same && returns == after
            }
            (At::Function { .. } | At::Tracepoint(_), Pointcut::LocalVar(of)) => {
                at.local(domain.kernel, &of.of.text, &of.of.text).is_some()
            }
            (_, Pointcut::Arg(of)) => at.argument(domain.kernel, &of.of.text, &of.of.text).is_some(),
            (At::Instruction(touch), atom) => touch.selects(atom, &|name| self.means(name, domain)),
            // What the instruction decides, for which the function stands, is decided.
            (At::Function { target: Some(_), .. }, Pointcut::Access(_) | Pointcut::Target(_)) => true,
            _ => false,
        }
    }

    fn means(&self, wanted: Option<&Ident>, domain: &Domain<'_>) -> bool {
        means(self.peers, wanted, &domain.name, domain.role)
    }

    fn cannot_bind(&mut self, domain: &Domain<'_>, errors: Vec<(Span, String)>) {
        let of = format!("domain `{}`, kernel {}", domain.name, domain.kernel.release());
        let errors = errors.into_iter().map(|(span, why)| self.aspects.error(span, format!("{why} ({of})")));
        let errors: Vec<_> = errors.collect();
        self.diagnostics.extend(errors);
    }

    fn unhookable(
        &mut self,
        domain: &Domain<'_>,
        (name, returns): (&FunctionName, bool),
        function: xweave_code::Function,
        reason: String,
        found: &mut Found<'_>,
    ) {
        if Anchor::Function(name, returns).selects_many() {
            let (function, module) = (function.name, function.module);
            found.skipped.push(SkippedDraft { item: found.item, function, module, offset: 0, reason });
            return;
        }
        let message = format!(
            "{} `{}` cannot be hooked in domain `{}` (kernel {}): {reason}",
            if returns { "the return from" } else { "the entry of" },
            function.name,
            domain.name,
            domain.kernel.release()
        );
        let help = "hook another function, or write `?` after the name to do without it there";
        self.diagnostics.push(self.aspects.error(name.span, message).with_help(help));
    }

    fn unknown(&mut self, name: &FunctionName, domain: &Domain<'_>) {
        let message = format!(
            "no function `{}` in the type information (BTF) of domain `{}`, kernel {}; inlined or renamed, \
             or in a module that is not loaded?",
            name.pattern,
            domain.name,
            domain.kernel.release()
        );
        let near = domain.kernel.nearest(&name.pattern, 3);
        self.diagnostics.push(self.aspects.error(name.span, message).with_help(or_write(&near)));
    }

    /// Structures and members that nothing is known to touch are most likely mistyped.
    fn plausible(
        &self,
        anchors: &[Anchor<'_>],
        domain: &Domain<'_>,
        touches: &[Touch<'_>],
    ) -> Result<(), Diagnostic> {
        if !touches.is_empty() {
            return Ok(());
        }
        for anchor in anchors {
            let Anchor::Access(access) = anchor else { continue };
            if !self.means(access.domain.as_ref(), domain) {
                continue;
            }
            if let Some((problem, near)) = instruction::unknown(access, domain.code) {
                let message =
                    format!("{problem} in domain `{}`, kernel {}", domain.name, domain.kernel.release());
                let error = self.aspects.error(access.span, message);
                return Err(match near[..] {
                    [] => error,
                    _ => error.with_help(format!("there is {}", quoted(&near))),
                });
            }
        }
        Ok(())
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn or_write(near: &[String]) -> String {
    let help = "write `?` after the name if a kernel may lack it";
    if near.is_empty() { help.to_owned() } else { format!("{help}; there is {}", quoted(near)) }
}
