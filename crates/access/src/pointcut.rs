//! What is asked for: `access(sk_buff.len, read) AND target(skb) AND within_function(tcp_%)`. It is written in the
//! language of aspects; of what that can say an index answers what is about instructions.

use xweave_aspect::syntax::{self, FunctionName, Ident};
use xweave_aspect::{Diagnostic, Source, Span};

pub use xweave_aspect::syntax::How;

/// A pointcut over accesses to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointcut {
    /// `access(structure.member)`, also `access(structure.member, read)`.
    Access {
        /// The structure's, union's or typedef's name; `%` stands for anything.
        structure: String,
        /// Names of members with dots between, or the first ones of them.
        member: String,
        /// Only what reads (or also reads), or writes.
        how: Option<How>,
    },
    /// `within_function(tcp_%)`
    Function(String),
    /// `within_file(net/ipv4/%)`
    File(String),
    /// `target(skb)`: the pointer to the structure that an access() beside it touches gets this name.
    Target(String),
    /// `local_var(sk)`, also `local_var(sk, s)`: a variable or parameter can be read.
    Variable {
        /// Its name in the source.
        name: String,
        /// The name that it gets.
        bound: String,
    },
    /// `a AND b`, `a && b`
    And(Box<Pointcut>, Box<Pointcut>),
    /// `a OR b`, `a || b`
    Or(Box<Pointcut>, Box<Pointcut>),
    /// `NOT a`, `!a`
    Not(Box<Pointcut>),
}

impl Pointcut {
    /// Reads a pointcut.
    ///
    /// # Errors
    ///
    /// What is wrong, where, and what would be right.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let source = Source { name: "pointcut".to_owned(), text: text.to_owned() };
        let written = xweave_aspect::pointcut(&source)?;
        let mut question = Question { source: &source, alone: Vec::new() };
        let query = question.part(&written)?;
        match question.alone.first() {
            None => Ok(query),
            Some(at) => {
                let message =
                    "`target` is the structure that `access` selects, and there is no `access` beside it";
                Err(question.wrong(*at, message).with_help("add `AND access(…)`, or use `local_var(…)`"))
            }
        }
    }

    /// Whether files are asked for.
    pub fn names_files(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::And(a, b) | Self::Or(a, b) => a.names_files() || b.names_files(),
            Self::Not(a) => a.names_files(),
            Self::Access { .. } | Self::Function(_) | Self::Target(_) | Self::Variable { .. } => false,
        }
    }

    /// The local variables that are asked for.
    pub fn variables(&self) -> Vec<&str> {
        match self {
            Self::Variable { name, .. } => vec![name],
            Self::And(a, b) | Self::Or(a, b) => [a.variables(), b.variables()].concat(),
            Self::Not(a) => a.variables(),
            Self::Access { .. } | Self::Function(_) | Self::File(_) | Self::Target(_) => Vec::new(),
        }
    }

    /// Whether all its join points are those of some access().
    fn has_access(&self) -> bool {
        match self {
            Self::Access { .. } => true,
            Self::And(a, b) => a.has_access() || b.has_access(),
            Self::Or(a, b) => a.has_access() && b.has_access(),
            _ => false,
        }
    }

    /// The structures and members that are asked for.
    pub fn accesses(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Access { structure, member, .. } => vec![(structure, member)],
            Self::And(a, b) | Self::Or(a, b) => [a.accesses(), b.accesses()].concat(),
            Self::Not(a) => a.accesses(),
            Self::Function(_) | Self::File(_) | Self::Target(_) | Self::Variable { .. } => Vec::new(),
        }
    }
}

/// A pointcut of an aspect becoming one of an index.
struct Question<'s> {
    source: &'s Source,
    /// Where targets are that no access() is beside so far.
    alone: Vec<Span>,
}

