//! What can be asked of an index: `access(sk_buff.len, read) AND target(skb) AND within_function(tcp_%)`. It is a
//! pointcut in the language of aspects, of which an index answers what is about instructions.

use xweave_aspect::syntax::{FunctionName, Ident, Pointcut};
use xweave_aspect::{Diagnostic, Source, Span};

/// Reads a pointcut that an index can be asked for: one over instructions, of one kernel or program.
///
/// # Errors
///
/// What is wrong, where, and what would be right.
pub fn question(text: &str) -> Result<Pointcut, Diagnostic> {
    let source = Source { name: "pointcut".to_owned(), text: text.to_owned() };
    let pointcut = xweave_aspect::pointcut(&source)?;
    let mut check = Check { source: &source, alone: Vec::new() };
    check.part(&pointcut)?;
    match check.alone.first() {
        None => Ok(pointcut),
        Some(at) => {
            let message =
                "`target` is the structure that `access` selects, and there is no `access` beside it";
            Err(check.wrong(*at, message).with_help("add `AND access(…)`, or use `local_var(…)`"))
        }
    }
}

/// A pointcut being checked.
struct Check<'s> {
    source: &'s Source,
    /// Where targets are that no access() is beside so far.
    alone: Vec<Span>,
}

impl Check<'_> {
    fn wrong(&self, at: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(self.source, at, message)
    }

    fn part(&mut self, of: &Pointcut) -> Result<(), Diagnostic> {
        match of {
            Pointcut::And(parts) => self.all(parts),
            Pointcut::Or(parts) => parts.iter().try_for_each(|part| self.part(part)),
            Pointcut::Not(part) => self.part(part),
            Pointcut::Access(access) => self.here(access.domain.as_ref()),
            Pointcut::WithinFunction(names) | Pointcut::WithinFile(names) => {
                names.iter().try_for_each(|FunctionName { domain, .. }| self.here(domain.as_ref()))
            }
            Pointcut::Target(name) => {
                self.alone.push(name.span);
                Ok(())
            }
            Pointcut::LocalVar(_) => Ok(()),
            other => {
                let help = "an index has instructions: ask by `access(…)`, `target(…)`, `local_var(…)`, \
                            `within_function(…)` and `within_file(…)`";
                Err(self.wrong(other.place(), "no instruction is selected by this").with_help(help))
            }
        }
    }

    fn all(&mut self, parts: &[Pointcut]) -> Result<(), Diagnostic> {
        let alone = self.alone.len();
        let mut bound: Vec<&Ident> = Vec::new();
        for part in parts {
            self.part(part)?;
            let given = given_names(part);
            if let Some(twice) = given.iter().find(|name| bound.iter().any(|other| other.text == name.text)) {
                let message = format!("the name `{}` is given twice", twice.text);
                return Err(self.wrong(twice.span, message).with_help("choose another for one of them"));
            }
            bound.extend(given);
        }
        if parts.iter().any(has_access) {
            self.alone.truncate(alone);
        }
        Ok(())
    }

    fn here(&self, domain: Option<&Ident>) -> Result<(), Diagnostic> {
        let Some(domain) = domain else { return Ok(()) };
        let message = format!("`@{}` names a domain, and one kernel or program is asked here", domain.text);
        Err(self.wrong(domain.span, message).with_help("leave it out"))
    }
}

/// Whether all join points of this are those of some access().
fn has_access(of: &Pointcut) -> bool {
    match of {
        Pointcut::Access(_) => true,
        Pointcut::And(parts) => parts.iter().any(has_access),
        Pointcut::Or(parts) => parts.iter().all(has_access),
        _ => false,
    }
}

/// The names that something has at a join point of this: none of what is under a NOT.
fn given_names(of: &Pointcut) -> Vec<&Ident> {
    match of {
        Pointcut::Target(name) => vec![name],
        Pointcut::LocalVar(of) => vec![of.given()],
        Pointcut::And(parts) | Pointcut::Or(parts) => parts.iter().flat_map(given_names).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bound_beside_an_access_or_alone() {
        for text in [
            "target(a) AND access(b.c)",
            "(access(b.c) OR access(b.d, read)) AND target(a)",
            "access(b.c) AND (target(a) OR within_file(f))",
            "access(b.c) AND target(a) OR access(b.d) AND target(a)",
            "access(b.c) AND NOT target(a)",
            "access(b.c) AND NOT local_var(a) AND target(a)",
            "local_var( sk )",
            "within_function(a, b_%) AND within_file(drivers/.../x.c)",
        ] {
            question(text).unwrap();
        }
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
            let wrong = question(text).unwrap_err();
            assert_eq!((wrong.line, wrong.column), (1, column), "{text}: {wrong}");
            assert!(wrong.message.contains(message), "{text}: {wrong}");
        }
        let deep = "(".repeat(100_000);
        assert!(question(&deep).unwrap_err().message.contains("nests deeper"));
    }
}
