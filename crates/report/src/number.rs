//! Times and counts as people read them.

/// A time: `850 ns`, `12.3 µs`, `4.56 ms`, `54.560 s`.
pub fn span(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// Nanoseconds as microseconds with one digit after the point, thousands apart: `1 234.5`.
pub fn micros(ns: i64) -> String {
    let tenths = (ns.unsigned_abs() + 50) / 100;
    let sign = if ns < 0 && tenths > 0 { "-" } else { "" };
    format!("{sign}{}.{}", count(tenths / 10), tenths % 10)
}

/// A time that there may be none of: nothing then.
pub fn span_if(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, span)
}

/// A count, its thousands apart: `1 234 567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A share: `42 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// A count and what it counts: `1 flow`, `2 flows`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// The time of the day of nanoseconds since 1970, in UTC: `14:03:22`.
pub fn time_of_day(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// The median of figures, the upper one of two; none of none.
pub fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(micros(0), "0.0");
        assert_eq!(micros(3_310_449), "3 310.4");
        assert_eq!(micros(-40), "0.0");
        assert_eq!(micros(-1_250), "-1.3");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(counted(1, "flow", "flows"), "1 flow");
        assert_eq!(time_of_day(1_764_021_802_999_999_999), "22:03:22");
        assert_eq!(
            (span(850), span(12_345), span(4_560_000)),
            ("850 ns".into(), "12.3 µs".into(), "4.56 ms".into())
        );
    }
}