impl Question<'_> {
    fn wrong(&self, at: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(self.source, at, message)
    }

    fn part(&mut self, of: &syntax::Pointcut) -> Result<Pointcut, Diagnostic> {
        match of {
            syntax::Pointcut::And(parts) => self.all(parts),
            syntax::Pointcut::Or(parts) => {
                let parts = parts.iter().map(|part| self.part(part)).collect::<Result<Vec<_>, _>>()?;
                self.any(parts)
            }
            syntax::Pointcut::Not(part) => Ok(Pointcut::Not(Box::new(self.part(part)?))),
            syntax::Pointcut::Access(access) => {
                self.here(access.domain.as_ref())?;
                let (structure, member) = (access.structure.clone(), access.member.clone());
                Ok(Pointcut::Access { structure, member, how: access.how })
            }
            syntax::Pointcut::WithinFunction(names) => {
                self.names(names, |name| Pointcut::Function(name.pattern.clone()))
            }
            syntax::Pointcut::WithinFile(names) => self.names(names, |name| Pointcut::File(name.path())),
            syntax::Pointcut::Target(name) => {
                self.alone.push(name.span);
                Ok(Pointcut::Target(name.text.clone()))
            }
            syntax::Pointcut::LocalVar(of) => {
                Ok(Pointcut::Variable { name: of.of.text.clone(), bound: of.given().text.clone() })
            }
            other => {
                let help = "an index has instructions: ask by `access(…)`, `target(…)`, `local_var(…)`, \
                            `within_function(…)` and `within_file(…)`";
                Err(self.wrong(other.place(), "no instruction is selected by this").with_help(help))
            }
        }
    }

    fn all(&mut self, parts: &[syntax::Pointcut]) -> Result<Pointcut, Diagnostic> {
        let alone = self.alone.len();
        let mut bound: Vec<&Ident> = Vec::new();
        let mut all: Option<Pointcut> = None;
        for part in parts {
            let query = self.part(part)?;
            let given = given_names(part);
            if let Some(twice) = given.iter().find(|name| bound.iter().any(|other| other.text == name.text)) {
                let message = format!("the name `{}` is given twice", twice.text);
                return Err(self.wrong(twice.span, message).with_help("choose another for one of them"));
            }
            bound.extend(given);
            all = Some(match all {
                Some(all) => Pointcut::And(Box::new(all), Box::new(query)),
                None => query,
            });
        }
        let all = all.ok_or_else(|| self.nothing())?;
        if all.has_access() {
            self.alone.truncate(alone);
        }
        Ok(all)
    }

    /// Any of these names.
    fn names(
        &self,
        names: &[FunctionName],
        make: impl Fn(&FunctionName) -> Pointcut,
    ) -> Result<Pointcut, Diagnostic> {
        for name in names {
            self.here(name.domain.as_ref())?;
        }
        self.any(names.iter().map(make).collect())
    }

    fn any(&self, parts: Vec<Pointcut>) -> Result<Pointcut, Diagnostic> {
        let either = |one, other| Pointcut::Or(Box::new(one), Box::new(other));
        parts.into_iter().reduce(either).ok_or_else(|| self.nothing())
    }

    fn nothing(&self) -> Diagnostic {
        self.wrong(Span::default(), "nothing is asked for")
    }

    fn here(&self, domain: Option<&Ident>) -> Result<(), Diagnostic> {
        let Some(domain) = domain else { return Ok(()) };
        let message = format!("`@{}` names a domain, and one kernel or program is asked here", domain.text);
        Err(self.wrong(domain.span, message).with_help("leave it out"))
    }
}

