//! The native front end: tokens to tree, by recursive descent.
//!
//! A mistake ends the item it is in (a clause, a piece of advice); reading goes on with the next,
//! so that one run tells of several.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Span};
use crate::lexer::{Bad, Lexeme, Lexer, Until};
use crate::syntax::{
    Act, Advice, Aspects, Clause, ClauseKind, Exact, FunctionName, Ident, POINTCUTS, Pointcut, When, Xflow,
    XflowTest,
};

/// Pointcuts nest no deeper, so that no text can exhaust the stack.
const MAX_DEPTH: usize = 64;

/// What is wrong with the item, and where.
type Parsed<T> = Result<T, Bad>;

/// Reads one source into `aspects`.
pub(crate) fn file(aspects: &mut Aspects, file: usize, errors: &mut Vec<Diagnostic>) {
    let source = aspects.sources[file].clone();
    let mut parser = Parser { lexer: Lexer::new(&source.text, file), depth: 0 };
    let mut bad = Vec::new();
    while !parser.at_end() {
        let result = if parser.at_xflow() {
            parser.xflow(&mut bad).map(|xflow| aspects.xflows.push(xflow))
        } else {
            parser.advice(&source.name).map(|advice| aspects.advice.push(advice))
        };
        if let Err(error) = result {
            bad.push(error);
            parser.skip_item();
            // A bracket too many is behind: else it would be found again.
            if parser.lexer.peek().text == "}" {
                parser.lexer.next();
            }
        }
    }
    errors.extend(bad.into_iter().map(|bad| Diagnostic::at(&source, bad.span, bad.message)));
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn at_end(&self) -> bool {
        let next = self.lexer.peek();
        !next.word && next.text.is_empty()
    }

    /// `xflow name {`, not the pointcut `xflow(`.
    fn at_xflow(&self) -> bool {
        let (first, second) = self.lexer.peek2();
        first.text == "xflow" && second.text != "("
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.lexer.peek().text == text;
        if found {
            self.lexer.next();
        }
        found
    }

    fn expect(&mut self, text: &str, what: &str) -> Parsed<Lexeme<'a>> {
        let next = self.lexer.peek();
        if next.text == text { Ok(self.lexer.next()) } else { Err(expected(what, next)) }
    }

    /// A name that C knows as well.
    fn ident(&mut self, what: &str) -> Parsed<Ident> {
        let next = self.lexer.peek();
        if !next.word || next.text.contains('%') || next.text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(expected(what, next));
        }
        self.lexer.next();
        Ok(Ident { text: next.text.to_owned(), span: next.span })
    }

    /// Goes behind the item with the mistake: behind its `;` or block, or before the `}` of what it is in.
    fn skip_item(&mut self) {
        let mut depth = 0usize;
        while !self.at_end() {
            match self.lexer.peek().text {
                "}" if depth == 0 => return,
                "}" if depth == 1 => {
                    self.lexer.next();
                    return;
                }
                "}" => depth -= 1,
                "{" => depth += 1,
                ";" if depth == 0 => {
                    self.lexer.next();
                    return;
                }
                _ => {}
            }
            self.lexer.next();
        }
    }

    fn xflow(&mut self, bad: &mut Vec<Bad>) -> Parsed<Xflow> {
        self.lexer.next();
        let name = self.ident("the flow's name")?;
        let open = self.expect("{", "`{` after the flow's name")?;
        let mut clauses: Vec<Clause> = Vec::new();
        loop {
            if self.at_end() {
                return Err(Bad { span: open.span, message: "this `{` is never closed".into() });
            }
            if self.accept("}") {
                return Ok(Xflow { name, clauses });
            }
            match self.clause() {
                Ok(mut clause) => {
                    let same = clauses.iter().filter(|other| other.kind == clause.kind).count();
                    clause.name = format!("{}.{}{}", name.text, clause.kind.word(), same + 1);
                    clauses.push(clause);
                }
                Err(error) => {
                    bad.push(error);
                    self.skip_item();
                }
            }
        }
    }

    /// A clause, still without its name.
    fn clause(&mut self) -> Parsed<Clause> {
        let word = self.lexer.peek();
        let kind = match word.text {
            "start" => ClauseKind::Start,
            "transit" => ClauseKind::Transit,
            "quit" => ClauseKind::Quit,
            _ => return Err(expected("`start`, `transit`, `quit` or `}`", word)),
        };
        self.lexer.next();
        let pointcut = self.pointcut()?;
        let act = self.act(kind)?;
        Ok(Clause { kind, name: String::new(), span: word.span, pointcut, exact: Exact::Every, act })
    }

    fn act(&mut self, kind: ClauseKind) -> Parsed<Act> {
        let word = self.lexer.peek();
        let transit = kind == ClauseKind::Transit;
        let copy = word.text.ends_with("copy");
        let act = match word.text {
            "action" => {
                self.lexer.next();
                let open = self.expect("{", "`{` after `action`")?;
                let code = self.lexer.c_block(open.span)?;
                self.accept(";");
                return Ok(Act::Action(code));
            }
            "select" if !transit => {
                self.lexer.next();
                Act::Select(self.key()?)
            }
            "move" | "copy" if transit => {
                self.lexer.next();
                self.optional_from();
                let from = self.key()?;
                self.expect("to", "`to` and who gets the flow")?;
                Act::Hand { copy, from, to: self.key()? }
            }
            "xin_move" | "xin_copy" if transit => {
                let (carrier, from, key) = self.crossing()?;
                Act::Xin { copy, carrier, from, key }
            }
            "xout_move" | "xout_copy" if transit => {
                let (carrier, key, to) = self.crossing()?;
                Act::Xout { copy, carrier, key, to }
            }
            _ if transit => {
                let what = "`AND`, `OR`, or what the flow does here: `move`, `copy`, `xin_move`, \
                            `xin_copy`, `xout_move`, `xout_copy`, `action`";
                return Err(expected(what, word));
            }
            _ => return Err(expected("`AND`, `OR`, `select` and the key, or `action`", word)),
        };
        self.expect(";", "`;`")?;
        Ok(act)
    }

    /// `CARRIER from X to Y`, after a word to skip.
    fn crossing(&mut self) -> Parsed<(Ident, Code, Code)> {
        self.lexer.next();
        let carrier = self.ident("the carrier's name")?;
        self.expect("from", "`from`")?;
        let from = self.key()?;
        self.expect("to", "`to`")?;
        Ok((carrier, from, self.key()?))
    }

    fn key(&mut self) -> Parsed<Code> {
        self.lexer.c_expression(Until::ToOrSemicolon)
    }

    /// Skips the word `from` where it is not itself the beginning of the expression: where something
    /// follows that can begin one.
    fn optional_from(&mut self) {
        let (first, second) = self.lexer.peek2();
        let begins = second.word && second.text != "to"
            || matches!(second.text, "$" | "(" | "*" | "&" | "~" | "!" | "\"");
        if first.text == "from" && begins {
            self.lexer.next();
        }
    }

    fn advice(&mut self, file: &str) -> Parsed<Advice> {
        let start = self.lexer.peek();
        let mut name = None;
        if self.accept("advice") {
            let (first, second) = self.lexer.peek2();
            if first.word && second.text != "(" && !is_operator(first.text) {
                name = Some(self.ident("a name or a pointcut")?);
            }
        }
        let named = name.is_some();
        let name = name.unwrap_or_else(|| Ident {
            text: format!("{}:{}", file.rsplit('/').next().unwrap_or(file), start.span.line),
            span: start.span,
        });
        let pointcut = self.pointcut()?;
        let when = if self.accept("after") {
            When::After
        } else {
            self.accept("before");
            When::Before
        };
        let open = self.expect("{", "`AND`, `OR`, `before`, `after` or `{`")?;
        let body = self.lexer.c_block(open.span)?;
        Ok(Advice { name, named, pointcut, exact: Exact::Every, when, body })
    }

    fn pointcut(&mut self) -> Parsed<Pointcut> {
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
            let message = format!("this pointcut nests deeper than {MAX_DEPTH} levels");
            return Err(Bad { span: next.span, message });
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
        let (word, bracket) = self.lexer.peek2();
        if !POINTCUTS.contains(&word.text) || bracket.text != "(" {
            let known: Vec<_> = POINTCUTS.iter().map(|name| format!("`{name}(…)`")).collect();
            return Err(expected(&format!("a pointcut ({})", known.join(", ")), word));
        }
        self.lexer.next();
        self.lexer.next();
        let atom = match word.text {
            "execution" => Pointcut::Execution(self.function_names()?),
            "returning" => Pointcut::Returning(self.function_names()?),
            "xflow" => Pointcut::Xflow(self.xflow_test()?),
            _ => Pointcut::If(self.lexer.c_expression(Until::Comma)?),
        };
        self.expect(")", "`)`")?;
        Ok(
            if let Pointcut::Execution(names) | Pointcut::Returning(names) = &atom
                && self.lexer.peek().text == "@"
            {
                let domain = self.at_domain()?;
                let all = names.iter().cloned().map(|mut name| {
                    name.domain.get_or_insert_with(|| domain.clone());
                    name
                });
                match &atom {
                    Pointcut::Execution(_) => Pointcut::Execution(all.collect()),
                    _ => Pointcut::Returning(all.collect()),
                }
            } else {
                atom
            },
        )
    }

    fn function_names(&mut self) -> Parsed<Vec<FunctionName>> {
        let mut names = Vec::new();
        loop {
            let word = self.lexer.peek();
            if !word.word {
                return Err(expected("a function's name", word));
            }
            self.lexer.next();
            let mut name = FunctionName {
                pattern: word.text.to_owned(),
                domain: None,
                optional: false,
                span: word.span,
            };
            loop {
                match self.lexer.peek().text {
                    "@" if name.domain.is_none() => name.domain = Some(self.at_domain()?),
                    "?" if !name.optional => {
                        self.lexer.next();
                        name.optional = true;
                    }
                    _ => break,
                }
            }
            names.push(name);
            if !self.accept(",") {
                return Ok(names);
            }
        }
    }

    fn at_domain(&mut self) -> Parsed<Ident> {
        self.lexer.next();
        let name = self.lexer.domain();
        if name.text.is_empty() {
            return Err(expected("a domain's name after `@`", self.lexer.peek()));
        }
        Ok(Ident { text: name.text.to_owned(), span: name.span })
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

fn is_operator(word: &str) -> bool {
    matches!(word, "AND" | "OR" | "NOT")
}

fn expected(what: &str, found: Lexeme<'_>) -> Bad {
    let found_text = if found.text.is_empty() { "the end".into() } else { format!("`{}`", found.text) };
    let span = Span { length: found.span.length.max(1), ..found.span };
    Bad { span, message: format!("expected {what}, found {found_text}") }
}
