//! Which block comes when.

/// The settings' places in the order of the blocks, round by round: each round has each once, in an order that is drawn.
/// So what drifts hits all alike, and the same seed gives the same order.
pub fn order(settings: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let round = |_| {
        let mut round: Vec<usize> = (0..settings).collect();
        random.shuffle(&mut round);
        round
    };
    (0..rounds).map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_each_setting_once_in_an_order_of_its_own() {
        let all = order(3, 50, 7);
        assert_eq!(all, order(3, 50, 7));
        assert_ne!(all, order(3, 50, 8));
        for round in &all {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        // Each comes first about as often as the others: 50 ± 3 × √(50 × ⅓ × ⅔).
        for setting in 0..3 {
            let first = all.iter().filter(|round| round[0] == setting).count();
            assert!((7..=26).contains(&first), "{setting} comes first {first} times");
        }
    }
}
