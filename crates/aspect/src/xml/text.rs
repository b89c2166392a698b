//! XML as people write it, and the text in it.
//!
//! Code and pointcuts stand in elements unescaped (`a && b < c`), which is no XML. So a strict reader gets a
//! copy of the file in which the characters that upset it are blanks; the texts themselves are taken from the
//! file. Both are equally long: what is at a place in one is at the same place in the other.

use std::ops::Range;

use crate::lexer::Gap;

/// Elements whose text is in another language.
const FOREIGN: [&str; 4] = ["pointcut", "before", "after", "action"];

/// A copy of a file for a strict reader.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Strict {
    pub text: String,
    /// The end tags that were taken out: `<xin_move … /> <field … /> </xen_move>`, a slip of the paper's.
    pub slips: Vec<Range<usize>>,
    /// The start tag of an element with foreign text that is never closed.
    pub unclosed: Option<Range<usize>>,
}

impl Strict {
    pub(super) fn of(text: &str) -> Self {
        // What is hidden, and whether all of it is, or only what would be markup.
        let mut blanks: Vec<(Range<usize>, bool)> = Vec::new();
        let mut strict = Self::default();
        // The names of the last two empty elements.
        let mut before = ["", ""];
        let mut at = 0;
        while let Some(open) = text[at..].find('<').map(|found| at + found) {
            let rest = &text[open..];
            let until = |end: &str| rest.find(end).map_or(text.len(), |found| open + found + end.len());
            at = if rest.starts_with("<!--") {
                until("-->")
            } else if rest.starts_with("<![CDATA[") {
                until("]]>")
            } else if rest.starts_with("<?") {
                let end = until("?>");
                // A declaration may only stand at the beginning, where the strict reader has something else.
                if rest.starts_with("<?xml ") && text[..open].trim().is_empty() {
                    blanks.push((open..end, true));
                }
                end
            } else if rest.starts_with("</") {
                let end = until(">");
                if text[open..end].trim_end_matches('>').trim_end() == "</xen_move"
                    && before == ["xin_move", "field"]
                {
                    blanks.push((open..end, true));
                    strict.slips.push(open..end);
                }
                before = ["", ""];
                end
            } else {
                let end = tag_end(text, open);
                blanks.extend(values(text, open..end).into_iter().map(|value| (value, false)));
                let name = tag_name(&rest[1..]);
                let empty = text[open..end].ends_with("/>");
                before = if empty { [before[1], name] } else { ["", ""] };
                if FOREIGN.contains(&name) && !empty {
                    let inside = end..closing(text, end, name).unwrap_or(text.len());
                    if inside.end == text.len() {
                        strict.unclosed = Some(open..end);
                    }
                    at = inside.end;
                    blanks.push((inside, false));
                    at
                } else {
                    end
                }
            };
        }
        let mut blanks = blanks.into_iter().peekable();
        strict.text = text
            .char_indices()
            .map(|(at, c)| {
                while blanks.next_if(|(blank, _)| blank.end <= at).is_some() {}
                let hidden = blanks.peek().is_some_and(|(blank, all)| {
                    blank.contains(&at) && (*all && c.is_ascii() && c != '\n' || matches!(c, '<' | '&' | '>'))
                });
                if hidden { ' ' } else { c }
            })
            .collect();
        strict
    }
}

fn tag_name(text: &str) -> &str {
    &text[..text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())]
}

/// Behind the `>` of the tag that begins at `open`: not one in the value of an attribute.
pub(super) fn tag_end(text: &str, open: usize) -> usize {
    let mut quote = None;
    for (at, c) in text[open..].char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            ('>', None) => return open + at + 1,
            (_, Some(mark)) if c == mark => quote = None,
            _ => {}
        }
    }
    text.len()
}

/// What is between quotes in a tag.
fn values(text: &str, tag: Range<usize>) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (at, c) in text[tag.clone()].char_indices().map(|(at, c)| (tag.start + at, c)) {
        match open {
            None if c == '"' || c == '\'' => open = Some((at + 1, c)),
            Some((start, mark)) if c == mark => {
                values.push(start..at);
                open = None;
            }
            _ => {}
        }
    }
    values
}

