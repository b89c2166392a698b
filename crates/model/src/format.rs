//! Figures in the words of findings.

/// A mean; 0 of nothing.
pub fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

/// `11 ×`, `1.5 ×`, `a tenth of`: how the second compares with the first.
pub(crate) fn times(a: f64, b: f64) -> String {
    let factor = if a > 0.0 { b / a } else { f64::INFINITY };
    match factor {
        _ if factor.is_infinite() => "infinitely many times".to_owned(),
        9.95.. => format!("{factor:.0} ×"),
        0.1.. => format!("{factor:.1} ×"),
        _ => format!("{factor:.3} ×"),
    }
}

/// A time: `850 ns`, `12.3 µs`, `4.56 ms`, `54.560 s`.
pub fn span(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!([times(1.0, 11.14), times(2.0, 3.0), times(40.0, 1.0)], ["11 ×", "1.5 ×", "0.025 ×"]);
    }
}
