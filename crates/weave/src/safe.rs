//! C that reads memory through pointers of which the kernel's verifier knows nothing.
//!
//! At an instruction, the registers of the interrupted code are numbers to the verifier, and it refuses to
//! follow them. From Linux 6.2 on, a program can tell it what they point to (`bpf_rdonly_cast`), if that is a
//! type of the kernel's image. Elsewhere `skb->dev->ifindex` becomes a helper's safe reads:
//! `XW_LOAD(XW_LOAD(skb->dev)->ifindex)`.
//!
//! Types are not known here, only words: what is behind `->` is read, unless its address is taken or it is
//! assigned to (which the verifier refuses, in either form).

use xweave_aspect::Code;
use xweave_aspect::code::{Special, Token, TokenKind};

/// What takes an expression and not its value.
const UNREAD: [&str; 6] = ["READ", "READ_USER", "sizeof", "typeof", "__typeof__", "offsetof"];

/// The text of a piece of C, in which reads through pointers are safe.
pub(crate) fn render(code: &Code, special: impl Fn(Special) -> &'static str) -> String {
    let text = |token: &Token| match token.kind {
        TokenKind::Special(word) => special(word).to_owned(),
        _ => token.text.clone(),
    };
    let words =
        code.tokens.iter().map(|token| (token.kind == TokenKind::Space, text(token), token)).collect();
    let mut reader = Reader { words, at: 0 };
    let mut out = String::new();
    while reader.at < reader.words.len() {
        reader.next(&mut out);
    }
    out
}

struct Reader<'c> {
    /// Whether it is space; the text; the token.
    words: Vec<(bool, String, &'c Token)>,
    at: usize,
}

impl Reader<'_> {
    fn text(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |(_, text, _)| text)
    }

    /// The place of the first word from `at` on that is not space.
    fn after_space(&self, mut at: usize) -> usize {
        while self.words.get(at).is_some_and(|(space, ..)| *space) {
            at += 1;
        }
        at
    }

    fn is_name(&self, at: usize) -> bool {
        self.words.get(at).is_some_and(|(_, _, token)| token.kind == TokenKind::Name)
    }

    /// Writes what comes next: an expression with all that is behind it, or one word.
    fn next(&mut self, out: &mut String) {
        if !self.is_name(self.at) && self.text(self.at) != "(" {
            *out += self.text(self.at);
            self.at += 1;
            return;
        }
        let before = out.trim_end().len();
        let (text, behind_arrow) = self.expression();
        let prefix = prefix(&out[..before]);
        if !behind_arrow || prefix == Some('&') || self.is_assigned() {
            *out += &text;
        } else if prefix == Some('*') {
            // What the pointer that is read points to.
            out.truncate(before - 1);
            *out += &format!("XW_LOAD(*XW_LOAD({text}))");
        } else {
            *out += &format!("XW_LOAD({text})");
        }
    }

    /// A name or bracket with all members, elements and arguments behind it; and whether that is memory behind
    /// a pointer, which is still to be read.
    fn expression(&mut self) -> (String, bool) {
        let name = self.text(self.at).to_owned();
        let mut text = String::new();
        if self.is_name(self.at) {
            self.at += 1;
            text += &name;
            let open = self.after_space(self.at);
            if self.text(open) == "(" {
                let unread = UNREAD.contains(&name.as_str()) || name.starts_with("bpf_core_");
                while self.at < open {
                    text += self.text(self.at);
                    self.at += 1;
                }
                text += &if unread { self.bracket_as_it_is() } else { self.bracket() };
            }
        } else {
            text += &self.bracket();
        }
        let mut memory = false;
        loop {
            let at = self.after_space(self.at);
            let value = |text: String| if memory { format!("XW_LOAD({text})") } else { text };
            match self.text(at) {
                "-" if self.text(at + 1) == ">" => {
                    let member = self.after_space(at + 2);
                    text = format!("{}->{}", value(text), self.text(member));
                    (self.at, memory) = (member + 1, true);
                }
                "." if memory => {
                    let member = self.after_space(at + 1);
                    text = format!("{text}.{}", self.text(member));
                    self.at = member + 1;
                }
                "[" if memory => {
                    self.at = at;
                    text = format!("{}{}", value(text), self.bracket());
                }
                _ => return (text, memory),
            }
        }
    }

    /// From a bracket to the one that closes it, with what is in it made safe.
    fn bracket(&mut self) -> String {
        let mut out = self.text(self.at).to_owned();
        self.at += 1;
        while self.at < self.words.len() {
            if matches!(self.text(self.at), ")" | "]" | "}") {
                out += self.text(self.at);
                self.at += 1;
                return out;
            }
            if matches!(self.text(self.at), "[" | "{") {
                out += &self.bracket();
            } else {
                self.next(&mut out);
            }
        }
        out
    }

    fn bracket_as_it_is(&mut self) -> String {
        let (mut out, mut depth) = (String::new(), 0usize);
        while self.at < self.words.len() {
            let text = self.text(self.at).to_owned();
            self.at += 1;
            match text.as_str() {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            out += &text;
            if depth == 0 {
                break;
            }
        }
        out
    }

    /// Whether what comes next assigns to what was before: `=`, `+=`, `<<=`, `++`.
    fn is_assigned(&self) -> bool {
        let at = self.after_space(self.at);
        let sign: String = (at..at + 3).map(|at| self.text(at)).collect();
        let operator = sign.trim_start_matches(['+', '-', '*', '/', '%', '&', '|', '^']);
        let shifted = sign.strip_prefix("<<").or(sign.strip_prefix(">>")).unwrap_or(operator);
        sign.starts_with("++")
            || sign.starts_with("--")
            || shifted.starts_with('=') && !shifted.starts_with("==")
    }
}

