//! Values by CPU.

use rustc_hash::FxHashMap;

use crate::ids::CpuId;

/// CPUs below this number are found by their number, others by hash.
const INDEXED: u32 = 256;

/// A value for each CPU that was seen, of all domains. Analyses look one up for each event.
#[derive(Clone, Debug)]
pub struct ByCpu<T> {
    values: Vec<(CpuId, T)>,
    /// Position in `values` plus 1, by domain and CPU; 0 if there is none.
    indexed: Vec<u32>,
    hashed: FxHashMap<CpuId, u32>,
}

impl<T> Default for ByCpu<T> {
    fn default() -> Self {
        Self { values: Vec::new(), indexed: Vec::new(), hashed: FxHashMap::default() }
    }
}

impl<T> ByCpu<T> {
    /// Returns the value of a CPU.
    #[inline]
    pub fn get(&self, id: CpuId) -> Option<&T> {
        self.position(id).map(|position| &self.values[position].1)
    }

    /// Returns the value of a CPU.
    #[inline]
    pub fn get_mut(&mut self, id: CpuId) -> Option<&mut T> {
        self.position(id).map(|position| &mut self.values[position].1)
    }

    /// Returns the value of a CPU, which is made if there is none.
    #[inline]
    pub fn get_or_insert_with(&mut self, id: CpuId, new: impl FnOnce() -> T) -> &mut T {
        let position = match self.position(id) {
            Some(position) => position,
            None => self.insert(id, new()),
        };
        &mut self.values[position].1
    }

    /// Iterates over all values, in the order in which their CPUs were seen.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &T)> {
        self.values.iter().map(|(id, value)| (*id, value))
    }

    /// Iterates over all values, in the order in which their CPUs were seen.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().map(|(_, value)| value)
    }

    /// Returns the number of CPUs.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether no CPU was seen.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    #[inline]
    fn position(&self, id: CpuId) -> Option<usize> {
        let position = match index(id) {
            Some(index) => self.indexed.get(index),
            None => self.hashed.get(&id),
        };
        usize::try_from(*position?).ok()?.checked_sub(1)
    }

    #[cold]
    fn insert(&mut self, id: CpuId, value: T) -> usize {
        self.values.push((id, value));
        let count = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        match index(id) {
            Some(index) => {
                if self.indexed.len() <= index {
                    self.indexed.resize(index + 1, 0);
                }
                self.indexed[index] = count;
            }
            None => {
                self.hashed.insert(id, count);
            }
        }
        self.values.len() - 1
    }
}

#[inline]
fn index(id: CpuId) -> Option<usize> {
    let index = u32::from(id.domain) * INDEXED + id.cpu;
    (id.cpu < INDEXED).then_some(index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_cpu_whatever_its_number() {
        let ids = [(1, 0), (1, 255), (1, 256), (2, 0), (255, 255), (0, u32::MAX)];
        let ids = ids.map(|(domain, cpu)| CpuId { domain, cpu });
        let mut values = ByCpu::default();
        for (position, id) in ids.into_iter().enumerate() {
            assert_eq!((values.get(id), values.len()), (None, position));
            assert_eq!(*values.get_or_insert_with(id, || position), position);
            assert_eq!(*values.get_or_insert_with(id, || 99), position);
        }
        values.values_mut().for_each(|value| *value += 10);
        for (position, id) in ids.into_iter().enumerate() {
            assert_eq!(values.get(id), Some(&(position + 10)));
            assert_eq!(values.get_mut(id), Some(&mut (position + 10)));
        }
        assert!(values.iter().map(|(id, _)| id).eq(ids));
    }
}
