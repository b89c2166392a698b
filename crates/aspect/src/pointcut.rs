//! Pointcuts: an expression of AND, OR and NOT over what each kind of pointcut has in its parentheses.

use crate::diagnostic::{Diagnostic, Source};
use crate::grammar::{Parsed, Parser, expected};
use crate::lexer::{self, Lexeme, Lexer, SyntaxError, Until};
use crate::parse_state::suggest;
use crate::syntax::{
    Access, FunctionName, How, Ident, POINTCUTS, Pointcut, Renamed, Tracepoint, UserFunction, XflowTest,
};

/// Pointcuts nest no deeper, so that no text can exhaust the stack.
const MAX_DEPTH: usize = 64;

/// Reads a pointcut alone, in the native form, as it may be on a command line. What can be wrong with it besides depends
/// on what it is for.
///
/// # Errors
///
/// The first mistake.
pub fn pointcut(source: &Source) -> Result<Pointcut, Diagnostic> {
    let mut parser = Parser::new(Lexer::new(&source.text, 0));
    let read = parser.pointcut().and_then(|pointcut| {
        let rest = parser.lexer.peek();
        if parser.at_end() { Ok(pointcut) } else { Err(expected("`AND`, `OR` or the end", rest)) }
    });
    read.map_err(|bad| bad.diagnostic(|span, message| Diagnostic::at(source, span, message)))
}

impl<'a> Parser<'a> {
    pub(crate) fn pointcut(&mut self) -> Parsed<Pointcut> {
        let mut parts = vec![self.conjunction()?];
        while matches!(self.lexer.peek().text, "OR" | "||") {
            self.lexer.next();
            parts.push(self.conjunction()?);
        }
        Ok(alone_or(parts, Pointcut::Or))
    }

    fn conjunction(&mut self) -> Parsed<Pointcut> {
        let mut parts = vec![self.unary()?];
        while matches!(self.lexer.peek().text, "AND" | "&&") {
            self.lexer.next();
            parts.push(self.unary()?);
        }
        Ok(alone_or(parts, Pointcut::And))
    }

    fn unary(&mut self) -> Parsed<Pointcut> {
        let next = self.lexer.peek();
        if self.depth == MAX_DEPTH {
            return Err(SyntaxError::new(
                next.span,
                format!("this pointcut nests deeper than {MAX_DEPTH} levels"),
            ));
        }
        self.depth += 1;
        let result = match next.text {
            "NOT" | "!" => {
                self.lexer.next();
                self.unary().map(|part| Pointcut::Not(Box::new(part)))
            }
            "(" => {
                self.lexer.next();
                self.pointcut().and_then(|inner| {
                    self.expect(")", "`AND`, `OR` or `)`")?;
                    Ok(inner)
                })
            }
            _ => self.atom(),
        };
        self.depth -= 1;
        result
    }

    fn atom(&mut self) -> Parsed<Pointcut> {
        let [word, bracket] = self.lexer.peek_at();
        if !POINTCUTS.contains(&word.text) || bracket.text != "(" {
            let known = suggest(word.text, &POINTCUTS, |name| format!("`{name}(…)`"));
            return Err(expected("a pointcut", word).with_help(known));
        }
        self.lexer.next();
        self.lexer.next();
        let mut atom = match word.text {
            "execution" => Pointcut::Execution(self.names(Self::function_name)?),
            "returning" => Pointcut::Returning(self.names(Self::function_name)?),
            "access" => Pointcut::Access(self.access()?),
            "tracepoint" => Pointcut::Tracepoint(self.tracepoint()?),
            "user" => Pointcut::User(self.user_function()?),
            "within_function" => Pointcut::WithinFunction(self.names(Self::function_name)?),
            "within_file" => Pointcut::WithinFile(self.names(Self::path)?),
            "target" => Pointcut::Target(self.ident("a name for the structure's address")?),
            "local_var" => Pointcut::LocalVar(self.local_var()?),
            "arg" => Pointcut::Arg(self.arg()?),
            "xflow" => Pointcut::Xflow(self.xflow_test()?),
            "pid" => self.pid()?,
            "comm" => Pointcut::Comm(self.thread_name()?),
            _ => Pointcut::If(self.lexer.c_expression(Until::Comma)?),
        };
        self.expect(")", "`)`")?;
        match &mut atom {
            Pointcut::Execution(names)
            | Pointcut::Returning(names)
            | Pointcut::WithinFunction(names)
            | Pointcut::WithinFile(names) => {
                if let (Some(domain), _) = self.domain(false)? {
                    for name in names {
                        name.domain.get_or_insert_with(|| domain.clone());
                    }
                }
            }
            Pointcut::Access(access) => (access.domain, _) = self.domain(false)?,
            Pointcut::Tracepoint(at) => (at.domain, at.optional) = self.domain(true)?,
            Pointcut::User(at) => (at.domain, at.optional) = self.domain(true)?,
            _ => {}
        }
        Ok(atom)
    }

