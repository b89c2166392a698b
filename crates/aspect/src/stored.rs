//! What the values that advice stores are called: by what is written in its `STORE_DATA`.

use crate::code::{Code, Special, Token, TokenKind};

/// The most values that one record carries (`STORE_DATA7`).
const MOST: usize = 7;

impl Code {
    /// The names of the values that it stores, by their places: the variable or member that each is, `len` of
    /// `STORE_DATA1(skb->len)`; `v1` to `v7` where that is none, or where two of its `STORE_DATA`, or two values of one,
    /// would be called differently or alike.
    pub fn stored(&self) -> Vec<String> {
        let words: Vec<&Token> = self.words().collect();
        let mut names: Vec<Option<String>> = Vec::new();
        for at in 0..words.len() {
            let is_store = words[at].kind == TokenKind::Name && words[at].text.starts_with("STORE_DATA");
            let Some(found) = is_store.then(|| arguments(&words[at + 1..])).flatten() else { continue };
            let found: Vec<_> = found.into_iter().take(MOST).map(name).collect();
            for (name, found) in names.iter_mut().zip(&found) {
                if name != found {
                    *name = None;
                }
            }
            names.extend(found.into_iter().skip(names.len()));
        }
        let numbered = |at: usize| format!("v{}", at + 1);
        let mut all: Vec<String> = Vec::new();
        for (at, name) in names.into_iter().enumerate() {
            let name = name.filter(|name| !all.contains(name)).unwrap_or_else(|| numbered(at));
            all.push(name);
        }
        all
    }
}

/// The arguments of the call whose brackets begin here: one without words, if there is nothing between them; none, if no
/// brackets begin here or they do not end.
pub(crate) fn arguments<'a>(words: &[&'a Token]) -> Option<Vec<Vec<&'a Token>>> {
    let (first, words) = words.split_first()?;
    if first.text != "(" {
        return None;
    }
    let (mut all, mut argument, mut depth) = (Vec::new(), Vec::new(), 0usize);
    for word in words {
        match word.text.as_str() {
            ")" if depth == 0 => {
                all.push(argument);
                return Some(all);
            }
            // Commas between brackets that are not round separate arguments all the same: C's preprocessor.
            "," if depth == 0 => {
                all.push(std::mem::take(&mut argument));
                continue;
            }
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        argument.push(*word);
    }
    None
}

/// The last name in it, if nothing but brackets follows: `READ(skb->len)`, `(u64)skb`, `$return$`.
fn name(argument: Vec<&Token>) -> Option<String> {
    let last = argument.iter().rev().find(|word| word.text != ")")?;
    match last.kind {
        TokenKind::Name => Some(last.text.clone()),
        TokenKind::Special(Special::Return) => Some("return".to_owned()),
        TokenKind::Special(Special::Thread) => Some("thread".to_owned()),
        TokenKind::Special(Special::Pc) => Some("pc".to_owned()),
        _ => None,
    }
    // No name of a column, and none of another value's place.
    .filter(|name| name.len() <= 64 && !is_numbered(name))
}

fn is_numbered(name: &str) -> bool {
    name.strip_prefix('v').is_some_and(|digits| digits.parse::<u8>().is_ok())
}

#[cfg(test)]
mod tests {
    use crate::{Source, parse};

    fn stored(body: &str) -> Vec<String> {
        let text = format!("advice a returning(f) {{ {body} }}");
        let aspects = parse(vec![Source { name: "a".into(), text }]).unwrap();
        aspects.advice[0].body.stored()
    }

    #[test]
    fn values_are_called_by_what_is_stored() {
        assert_eq!(stored("STORE_DATA2(skb->len, READ(skb->dev->ifindex));"), ["len", "ifindex"]);
        assert_eq!(
            stored("STORE_DATA4((u64)skb, $return$, len >> 10, f(a, b));"),
            ["skb", "return", "v3", "b"]
        );
        assert_eq!(stored("STORE_DATA2(a.len, b.len); /* STORE_DATA1(x) */"), ["len", "v2"]);
        assert_eq!(stored("if (a) STORE_DATA1(a); else STORE_DATA2(b, c);"), ["v1", "c"]);
        assert_eq!(stored("STORE_DATA1(v2);"), ["v1"]);
        assert_eq!(stored("a = 1;"), [""; 0]);
    }
}