/// The `&` or `*` right before, if it is about one operand.
fn prefix(before: &str) -> Option<char> {
    let sign = before.chars().next_back().filter(|sign| matches!(sign, '&' | '*'))?;
    let rest = before[..before.len() - 1].trim_end();
    let binary = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ')' | ']' | '"' | '\'');
    // A word that a value can follow is no operand.
    let word = rest.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or("");
    let follows =
        rest.ends_with(binary) && !matches!(word, "return" | "case" | "else" | "do") && !ends_in_cast(rest);
    let double = sign == '&' && before[..before.len() - 1].ends_with('&');
    (!follows && !double).then_some(sign)
}

/// Whether the text ends in a type in brackets.
fn ends_in_cast(text: &str) -> bool {
    let Some(inside) =
        text.strip_suffix(')').and_then(|text| text.rsplit_once('(')).map(|(_, type_)| type_.trim())
    else {
        return false;
    };
    let first = inside.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or("");
    let numbers = first.strip_prefix("__").unwrap_or(first).trim_start_matches(['u', 's']);
    inside.ends_with('*')
        || matches!(
            first,
            "struct" | "union" | "enum" | "unsigned" | "signed" | "int" | "long" | "char" | "short"
        )
        || first == "bool"
        || (numbers.len() < first.len() && matches!(numbers, "8" | "16" | "32" | "64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe(text: &str) -> String {
        render(&Code::lex(text), |_| "$")
    }

    #[test]
    fn what_is_behind_a_pointer_is_read_safely() {
        for (text, wanted) in [
            ("skb->len", "XW_LOAD(skb->len)"),
            ("f(skb->dev->ifindex, 1)", "f(XW_LOAD(XW_LOAD(skb->dev)->ifindex), 1)"),
            ("((struct sock *)p)->sk_prot", "XW_LOAD(((struct sock *)p)->sk_prot)"),
            ("sk->__sk_common.skc_hash + 1", "XW_LOAD(sk->__sk_common.skc_hash) + 1"),
            ("skb->cb[a->b]", "XW_LOAD(XW_LOAD(skb->cb)[XW_LOAD(a->b)])"),
            ("u32 n = *skb->head;", "u32 n = XW_LOAD(*XW_LOAD(skb->head));"),
            ("get(a)->b", "XW_LOAD(get(a)->b)"),
            ("x & skb->mark", "x & XW_LOAD(skb->mark)"),
            ("x && skb->mark", "x && XW_LOAD(skb->mark)"),
            ("a * skb->len", "a * XW_LOAD(skb->len)"),
            ("return *skb->data;", "return XW_LOAD(*XW_LOAD(skb->data));"),
            ("if (a->b == c->d) { x = a->e; }", "if (XW_LOAD(a->b) == XW_LOAD(c->d)) { x = XW_LOAD(a->e); }"),
        ] {
            assert_eq!(safe(text), wanted, "{text}");
        }
    }

    #[test]
    fn addresses_places_and_what_is_safe_stay() {
        for text in [
            "&skb->cb",
            "(void *)&vq->iov",
            "f(&a->b, c)",
            "READ(skb->len)",
            "sizeof(skb->cb)",
            "bpf_core_field_exists(skb->len)",
            "local.member[3] + p[2]",
            "a->b = 3",
            "a->b += 3",
            "a->b++",
            "\"->\" x",
            "struct sk_buff *skb = data;",
        ] {
            assert_eq!(safe(text), text);
        }
        assert_eq!(safe("&skb->dev->name"), "&XW_LOAD(skb->dev)->name");
    }
}
