//! What can be wrong with a pointcut.
//!
//! It is judged as a choice of conjunctions: each is a list of what must and what must not be at once.

use super::Checker;
use crate::code::{Code, Special};
use crate::diagnostic::Span;
use crate::syntax::{Exact, Ident, Pointcut, When};

/// A pointcut that comes to more conjunctions is written by no person.
const MAX_CONJUNCTIONS: usize = 1024;
/// Nor has what a person writes more parts in all of them.
const MAX_PARTS: usize = 1 << 14;
/// `TASK_COMM_LEN` of the kernel, without the 0 at its end.
const MAX_COMM: usize = 15;

/// What must be, or must not be, at once.
type Conjunction<'a> = Vec<(&'a Pointcut, bool)>;

/// A pointcut, and what hangs on it.
pub(super) struct Where<'a> {
    pub pointcut: &'a Pointcut,
    pub exact: Exact,
    pub when: When,
    /// What runs there.
    pub codes: Vec<&'a Code>,
    /// The place of a clause that takes the structure of `access` as its key.
    pub selects_target: Option<Span>,
}

impl<'a> Checker<'a> {
    pub(super) fn pointcut(&mut self, at: &Where<'a>) {
        let mut atoms = Vec::new();
        at.pointcut.atoms(&mut |atom| atoms.push(atom));
        let first = atoms.first().map_or(Span::default(), |atom| atom.place());
        self.atoms(at, &atoms);
        self.returns(at, &atoms);
        let has_access = atoms.iter().any(|atom| matches!(atom, Pointcut::Access(_)));
        if at.exact != Exact::Every && !has_access {
            let message =
                format!("`{}` chooses among instructions, and there is no `access(…)`", at.exact.word());
            self.error(first, message, "leave the word out, or add `access(…)`");
        }
        let Some(conjunctions) = conjunctions(at.pointcut, true) else {
            let message = format!("this pointcut comes to more than {MAX_CONJUNCTIONS} alternatives");
            return self.error(first, message, "make several of it");
        };
        let selects = |(atom, is): &(&Pointcut, bool)| *is && selector(atom).is_some();
        if !conjunctions.iter().flatten().any(selects) {
            self.selects_nothing(first, &atoms);
        }
        for conjunction in &conjunctions {
            self.kinds(conjunction);
            self.names(conjunction);
            let other =
                conjunction.iter().find(|part| selects(part) && !matches!(part.0, Pointcut::Access(_)));
            if let (Some(clause), Some((atom, _))) = (at.selects_target, other) {
                let message = format!(
                    "which data this is about is not said: at {} there is no structure",
                    place_of(atom)
                );
                self.error(clause, message, "give the clause a `select` and a key");
            }
        }
    }

