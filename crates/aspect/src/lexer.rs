//! Text to tokens: two languages in one file, the native one around C.
//!
//! The parser knows which of the two it is in, so tokens are taken one at a time.

use crate::code::{self, Code, Special, Token, TokenKind};
use crate::diagnostic::{Diagnostic, Span};

/// A token of the native language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lexeme<'a> {
    /// Whether it is made of letters, digits, `_` and `%`; otherwise it is a symbol, or the end.
    pub word: bool,
    /// As written; empty at the end.
    pub text: &'a str,
    pub span: Span,
}

/// A mistake in an item.
pub(crate) struct SyntaxError {
    pub span: Span,
    pub message: String,
    pub help: Option<String>,
}

impl SyntaxError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    pub(crate) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The same for people, `at` being an error at a place in its source.
    pub(crate) fn diagnostic(self, at: impl FnOnce(Span, String) -> Diagnostic) -> Diagnostic {
        let diagnostic = at(self.span, self.message);
        self.help.into_iter().fold(diagnostic, Diagnostic::with_help)
    }
}

/// A place in a text where the file that it comes from has more characters: its columns are counted there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// How many bytes of the text follow it.
    pub before: usize,
    pub columns: u32,
}

/// Where a C expression ends, besides at an unmatched closing bracket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// At a comma.
    Comma,
    /// At a semicolon or the word `to`.
    ToOrSemicolon,
}

