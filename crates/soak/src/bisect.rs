//! From a set that made something fail to a smallest part of it that still does.
//!
//! The oracle costs minutes (it may kill a kernel), so tests are what is saved. Nearly always one member alone is
//! to blame: it is searched for first, by halving, one test a step. Where that does not hold (several are needed
//! together, or a failure that comes only now and then was missed), QuickXplain takes over (Junker, "QuickXplain:
//! Preferred Explanations and Relaxations for Over-Constrained Problems", AAAI 2004), which finds a minimal set
//! of k among n with at most 2k·log₂(n/k) + 2k tests.

/// What bisecting came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// These fail together, as was seen; without any one of them nothing fails, as far as was seen.
    Minimal(Vec<T>),
    /// These were seen to fail, and there was no budget to look for fewer. The whole set, where no test failed.
    Smallest(Vec<T>),
    /// The whole set, tried again, did not fail.
    Nothing,
}

/// Searches a set that was seen to fail. `fails` tests a part of it, in the set's order; at most `budget` tests
/// are made.
///
/// # Errors
///
/// Those of `fails`.
pub fn bisect<T: Clone + Ord, E>(
    set: &[T],
    budget: usize,
    fails: impl FnMut(&[T]) -> Result<bool, E>,
) -> Result<Found<T>, E> {
    let mut search = Search { set, fails, left: budget, smallest: None };
    match search.run() {
        Ok(found) => Ok(found),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::NoBudget) => Ok(Found::Smallest(search.smallest.unwrap_or_else(|| set.to_vec()))),
    }
}

enum Stop<E> {
    NoBudget,
    Failed(E),
}

struct Search<'s, T, F> {
    set: &'s [T],
    fails: F,
    left: usize,
    /// The smallest part that was seen to fail.
    smallest: Option<Vec<T>>,
}

impl<T: Clone + Ord, E, F: FnMut(&[T]) -> Result<bool, E>> Search<'_, T, F> {
    fn run(&mut self) -> Result<Found<T>, Stop<E>> {
        if let Some(one) = self.one()? {
            return Ok(Found::Minimal(vec![one]));
        }
        // What the halving saw may be less than the whole.
        let set = self.smallest.clone().unwrap_or_else(|| self.set.to_vec());
        if self.smallest.is_none() && !self.fails(&set)? {
            return Ok(Found::Nothing);
        }
        let minimal = self.explain(&[], false, &set)?;
        Ok(Found::Minimal(minimal))
    }

    fn fails(&mut self, part: &[T]) -> Result<bool, Stop<E>> {
        self.left = self.left.checked_sub(1).ok_or(Stop::NoBudget)?;
        // Bisecting puts parts together in any order; the oracle shall see that of the set.
        let part: Vec<T> = self.set.iter().filter(|of| part.contains(of)).cloned().collect();
        let failed = (self.fails)(&part).map_err(Stop::Failed)?;
        if failed && self.smallest.as_ref().is_none_or(|smallest| part.len() < smallest.len()) {
            self.smallest = Some(part);
        }
        Ok(failed)
    }

    /// The one that is to blame, if it is one: tested alone at the end.
    fn one(&mut self) -> Result<Option<T>, Stop<E>> {
        let mut suspects = self.set;
        while suspects.len() > 1 {
            let (first, second) = suspects.split_at(suspects.len() / 2);
            suspects = if self.fails(first)? { first } else { second };
        }
        let [one] = suspects else { return Ok(None) };
        let known = self.smallest.as_deref() == Some(suspects);
        Ok((known || self.fails(suspects)?).then(|| one.clone()))
    }

    /// The members of `among` that a minimal failing set has besides `base`; `base` and `among` together fail.
    /// `changed`: whether `base` has grown since it was last tested.
    fn explain(&mut self, base: &[T], changed: bool, among: &[T]) -> Result<Vec<T>, Stop<E>> {
        if changed && self.fails(base)? {
            return Ok(Vec::new());
        }
        if among.len() <= 1 {
            return Ok(among.to_vec());
        }
        let (first, second) = among.split_at(among.len() / 2);
        let of_second = self.explain(&[base, first].concat(), true, second)?;
        let of_first = self.explain(&[base, &of_second].concat(), !of_second.is_empty(), first)?;
        Ok([of_first, of_second].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// A deterministic kernel: it fails where all members of any of these are.
    fn kernel(culprits: &[Vec<u32>], part: &[u32]) -> bool {
        culprits.iter().any(|all| all.iter().all(|one| part.contains(one)))
    }

    fn run(n: u32, budget: usize, culprits: &[Vec<u32>]) -> (Found<u32>, usize) {
        let set: Vec<u32> = (0..n).collect();
        let mut tests = 0;
        let found = bisect(&set, budget, |part: &[u32]| {
            assert!(part.is_sorted(), "the oracle sees the set's order: {part:?}");
            tests += 1;
            Ok::<_, Infallible>(kernel(culprits, part))
        });
        let Ok(found) = found;
        (found, tests)
    }

    proptest! {
        #[test]
        fn whatever_the_culprits_a_minimal_set_is_found_within_the_bound(
            (n, culprits) in (1_u32..200).prop_flat_map(|n| {
                let all = prop::collection::btree_set(0..n, 1..=4.min(n as usize));
                (Just(n), prop::collection::vec(all.prop_map(|s| s.into_iter().collect::<Vec<_>>()), 1..4))
            })
        ) {
            let (found, tests) = run(n, usize::MAX, &culprits);
            let Found::Minimal(found) = found else { panic!("{found:?}") };
            prop_assert!(kernel(&culprits, &found), "{found:?} does not fail");
            for left_out in &found {
                let less: Vec<u32> = found.iter().filter(|one| *one != left_out).copied().collect();
                prop_assert!(!kernel(&culprits, &less), "{found:?} is not minimal");
            }
            // Halving and its last test; the whole once more; QuickXplain.
            let (n, k) = (f64::from(n), found.len() as f64);
            let bound = n.log2().ceil() + 2.0 + 2.0 * k * (n / k).log2().ceil() + 2.0 * k;
            prop_assert!(tests as f64 <= bound, "{tests} tests for {k} of {n}, {bound} allowed");
        }

        #[test]
        fn one_culprit_is_found_by_halving_alone(n in 1_u32..1000, at in 0_u32..1000) {
            let (found, tests) = run(n, usize::MAX, &[vec![at % n]]);
            prop_assert_eq!(found, Found::Minimal(vec![at % n]));
            prop_assert!(tests as f64 <= f64::from(n).log2().ceil() + 1.0, "{} tests", tests);
        }

        #[test]
        fn a_budget_is_kept_and_what_is_given_then_fails(n in 2_u32..300, budget in 0_usize..12, a: u32, b: u32) {
            let culprits = [vec![a % n, b % n]];
            let (found, tests) = run(n, budget, &culprits);
            prop_assert!(tests <= budget);
            match found {
                Found::Minimal(found) | Found::Smallest(found) => prop_assert!(kernel(&culprits, &found)),
                Found::Nothing => prop_assert!(false, "the whole set fails"),
            }
        }
    }

    #[test]
    fn what_does_not_fail_again_is_nobodys_fault() {
        let (found, tests) = run(64, usize::MAX, &[]);
        assert_eq!(found, Found::Nothing);
        assert_eq!(tests, 6 + 1 + 1);
    }

    #[test]
    fn an_oracle_that_cannot_answer_ends_the_search() {
        assert_eq!(bisect(&[1, 2, 3], 10, |_| Err("no world")), Err("no world"));
    }
}
