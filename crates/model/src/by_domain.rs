//! A value for each domain, found without hashing: it is asked for with every event.

use std::ops::{Index, IndexMut};

/// A value for each number that a domain can have.
#[derive(Clone, Debug)]
pub(crate) struct ByDomain<T>(Box<[T]>);

impl<T: Clone + Default> Default for ByDomain<T> {
    fn default() -> Self {
        Self(vec![T::default(); 1 << u8::BITS].into())
    }
}

impl<T> ByDomain<T> {
    /// All of them, by the domains' numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &T)> {
        (0..=u8::MAX).zip(&self.0)
    }
}

impl<T> Index<u8> for ByDomain<T> {
    type Output = T;

    fn index(&self, domain: u8) -> &T {
        &self.0[usize::from(domain)]
    }
}

impl<T> IndexMut<u8> for ByDomain<T> {
    fn index_mut(&mut self, domain: u8) -> &mut T {
        &mut self.0[usize::from(domain)]
    }
}
