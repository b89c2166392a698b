//! What this machine can do.

use xweave_record::Check;

/// Each check, and what to do where it is not as it should be.
pub fn table(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match (check.ok, check.needed) {
            (true, _) => "ok     ",
            (false, true) => "MISSING",
            (false, false) => "note   ",
        };
        text.push_str(&format!("{mark}  {:<24} {}\n", check.name, check.found));
        if !check.ok {
            text.push_str(&format!("         {:<24} → {}\n", "", check.remedy));
        }
    }
    text
}
