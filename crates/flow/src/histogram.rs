//! How long something took each time, as counts: of any number, in bounded memory.

use std::collections::BTreeMap;

/// Bins of each power of two: a bin is at most an eighth of its beginning wide.
const BINS: u64 = 8;

/// Times counted by bins.
#[derive(Clone, Debug, Default)]
pub struct Histogram(BTreeMap<u64, u64>);

/// So many took so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// At least this long, in nanoseconds.
    pub from_ns: u64,
    /// And less than this.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

impl Histogram {
    /// Counts one; what took less than no time, as where clocks err, took none.
    pub fn add(&mut self, ns: i64) {
        let ns = u64::try_from(ns).unwrap_or(0);
        *self.0.entry(bin_of(ns)).or_default() += 1;
    }

    /// The bins with anything in them, the shortest times first.
    pub fn bins(&self) -> Vec<Bin> {
        let bin =
            |(bin, count): (&u64, &u64)| Bin { from_ns: begin(*bin), to_ns: begin(bin + 1), count: *count };
        self.0.iter().map(bin).collect()
    }
}

/// Times below the number of bins have a bin each.
fn bin_of(ns: u64) -> u64 {
    if ns < BINS {
        return ns;
    }
    let doubled = u64::from((ns / BINS).ilog2());
    BINS * doubled + (ns >> doubled)
}

fn begin(bin: u64) -> u64 {
    match (bin / BINS).checked_sub(1) {
        None => bin,
        Some(doubled) => {
            (BINS + bin % BINS).checked_shl(u32::try_from(doubled).unwrap_or(u32::MAX)).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_its_bin_and_bins_are_narrow_and_without_gaps() {
        for ns in (0..5_000).chain([1 << 20, (1 << 40) + 12_345, u64::try_from(i64::MAX).unwrap()]) {
            let bin = bin_of(ns);
            assert!(begin(bin) <= ns && ns < begin(bin + 1), "{ns}: {bin}");
            assert!(begin(bin + 1) - begin(bin) <= 1.max(begin(bin) / BINS), "{ns}");
        }
        let mut histogram = Histogram::default();
        [-5, 0, 7, 1_000, 1_001].into_iter().for_each(|ns| histogram.add(ns));
        let counts: Vec<u64> = histogram.bins().iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [2, 1, 2]);
    }
}
