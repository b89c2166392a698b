//! The parts of a pointcut that select places in the code, as opposed to those that restrict them.

use xweave_aspect::Span;
use xweave_aspect::syntax::{Access, FunctionName, Ident, Pointcut, Tracepoint, UserFunction, When};

use crate::item::Item;

/// One of them.
#[derive(Clone, Copy)]
pub(crate) enum Anchor<'a> {
    /// Functions' entries, or (true) returns.
    Function(&'a FunctionName, bool),
    Tracepoint(&'a Tracepoint),
    /// A program's function's entry, or (true) return.
    User(&'a UserFunction, bool),
    Access(&'a Access),
}

impl<'a> Anchor<'a> {
    /// Those of an item.
    pub(crate) fn all(item: &Item<'a>) -> Vec<Self> {
        let mut anchors = Vec::new();
        let after = item.when() == When::After;
        item.pointcut().atoms(&mut |atom| match atom {
            Pointcut::Execution(of) => anchors.extend(of.iter().map(|name| Self::Function(name, after))),
            Pointcut::Returning(of) => anchors.extend(of.iter().map(|name| Self::Function(name, true))),
            Pointcut::Tracepoint(of) => anchors.push(Self::Tracepoint(of)),
            Pointcut::User(of) => anchors.push(Self::User(of, after)),
            Pointcut::Access(of) => anchors.push(Self::Access(of)),
            _ => {}
        });
        anchors
    }

    /// The domains that it is about; all if none.
    pub(crate) fn domain(&self) -> Option<&'a Ident> {
        match self {
            Self::Function(of, _) => of.domain.as_ref(),
            Self::Tracepoint(of) => of.domain.as_ref(),
            Self::User(of, _) => of.domain.as_ref(),
            Self::Access(of) => of.domain.as_ref(),
        }
    }

    /// Whether a kernel may lack it.
    pub(crate) fn optional(&self) -> bool {
        match self {
            Self::Function(of, _) => of.optional,
            Self::Tracepoint(of) => of.optional,
            Self::User(of, _) => of.optional,
            Self::Access(_) => false,
        }
    }

    /// Whether it is about any of several places, so that one may be left out.
    pub(crate) fn selects_many(&self) -> bool {
        match self {
            Self::Function(of, _) => of.optional || of.pattern.contains('%'),
            Self::Tracepoint(of) => of.optional,
            Self::User(of, _) => of.optional,
            Self::Access(_) => true,
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Function(of, _) => of.span,
            Self::Tracepoint(of) => of.span,
            Self::User(of, _) => of.span,
            Self::Access(of) => of.span,
        }
    }
}
