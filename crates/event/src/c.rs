//! The catalogue for programs in C.

use std::{fmt::Write, sync::LazyLock};

use crate::{Access, Context, HoldReason, Kind, Quota, Refusal, Sending, State, VECTORS};

/// The enumerations of kinds (`XW_DISK_QUEUE`) and codes (`XW_STATE_SLEEPING`), as C.
pub fn c_header() -> &'static str {
    static HEADER: LazyLock<String> = LazyLock::new(|| {
        let mut text = String::from("/* Made from crates/event. */\n");
        let kinds = Kind::ALL.into_iter().filter(|kind| kind.size().is_some());
        let kinds: Vec<_> =
            kinds.map(|kind| (format!("XW_{}", kind.name().to_uppercase()), kind as i32)).collect();
        let count = kinds.len().try_into().unwrap_or(i32::MAX);
        enumeration(&mut text, "kind", kinds.into_iter().chain([("XW_KINDS".to_owned(), count)]));
        macro_rules! codes {
            ($($type:ident $name:literal)*) => {$({
                let codes = $type::ALL.iter().map(|code| (constant($name, &format!("{code:?}")), code.code()));
                enumeration(&mut text, $name, codes);
            })*};
        }
        codes! { State "state" Access "access" Sending "sending" Refusal "refusal" HoldReason "hold" Context "context" Quota "quota" }
        let _ = writeln!(text, "#define XW_VECTORS {VECTORS:#x}");
        text
    });
    &HEADER
}

fn enumeration(text: &mut String, name: &str, constants: impl Iterator<Item = (String, i32)>) {
    let _ = writeln!(text, "enum xw_{name} {{");
    for (constant, number) in constants {
        let _ = writeln!(text, "\t{constant} = {number},");
    }
    text.push_str("};\n");
}

/// `XW_REFUSAL_TIME_WAIT` of `TimeWait`.
fn constant(of: &str, name: &str) -> String {
    let mut constant = format!("XW_{of}");
    for letter in name.chars() {
        if letter.is_uppercase() {
            constant.push('_');
        }
        constant.push(letter);
    }
    constant.to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_codes_have_their_numbers() {
        let lines: Vec<_> = c_header().lines().map(str::trim).collect();
        let other = format!("XW_KINDS = {},", Kind::Other as u8);
        for line in [
            "XW_SWITCH = 0,",
            "XW_DISK_QUEUE = 5,",
            &other,
            "XW_REFUSAL_TIME_WAIT = 2,",
            "XW_QUOTA_USED_UP = 16,",
        ] {
            assert!(lines.contains(&line), "{line}");
        }
        assert!(!c_header().contains("XW_OTHER"));
    }
}
