//! The catalogue for people: rows of tables in Markdown.

use std::fmt::Write;

use crate::{Access, Context, Field, HoldReason, Kind, Member, Quota, Refusal, Sending, State};

/// The table of kinds: their names, what happened, and what the columns of a trace hold.
pub fn kinds() -> String {
    let mut text = String::from("| `kind` | meaning | columns |\n|---|---|---|\n");
    // The last one whose columns are listed.
    let mut listed: Option<Kind> = None;
    for kind in Kind::ALL {
        let same = listed.filter(|of| kind.fields().len() > 2 && of.fields() == kind.fields());
        let columns = match same {
            Some(of) => format!("as of `{of}`"),
            None => {
                listed = Some(kind);
                kind.fields().iter().map(column).collect::<Vec<_>>().join("; ")
            }
        };
        let _ = writeln!(text, "| `{kind}` | {} | {columns} |", kind.about().trim_end_matches('.'));
    }
    text
}

/// What a column holds.
fn column(Field { member, known, meaning, .. }: &Field) -> String {
    let unknown = if *known || *member == Member::Name { "" } else { " (0: not recorded)" };
    format!("`{}`: {}{unknown}", member.name(), with_codes(meaning))
}

/// A meaning, with what the codes mean where it names their type.
fn with_codes(meaning: &str) -> String {
    let mut text = meaning.to_owned();
    macro_rules! list {
        ($($type:ident)*) => {$(
            let codes: Vec<_> = $type::ALL.iter().map(|code| format!("{} {}", code.code(), code.word())).collect();
            text = text.replace(concat!("[`", stringify!($type), "`]"), &codes.join(", "));
        )*};
    }
    list! { State Access Sending Refusal HoldReason Context Quota }
    text
}
