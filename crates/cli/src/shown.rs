//! Text out of files that others made, on its way to a terminal: aspects, kernels, programs.

use std::borrow::Cow;

use serde_json::Value;
use xweave_aspect::Diagnostic;
use xweave_text as text;

/// A mistake in an aspect, with the line that it is in.
pub fn diagnostic(diagnostic: &Diagnostic) -> String {
    text::lines(&diagnostic.to_string()).into_owned()
}

/// A document in JSON. What a terminal would obey is in it as `\u…`, which means the same to a program: JSON itself
/// asks for that below U+0020 only.
pub fn json(document: &Value) -> String {
    let text = document.to_string();
    if let Cow::Borrowed(_) = text::printable(&text) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        let mut bytes = [0; 4];
        match text::printable(c.encode_utf8(&mut bytes)) {
            Cow::Borrowed(_) => escaped.push(c),
            Cow::Owned(_) => {
                let mut units = [0; 2];
                escaped.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_means_the_same_and_is_not_obeyed() {
        let document = json!({"a\u{9b}2J": ["x\u{1b}]0;\u{7}\n\u{202e}", "\u{7f}ü\u{e0041}\"\\"]});
        let text = json(&document);
        assert_eq!(text::printable(&text), text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
        assert_eq!(json(&json!({"a": "ü"})), "{\"a\":\"ü\"}");
    }
}
