//! What an index has no answer to, found before it is asked: names that nothing has are most likely mistyped.

use std::collections::HashSet;
use std::fmt::{self, Display};

use xweave_aspect::Span;
use xweave_aspect::syntax::{Access, Ident, Pointcut};

use crate::access_path::member_and_around;
use crate::file::LevelRow;
use crate::index::Index;

/// A name that nothing in an index has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What was meant to have it.
    pub what: Named,
    /// The name.
    pub name: String,
    /// Where it is in the pointcut.
    pub span: Span,
    /// What there is that is like it, the likest first: three at most.
    pub near: Vec<String>,
}

/// What has names in a pointcut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The structure, union or typedef of an access().
    Structure,
    /// The member of one.
    Member {
        /// The structure's name.
        of: String,
    },
    /// The variable of a local_var().
    Variable,
    /// The function, or the pattern, of a within_function().
    Function,
}

impl Display for UnknownName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.what {
            Named::Structure => write!(out, "no instruction is known to touch a `{name}`"),
            Named::Member { of } => write!(out, "no instruction is known to touch `{name}` of `{of}`"),
            Named::Variable => write!(out, "no function has a variable `{name}` that could be read"),
            Named::Function if name.contains('%') => write!(out, "no function matches `{name}`"),
            Named::Function => write!(out, "there is no function `{name}`, or it is inlined everywhere"),
        }
    }
}

/// Why no site of a program can be what a pointcut asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswerable {
    /// Nothing has a name in it.
    #[error("{what}: {unknown}; {}", instead(unknown))]
    Name {
        /// The program.
        what: String,
        /// The name.
        unknown: UnknownName,
    },
    /// Files are asked for, and none is known.
    #[error(
        "within_file needs debug information, and {what} has none, or it is left aside: use within_function, or a file \
         with DWARF"
    )]
    Files {
        /// The program.
        what: String,
    },
}

/// What could be written instead.
fn instead(unknown: &UnknownName) -> String {
    match (&unknown.near[..], &unknown.what) {
        ([], Named::Variable) => {
            "without debug information, only parameters are known, by the names they are declared with"
                .to_owned()
        }
        ([], Named::Function) => "within_function(%) means all".to_owned(),
        ([], _) => "`access(%.%)` shows all that is touched".to_owned(),
        (near, _) => format!("did you mean {}?", near.join(", ")),
    }
}

impl Index {
    /// Whether a pointcut asks for what the index of a program, which messages call `what`, has.
    ///
    /// # Errors
    ///
    /// [`Unanswerable`]
    pub fn can_answer(&self, pointcut: &Pointcut, what: &str) -> Result<(), Unanswerable> {
        let what = what.to_owned();
        let unknown = unknown_names(pointcut, |_| true, [self].into_iter());
        // Functions that are inlined everywhere have instructions, and no name here.
        if let Some(unknown) = unknown.into_iter().find(|unknown| unknown.what != Named::Function) {
            return Err(Unanswerable::Name { what, unknown });
        }
        let mut files = false;
        pointcut.atoms(&mut |atom| files |= matches!(atom, Pointcut::WithinFile(_)));
        if files && !self.has_lines() { Err(Unanswerable::Files { what }) } else { Ok(()) }
    }
}

impl Index {
    /// Why a pointcut selects nothing in the program that messages call `what`: a name of a function that there is not.
    pub fn why_nothing(&self, pointcut: &Pointcut, what: &str) -> Option<Unanswerable> {
        let unknown = unknown_names(pointcut, |_| true, [self].into_iter()).into_iter().next()?;
        Some(Unanswerable::Name { what: what.to_owned(), unknown })
    }
}

/// How many names that are like an unknown one are told.
const NEAR: usize = 3;

/// The names in a pointcut that nothing in any of these indices has, in the order in which they are written, those below
/// NOT left aside; a structure or member with `%` stands for anything. `meant` is as of [`Index::query`].
pub fn unknown_names<'i>(
    pointcut: &Pointcut,
    meant: impl Fn(Option<&Ident>) -> bool,
    indices: impl Iterator<Item = &'i Index> + Clone,
) -> Vec<UnknownName> {
    let mut unknown = Vec::new();
    pointcut.wanted_atoms(&mut |atom| match atom {
        Pointcut::Access(access) if meant(access.domain.as_ref()) => {
            unknown.extend(of_access(access, indices.clone()));
        }
        Pointcut::WithinFunction(wanted) => {
            let wanted = wanted.iter().filter(|of| meant(of.domain.as_ref()) && !of.optional);
            unknown.extend(wanted.filter_map(|of| {
                let names = || indices.clone().flat_map(Index::function_names);
                let is_there = names().any(|name| xweave_text::matches(&of.pattern, name));
                let near = of.pattern.replace('%', "");
                let found = missing(&near, of.span, names, Named::Function).filter(|_| !is_there);
                found.map(|unknown| UnknownName { name: of.pattern.clone(), ..unknown })
            }));
        }
        Pointcut::LocalVar(of) => {
            let names = || indices.clone().flat_map(Index::variables);
            unknown.extend(missing(&of.of.text, of.of.span, names, Named::Variable));
        }
        _ => {}
    });
    unknown
}

fn of_access<'i>(access: &Access, indices: impl Iterator<Item = &'i Index> + Clone) -> Option<UnknownName> {
    let Access { structure, member, span, .. } = access;
    if structure.contains('%') {
        return None;
    }
    let levels = || indices.clone().flat_map(Index::levels);
    let structures = || levels().map(LevelRow::name);
    missing(structure, *span, structures, Named::Structure).or_else(|| {
        let members = || {
            let here = levels().filter(|level| level.name() == structure).flat_map(LevelRow::members);
            here.flat_map(member_and_around)
        };
        let what = Named::Member { of: structure.clone() };
        if member.contains('%') { None } else { missing(member, *span, members, what) }
    })
}

fn missing<'i, N: Iterator<Item = &'i str>>(
    name: &str,
    span: Span,
    names: impl Fn() -> N,
    what: Named,
) -> Option<UnknownName> {
    if names().any(|known| known == name) {
        return None;
    }
    let known: HashSet<&str> = names().collect();
    let near = xweave_text::nearest(name, known.into_iter(), NEAR);
    Some(UnknownName { what, name: name.to_owned(), span, near })
}
