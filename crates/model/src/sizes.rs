//! Transactions by how much data they carried: as the time of a request depends on it, or does not.

use std::collections::BTreeMap;

use crate::{
    bytes::Bytes,
    explanation::Explained,
    objects::Objects,
    parts::{Such, Totals},
};

/// The time of transactions in classes of their sizes, each of twice the bytes of the one before.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// By how many bits the number of bytes has.
    classes: BTreeMap<u32, Class>,
}

/// Transactions of like sizes.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Their time.
    pub totals: Totals,
    /// All their data.
    pub bytes: Bytes,
}

impl Sizes {
    /// Adds a transaction, if its size is known.
    pub fn add(&mut self, transaction: &Explained, objects: &Objects) {
        self.add_sums(transaction, &Such::sums(&transaction.steps, objects));
    }

    /// The same of one whose time was spent on that.
    pub(crate) fn add_sums(&mut self, transaction: &Explained, sums: &BTreeMap<Such, u64>) {
        let Some(bytes) = transaction.bytes else { return };
        let class = self.classes.entry(u64::BITS - bytes.all().leading_zeros()).or_default();
        class.totals.add_sums(transaction.length(), sums);
        class.bytes = class.bytes.and(bytes);
    }

    /// The classes, the smallest first: the least and the most bytes of one of its transactions.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (u64, u64, &Class)> {
        self.classes.iter().map(|(bits, class)| {
            let most = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
            (most - most / 2, most, class)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two_without_gap_or_overlap() {
        let mut sizes = Sizes::default();
        for size in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX] {
            let transaction = Explained {
                id: 1,
                domain: 1,
                total_ns: 7,
                bytes: Some(Bytes { sent: size, received: 0 }),
                ..Explained::default()
            };
            sizes.add(&transaction, &Objects::default());
            sizes.add(&Explained { bytes: None, ..transaction }, &Objects::default());
        }
        let told: Vec<_> =
            sizes.all().map(|(least, most, class)| (least, most, class.totals.transactions())).collect();
        let expected = [
            (0, 0, 1),
            (1, 1, 1),
            (2, 3, 2),
            (4, 7, 1),
            (512, 1023, 1),
            (1024, 2047, 1),
            (1 << 63, u64::MAX, 1),
        ];
        assert_eq!(told, expected);
    }
}
