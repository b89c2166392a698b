//! The locks that a thread waits for.

/// Waits that are within each other are no more; what is beyond has an end that was not seen.
const DEEP: usize = 8;

/// The waits of a thread, the innermost last: to wait for a futex may take a lock of the kernel's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits(Vec<(u64, i64)>);

impl Waits {
    /// It begins to wait for the lock at this address.
    pub(crate) fn begin(&mut self, address: u64, time: i64) {
        if self.0.len() == DEEP {
            self.0.remove(0);
        }
        self.0.push((address, time));
    }

    /// It has the lock, or has given up. Gives since when it waited; what it has waited for within that is over.
    pub(crate) fn end(&mut self, address: u64) -> Option<i64> {
        let at = self.0.iter().rposition(|(lock, _)| *lock == address)?;
        let since = self.0[at].1;
        self.0.truncate(at);
        Some(since)
    }

    /// The lock that it is really waiting for.
    pub(crate) fn innermost(&self) -> Option<u64> {
        self.0.last().map(|(address, _)| *address)
    }

    /// Since when it has waited for that one.
    pub(crate) fn since(&self) -> Option<i64> {
        self.0.last().map(|(_, since)| *since)
    }

    /// Whether it waits for none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_within_a_wait_for_another_does_not_end_it() {
        let mut waits = Waits::default();
        waits.begin(1, 10);
        waits.begin(2, 20);
        assert_eq!(waits.innermost(), Some(2));
        assert_eq!((waits.end(2), waits.innermost()), (Some(20), Some(1)));
        // One whose beginning was not seen.
        assert_eq!((waits.end(3), waits.innermost()), (None, Some(1)));
        assert_eq!(waits.end(1), Some(10));
        assert!(waits.is_empty());
    }

    #[test]
    fn waits_without_an_end_do_not_pile_up() {
        let mut waits = Waits::default();
        (0..1000).for_each(|time| waits.begin(7, time));
        assert_eq!((waits.0.len(), waits.end(7)), (DEEP, Some(999)));
    }
}
