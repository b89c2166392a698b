//! Text that came from elsewhere, made fit to be shown.
//!
//! A guest chooses its threads' names, its release and its agent's messages, and whoever made a file chose what is
//! in it. Root's terminal obeys what it is sent: so all such text passes through here once, where it is received.

use std::borrow::Cow;

/// The text with each character that a terminal would obey rather than show written out, as `\u{1b}`.
///
/// These are the control characters (C0, DEL and C1; of them, line feeds and tabs stay in [`lines`] only), the line
/// and paragraph separators, and the formatting characters that reorder or hide what stands around them
/// ([Unicode TR 36], 3.1 and 3.8). Backslashes stay as they are, so that a text that passes through twice is the
/// same as one that passes through once.
///
/// [Unicode TR 36]: https://www.unicode.org/reports/tr36/
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// As [`printable`], but line feeds and tabs are kept: for messages of several lines.
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// As [`printable`], of bytes that may be no text; cut where it would be longer than `most` bytes.
pub fn printable_bytes(bytes: &[u8], most: usize) -> String {
    bounded(bytes, most, |text| printable(text).into_owned())
}

/// As [`lines`], cut where it would be longer than `most` bytes.
pub fn lines_cut(text: &str, most: usize) -> String {
    bounded(text.as_bytes(), most, |text| lines(text).into_owned())
}

/// What would be cut is not escaped before: a byte may become six.
fn bounded(bytes: &[u8], most: usize, escaped: impl Fn(&str) -> String) -> String {
    // More than are left, so that a cut is marked.
    let beginning = bytes.get(..most.saturating_add(1)).unwrap_or(bytes);
    let mut text = escaped(&String::from_utf8_lossy(beginning));
    cut(&mut text, most);
    text.shrink_to_fit();
    text
}

/// Cuts a text that is longer than so many bytes, and marks the cut.
pub fn cut(text: &mut String, most: usize) {
    const MARK: &str = "…";
    if text.len() > most {
        let mut end = most.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let wrong = |c: char| is_obeyed(c) && !keep(c);
    if !text.contains(wrong) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if wrong(c) { escaped.extend(c.escape_unicode()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// What a terminal obeys, what changes the order of what follows, and what is shown as nothing, so that two names look the same
/// ([Default_Ignorable_Code_Point] of Unicode).
///
/// [Default_Ignorable_Code_Point]: https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(printable("\u{1b}]0;root\u{7}x\u{9b}2J"), "\\u{1b}]0;root\\u{7}x\\u{9b}2J");
        assert_eq!(printable("a\nb\tc"), "a\\u{a}b\\u{9}c");
        assert_eq!(lines("a\nb\tc\r"), "a\nb\tc\\u{d}");
        assert_eq!(printable("evil\u{202e}gnp.exe"), "evil\\u{202e}gnp.exe");
        assert_eq!(printable("ng\u{ad}inx\u{fe0f}"), "ng\\u{ad}inx\\u{fe0f}");
        assert!(matches!(printable("kworker/0:1-ünïcode"), Cow::Borrowed(_)));
        assert_eq!(printable_bytes(b"\xff\x1bc", 64), "\u{fffd}\\u{1b}c");
        assert_eq!(lines_cut(&"\u{7f}\n".repeat(1 << 20), 20).len(), 20);
    }

    proptest! {
        #[test]
        fn nothing_that_is_obeyed_is_left_and_twice_is_once(text in any::<String>(), most in 3usize..40) {
            let once = printable(&text).into_owned();
            prop_assert!(!once.contains(is_obeyed));
            prop_assert_eq!(printable(&once), once.as_str());
            let mut short = once;
            cut(&mut short, most);
            prop_assert!(short.len() <= most);
        }
    }
}