    fn names<T>(&mut self, read: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut names = vec![read(self)?];
        while self.accept(",") {
            names.push(read(self)?);
        }
        Ok(names)
    }

    fn function_name(&mut self) -> Parsed<FunctionName> {
        let word = self.word("a function's name")?;
        let mut alternatives = Vec::new();
        while self.accept("|") {
            let other = self.word("another name of the function")?;
            if let Some(pattern) = [word, other].into_iter().find(|word| word.text.contains('%')) {
                let message = "a name with alternatives is one function's: `%` cannot be in it";
                return Err(SyntaxError::new(pattern.span, message));
            }
            alternatives.push(other.text.to_owned());
        }
        let (domain, optional) = self.domain(true)?;
        Ok(FunctionName { pattern: word.text.to_owned(), alternatives, domain, optional, span: word.span })
    }

    fn path(&mut self) -> Parsed<FunctionName> {
        let path = self.run("a path, or the end of one", |c| is_path(c) || c == '%')?;
        let (domain, _) = self.domain(false)?;
        let pattern = path.text.to_owned();
        Ok(FunctionName { pattern, alternatives: Vec::new(), domain, optional: false, span: path.span })
    }

    fn word(&mut self, what: &str) -> Parsed<Lexeme<'a>> {
        let next = self.lexer.peek();
        if next.word { Ok(self.lexer.next()) } else { Err(expected(what, next)) }
    }

    /// At least one of these characters.
    fn run(&mut self, what: &str, keep: impl Fn(char) -> bool) -> Parsed<Lexeme<'a>> {
        let run = self.lexer.run(keep);
        if run.text.is_empty() { Err(expected(what, self.lexer.peek())) } else { Ok(run) }
    }

    /// `@` and a domain, `?` where something may be lacking, both, or nothing.
    fn domain(&mut self, may_lack: bool) -> Parsed<(Option<Ident>, bool)> {
        let (mut domain, mut lacking) = (None, false);
        loop {
            match self.lexer.peek().text {
                "@" if domain.is_none() => {
                    self.lexer.next();
                    let name = self.lexer.domain();
                    if name.text.is_empty() {
                        return Err(expected("a domain's name after `@`", self.lexer.peek()));
                    }
                    domain = Some(Ident { text: name.text.to_owned(), span: name.span });
                }
                "?" if may_lack && !lacking => {
                    self.lexer.next();
                    lacking = true;
                }
                _ => return Ok((domain, lacking)),
            }
        }
    }

    fn access(&mut self) -> Parsed<Access> {
        // `struct sk_buff` is what C says.
        let [first, second] = self.lexer.peek_at();
        if matches!(first.text, "struct" | "union") && second.word {
            self.lexer.next();
        }
        let structure = self.word("a structure's name")?;
        let mut span = structure.span;
        let mut member = String::new();
        while member.is_empty() || self.lexer.peek().text == "." {
            self.expect(".", "`.` and a member's name, or `.%` for any")?;
            let name = self.word("a member's name, or `%` for any")?;
            if name.span.line == span.line {
                span.length = name.span.column + name.span.length - span.column;
            }
            member += if member.is_empty() { "" } else { "." };
            member += name.text;
        }
        let how = if self.accept(",") {
            let word = self.lexer.peek();
            let how = match word.text {
                "read" => How::Read,
                "write" => How::Write,
                _ => return Err(expected("`read` or `write`", word)),
            };
            self.lexer.next();
            Some(how)
        } else {
            None
        };
        Ok(Access { structure: structure.text.to_owned(), member, how, domain: None, span })
    }

    fn tracepoint(&mut self) -> Parsed<Tracepoint> {
        let is_category = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let category =
            self.run("what the kernel lists the tracepoint under, such as `sched`", is_category)?;
        self.expect(":", "`:` and the tracepoint's name")?;
        let name = self.ident("the tracepoint's name")?;
        let span = name.span;
        let category = category.text.to_owned();
        Ok(Tracepoint { category, name: name.text, domain: None, optional: false, span })
    }

    fn user_function(&mut self) -> Parsed<UserFunction> {
        let what = "the absolute path of a program or library";
        if !self.lexer.peek().text.starts_with('/') {
            return Err(expected(what, self.lexer.peek()));
        }
        let path = self.run(what, is_path)?;
        self.expect(":", "`:` and the function's name")?;
        let is_symbol = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        let function = self.run("the function's name", is_symbol)?;
        Ok(UserFunction {
            path: path.text.to_owned(),
            function: function.text.to_owned(),
            domain: None,
            optional: false,
            span: function.span,
        })
    }

    fn local_var(&mut self) -> Parsed<Renamed> {
        let of = self.ident("a variable's name")?;
        let name = if self.accept(",") { Some(self.ident("another name for the variable")?) } else { None };
        Ok(Renamed { of, name })
    }

    fn arg(&mut self) -> Parsed<Renamed> {
        let next = self.lexer.peek();
        let what = "an argument's name, or its number from 0";
        let of = if next.text.starts_with(|c: char| c.is_ascii_digit()) {
            next.text.parse::<u32>().map_err(|_| expected(what, next))?;
            self.lexer.next();
            Ident { text: next.text.to_owned(), span: next.span }
        } else {
            self.ident(what)?
        };
        self.expect(",", "`,` and a name for the argument")?;
        Ok(Renamed { of, name: Some(self.ident("a name for the argument")?) })
    }

    fn xflow_test(&mut self) -> Parsed<XflowTest> {
        let flow = self.ident("a flow's name")?;
        self.expect(",", "`,` and the key to look for")?;
        let key = self.lexer.c_expression(Until::Comma)?;
        let id = if self.accept(",") {
            Some(self.ident("a name for the variable that holds the flow's ID")?)
        } else {
            None
        };
        Ok(XflowTest { flow, key, id })
    }

    fn pid(&mut self) -> Parsed<Pointcut> {
        let word = self.word("the number of a process")?;
        let pid = word.text.parse().map_err(|_| expected("the number of a process", word))?;
        Ok(Pointcut::Pid(pid, word.span))
    }

    /// A plain word, or anything as a string.
    fn thread_name(&mut self) -> Parsed<Ident> {
        let next = self.lexer.peek();
        if !next.text.starts_with('"') {
            let name = self.run("a thread's name", is_thread_name)?;
            return Ok(Ident { text: name.text.to_owned(), span: name.span });
        }
        if !lexer::literal(next.text, '"').1 {
            return Err(SyntaxError::new(next.span, "this string is not closed on its line"));
        }
        self.lexer.next();
        let mut text = String::new();
        let mut characters = next.text[1..next.text.len() - 1].chars();
        while let Some(c) = characters.next() {
            let c = if c == '\\' { characters.next().unwrap_or(c) } else { c };
            if c.is_control() {
                return Err(SyntaxError::new(next.span, "a thread's name has no control characters"));
            }
            text.push(c);
        }
        Ok(Ident { text, span: next.span })
    }
}

/// What a path can be written with.
fn is_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '/')
}

/// What a thread's name can be written with outside of a string.
pub(crate) fn is_thread_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '%')
}

fn alone_or(mut parts: Vec<Pointcut>, combine: fn(Vec<Pointcut>) -> Pointcut) -> Pointcut {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            combine(parts)
        }
    }
}
