//! The native front end: tokens to tree, by recursive descent.
//!
//! A mistake ends the item it is in (a clause, a piece of advice); reading goes on with the next,
//! so that one run tells of several.

use strum::VariantNames as _;

use crate::code::Code;
use crate::diagnostic::{Source, Span};
use crate::grammar::{END_ACTS, Parsed, Parser, TRANSIT_ACTS, expected_of, is_exact, is_operator};
use crate::lexer::{Lexeme, Lexer, SyntaxError};
use crate::parse_state::ParseState;
use crate::syntax::{Act, Advice, Clause, ClauseKind, Exact, Ident, POINTCUTS, When, Xflow};
use crate::trivia::Trivia;

/// Reads one source.
pub(crate) fn file(source: &Source, file: usize, reading: &mut ParseState) {
    let mut parser = Parser::new(Lexer::new(&source.text, file));
    loop {
        let above = parser.lexer.margin();
        if parser.at_end() {
            reading.trivia.end = above;
            return;
        }
        let item = if parser.at_xflow() {
            parser.xflow(reading).map(|xflow| {
                let place = xflow.name.span;
                reading.define(xflow);
                place
            })
        } else if parser.at_include() {
            parser.include(reading)
        } else if parser.lexer.peek().text == "where" {
            parser.where_().and_then(|selection| {
                let place = selection.span;
                reading.select(selection)?;
                Ok(place)
            })
        } else {
            parser.advice(source).map(|advice| {
                let place = advice.name.span;
                reading.aspects.advice.push(advice);
                place
            })
        };
        match item {
            Ok(place) => parser.beside(&mut reading.trivia, place, above),
            Err(error) => {
                reading.error(error);
                parser.skip_item();
                // A bracket too many is behind: else it would be found again.
                parser.accept("}");
            }
        }
    }
}

impl Parser<'_> {
    /// `xflow name {`, not the pointcut `xflow(`.
    fn at_xflow(&self) -> bool {
        let [first, second] = self.lexer.peek_at();
        first.text == "xflow" && second.text != "("
    }

    /// `include name;`
    fn at_include(&self) -> bool {
        let [first, second] = self.lexer.peek_at();
        first.text == "include" && second.word
    }

    fn include(&mut self, reading: &mut ParseState) -> Parsed<Span> {
        self.lexer.next();
        let name = self.ident("what is included")?;
        let place = name.span;
        self.expect(";", "`;`")?;
        if let Some(included) = reading.include(name)? {
            let source = reading.aspects.sources[included].clone();
            file(&source, included, reading);
        }
        Ok(place)
    }

    /// Keeps what stands around the item that ends here.
    fn beside(&mut self, trivia: &mut Trivia, item: Span, above: Vec<String>) {
        trivia.lose(self.lexer.lost.take());
        let margin = trivia.at(item);
        margin.above = above;
        margin.beside = self.lexer.beside();
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

    fn xflow(&mut self, reading: &mut ParseState) -> Parsed<Xflow> {
        self.lexer.next();
        let name = self.ident("the flow's name")?;
        let open = self.expect("{", "`{` after the flow's name")?;
        let mut xflow = Xflow { name, clauses: Vec::new() };
        loop {
            let above = self.lexer.margin();
            if self.at_end() {
                return Err(SyntaxError::new(open.span, "this `{` is never closed"));
            }
            if self.accept("}") {
                reading.trivia.at(xflow.name.span).below = above;
                return Ok(xflow);
            }
            match self.clause() {
                Ok(clause) => {
                    self.beside(&mut reading.trivia, clause.span, above);
                    xflow.push(clause);
                }
                Err(error) => {
                    reading.error(error);
                    self.skip_item();
                }
            }
        }
    }

    /// A clause, still without its name.
    fn clause(&mut self) -> Parsed<Clause> {
        let word = self.lexer.peek();
        let Ok(kind) = word.text.parse::<ClauseKind>() else {
            return Err(expected_of("`start`, `transit`, `quit` or `}`", ClauseKind::VARIANTS, word));
        };
        self.lexer.next();
        let exact = self.exact();
        let pointcut = self.pointcut()?;
        let act = self.act(kind)?;
        Ok(Clause { kind, name: String::new(), span: word.span, pointcut, exact, act })
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
            ";" if !transit => Act::SelectTarget,
            "select" if !transit => {
                self.lexer.next();
                Act::Select(self.key()?)
            }
            "move" | "copy" if transit => {
                let (from, to) = self.handing()?;
                Act::Hand { copy, from, to }
            }
            "split" if transit => {
                let (from, to) = self.handing()?;
                Act::Split { from, to }
            }
            "merge" if transit => {
                let (from, to) = self.handing()?;
                Act::Merge { from, to }
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
                let acts: Vec<_> = TRANSIT_ACTS.iter().map(|act| format!("`{act}`")).collect();
                let what = format!("`AND`, `OR`, or what the flow does here: {}", acts.join(", "));
                return Err(expected_of(&what, &TRANSIT_ACTS, word));
            }
            _ => {
                let what = "`AND`, `OR`, `select` and the key, `action`, or `;`";
                return Err(expected_of(what, &END_ACTS, word));
            }
        };
        self.expect(";", "`;`")?;
        Ok(act)
    }

    /// `X to Y`, after a word to skip; `from` may stand before it.
    fn handing(&mut self) -> Parsed<(Code, Code)> {
        self.lexer.next();
        self.optional_from();
        let from = self.key()?;
        self.expect("to", "`to` and who gets the flow")?;
        Ok((from, self.key()?))
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

    /// Skips the word `from` where it is not itself the beginning of the expression: where something
    /// follows that can begin one.
    fn optional_from(&mut self) {
        let [first, second] = self.lexer.peek_at();
        let begins = second.word && second.text != "to"
            || matches!(second.text, "$" | "(" | "*" | "&" | "~" | "!" | "\"");
        if first.text == "from" && begins {
            self.lexer.next();
        }
    }

    fn advice(&mut self, source: &Source) -> Parsed<Advice> {
        let start = self.lexer.peek();
        let named = self.accept("advice") && self.at_name();
        let name =
            if named { self.ident("a name or a pointcut")? } else { Ident::unnamed(source, start.span) };
        let exact = self.exact();
        let pointcut = self.pointcut()?;
        let when = if self.accept("after") {
            When::After
        } else {
            self.accept("before");
            When::Before
        };
        let open = self.expect("{", "`AND`, `OR`, `before`, `after` or `{`")?;
        let body = self.lexer.c_block(open.span)?;
        Ok(Advice { name, named, pointcut, exact, when, body })
    }

    /// Whether what follows `advice` is its name: not how exact it is, and not its pointcut.
    fn at_name(&self) -> bool {
        let [first, second, third] = self.lexer.peek_at();
        let begins = |of: Lexeme<'_>| {
            POINTCUTS.contains(&of.text) || is_operator(of.text) || matches!(of.text, "(" | "!")
        };
        if !first.word || is_operator(first.text) {
            false
        } else if is_exact(first.text) {
            is_exact(second.text)
        } else {
            second.text != "(" || !POINTCUTS.contains(&first.text) && begins(third)
        }
    }

    /// At how many instructions, if that is said.
    fn exact(&mut self) -> Exact {
        let word = self.lexer.peek().text;
        let found = word.parse::<Exact>();
        if found.is_ok() {
            self.lexer.next();
        }
        found.unwrap_or_default()
    }
}
