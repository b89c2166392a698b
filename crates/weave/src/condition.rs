//! Pointcuts, evaluated as far as a join point decides them.
//!
//! Where the join point is, is known when weaving; whether data belongs to a flow, or what a C
//! expression is, only when it runs. What is left to run is a condition over the latter alone.

use xweave_aspect::Code;
use xweave_aspect::syntax::{Ident, Pointcut, XflowTest};

/// What is left of a pointcut at a join point.
#[derive(Clone)]
pub(crate) enum Condition<'a> {
    /// Always, or never.
    Known(bool),
    Xflow(&'a XflowTest),
    If(&'a Code),
    Pid(u32),
    Comm(&'a Ident),
    Not(Box<Condition<'a>>),
    /// Two at least, none of them known.
    All(Vec<Condition<'a>>),
    Any(Vec<Condition<'a>>),
}

impl<'a> Condition<'a> {
    /// `decides` tells of an atom whether it selects the join point, as far as that decides it: as of
    /// [`Pointcut::decide`].
    pub(crate) fn of(pointcut: &'a Pointcut, decides: &impl Fn(&Pointcut) -> Option<bool>) -> Self {
        if let Some(known) = pointcut.decide(&|atom| decides(atom)) {
            return Self::Known(known);
        }
        match pointcut {
            Pointcut::And(parts) => Self::open(parts, decides, Self::All),
            Pointcut::Or(parts) => Self::open(parts, decides, Self::Any),
            Pointcut::Not(part) => Self::Not(Box::new(Self::of(part, decides))),
            Pointcut::Xflow(test) => Self::Xflow(test),
            Pointcut::If(code) => Self::If(code),
            Pointcut::Pid(pid, _) => Self::Pid(*pid),
            Pointcut::Comm(name) => Self::Comm(name),
            // What no one decides, and no program can test, selects nothing.
            _ => Self::Known(false),
        }
    }

    /// Of parts that together decide nothing, those that are left to be decided.
    fn open(
        parts: &'a [Pointcut],
        decides: &impl Fn(&Pointcut) -> Option<bool>,
        of: fn(Vec<Self>) -> Self,
    ) -> Self {
        let parts = parts.iter().map(|part| Self::of(part, decides));
        let mut open: Vec<_> = parts.filter(|part| !matches!(part, Self::Known(_))).collect();
        if open.len() == 1 { open.remove(0) } else { of(open) }
    }

    /// Calls `visit` for each test of a flow and each C expression.
    pub(crate) fn leaves(&self, visit: &mut impl FnMut(&Self)) {
        match self {
            Self::Known(_) => {}
            Self::Xflow(_) | Self::If(_) | Self::Pid(_) | Self::Comm(_) => visit(self),
            Self::Not(part) => part.leaves(visit),
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.leaves(visit)),
        }
    }

    /// Two conditions with the same key are the same.
    pub(crate) fn key(&self) -> String {
        let list = |parts: &[Self]| parts.iter().map(Self::key).collect::<Vec<_>>().join(" ");
        // All of it is in the item's file.
        let place = |code: &Code| format!("{}:{}", code.span.line, code.span.column);
        match self {
            Self::Known(known) => known.to_string(),
            Self::Xflow(test) => place(&test.key),
            Self::If(code) => place(code),
            Self::Pid(pid) => format!("pid {pid}"),
            Self::Comm(name) => format!("comm {}", name.text),
            Self::Not(part) => format!("!{}", part.key()),
            Self::All(parts) => format!("&({})", list(parts)),
            Self::Any(parts) => format!("|({})", list(parts)),
        }
    }

    pub(crate) fn codes(&self) -> Vec<&'a Code> {
        let mut codes = Vec::new();
        self.leaves(&mut |leaf| match leaf {
            Self::Xflow(test) => codes.push(&test.key),
            Self::If(code) => codes.push(*code),
            _ => {}
        });
        codes
    }

    pub(crate) fn tests(&self) -> Vec<&'a XflowTest> {
        let mut tests = Vec::new();
        self.leaves(&mut |leaf| {
            if let Self::Xflow(test) = leaf {
                tests.push(*test);
            }
        });
        tests
    }
}

#[cfg(test)]
mod tests {
    use xweave_aspect::syntax::FunctionName;

    use super::*;

    #[test]
    fn what_the_join_point_decides_is_gone() {
        let text = "xflow f { start execution(a) select x; }\n\
                    (execution(a) AND if(p) OR returning(b) AND NOT xflow(f, q)) AND NOT execution(c) {}";
        let source = xweave_aspect::Source { name: "x".into(), text: text.into() };
        let aspects = xweave_aspect::parse(vec![source]).unwrap();
        let at = |execution: bool, function: &str| {
            let is = |names: &[FunctionName]| names[0].pattern == function;
            let selects = |atom: &Pointcut| match atom {
                Pointcut::Execution(names) => Some(execution && is(names)),
                Pointcut::Returning(names) => Some(!execution && is(names)),
                _ => None,
            };
            Condition::of(&aspects.advice[0].pointcut, &selects).key()
        };
        assert_eq!(at(true, "a"), "2:22");
        assert_eq!(at(false, "b"), "!2:58");
        assert_eq!(at(true, "b"), "false");
        assert_eq!(at(true, "c"), "false");
    }
}
