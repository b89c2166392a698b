//! Of very many, some to be looked at one by one: the slowest, and others evenly over all times.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use crate::sample::Sample;

/// The choice, while they come.
#[derive(Clone, Debug)]
pub struct Choice<T> {
    /// By time, then by who came first.
    slowest: BTreeMap<(i64, Reverse<u64>), (u64, T)>,
    most: usize,
    evenly: Sample<(i64, u64, T)>,
    quantiles: usize,
}

impl<T: Clone> Choice<T> {
    /// So many of the slowest, and so many at even shares of the others; these of a sample of so many of all.
    pub fn new(slowest: usize, quantiles: usize, sample: usize) -> Self {
        Self { slowest: BTreeMap::new(), most: slowest, evenly: Sample::of_at_most(sample), quantiles }
    }

    /// Offers what took so long, by its ID.
    pub fn offer(&mut self, ns: i64, id: u64, thing: impl Fn() -> T) {
        let key = (ns, Reverse(self.evenly.seen()));
        if self.slowest.len() < self.most
            || self.slowest.first_key_value().is_some_and(|(least, _)| *least < key)
        {
            self.slowest.insert(key, (id, thing()));
            if self.slowest.len() > self.most {
                self.slowest.pop_first();
            }
        }
        self.evenly.offer_with(|| (ns, id, thing()));
    }

    /// Those that are chosen, each once, those first that are to be kept where there is little room: the slowest, the
    /// median, the second slowest, and so on.
    pub fn into_chosen(self) -> Vec<T> {
        let mut sample = self.evenly.into_chosen();
        sample.sort_by_key(|(ns, id, _)| (*ns, *id));
        let evenly =
            ranks(sample.len(), self.quantiles).into_iter().map(|at| (sample[at].1, sample[at].2.clone()));
        let (mut evenly, mut slowest) = (evenly, self.slowest.into_values().rev());
        let (mut chosen, mut met) = (Vec::new(), HashSet::new());
        loop {
            let pair = [slowest.next(), evenly.next()];
            if pair.iter().all(Option::is_none) {
                return chosen;
            }
            chosen
                .extend(pair.into_iter().flatten().filter(|(id, _)| met.insert(*id)).map(|(_, thing)| thing));
        }
    }
}

/// So many ranks at even shares of so many, each half of what is left after the other: the median, then quarters, …
fn ranks(of: usize, most: usize) -> Vec<usize> {
    if of <= most {
        let mut all: Vec<usize> = (0..of).collect();
        all.sort_by_key(|at| at.abs_diff(of / 2));
        return all;
    }
    let mut order: Vec<usize> = (1..=most).collect();
    order.sort_by_key(|at| (Reverse(at.trailing_zeros()), *at));
    order.into_iter().map(|at| at * (of - 1) / (most + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_and_some_at_even_shares_are_chosen_each_once() {
        let mut choice = Choice::new(3, 7, 1 << 12);
        (0..1_000)
            .for_each(|n: u64| choice.offer(i64::try_from(n * 7 % 1_000).unwrap(), n, || n * 7 % 1_000));
        let chosen = choice.into_chosen();
        assert_eq!(chosen[..4], [999, 499, 998, 249]);
        assert_eq!(chosen.len(), 10);
        let mut few = Choice::new(3, 7, 1 << 12);
        (0..5).for_each(|n: u64| few.offer(1, n, || n));
        let mut chosen = few.into_chosen();
        assert_eq!(chosen[0], 0, "of equal times the first");
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn nothing_is_chosen_of_nothing() {
        assert!(Choice::<u64>::new(3, 7, 8).into_chosen().is_empty());
        let mut none = Choice::new(0, 0, 8);
        none.offer(1, 1, || 1);
        assert!(none.into_chosen().is_empty());
    }
}
