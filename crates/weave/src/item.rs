//! What is woven: the clauses of flows and the advice, seen alike.

use std::collections::BTreeSet;

use xweave_aspect::syntax::{Act, Advice, Clause, ClauseKind, Exact, Pointcut, When, Xflow};
use xweave_aspect::{Aspects, Code, Span};

use crate::Action;

/// A clause of a flow, or a piece of advice.
#[derive(Clone, Copy)]
pub(crate) enum Item<'a> {
    Clause(&'a Xflow, &'a Clause),
    Advice(&'a Advice),
}

impl<'a> Item<'a> {
    /// All of them, in the order in which they run where they share a join point: flows are begun
    /// and handed on before advice asks for them, and ended after it.
    pub(crate) fn all(aspects: &'a Aspects) -> Vec<Self> {
        let clauses = aspects
            .xflows
            .iter()
            .flat_map(|xflow| xflow.clauses.iter().map(move |clause| Self::Clause(xflow, clause)));
        let mut items: Vec<_> = clauses.chain(aspects.advice.iter().map(Self::Advice)).collect();
        items.sort_by_key(Self::order);
        items
    }

    fn order(&self) -> u8 {
        match self.kind() {
            Some(ClauseKind::Start) => 0,
            Some(ClauseKind::Transit) => 1,
            None => 2,
            Some(ClauseKind::Quit) => 3,
        }
    }

    /// When it is attached. What begins flows comes last, so that none is begun that could not be
    /// followed; of the rest, flows come before advice that asks for them.
    pub(crate) fn attach_order(&self) -> u8 {
        match self.kind() {
            Some(ClauseKind::Quit) => 0,
            Some(ClauseKind::Transit) => 1,
            None => 2,
            Some(ClauseKind::Start) => 3,
        }
    }

    /// Of a clause.
    fn kind(&self) -> Option<ClauseKind> {
        match self {
            Self::Clause(_, clause) => Some(clause.kind),
            Self::Advice(_) => None,
        }
    }

    pub(crate) fn name(&self) -> &'a str {
        match self {
            Self::Clause(_, clause) => &clause.name,
            Self::Advice(advice) => &advice.name.text,
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Clause(_, clause) => clause.span,
            Self::Advice(advice) => advice.name.span,
        }
    }

    pub(crate) fn pointcut(&self) -> &'a Pointcut {
        match self {
            Self::Clause(_, clause) => &clause.pointcut,
            Self::Advice(advice) => &advice.pointcut,
        }
    }

    pub(crate) fn when(&self) -> When {
        match self {
            Self::Clause(..) => When::Before,
            Self::Advice(advice) => advice.when,
        }
    }

    pub(crate) fn exact(&self) -> Exact {
        match self {
            Self::Clause(_, clause) => clause.exact,
            Self::Advice(advice) => advice.exact,
        }
    }

    /// The C fragments that run, besides the pointcut's.
    pub(crate) fn codes(&self) -> Vec<&'a Code> {
        match self {
            Self::Clause(_, clause) => clause.act.codes(),
            Self::Advice(advice) => vec![&advice.body],
        }
    }

    /// The names in all of its C fragments that may be variables.
    pub(crate) fn names(&self) -> BTreeSet<&'a str> {
        let codes = self.pointcut().codes().into_iter().chain(self.codes());
        codes.flat_map(Code::variables).map(|used| used.text.as_str()).collect()
    }

    /// The variable with a request of a ring, if the aspect gives that instead of a carrier's key, as the paper
    /// does; and the macro of the carriers that makes a key of it.
    pub(crate) fn request(&self) -> Option<(&'a Code, &'static str)> {
        let Self::Clause(_, clause) = self else { return None };
        let (key, word) = match &clause.act {
            Act::Xin { key, .. } => (key, "XW_SENT"),
            Act::Xout { key, .. } => (key, "XW_RECEIVED"),
            _ => return None,
        };
        (key.words().count() == 1).then_some((key, word))
    }

    pub(crate) fn action(&self) -> Action {
        match self {
            Self::Advice(_) => Action::Advice,
            Self::Clause(_, clause) => match (&clause.act, clause.kind) {
                (Act::Action(_), _) => Action::Action,
                (Act::Select(_) | Act::SelectTarget, ClauseKind::Quit) => Action::Quit,
                (Act::Select(_) | Act::SelectTarget, _) => Action::Start,
                (Act::Split { .. }, _) => Action::Split,
                (Act::Merge { .. }, _) => Action::Merge,
                (Act::Hand { copy: true, .. }, _) => Action::Copy,
                (Act::Hand { copy: false, .. }, _) => Action::Move,
                (Act::Xin { .. }, _) => Action::Xin,
                (Act::Xout { .. }, _) => Action::Xout,
            },
        }
    }

    /// The flow that a clause belongs to, or the first one that advice asks for.
    pub(crate) fn xflow(&self) -> Option<&'a str> {
        match self {
            Self::Clause(xflow, _) => Some(&xflow.name.text),
            Self::Advice(advice) => {
                let mut first = None;
                advice.pointcut.atoms(&mut |atom| {
                    if let (None, Pointcut::Xflow(test)) = (first, atom) {
                        first = Some(test.flow.text.as_str());
                    }
                });
                first
            }
        }
    }

    /// What the values that it stores are called: advice, and blocks of flows' own code.
    pub(crate) fn stored(&self) -> Vec<String> {
        match self {
            Self::Advice(advice) => advice.body.stored(),
            Self::Clause(_, clause) => match &clause.act {
                Act::Action(code) => code.stored(),
                _ => Vec::new(),
            },
        }
    }

    pub(crate) fn carrier(&self) -> Option<&'a str> {
        match self {
            Self::Clause(_, clause) => match &clause.act {
                Act::Xin { carrier, .. } | Act::Xout { carrier, .. } => Some(&carrier.text),
                Act::Action(code) => crossed(code),
                _ => None,
            },
            Self::Advice(_) => None,
        }
    }
}

/// The carrier that an action block puts flows on, or takes them off: `flow_xin…(FLOW, CARRIER, …)`, `flow_xout…(…)`.
fn crossed(code: &Code) -> Option<&str> {
    let words: Vec<&str> = code.words().map(|token| token.text.as_str()).collect();
    words.windows(5).find_map(|words| match words {
        [word, "(", _, ",", carrier] if word.starts_with("flow_xin") || word.starts_with("flow_xout") => {
            Some(*carrier)
        }
        _ => None,
    })
}
