//! Pointcuts to join points.
//!
//! Every name that a pointcut mentions makes candidates: the entries or returns of the functions
//! that it matches in each domain. At each the pointcut is evaluated; where it is false, nothing is
//! woven.

use std::collections::BTreeMap;

use xweave_aspect::syntax::{FunctionName, Pointcut, When};
use xweave_aspect::{Aspects, Diagnostic, Severity};
use xweave_code::Function;
use xweave_wire::plan::Hook;

use crate::bind::{self, Bound};
use crate::condition::Condition;
use crate::item::Item;
use crate::{Domain, Role, Skipped};

/// Join points of all domains.
pub(crate) struct Resolved<'a> {
    pub domains: Vec<DomainPoints<'a>>,
    pub warnings: Vec<Diagnostic>,
}

/// Join points of a domain.
pub(crate) struct DomainPoints<'a> {
    pub points: Vec<Point<'a>>,
    pub skipped: Vec<Skipped>,
}

/// A join point, and all that is woven there.
pub(crate) struct Point<'a> {
    pub function: Function,
    pub hook: Hook,
    /// In the order in which it runs.
    pub woven: Vec<Woven<'a>>,
}

/// A clause or piece of advice at a join point.
pub(crate) struct Woven<'a> {
    pub item: Item<'a>,
    /// What is left to be decided when it runs.
    pub condition: Condition<'a>,
    pub bound: Bound,
}

/// The module and the name of a function, and whether it is about its return.
type Place = (String, Option<String>, bool);

/// Finds all join points, in the order of functions' names.
pub(crate) fn resolve<'a>(
    aspects: &'a Aspects,
    domains: &[Domain<'_>],
) -> Result<Resolved<'a>, Vec<Diagnostic>> {
    let mut resolver = Resolver { aspects, domains, diagnostics: Vec::new() };
    let mut found: Vec<(BTreeMap<Place, Point<'a>>, Vec<Skipped>)> = Vec::new();
    found.resize_with(domains.len(), Default::default);
    for item in Item::all(aspects) {
        let before = resolver.diagnostics.len();
        let mut selected = 0;
        for (domain, (points, skipped)) in domains.iter().zip(&mut found) {
            selected += resolver.item(item, domain, points, skipped);
        }
        if selected == 0 && resolver.diagnostics.len() == before {
            resolver.nowhere(item);
        }
    }
    let (warnings, errors): (Vec<_>, Vec<_>) =
        resolver.diagnostics.into_iter().partition(|diagnostic| diagnostic.severity == Severity::Warning);
    if !errors.is_empty() {
        return Err(errors);
    }
    let domains = found
        .into_iter()
        .map(|(points, skipped)| DomainPoints { points: points.into_values().collect(), skipped });
    Ok(Resolved { domains: domains.collect(), warnings })
}

struct Resolver<'a, 'd> {
    aspects: &'a Aspects,
    domains: &'d [Domain<'d>],
    diagnostics: Vec<Diagnostic>,
}

/// What `execution` asks for.
fn entered(item: &Item<'_>) -> Hook {
    match item.when() {
        When::Before => Hook::Entry,
        When::After => Hook::Return,
    }
}

/// The names in a pointcut, with the hook that each asks for.
fn names<'a>(item: &Item<'a>) -> Vec<(&'a FunctionName, Hook)> {
    let mut names = Vec::new();
    let entered = entered(item);
    item.pointcut().atoms(&mut |atom| match atom {
        Pointcut::Execution(of) => names.extend(of.iter().map(|name| (name, entered))),
        Pointcut::Returning(of) => names.extend(of.iter().map(|name| (name, Hook::Return))),
        _ => {}
    });
    names
}

