//! Means of sums.

/// A mean; 0 of nothing.
pub fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}
