//! A bounded choice of very many things, each as likely to be in it as any other.

/// Of the first so many all, of more a choice (Vitter, "Random Sampling with a Reservoir", algorithm R). The same of the
/// same things each time.
#[derive(Clone, Debug)]
pub(crate) struct Sample<T> {
    chosen: Vec<T>,
    most: usize,
    seen: u64,
    random: u64,
}

impl<T> Sample<T> {
    pub(crate) fn of_at_most(most: usize) -> Self {
        Self { chosen: Vec::new(), most, seen: 0, random: 0 }
    }

    /// How many were offered.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    pub(crate) fn offer(&mut self, thing: T) {
        self.offer_with(|| thing);
    }

    /// As [`Sample::offer`] what is made only if it is chosen.
    pub(crate) fn offer_with(&mut self, thing: impl FnOnce() -> T) {
        self.seen += 1;
        if self.chosen.len() < self.most {
            self.chosen.push(thing());
            return;
        }
        let at = self.next() % self.seen;
        if let Some(place) = usize::try_from(at).ok().and_then(|at| self.chosen.get_mut(at)) {
            *place = thing();
        }
    }

    pub(crate) fn into_chosen(self) -> Vec<T> {
        self.chosen
    }

    pub(crate) fn chosen_mut(&mut self) -> &mut [T] {
        &mut self.chosen
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_chosen_up_to_the_most_and_then_any_is_as_likely() {
        let mut few = Sample::of_at_most(10);
        (0..10).for_each(|i| few.offer(i));
        assert_eq!(few.into_chosen(), Vec::from_iter(0..10));
        let mut many = Sample::of_at_most(10_000);
        (0..1_000_000).for_each(|i| many.offer(i));
        many.chosen_mut().sort_unstable();
        assert_eq!((many.chosen_mut().len(), many.seen()), (10_000, 1_000_000));
        // The median of a uniform choice: within five standard deviations, 0.5 / sqrt(10,000) each.
        let median = f64::from(many.chosen_mut()[5_000]) / 1e6;
        assert!((median - 0.5).abs() < 0.025, "{median}");
    }
}
