//! What is asked for: `access(sk_buff.len, read) AND target(skb) AND within_function(tcp_%)`.

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

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// A pointcut that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n    {text}\n    {blank:>column$}^", blank = "")]
pub struct Malformed {
    /// The pointcut.
    pub text: String,
    /// In characters, from 0.
    pub column: usize,
    /// What is wrong there, and what would be right.
    pub problem: String,
}

/// Brackets nest no deeper in anything that a person writes.
const DEPTH: usize = 64;

impl Pointcut {
    /// Reads a pointcut.
    ///
    /// # Errors
    ///
    /// [`Malformed`], with the place and what is expected there.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut parser = Parser { text, at: 0, depth: 0, alone: Vec::new() };
        let pointcut = parser.either()?;
        parser.space();
        if !parser.rest().is_empty() {
            return Err(parser.wrong("AND, OR or the end is expected here"));
        }
        match parser.alone.first() {
            None => Ok(pointcut),
            Some(at) => Err(parser.wrong_at(
                *at,
                "a target is that of an access, and none is beside it: access(structure.member) AND target(name)",
            )),
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

    /// The names that something has at a join point of this: none of what is under a NOT.
    fn bound(&self) -> Vec<&str> {
        match self {
            Self::Target(bound) | Self::Variable { bound, .. } => vec![bound],
            Self::And(a, b) | Self::Or(a, b) => [a.bound(), b.bound()].concat(),
            Self::Not(_) | Self::Access { .. } | Self::Function(_) | Self::File(_) => Vec::new(),
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

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Where targets are that no access() is beside so far.
    alone: Vec<usize>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong(&self, problem: impl Into<String>) -> Malformed {
        self.wrong_at(self.at, problem)
    }

    fn wrong_at(&self, at: usize, problem: impl Into<String>) -> Malformed {
        let column = self.text[..at].chars().count();
        Malformed { text: self.text.to_owned(), column, problem: problem.into() }
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes a sign, if it comes next.
    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    /// Takes a word, if it comes next and no longer one does.
    fn word(&mut self, word: &str) -> bool {
        self.space();
        let Some(rest) = self.rest().strip_prefix(word) else { return false };
        let whole = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if whole {
            self.at += word.len();
        }
        whole
    }

    fn expect(&mut self, sign: &str) -> Result<(), Malformed> {
        if self.take(sign) { Ok(()) } else { Err(self.wrong(format!("`{sign}` is expected here"))) }
    }

    fn either(&mut self) -> Result<Pointcut, Malformed> {
        let mut left = self.both()?;
        while self.word("OR") || self.take("||") {
            left = Pointcut::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Pointcut, Malformed> {
        let alone = self.alone.len();
        let mut left = self.one()?;
        while self.word("AND") || self.take("&&") {
            self.space();
            let at = self.at;
            let right = self.one()?;
            if let Some(twice) = right.bound().iter().find(|name| left.bound().contains(name)) {
                return Err(self.wrong_at(at, format!("`{twice}` is the name of something else already")));
            }
            left = Pointcut::And(Box::new(left), Box::new(right));
        }
        if left.has_access() {
            self.alone.truncate(alone);
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Pointcut, Malformed> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.wrong(format!("brackets and NOTs nest no deeper than {DEPTH}")));
        }
        let found = self.primary();
        self.depth -= 1;
        found
    }

    fn primary(&mut self) -> Result<Pointcut, Malformed> {
        if self.word("NOT") || self.take("!") {
            return Ok(Pointcut::Not(Box::new(self.one()?)));
        }
        if self.take("(") {
            let inside = self.either()?;
            self.expect(")")?;
            return Ok(inside);
        }
        if self.word("access") {
            return self.access();
        }
        for (word, make) in [
            ("within_function", Pointcut::Function as fn(String) -> Pointcut),
            ("within_file", Pointcut::File),
        ] {
            if self.word(word) {
                self.expect("(")?;
                let name = self
                    .name(&['%', '_', '.', '/', '-', '+', '*'], "a name, in which % stands for anything")?;
                self.expect(")")?;
                return Ok(make(name.replace('*', "%")));
            }
        }
        let at = self.at;
        if self.word("target") {
            self.alone.push(at);
            self.expect("(")?;
            let bound = self.identifier("a name for the pointer to the structure")?;
            self.expect(")")?;
            return Ok(Pointcut::Target(bound));
        }
        if self.word("local_var") {
            self.expect("(")?;
            let name = self.identifier("a local variable's name")?;
            let bound = match self.take(",") {
                true => self.identifier("a name for what the variable holds")?,
                false => name.clone(),
            };
            self.expect(")")?;
            return Ok(Pointcut::Variable { name, bound });
        }
        Err(self.wrong(
            "a pointcut is expected here: access(structure.member), target(name), local_var(variable, name), \
             within_function(name), within_file(name)",
        ))
    }

    fn identifier(&mut self, what: &str) -> Result<String, Malformed> {
        self.space();
        match self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            true => Err(self.wrong(format!("{what} is expected here"))),
            false => self.name(&['_'], what),
        }
    }

    fn access(&mut self) -> Result<Pointcut, Malformed> {
        self.expect("(")?;
        // `struct sk_buff.len` is what C says.
        let _ = self.word("struct") || self.word("union");
        let structure = self.name(&['%', '_'], "a structure's name")?;
        self.expect(".")?;
        let member = self.name(&['%', '_', '.'], "a member's name, or % for any")?;
        let mut how = None;
        if self.take(",") {
            how = Some(if self.word("read") {
                How::Read
            } else if self.word("write") {
                How::Write
            } else {
                return Err(self.wrong("`read` or `write` is expected here"));
            });
        }
        self.expect(")")?;
        Ok(Pointcut::Access { structure, member, how })
    }

    fn name(&mut self, besides: &[char], what: &str) -> Result<String, Malformed> {
        self.space();
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || besides.contains(&c))).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.wrong(format!("{what} is expected here")));
        }
        self.at += end;
        Ok(rest[..end].to_owned())
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
            Pointcut::parse(" access( struct sk_buff . len ,read)&&!within_function(tcp_*)").unwrap();
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
    fn what_is_wrong_is_said_where_it_is() {
        for (text, column, problem) in [
            ("", 0, "a pointcut is expected"),
            ("access(sk_buff)", 14, "`.` is expected"),
            ("access(sk_buff.len, both)", 20, "`read` or `write`"),
            ("access(a.b) within_function(c)", 12, "AND, OR or the end"),
            ("access(a.b", 10, "`)` is expected"),
            ("ANDROID", 0, "a pointcut is expected"),
            ("within_function()", 16, "a name"),
            ("target(skb)", 0, "none is beside it"),
            ("access(a.b) AND x OR target(c)", 16, "local_var(variable, name)"),
            ("access(a.b) OR  target(c)", 16, "none is beside it"),
            ("NOT access(a.b) AND target(c)", 20, "none is beside it"),
            ("(access(a.b) OR within_file(c)) AND target(d)", 36, "none is beside it"),
            ("access(a.b) AND target()", 23, "a name"),
            ("access(a.b) AND target(c%)", 24, "`)` is expected"),
            ("local_var(0)", 10, "a local variable's name"),
            ("local_var(a, )", 13, "a name"),
            ("access(a.b) AND target(c) AND local_var(c)", 30, "`c` is the name"),
            ("é", 0, "a pointcut"),
        ] {
            let wrong = Pointcut::parse(text).unwrap_err();
            assert_eq!(wrong.column, column, "{text}: {wrong}");
            assert!(wrong.problem.contains(problem), "{text}: {wrong}");
        }
        let deep = "(".repeat(100_000);
        assert!(Pointcut::parse(&deep).unwrap_err().problem.contains("nest no deeper"));
    }
}