impl<'a> Resolver<'a, '_> {
    /// Weaves an item into a domain. Gives the number of join points, skipped ones included.
    fn item(
        &mut self,
        item: Item<'a>,
        domain: &Domain<'_>,
        points: &mut BTreeMap<Place, Point<'a>>,
        skipped: &mut Vec<Skipped>,
    ) -> usize {
        let mut candidates: BTreeMap<Place, (Function, &FunctionName)> = BTreeMap::new();
        for (name, hook) in names(&item) {
            if !self.means(name, domain) {
                continue;
            }
            let functions = domain.kernel.functions(&name.pattern);
            if functions.is_empty() && !name.optional && !name.pattern.contains('%') {
                self.unknown(name, domain);
            }
            for function in functions {
                let place = (function.name.clone(), function.module.clone(), hook == Hook::Return);
                candidates.entry(place).or_insert((function, name));
            }
        }
        let mut selected = 0;
        for (place, (function, name)) in candidates {
            let at = if place.2 { Hook::Return } else { Hook::Entry };
            let condition = Condition::of(item.pointcut(), &|execution, name| {
                let hook = if execution { entered(&item) } else { Hook::Return };
                hook == at
                    && self.means(name, domain)
                    && xweave_code::kernel::matches(&name.pattern, &function.name)
            });
            if matches!(condition, Condition::Known(false)) {
                continue;
            }
            selected += 1;
            let hook = match bind::hook(domain.kernel, &function, at) {
                Ok(hook) => hook,
                Err(reason) if name.optional || name.pattern.contains('%') => {
                    let clause = item.name().to_owned();
                    let (function, module) = (function.name, function.module);
                    skipped.push(Skipped { clause, function, module, reason });
                    continue;
                }
                Err(reason) => {
                    let message = format!(
                        "the return from `{}` cannot be hooked in domain `{}` (kernel {}): {reason}",
                        function.name,
                        domain.name,
                        domain.kernel.release()
                    );
                    let help = "hook another function, or write `?` after the name to do without it there";
                    self.diagnostics.push(self.aspects.error(name.span, message).with_help(help));
                    continue;
                }
            };
            let codes: Vec<_> = condition.codes().into_iter().chain(item.codes()).collect();
            match bind::bind(domain.kernel, &function, hook, &codes) {
                Ok(bound) => {
                    let point = points.entry(place).or_insert(Point { function, hook, woven: Vec::new() });
                    point.woven.push(Woven { item, condition, bound });
                }
                Err(errors) => {
                    let errors = errors.into_iter().map(|(span, message)| {
                        let of = format!("domain `{}`, kernel {}", domain.name, domain.kernel.release());
                        self.aspects.error(span, format!("{message} ({of})"))
                    });
                    self.diagnostics.extend(errors);
                }
            }
        }
        selected
    }

    /// Whether a name is meant in this domain. A domain with the name wins over those of the role.
    fn means(&self, name: &FunctionName, domain: &Domain<'_>) -> bool {
        match &name.domain {
            None => true,
            Some(wanted) if self.domains.iter().any(|other| other.name == wanted.text) => {
                wanted.text == domain.name
            }
            Some(wanted) => wanted.text == domain.role.name(),
        }
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
        let mut help = "write `?` after the name if a kernel may lack it".to_owned();
        if !near.is_empty() {
            help += &format!(
                "; there is {}",
                near.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            );
        }
        self.diagnostics.push(self.aspects.error(name.span, message).with_help(help));
    }

    /// Says why an item is woven nowhere.
    fn nowhere(&mut self, item: Item<'a>) {
        let names = names(&item);
        let absent = |name: &FunctionName| !self.domains.iter().any(|domain| self.means(name, domain));
        let Some((first, _)) = names.first() else { return };
        let known: Vec<_> = self.domains.iter().map(|domain| format!("`{}`", domain.name)).collect();
        if names.iter().all(|(name, _)| absent(name)) {
            let wanted = first.domain.as_ref().map_or("", |domain| &domain.text);
            let role = [Role::Host, Role::Guest].iter().any(|role| role.name() == wanted);
            let message = format!(
                "`{}` is woven nowhere: no domain is {} `{wanted}` (there is {})",
                item.name(),
                if role { "a" } else { "called" },
                known.join(", ")
            );
            let diagnostic = self.aspects.error(first.span, message);
            // To watch the host's half alone makes sense; a name that nobody has is a mistake.
            self.diagnostics.push(if role { diagnostic.as_warning() } else { diagnostic });
        } else if !names.iter().all(|(name, _)| name.optional) {
            let message = format!("`{}` has no join point in any domain ({})", item.name(), known.join(", "));
            self.diagnostics.push(self.aspects.error(first.span, message));
        }
    }
}
