//! The document as text within a page.

use serde_json::Value;

use crate::document;

/// The document as the content of an element: no sign in it begins another one or ends it, and none is obeyed by a
/// terminal. All of these are within strings, where they may be written as `\u…`.
pub(super) fn written(document: &Value) -> String {
    // Values can always be encoded.
    let text = document::encode(&exact(document)).unwrap_or_default();
    let mut safe = String::with_capacity(text.len() + text.len() / 64);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => safe.push(c),
        }
    }
    safe
}

/// The same with the numbers as strings that a browser cannot hold: it would show other IDs.
fn exact(value: &Value) -> Value {
    const MOST: u64 = 1 << 53;
    match value {
        Value::Number(number) => {
            let large = number.as_u64().is_some_and(|n| n > MOST)
                || number.as_i64().is_some_and(|n| n.unsigned_abs() > MOST);
            if large { Value::String(number.to_string()) } else { value.clone() }
        }
        Value::Array(all) => all.iter().map(exact).collect(),
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), exact(value))).collect(),
        _ => value.clone(),
    }
}