    /// What can be wrong with one part.
    fn atoms(&mut self, at: &Where<'a>, atoms: &[&'a Pointcut]) {
        for atom in atoms {
            match atom {
                Pointcut::Xflow(test) => self.flow(&test.flow),
                Pointcut::Tracepoint(tracepoint) if at.when == When::After => {
                    self.error(
                        tracepoint.span,
                        "nothing comes after a tracepoint: it is a moment",
                        "leave `after` out",
                    );
                }
                Pointcut::Comm(name) => self.comm(name),
                _ => {}
            }
        }
    }

    fn flow(&mut self, flow: &Ident) {
        let flows: Vec<&str> = self.aspects.xflows.iter().map(|xflow| xflow.name.text.as_str()).collect();
        if flows.contains(&flow.text.as_str()) {
            return;
        }
        let known: Vec<_> = flows.iter().map(|name| format!("`{name}`")).collect();
        let message = if known.is_empty() {
            format!("there is no flow `{}`: none is defined", flow.text)
        } else {
            format!("there is no flow `{}`; there is {}", flow.text, known.join(", "))
        };
        self.error(flow.span, message, "");
    }

    fn comm(&mut self, name: &Ident) {
        let start = name.text.strip_suffix('%').unwrap_or(&name.text);
        if start.contains('%') {
            self.error(name.span, "`%` can only be at the end of a thread's name", "");
        } else if start.len() > MAX_COMM {
            let message = format!("no thread has this name: the kernel keeps {MAX_COMM} bytes of it");
            self.error(name.span, message, "shorten it");
        } else if name.text.is_empty() {
            self.error(name.span, "the thread's name is missing", "");
        }
    }

    /// `$return$` needs join points that are returns.
    fn returns(&mut self, at: &Where<'a>, atoms: &[&'a Pointcut]) {
        let returns = |atom: &Pointcut| match atom {
            Pointcut::Returning(_) => true,
            Pointcut::Execution(_) | Pointcut::User(_) => at.when == When::After,
            _ => false,
        };
        let mut places = atoms.iter().filter(|atom| selector(atom).is_some());
        let conditions =
            if places.clone().any(|atom| returns(atom)) { Vec::new() } else { at.pointcut.codes() };
        let Some(without) = places.find(|atom| !returns(atom)) else { return };
        for code in conditions.into_iter().chain(at.codes.iter().copied()) {
            if let Some(span) = code.special(Special::Return) {
                let message = format!("there is no `$return$` at {}", place_of(without));
                self.error(span, message, "select the return with `returning(…)`");
            }
        }
    }

    fn selects_nothing(&mut self, first: Span, atoms: &[&Pointcut]) {
        let within = atoms.iter().find_map(|atom| match atom {
            Pointcut::WithinFunction(_) => Some("within_function"),
            Pointcut::WithinFile(_) => Some("within_file"),
            _ => None,
        });
        match within {
            Some(within) => {
                let message = format!("`{within}` alone selects nothing: it narrows what others select");
                self.error(first, message, "add `access(…)`, or `execution(…)` for whole functions");
            }
            None => {
                let help = "add `execution(…)`, `returning(…)`, `access(…)`, `tracepoint(…)` or `user(…)`";
                self.error(first, "this pointcut selects no place in the code", help);
            }
        }
    }

    /// No join point is of two kinds.
    fn kinds(&mut self, conjunction: &Conjunction<'a>) {
        let mut selectors = conjunction.iter().filter(|(_, is)| *is).map(|(atom, _)| *atom);
        let Some(first) = selectors.find(|atom| selector(atom).is_some()) else { return };
        for other in selectors {
            let (Some(one), Some(two)) = (selector(first), selector(other)) else { continue };
            if one == two {
                continue;
            }
            let message = format!("nothing is both {} and {}", place_of(first), place_of(other));
            let help = if matches!((one, two), ("instruction", "function") | ("function", "instruction")) {
                "for instructions in a function, use `within_function(…)`; for both, `OR`"
            } else {
                "use `OR` for both"
            };
            self.error(other.place(), message, help);
        }
    }

    /// Names that parts give to what is at the join point.
    fn names(&mut self, conjunction: &Conjunction<'a>) {
        let mut bound: Vec<&Ident> = Vec::new();
        for (atom, is) in conjunction {
            let name = match atom {
                Pointcut::Target(name) => name,
                // Whether there is a variable can be asked without using it.
                Pointcut::LocalVar(renamed) if !is && renamed.name.is_none() => continue,
                Pointcut::LocalVar(renamed) | Pointcut::Arg(renamed) => renamed.given(),
                Pointcut::Xflow(test) => match &test.id {
                    Some(id) if *is => id,
                    _ => continue,
                },
                _ => continue,
            };
            if !is {
                let message = format!("`{}` cannot be had from what must not be", name.text);
                self.error(name.span, message, "take the `NOT` away from it");
                continue;
            }
            let has_access =
                || conjunction.iter().any(|(atom, is)| *is && matches!(atom, Pointcut::Access(_)));
            if matches!(atom, Pointcut::Target(_)) && !has_access() {
                let message =
                    "`target` is the structure that `access` selects, and there is no `access` with it";
                self.error(name.span, message, "add `AND access(…)`, or use `arg(…)` or `local_var(…)`");
            }
            if bound.iter().any(|other| other.text == name.text) {
                let message = format!("the name `{}` is given twice", name.text);
                self.error(name.span, message, "choose another for one of them");
            }
            bound.push(name);
        }
    }
}

/// What kind of join point a part selects, if it selects any.
fn selector(atom: &Pointcut) -> Option<&'static str> {
    match atom {
        Pointcut::Execution(_) | Pointcut::Returning(_) => Some("function"),
        Pointcut::Access(_) => Some("instruction"),
        Pointcut::Tracepoint(_) => Some("tracepoint"),
        Pointcut::User(_) => Some("user"),
        _ => None,
    }
}

/// What a part selects, in words.
fn place_of(atom: &Pointcut) -> &'static str {
    match atom {
        Pointcut::Access(_) => "an instruction",
        Pointcut::Tracepoint(_) => "a tracepoint",
        Pointcut::Returning(_) => "the return from a function",
        Pointcut::User(_) => "a function of a program",
        _ => "the entry of a function",
    }
}

/// The conjunctions of which one must be true for a pointcut to be `is`; none if there are too many.
fn conjunctions(pointcut: &Pointcut, is: bool) -> Option<Vec<Conjunction<'_>>> {
    let (parts, all) = match pointcut {
        Pointcut::And(parts) => (parts, is),
        Pointcut::Or(parts) => (parts, !is),
        Pointcut::Not(part) => return conjunctions(part, !is),
        atom => return Some(vec![vec![(atom, is)]]),
    };
    let mut found: Vec<Conjunction<'_>> = if all { vec![Vec::new()] } else { Vec::new() };
    for part in parts {
        let part = conjunctions(part, is)?;
        if all {
            if found.len() * part.len() > MAX_CONJUNCTIONS {
                return None;
            }
            let mut both = Vec::new();
            for one in &found {
                both.extend(part.iter().map(|other| [one.as_slice(), other].concat()));
            }
            found = both;
        } else {
            found.extend(part);
        }
        if found.iter().map(Vec::len).sum::<usize>() > MAX_PARTS {
            return None;
        }
    }
    Some(found)
}