#[derive(Clone, Copy)]
pub(crate) struct Lexer<'a> {
    rest: &'a str,
    file: usize,
    line: u32,
    column: u32,
    gaps: &'a [Gap],
    /// The first comment that was skipped between tokens, where the tree has no place for it.
    pub(crate) lost: Option<Span>,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, file: usize) -> Self {
        Self::inside(text, Span { file, line: 1, column: 1, length: 1 }, &[])
    }

    /// Reads a text that lies at `place` in its file.
    pub(crate) fn inside(text: &'a str, place: Span, gaps: &'a [Gap]) -> Self {
        let Span { file, line, column, .. } = place;
        let mut lexer = Self { rest: text, file, line, column, gaps, lost: None };
        lexer.cross(text.len());
        lexer
    }

    /// Counts the columns of the gaps that have been reached where `left` bytes follow.
    fn cross(&mut self, left: usize) {
        while let Some((gap, later)) = self.gaps.split_first().filter(|(gap, _)| gap.before >= left) {
            self.column = self.column.saturating_add(gap.columns);
            self.gaps = later;
        }
    }

    /// An empty span at the present place.
    pub(crate) fn here(&self) -> Span {
        Span { file: self.file, line: self.line, column: self.column, length: 1 }
    }

    /// Takes `bytes` of text, which end at a character's end.
    fn take(&mut self, bytes: usize) -> (&'a str, Span) {
        let mut span = self.here();
        let (text, rest) = self.rest.split_at(bytes);
        let mut left = self.rest.len();
        self.rest = rest;
        for c in text.chars() {
            if c == '\n' {
                self.line = self.line.saturating_add(1);
                self.column = 1;
            } else {
                self.column = self.column.saturating_add(1);
            }
            left -= c.len_utf8();
            self.cross(left);
        }
        let first_line = text.split('\n').next().unwrap_or("");
        span.length = u32::try_from(first_line.chars().count()).unwrap_or(u32::MAX);
        (text, span)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> (&'a str, Span) {
        self.take(self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len()))
    }

    /// Takes a comment, from `#` or `//` to the line's end.
    fn comment(&mut self) -> Option<(&'a str, Span)> {
        let found = self.rest.starts_with('#') || self.rest.starts_with("//");
        found.then(|| self.take_while(|c| c != '\n'))
    }

    /// Skips blanks and comments.
    fn skip_space(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            match self.comment() {
                Some((_, span)) => self.lost = self.lost.or(Some(span)),
                None => return,
            }
        }
    }

    /// Takes what stands above an item: its comments, and an empty line where there are any.
    pub(crate) fn margin(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let (blank, _) = self.take_while(char::is_whitespace);
            // What is before ends with its line.
            if blank.matches('\n').count() > 1 {
                lines.push(String::new());
            }
            match self.comment() {
                Some((text, _)) => lines.push(text.trim_end().to_owned()),
                None => return lines,
            }
        }
    }

    /// Takes a comment that follows on the same line.
    pub(crate) fn beside(&mut self) -> Option<String> {
        self.take_while(|c| c != '\n' && c.is_whitespace());
        self.comment().map(|(text, _)| text.trim_end().to_owned())
    }

    /// Takes the next native token.
    pub(crate) fn next(&mut self) -> Lexeme<'a> {
        self.skip_space();
        let Some(first) = self.rest.chars().next() else {
            return Lexeme { word: false, text: "", span: self.here() };
        };
        let word = is_word(first);
        let (text, span) = if word {
            self.take_while(is_word)
        } else if self.rest.starts_with("&&") || self.rest.starts_with("||") {
            self.take(2)
        } else if first == '"' {
            let (length, _) = literal(self.rest, first);
            self.take(length)
        } else {
            self.take(first.len_utf8())
        };
        Lexeme { word, text, span }
    }

    /// The next native token, left where it is.
    pub(crate) fn peek(&self) -> Lexeme<'a> {
        let mut copy = *self;
        copy.next()
    }

    /// The next native tokens, left where they are.
    pub(crate) fn peek_at<const N: usize>(&self) -> [Lexeme<'a>; N] {
        let mut copy = *self;
        std::array::from_fn(|_| copy.next())
    }

    /// Takes a domain's name, which may have dots and hyphens, and follows `@` directly.
    pub(crate) fn domain(&mut self) -> Lexeme<'a> {
        let (text, span) = self.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        Lexeme { word: true, text, span }
    }

    /// Takes a run of these characters: a path, the name of a thread.
    pub(crate) fn run(&mut self, keep: impl Fn(char) -> bool) -> Lexeme<'a> {
        self.skip_space();
        let (text, span) = self.take_while(keep);
        Lexeme { word: true, text, span }
    }

    /// Takes C up to the bracket that closes one already taken at `open`, and that bracket.
    pub(crate) fn c_block(&mut self, open: Span) -> Result<Code, SyntaxError> {
        let tokens = self.c_tokens(None)?;
        if self.rest.is_empty() {
            return Err(SyntaxError::new(open, "this `{` is never closed"));
        }
        if !self.rest.starts_with('}') {
            return Err(SyntaxError::new(self.here(), "this closes nothing: `}` is due"));
        }
        let place = self.here();
        self.take(1);
        Ok(Code::block(tokens, place))
    }

    /// Takes everything as the inside of a block.
    pub(crate) fn c_rest(&mut self) -> Result<Code, SyntaxError> {
        let tokens = self.c_tokens(None)?;
        match self.rest.chars().next() {
            None => Ok(Code::block(tokens, self.here())),
            Some(bracket) => Err(SyntaxError::new(self.here(), format!("this `{bracket}` closes nothing"))),
        }
    }

    /// Takes a C expression, and leaves what ends it.
    pub(crate) fn c_expression(&mut self, until: Until) -> Result<Code, SyntaxError> {
        let tokens = self.c_tokens(Some(until))?;
        let outside = |token: &&Token| token.kind == TokenKind::Space;
        let around = tokens.iter().take_while(outside).chain(tokens.iter().rev().take_while(outside));
        if let Some(comment) = around.into_iter().find(|token| !token.text.trim().is_empty()) {
            self.lost = self.lost.or(Some(comment.span));
        }
        let code = Code::trimmed(tokens, self.here());
        if code.is_empty() {
            return Err(SyntaxError::new(self.here(), "an expression is missing here"));
        }
        Ok(code)
    }

    /// Takes everything, as C.
    pub(crate) fn all(&mut self) -> Vec<Token> {
        let mut tokens = Vec::new();
        while let Some(first) = self.rest.chars().next() {
            let place = self.rest;
            let token = self.c_token(first).unwrap_or_else(|bad| {
                let text = place[..place.len() - self.rest.len()].to_owned();
                Token { kind: TokenKind::Symbol, text, span: bad.span }
            });
            tokens.push(token);
        }
        tokens
    }

    fn c_tokens(&mut self, until: Option<Until>) -> Result<Vec<Token>, SyntaxError> {
        let mut open: Vec<(char, Span)> = Vec::new();
        let mut tokens = Vec::new();
        loop {
            let Some(first) = self.rest.chars().next() else {
                return match open.last() {
                    Some((bracket, span)) => {
                        Err(SyntaxError::new(*span, format!("this `{bracket}` is never closed")))
                    }
                    None => Ok(tokens),
                };
            };
            if let (Some(until), true) = (until, open.is_empty())
                && self.ends(until, &tokens)
            {
                return Ok(tokens);
            }
            match first {
                '(' | '[' | '{' => open.push((first, self.here())),
                ')' | ']' | '}' => match open.pop() {
                    None => return Ok(tokens),
                    Some((bracket, _)) if closing(bracket) == first => {}
                    Some((bracket, span)) => {
                        let message = format!(
                            "`{first}` does not close the `{bracket}` of line {}, column {}",
                            span.line, span.column
                        );
                        return Err(SyntaxError::new(self.here(), message));
                    }
                },
                _ => {}
            }
            tokens.push(self.c_token(first)?);
        }
    }

    fn ends(&self, until: Until, before: &[Token]) -> bool {
        match until {
            Until::Comma => self.rest.starts_with(','),
            Until::ToOrSemicolon => {
                let word = self.rest.find(|c| !is_c_name(c)).unwrap_or(self.rest.len());
                let is_to = &self.rest[..word] == "to" && !code::ends_in_member_access(before);
                self.rest.starts_with(';') || is_to
            }
        }
    }

    fn c_token(&mut self, first: char) -> Result<Token, SyntaxError> {
        let rest = self.rest;
        let mut bad = None;
        let (kind, length) = if first.is_whitespace() {
            (TokenKind::Space, rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()))
        } else if rest.starts_with("//") {
            (TokenKind::Space, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            let end = rest.get(2..).and_then(|inside| inside.find("*/"));
            if end.is_none() {
                bad = Some("this comment is never closed");
            }
            (TokenKind::Space, end.map_or(rest.len(), |end| end + 4))
        } else if first == '"' || first == '\'' {
            let (length, closed) = literal(rest, first);
            if !closed {
                bad = Some("this string or character is not closed on its line");
            }
            (TokenKind::Literal, length)
        } else if first.is_ascii_digit() {
            // A preprocessing number: 0x1fUL, 1e5; a sign after its exponent does no harm as a symbol.
            let number = |c: char| is_c_name(c) || c == '.';
            (TokenKind::Literal, rest.find(|c| !number(c)).unwrap_or(rest.len()))
        } else if is_c_name(first) {
            (TokenKind::Name, rest.find(|c| !is_c_name(c)).unwrap_or(rest.len()))
        } else if first == '$' {
            match Special::ALL.into_iter().find(|special| rest.starts_with(special.text())) {
                Some(special) => (TokenKind::Special(special), special.text().len()),
                None => {
                    bad = Some("after `$`, the weaver knows $return$, $thread$ and $pc$");
                    (TokenKind::Symbol, 1)
                }
            }
        } else {
            (TokenKind::Symbol, first.len_utf8())
        };
        let (text, span) = self.take(length);
        match bad {
            Some(message) => Err(SyntaxError::new(span, message)),
            None => Ok(Token { kind, text: text.to_owned(), span }),
        }
    }
}

