//! What the requests' times would be without a part of them. Where they wait for each other,
//! [`Queue::without`](crate::queue::Queue::without) knows more.

use crate::{cause::Remedied, shares::median};

impl Remedied {
    /// What is left of a part in each request, in nanoseconds.
    pub(crate) fn left(self, part: &[f64]) -> f64 {
        match self {
            Self::Gone => 0.0,
            Self::Steady => median(part),
        }
    }
}

/// The times with what is left of a part, where nobody waits for others.
pub fn without(whole: &[f64], part: &[f64], remedied: Remedied) -> Vec<f64> {
    let left = remedied.left(part);
    whole.iter().zip(part).map(|(whole, part)| whole - part + left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_always_as_long_changes_nothing_and_one_that_varies_no_longer_does() {
        assert_eq!(without(&[3.0, 4.0], &[1.0, 1.0], Remedied::Steady), [3.0, 4.0]);
        assert_eq!(without(&[3.0, 9.0, 5.0], &[1.0, 7.0, 3.0], Remedied::Steady), [5.0, 5.0, 5.0]);
    }

    #[test]
    fn of_a_part_that_is_gone_nothing_is_left() {
        assert_eq!(without(&[3.0, 4.0], &[1.0, 1.0], Remedied::Gone), [2.0, 3.0]);
    }
}