/// Where the end tag of an element with foreign text begins.
fn closing(text: &str, from: usize, name: &str) -> Option<usize> {
    let tag = format!("</{name}");
    let ends = text[from..].match_indices(&tag).map(|(at, _)| from + at);
    ends.into_iter().find(|end| tag_name(&text[end + 2..]) == name)
}

/// A text of XML as it is meant, with the places where it is shorter than in the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decoded {
    pub text: String,
    pub gaps: Vec<Gap>,
    /// Where a comment of XML is in it, which is left out.
    pub comment: Option<usize>,
}

impl Decoded {
    pub(super) fn of(raw: &str) -> Self {
        let mut decoded = Self::default();
        let mut at = 0;
        while let Some(c) = raw[at..].chars().next() {
            let rest = &raw[at..];
            at += if let Some(section) = rest.strip_prefix("<![CDATA[") {
                let inside = section.find("]]>");
                decoded.gap("<![CDATA[".len());
                decoded.text += &section[..inside.unwrap_or(section.len())];
                decoded.gap(inside.map_or(0, |_| "]]>".len()));
                "<![CDATA[".len() + inside.map_or(section.len(), |inside| inside + "]]>".len())
            } else if rest.starts_with("<!--") {
                decoded.comment = decoded.comment.or(Some(at));
                let end = rest.find("-->").map_or(rest.len(), |end| end + "-->".len());
                decoded.text.extend(rest[..end].chars().map(|c| if c == '\n' { c } else { ' ' }));
                end
            } else if let Some((c, length)) = entity(rest) {
                decoded.text.push(c);
                decoded.gap(length - 1);
                length
            } else {
                decoded.text.push(c);
                c.len_utf8()
            };
        }
        let total = decoded.text.len();
        decoded.gaps.iter_mut().for_each(|gap| gap.before = total - gap.before);
        decoded
    }

    /// As many characters of the file, all of one byte, are not in the text here.
    fn gap(&mut self, columns: usize) {
        let columns = u32::try_from(columns).unwrap_or(u32::MAX);
        self.gaps.push(Gap { before: self.text.len(), columns });
    }
}

/// The character that an entity at the beginning stands for, and the entity's length.
fn entity(text: &str) -> Option<(char, usize)> {
    let name = text.strip_prefix('&')?.split(';').next().filter(|name| name.len() <= 8)?;
    text.get(name.len() + 1..)?.strip_prefix(';')?;
    let c = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    // Lines are counted as they are in the file.
    Some((if c.is_whitespace() { ' ' } else { c }, name.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_hidden_from_the_strict_reader() {
        let text = "<?xml version='1.0'?>\n<advice name=\"a&b<c\"><before>ü a<b && c->d; </beforehand</before></advice>";
        let strict = Strict::of(text);
        let hidden = "<advice name=\"a b c\"><before>ü a b    c- d;  /beforehand</before></advice>";
        assert_eq!(strict.text, format!("{:21}\n{hidden}", ""));
        assert_eq!(strict.text.len(), text.len());
    }

    #[test]
    fn only_the_slip_of_the_paper_is_mended() {
        let slip = "<xin_move name=\"n\" /> <field/>\n</xen_move>";
        assert_eq!(Strict::of(slip).text, format!("{}           ", &slip[..31]));
        for other in
            ["<xin_move/></xen_move>", "<xin_move><field/></xen_move>", "<xin_move/><field/></xin_move>"]
        {
            assert_eq!(Strict::of(other).text, other);
        }
    }

    #[test]
    fn entities_and_sections_are_text_with_gaps() {
        let decoded = Decoded::of("a &amp;&lt; <![CDATA[&lt;]]>&nope;<!-- x\n-->&#x41;");
        assert_eq!(decoded.text, "a &< &lt;&nope;      \n   A");
        let places: Vec<_> =
            decoded.gaps.iter().map(|gap| (decoded.text.len() - gap.before, gap.columns)).collect();
        assert_eq!(places, [(3, 4), (4, 3), (5, 9), (9, 3), (26, 5)]);
        assert_eq!(decoded.comment, Some(34));
    }
}