/// The names that something has at a join point of this: none of what is under a NOT.
fn given_names(of: &syntax::Pointcut) -> Vec<&Ident> {
    match of {
        syntax::Pointcut::Target(name) => vec![name],
        syntax::Pointcut::LocalVar(of) => vec![of.given()],
        syntax::Pointcut::And(parts) | syntax::Pointcut::Or(parts) => {
            parts.iter().flat_map(given_names).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(structure: &str, member: &str, how: Option<How>) -> Pointcut {
        Pointcut::Access { structure: structure.into(), member: member.into(), how }
    }

    #[test]
    fn words_and_signs_mean_the_same() {
        let by_words = Pointcut::parse("access(sk_buff.len, read) AND NOT within_function(tcp_%)").unwrap();
        let by_signs =
            Pointcut::parse(" access( struct sk_buff . len ,read)&&!within_function(tcp_%)").unwrap();
        assert_eq!(by_words, by_signs);
        let Pointcut::And(a, b) = by_words else { panic!() };
        assert_eq!(*a, access("sk_buff", "len", Some(How::Read)));
        assert_eq!(*b, Pointcut::Not(Box::new(Pointcut::Function("tcp_%".into()))));
    }

    #[test]
    fn and_binds_closer_than_or() {
        let pointcut = Pointcut::parse("access(a.b) OR access(c.%) AND within_file(net/ipv4/%)").unwrap();
        let Pointcut::Or(a, rest) = pointcut else { panic!() };
        assert_eq!(*a, access("a", "b", None));
        assert!(matches!(*rest, Pointcut::And(..)));
        let bracketed = Pointcut::parse("(access(a.b) OR access(c.%)) AND within_file(f)").unwrap();
        assert!(matches!(bracketed, Pointcut::And(..)));
        assert!(bracketed.names_files());
        assert_eq!(bracketed.accesses(), [("a", "b"), ("c", "%")]);
    }

    #[test]
    fn names_are_bound_beside_an_access_or_alone() {
        for text in [
            "target(a) AND access(b.c)",
            "(access(b.c) OR access(b.d, read)) AND target(a)",
            "access(b.c) AND (target(a) OR within_file(f))",
            "access(b.c) AND target(a) OR access(b.d) AND target(a)",
            "access(b.c) AND NOT target(a)",
            "access(b.c) AND NOT local_var(a) AND target(a)",
        ] {
            Pointcut::parse(text).unwrap();
        }
        let alone = Pointcut::parse("local_var( sk )").unwrap();
        assert_eq!(alone, Pointcut::Variable { name: "sk".into(), bound: "sk".into() });
        let renamed = Pointcut::parse("NOT local_var(sk, s) AND access(a.b)").unwrap();
        assert_eq!(renamed.variables(), ["sk"]);
    }

    #[test]
    fn names_of_a_list_are_alternatives() {
        let pointcut = Pointcut::parse("within_function(a, b_%) AND within_file(drivers/.../x.c)").unwrap();
        let Pointcut::And(functions, file) = pointcut else { panic!() };
        let function = |name: &str| Box::new(Pointcut::Function(name.into()));
        assert_eq!(*functions, Pointcut::Or(function("a"), function("b_%")));
        assert_eq!(*file, Pointcut::File("drivers/%/x.c".into()));
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is() {
        for (text, column, message) in [
            ("", 1, "expected a pointcut"),
            ("access(sk_buff)", 15, "expected `.`"),
            ("access(sk_buff.len, both)", 21, "`read` or `write`"),
            ("access(a.b) within_function(c)", 13, "`AND`, `OR` or the end"),
            ("access(a.b", 11, "expected `)`"),
            ("ANDROID", 1, "expected a pointcut"),
            ("within_function()", 17, "a function's name"),
            ("target(skb)", 8, "no `access` beside it"),
            ("access(a.b) AND x OR target(c)", 17, "expected a pointcut"),
            ("access(a.b) OR  target(c)", 24, "no `access` beside it"),
            ("NOT access(a.b) AND target(c)", 28, "no `access` beside it"),
            ("(access(a.b) OR within_file(c)) AND target(d)", 44, "no `access` beside it"),
            ("access(a.b) AND target()", 24, "a name"),
            ("access(a.b) AND target(c%)", 24, "a name"),
            ("local_var(0)", 11, "a variable's name"),
            ("local_var(a, )", 14, "another name"),
            ("access(a.b) AND target(c) AND local_var(c)", 41, "`c` is given twice"),
            ("access(a.b)@vm1", 13, "`@vm1` names a domain"),
            ("access(a.b) OR execution(tcp_%)", 26, "no instruction is selected"),
            ("access(a.b) AND if(1)", 20, "no instruction is selected"),
        ] {
            let wrong = Pointcut::parse(text).unwrap_err();
            assert_eq!((wrong.line, wrong.column), (1, column), "{text}: {wrong}");
            assert!(wrong.message.contains(message), "{text}: {wrong}");
        }
        let deep = "(".repeat(100_000);
        assert!(Pointcut::parse(&deep).unwrap_err().message.contains("nests deeper"));
    }
}
