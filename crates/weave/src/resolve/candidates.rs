//! The first pass of resolving: what the anchors of a pointcut name in a domain.

use std::collections::BTreeMap;

use xweave_access::{Named, unknown_names};
use xweave_aspect::syntax::FunctionName;
use xweave_aspect::{Diagnostic, module_of};
use xweave_code::{Function, Kernel};
use xweave_wire::plan::Hook;

use super::{Resolver, Work};
use crate::anchor::Anchor;
use crate::choose::{choose, function_hook, tell_apart};
use crate::instruction;
use crate::item::Item;
use crate::point::{At, JoinPoint, Place};

/// A join point that an item may be woven at, and the anchor that it is from: the first that names it.
pub(super) struct Candidate<'a> {
    pub(super) at: JoinPoint<'a>,
    pub(super) anchor: Anchor<'a>,
}

/// Candidates in the order of their places.
pub(super) type Candidates<'a> = BTreeMap<Place, Candidate<'a>>;

impl<'a> Resolver<'a> {
    /// The candidates of an item. What of its pointcut means other domains is left aside.
    pub(super) fn candidates(&self, work: &mut Work<'a>) -> Candidates<'a> {
        let mut anchors = Anchor::all(&work.item);
        anchors.retain(|anchor| self.means(anchor.domain()));
        let mut candidates = Candidates::new();
        for anchor in &anchors {
            self.named(work, *anchor, &mut candidates);
        }
        if let Some(anchor) = anchors.into_iter().find(|anchor| matches!(anchor, Anchor::Access(_))) {
            for at in self.instructions(work, anchor) {
                candidates.entry(at.place()).or_insert(Candidate { at, anchor });
            }
        }
        candidates
    }

    /// What an anchor names, but for instructions.
    fn named(&self, work: &mut Work<'a>, anchor: Anchor<'a>, candidates: &mut Candidates<'a>) {
        let domain = self.domain;
        let kernel = domain.kernel;
        let mut add = |at: JoinPoint<'a>| {
            candidates.entry(at.place()).or_insert(Candidate { at, anchor });
        };
        match anchor {
            Anchor::Function(name, returns) => {
                let functions = functions_named(kernel, name);
                if functions.is_empty() && !name.pattern.contains('%') {
                    match name.optional {
                        true => work.absent.push(name.patterns().collect::<Vec<_>>().join(" | ")),
                        false => work.draft.diagnostics.push(self.unknown(name)),
                    }
                    return;
                }
                for function in functions {
                    match function_hook(kernel, &function, returns) {
                        Ok(hook) => add(JoinPoint { hook, at: At::Function { function, target: None } }),
                        Err(reason) => self.unhookable(work, (name, returns), function, reason),
                    }
                }
            }
            Anchor::Tracepoint(of) => match kernel.tracepoint(&of.name) {
                Some(tracepoint) => add(JoinPoint { hook: Hook::Tracepoint, at: At::Tracepoint(tracepoint) }),
                None if of.optional => work.absent.push(of.name.clone()),
                None => {
                    let message = format!(
                        "no tracepoint `{}` in domain `{}`, kernel {}; or is it in a module that is not loaded?",
                        of.name,
                        domain.name,
                        kernel.release()
                    );
                    let near = kernel.nearest_tracepoints(&of.name, 3);
                    work.draft
                        .diagnostics
                        .push(self.aspects.error(of.span, message).with_help(or_write(&near)));
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
    fn instructions(&self, work: &mut Work<'a>, anchor: Anchor<'a>) -> Vec<JoinPoint<'a>> {
        let (domain, item) = (self.domain, work.item);
        if domain.code.is_empty() {
            let message = format!("the machine code of domain `{}` is not known", domain.name);
            work.draft.diagnostics.push(self.aspects.error(anchor.span(), message));
            return Vec::new();
        }
        let means = |name: Option<&_>| self.means(name);
        let touches = instruction::touches(item, domain.kernel, domain.code, &means);
        if touches.is_empty() {
            work.draft.diagnostics.extend(self.mistyped(item));
        }
        let (touches, unhookable): (Vec<_>, Vec<_>) =
            touches.into_iter().partition(|touch| touch.unhookable().is_none());
        for touch in unhookable {
            let reason = touch.unhookable().unwrap_or_default();
            work.skip(&JoinPoint { hook: Hook::Instruction, at: At::Instruction(touch) }, reason);
        }
        let mut chosen = choose(domain.kernel, touches, item.exact(), &mut work.draft.counts);
        tell_apart(&mut chosen, self.ambiguous());
        chosen
    }

    fn unhookable(
        &self,
        work: &mut Work<'a>,
        (name, returns): (&'a FunctionName, bool),
        function: Function,
        reason: String,
    ) {
        let domain = self.domain;
        if Anchor::Function(name, returns).selects_many() {
            let hook = if returns { Hook::Return } else { Hook::Entry };
            return work.skip(&JoinPoint { hook, at: At::Function { function, target: None } }, reason);
        }
        let message = format!(
            "{} `{}` cannot be hooked in domain `{}` (kernel {}): {reason}",
            if returns { "the return from" } else { "the entry of" },
            function.name,
            domain.name,
            domain.kernel.release()
        );
        let help = "hook another function, or write `?` after the name to do without it there";
        work.draft.diagnostics.push(self.aspects.error(name.span, message).with_help(help));
    }

    /// That there is no function of a name, or none that a pattern matches. A kernel may lack it, as where a module is
    /// not loaded.
    pub(super) fn unmatched(&self, item: Item<'a>) -> Option<Diagnostic> {
        let kernel = self.domain.kernel;
        let mut anchors = Anchor::all(&item).into_iter().filter(|anchor| self.means(anchor.domain()));
        let name = match anchors.next()? {
            Anchor::Function(name, _) => name,
            Anchor::Access(_) => return self.unknown_name(item, |what| *what == Named::Function),
            _ => return None,
        };
        if !functions_named(kernel, name).is_empty() {
            return None;
        }
        let place = self.domain.in_type_information();
        let message = format!("no function matches `{}`{place}", name.pattern);
        let near = kernel.nearest(&name.pattern.replace('%', ""), 3);
        let error = self.aspects.error(name.span, message);
        Some(if near.is_empty() { error } else { error.with_help(format!("there is {}", quoted(&near))) })
    }

    fn unknown(&self, name: &FunctionName) -> Diagnostic {
        let (domain, kernel) = (self.domain, self.domain.kernel);
        let clones: Vec<_> =
            name.patterns().flat_map(|pattern| instruction::clones(domain.code, pattern)).collect();
        let unloaded = module_of(&name.pattern).filter(|module| !kernel.has_module(module.name));
        let why = match (unloaded, clones.len()) {
            (Some(module), 0) => format!("; it is in module `{}`, which is not loaded", module.name),
            (None, 0) => "; inlined or renamed, or in a module that is not loaded?".to_owned(),
            _ => format!(": the compiler made {} of it, with other arguments", quoted(&clones)),
        };
        let names: Vec<_> = name.patterns().map(|pattern| format!("`{pattern}`")).collect();
        let message = format!("no function {}{}{why}", names.join(" or "), domain.in_type_information());
        let help = match unloaded {
            Some(module) => format!("load it in `{}` (modprobe {})", domain.name, module.load),
            None => or_write(&kernel.nearest(&name.pattern, 3)),
        };
        self.aspects.error(name.span, message).with_help(help)
    }

    /// A structure or member that nothing is known to touch is most likely mistyped. A variable need not be: without
    /// debug information, only parameters have names; nor a function: see [`Resolver::unmatched`].
    fn mistyped(&self, item: Item<'a>) -> Option<Diagnostic> {
        self.unknown_name(item, |what| matches!(what, Named::Structure | Named::Member { .. }))
    }

    /// The first name of such a thing in an access() and what it is combined with that nothing here has.
    fn unknown_name(&self, item: Item<'a>, of: impl Fn(&Named) -> bool) -> Option<Diagnostic> {
        let domain = self.domain;
        let indices = domain.code.iter().map(|code| &code.index);
        let unknown = unknown_names(item.pointcut(), |name| self.means(name), indices);
        let unknown = unknown.into_iter().find(|unknown| of(&unknown.what))?;
        let message = format!("{unknown} in domain `{}`, kernel {}", domain.name, domain.kernel.release());
        let error = self.aspects.error(unknown.span, message);
        Some(match unknown.near[..] {
            [] => error,
            _ => error.with_help(format!("there is {}", quoted(&unknown.near))),
        })
    }
}

/// The functions that a name means in a kernel: those that its pattern matches, or those of its first alternative that
/// the kernel has.
fn functions_named(kernel: &Kernel, name: &FunctionName) -> Vec<Function> {
    let found = name.patterns().map(|pattern| kernel.functions(pattern));
    found.into_iter().find(|functions| !functions.is_empty()).unwrap_or_default()
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn or_write(near: &[String]) -> String {
    let help = "write `?` after the name if a kernel may lack it";
    if near.is_empty() { help.to_owned() } else { format!("{help}; there is {}", quoted(near)) }
}
