//! C fragments: kept as they were written, with the words in them known.

use std::fmt;

use crate::diagnostic::Span;

/// A word between dollar signs: something that the weaver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// `$return$`: what the function returned.
    Return,
    /// `$thread$`: what is running, as a key for flows.
    Thread,
    /// `$pc$`: the address of the join point.
    Pc,
}

impl Special {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Return, Self::Thread, Self::Pc];

    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            Self::Return => "$return$",
            Self::Thread => "$thread$",
            Self::Pc => "$pc$",
        }
    }
}

/// What a token of C is, as far as the weaver needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Blanks, line ends, comments.
    Space,
    /// A number, string or character.
    Literal,
    /// An identifier or keyword.
    Name,
    /// A word between dollar signs.
    Special(Special),
    /// Any other character.
    Symbol,
}

/// A token of C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// As it was written.
    pub text: String,
    /// Where.
    pub span: Span,
}

impl Token {
    /// Whether it is space without a comment.
    pub(crate) fn is_blank(&self) -> bool {
        self.kind == TokenKind::Space && self.text.trim_start().is_empty()
    }
}

/// A balanced piece of C. Nothing of it is lost: the tokens' texts, one after the other, are what
/// was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// In order; neither the first nor the last is space, but for comments at the ends of a block.
    pub tokens: Vec<Token>,
    /// Where the first token is.
    pub span: Span,
}

impl Code {
    /// Without the space around it.
    pub(crate) fn trimmed(tokens: Vec<Token>, place: Span) -> Self {
        Self::without(tokens, place, |token| token.kind == TokenKind::Space)
    }

    /// Without the blanks around it: what comments say about a block is part of it.
    pub(crate) fn block(tokens: Vec<Token>, place: Span) -> Self {
        Self::without(tokens, place, Token::is_blank)
    }

    fn without(mut tokens: Vec<Token>, place: Span, is_space: impl Fn(&Token) -> bool) -> Self {
        let first = tokens.iter().position(|token| !is_space(token)).unwrap_or(tokens.len());
        tokens.drain(..first);
        while tokens.last().is_some_and(&is_space) {
            tokens.pop();
        }
        let span = tokens.first().map_or(place, |first| {
            let line = first.span.line;
            let on_line = tokens.iter().filter(|token| token.span.line == line);
            let length = on_line.map(|token| token.span.length).sum();
            Span { length, ..first.span }
        });
        Self { tokens, span }
    }

    /// Whether there is nothing in it but comments.
    pub fn is_empty(&self) -> bool {
        self.words().next().is_none()
    }

    /// The tokens that are not space.
    pub fn words(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| token.kind != TokenKind::Space)
    }

    /// All identifiers and keywords, in order, repeated as written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.words().filter(|token| token.kind == TokenKind::Name).map(|token| token.text.as_str())
    }

    /// The names that may be variables, functions, types or macros: those that are neither a
    /// member's (after `.` or `->`) nor a tag (after `struct`, `union`, `enum`).
    pub fn variables(&self) -> impl Iterator<Item = &Token> {
        let mut before = ["", ""];
        self.words().filter(move |token| {
            let member = before[1] == "." || before == ["-", ">"];
            let tag = matches!(before[1], "struct" | "union" | "enum");
            before = [before[1], &token.text];
            token.kind == TokenKind::Name && !member && !tag
        })
    }

    /// The names of variables that statements of it declare: `tsc` in `long long tsc;`.
    pub fn declared(&self) -> impl Iterator<Item = &str> {
        // Since the statement began: whether there were only words and stars, and how many words.
        let (mut plain, mut words) = (true, 0);
        self.words().filter_map(move |token| {
            match (token.kind, token.text.as_str()) {
                (_, ";" | "{" | "}") => (plain, words) = (true, 0),
                (TokenKind::Name, "return" | "case" | "goto" | "else" | "do") => plain = false,
                (TokenKind::Name, "struct" | "union" | "enum") => {}
                (TokenKind::Name, text) => {
                    words += 1;
                    return (plain && words > 1).then_some(text);
                }
                (_, "*") if words > 0 => {}
                _ => plain = false,
            }
            None
        })
    }

    /// The names that follow `struct`, `union` or `enum`.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let mut before = "";
        self.words().filter_map(move |token| {
            let tag = matches!(before, "struct" | "union" | "enum");
            before = &token.text;
            (tag && token.kind == TokenKind::Name).then_some(token.text.as_str())
        })
    }

    /// The first place where a special word is used.
    pub fn special(&self, special: Special) -> Option<Span> {
        let token = self.tokens.iter().find(|token| token.kind == TokenKind::Special(special))?;
        Some(token.span)
    }

    /// The text, with each special word replaced.
    pub fn render(&self, special: impl Fn(Special) -> &'static str) -> String {
        let text = |token: &Token| match token.kind {
            TokenKind::Special(word) => special(word).to_owned(),
            _ => token.text.clone(),
        };
        self.tokens.iter().map(text).collect()
    }
}

/// Whether what comes next is a member's name.
pub(crate) fn ends_in_member_access(tokens: &[Token]) -> bool {
    let mut words = tokens.iter().rev().filter(|token| token.kind != TokenKind::Space);
    match words.next().map(|token| token.text.as_str()) {
        Some(".") => true,
        Some(">") => words.next().is_some_and(|token| token.text == "-"),
        _ => false,
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens.iter().try_for_each(|token| f.write_str(&token.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_told_from_uses() {
        let code = Code::lex(
            "long long tsc; u32 n = skb->len * x; struct sk_buff *other = skb; a * b; return len; if (x) { int y; }",
        );
        let declared: Vec<_> = code.declared().collect();
        // `long` is declared as little as `b` is: neither is a variable's name of a kernel's.
        assert_eq!(declared, ["long", "tsc", "n", "other", "b", "y"]);
        assert!(!declared.contains(&"skb") && !declared.contains(&"len") && !declared.contains(&"x"));
    }
}
