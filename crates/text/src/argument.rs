//! A command that people copy: its arguments are what the shell is to make of them.

use std::borrow::Cow;

/// An argument as a shell's command line has it: in quotes where the shell would take it for something else.
pub fn argument(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_split_or_expand_is_quoted() {
        for plain in ["trace", "/tmp/trace-1", "request:80", "a..b,by=v1@vm1", "Größe"] {
            assert_eq!(argument(plain), plain);
        }
        let quoted = ["my trace", "it's", "$HOME", ""].map(argument);
        assert_eq!(quoted, ["'my trace'", r"'it'\''s'", "'$HOME'", "''"]);
    }
}
