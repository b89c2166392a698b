//! Messages on a terminal: what happened, and on a line of its own what to do; no word is broken.
//!
//! Cargo, git and perf write a message as one line and leave the rest to the terminal, which breaks words. Here that is how
//! it is written to a file or a pipe, where lines are looked for: on a terminal, lines are broken between words, and not
//! within a command that is to be copied.

/// What continues a line is moved in by this.
const INDENT: &str = "  ";

/// What is to be done comes behind the last of these.
const HINT: &str = "; ";

/// The message in lines of so many columns, as far as its words let it be.
pub fn fitted(message: &str, width: u16) -> String {
    let width = usize::from(width);
    // A mistake in an aspect shows a line of it, and points at columns.
    if message.contains("\n --> ") {
        return message.to_owned();
    }
    let mut lines = Vec::new();
    for line in message.split('\n') {
        match line.rsplit_once(HINT).filter(|_| columns(line) > width) {
            Some((what, hint)) if hint.contains(' ') => {
                wrap(what, "", width, &mut lines);
                wrap(hint, INDENT, width, &mut lines);
            }
            _ => wrap(line, "", width, &mut lines),
        }
    }
    lines.join("\n")
}

/// Adds a text in lines that fit, the first of which is moved in as is said.
fn wrap(text: &str, indent: &str, width: usize, lines: &mut Vec<String>) {
    let mut line = indent.to_owned();
    let mut begun = false;
    for word in words(text) {
        if begun && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::replace(&mut line, INDENT.to_owned()));
        } else if begun {
            line.push(' ');
        }
        line.push_str(word);
        begun = true;
    }
    lines.push(line);
}

/// A text's words, of which a command in backticks is one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '`';
        c == ' ' && !quoted
    })
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "xweave: a-file is not a trace: it is a regular file; name the directory that `xweave record -o DIR` \
                        wrote, or make one";

    #[test]
    fn what_fits_stays_a_line_and_else_what_to_do_is_on_one_of_its_own() {
        assert_eq!(fitted(LONG, 160), LONG);
        let narrow = "xweave: a-file is not a trace: it is a regular file\n  name the directory that `xweave record -o DIR` \
                      wrote, or make one";
        assert_eq!(fitted(LONG, 80), narrow);
        let narrower = "xweave: a-file is not a trace: it is a\n  regular file\n  name the directory that\n  \
                        `xweave record -o DIR` wrote, or make\n  one";
        assert_eq!(fitted(LONG, 40), narrower);
    }

    #[test]
    fn no_word_is_broken_and_the_lines_of_an_aspect_stay_as_they_are() {
        assert_eq!(
            fitted("a /folder/with/a/long/name is there", 10),
            "a\n  /folder/with/a/long/name\n  is there"
        );
        let mistake = format!("error: unknown\n --> a:1:1\n  |\n1 | {}\n  | ^", "x ".repeat(100));
        assert_eq!(fitted(&mistake, 80), mistake);
        let lost = "host: 12 events came late; vm1: none";
        assert_eq!(fitted(lost, 80), lost);
    }
}
