//! Mistakes, and the places they are at.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A file of aspects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// What messages call it: the path as the user gave it.
    pub name: String,
    /// What is in it.
    pub text: String,
}

impl Source {
    /// Whether it is in the XML form.
    pub fn is_xml(&self) -> bool {
        self.text.trim_start().starts_with('<')
    }
}

/// A place in one of the sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The source's index in [`Aspects::sources`](crate::Aspects::sources).
    pub file: usize,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// Characters that a message underlines, on that line.
    pub length: u32,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// Nothing can be woven.
    Error,
    /// Something that the user should know of.
    Warning,
}

/// One mistake: what, where, and what to do about it.
///
/// Displays in several lines, with the line of the source and the place underlined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The source's name; empty if the mistake is not in a source.
    pub file: String,
    /// From 1; 0 if the mistake is not in a source.
    pub line: u32,
    /// From 1, in characters; 0 if the mistake is not in a source.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it, where that can be said.
    pub help: Option<String>,
    /// The line of the source, and how many characters of it to underline.
    pub snippet: Option<(String, u32)>,
}

impl Diagnostic {
    /// An error at a place in a source.
    pub fn at(source: &Source, span: Span, message: impl Into<String>) -> Self {
        let line = usize::try_from(span.line).unwrap_or(0);
        let text = line.checked_sub(1).and_then(|index| source.text.lines().nth(index));
        Self {
            severity: Severity::Error,
            file: source.name.clone(),
            line: span.line,
            column: span.column,
            message: message.into(),
            help: None,
            snippet: text.map(|text| (text.to_owned(), span.length)),
        }
    }

    /// An error that is not at a place in a source.
    pub fn general(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: String::new(),
            line: 0,
            column: 0,
            message: message.into(),
            help: None,
            snippet: None,
        }
    }

    /// The same, with advice on what to do.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same, as a warning.
    #[must_use]
    pub fn as_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}", self.message)?;
        if self.line > 0 {
            let number = self.line.to_string();
            let gutter = " ".repeat(number.len());
            write!(f, "\n{gutter}--> {}:{}:{}", self.file, self.line, self.column)?;
            if let Some((text, length)) = &self.snippet {
                let before = usize::try_from(self.column).unwrap_or(0).saturating_sub(1);
                // Tabs stay tabs, so that the marks come to stand below the text in any terminal.
                let indent: String =
                    text.chars().take(before).map(|c| if c == '\t' { c } else { ' ' }).collect();
                let rest = text.chars().count().saturating_sub(before).max(1);
                let marks = usize::try_from(*length).unwrap_or(1).clamp(1, rest);
                write!(f, "\n{gutter} |\n{number} | {text}\n{gutter} | {indent}{}", "^".repeat(marks))?;
            }
            if let Some(help) = &self.help {
                write!(f, "\n{gutter} = help: {help}")?;
            }
        } else if let Some(help) = &self.help {
            write!(f, "\nhelp: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_underlined() {
        let source = Source { name: "a.aspect".into(), text: "# über\n\texecution(foo)".into() };
        let span = Span { file: 0, line: 2, column: 12, length: 3 };
        let shown = Diagnostic::at(&source, span, "no such function").with_help("look again").to_string();
        assert_eq!(
            shown,
            "error: no such function\n --> a.aspect:2:12\n  |\n2 | \texecution(foo)\n  | \t          ^^^\n  = help: look again"
        );
    }
}
