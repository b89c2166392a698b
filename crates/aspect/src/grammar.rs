//! What both forms of the language have in common: names, keys, and what is told where something else is found.
//! Pointcuts are read in `pointcut`.

use crate::code::Code;
use crate::diagnostic::Span;
use crate::lexer::{Lexeme, Lexer, SyntaxError, Until};
use crate::parse_state::suggest;
use crate::syntax::{Exact, Ident};

/// What is wrong with the item, and where.
pub(crate) type Parsed<T> = Result<T, SyntaxError>;

/// What a clause of each kind can do, for messages.
pub(crate) const TRANSIT_ACTS: [&str; 9] =
    ["move", "copy", "split", "merge", "xin_move", "xin_copy", "xout_move", "xout_copy", "action"];
pub(crate) const END_ACTS: [&str; 2] = ["select", "action"];

pub(crate) struct Parser<'a> {
    pub(crate) lexer: Lexer<'a>,
    /// How deep the pointcut that is being read nests.
    pub(crate) depth: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(lexer: Lexer<'a>) -> Self {
        Self { lexer, depth: 0 }
    }

    pub(crate) fn at_end(&self) -> bool {
        let next = self.lexer.peek();
        !next.word && next.text.is_empty()
    }

    pub(crate) fn accept(&mut self, text: &str) -> bool {
        let found = self.lexer.peek().text == text;
        if found {
            self.lexer.next();
        }
        found
    }

    pub(crate) fn expect(&mut self, text: &str, what: &str) -> Parsed<Lexeme<'a>> {
        let next = self.lexer.peek();
        if next.text == text { Ok(self.lexer.next()) } else { Err(expected(what, next)) }
    }

    /// A name that C knows as well.
    pub(crate) fn ident(&mut self, what: &str) -> Parsed<Ident> {
        let next = self.lexer.peek();
        if !next.word || next.text.contains('%') || next.text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(expected(what, next));
        }
        self.lexer.next();
        Ok(Ident { text: next.text.to_owned(), span: next.span })
    }

    pub(crate) fn key(&mut self) -> Parsed<Code> {
        self.lexer.c_expression(Until::ToOrSemicolon)
    }
}

/// Words that a name cannot be.
pub(crate) fn is_operator(word: &str) -> bool {
    matches!(word, "AND" | "OR" | "NOT")
}

/// Words that stand before a pointcut.
pub(crate) fn is_exact(word: &str) -> bool {
    word.parse::<Exact>().is_ok()
}

pub(crate) fn expected(what: &str, found: Lexeme<'_>) -> SyntaxError {
    let found_text = if found.text.is_empty() { "the end".into() } else { format!("`{}`", found.text) };
    let span = Span { length: found.span.length.max(1), ..found.span };
    SyntaxError::new(span, format!("expected {what}, found {found_text}"))
}

/// The same, where one of these words may have been meant.
pub(crate) fn expected_of(what: &str, known: &[&str], found: Lexeme<'_>) -> SyntaxError {
    let help = suggest(found.text, known, |name| format!("`{name}`"));
    let bad = expected(what, found);
    // All that there is is said already.
    if help.starts_with("did you mean") { bad.with_help(help) } else { bad }
}
