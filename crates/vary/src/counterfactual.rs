//! What the requests' times would be if a part of them did not vary: it takes its median time in each. Where they wait for
//! each other, [`Queue::without`](crate::queue::Queue::without) knows more.

use crate::shares::median;

/// The times if a part took its median in each, where nobody waits for others.
pub fn without(whole: &[f64], part: &[f64]) -> Vec<f64> {
    let usual = median(part);
    whole.iter().zip(part).map(|(whole, part)| whole - part + usual).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_always_as_long_changes_nothing_and_one_that_varies_no_longer_does() {
        assert_eq!(without(&[3.0, 4.0], &[1.0, 1.0]), [3.0, 4.0]);
        assert_eq!(without(&[3.0, 9.0, 5.0], &[1.0, 7.0, 3.0]), [5.0, 5.0, 5.0]);
    }
}