/// How long the string or character at the start of `text` is, and whether it is closed: it ends
/// with its line at the latest.
pub(crate) fn literal(text: &str, quote: char) -> (usize, bool) {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' if !escaped => return (at, false),
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return (at + c.len_utf8(), true),
            _ => {}
        }
    }
    (text.len(), false)
}

fn closing(bracket: char) -> char {
    match bracket {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

fn is_word(c: char) -> bool {
    is_c_name(c) || c == '%'
}

fn is_c_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl Code {
    /// All tokens of a C text, such as a header. What is not C becomes symbols.
    pub fn lex(text: &str) -> Self {
        Self::trimmed(Lexer::new(text, 0).all(), Span::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_is_kept_as_written() {
        let text = "a->to /* ) to */ + f(\"to;)\", ')')";
        let whole = format!(" {text} to b");
        let mut lexer = Lexer::new(&whole, 0);
        let code = lexer.c_expression(Until::ToOrSemicolon).ok().unwrap();
        assert_eq!(code.to_string(), text);
        assert_eq!(code.names().collect::<Vec<_>>(), ["a", "to", "f"]);
        assert_eq!(lexer.next().text, "to");
    }

    #[test]
    fn members_and_tags_are_not_variables() {
        let mut lexer = Lexer::new("struct page *p = a->b.c + sizeof(union u); }", 0);
        let code = lexer.c_block(Span::default()).ok().unwrap();
        let variables: Vec<_> = code.variables().map(|token| token.text.as_str()).collect();
        assert_eq!(variables, ["struct", "p", "a", "sizeof", "union"]);
        assert_eq!(code.tags().collect::<Vec<_>>(), ["page", "u"]);
    }

    #[test]
    fn brackets_must_match() {
        for (text, message) in [
            ("(a]", "`]` does not close the `(` of line 1, column 1"),
            ("f((a)", "this `(` is never closed"),
            ("\"abc", "this string or character is not closed on its line"),
            ("/* abc", "this comment is never closed"),
            ("$retrun$", "after `$`, the weaver knows $return$, $thread$ and $pc$"),
            ("  ", "an expression is missing here"),
        ] {
            let bad = Lexer::new(text, 0).c_expression(Until::Comma).err().unwrap();
            assert_eq!(bad.message, message, "{text}");
        }
    }
}
