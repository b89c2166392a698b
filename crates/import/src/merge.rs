//! Records of several processors in the order of their times.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::error::Error;

/// The records of one processor.
pub(crate) trait Stream {
    /// The time of the record that is next, on the trace's time line; none at the end.
    fn time(&self) -> Option<i64>;

    /// Its processor and its bytes.
    fn record(&self) -> (u32, &[u8]);

    /// What is missing before it, if anything; told once.
    fn missing(&mut self) -> Option<Missing> {
        None
    }

    /// Goes on to the one behind it.
    fn advance(&mut self);
}

/// Records of a processor that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// How many; 0 if nobody knows.
    pub count: u64,
    /// The time of the last one before them; none if there was none.
    pub since: Option<i64>,
}

/// What there is of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// A record.
    Record(&'a [u8]),
    /// Some are missing: how many, and since when.
    Missing(u64, i64),
}

/// Records whose time was before that of one before them: they got that one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Early {
    /// How many.
    pub count: u64,
    /// By how many nanoseconds at most.
    pub most_ns: u64,
}

impl Early {
    /// Takes in one of this time, the last having been that.
    pub(crate) fn take(&mut self, time: i64, last: i64) {
        let early = u64::try_from(last.saturating_sub(time)).unwrap_or(0);
        self.count += u64::from(early > 0);
        self.most_ns = self.most_ns.max(early);
    }
}

/// Gives `take` all records in the order of their times, and returns those that were early on their processor.
pub(crate) fn merge<S: Stream>(
    streams: &mut [S],
    mut take: impl FnMut(i64, u32, Item<'_>) -> Result<(), Error>,
) -> Result<Early, Error> {
    let begins = streams.iter().enumerate().filter_map(|(at, stream)| Some(Reverse((stream.time()?, at))));
    let mut line: BinaryHeap<_> = begins.collect();
    let begin = line.peek().map_or(0, |Reverse((time, _))| *time);
    let (mut last, mut early) = (i64::MIN, Early::default());
    while let Some(Reverse((mut time, at))) = line.pop() {
        let next = line.peek().map_or((i64::MAX, usize::MAX), |Reverse(next)| *next);
        let stream = &mut streams[at];
        // Mostly it is the same processor's turn again.
        loop {
            early.take(time, last);
            last = last.max(time);
            let missing = stream.missing();
            let (cpu, record) = stream.record();
            if let Some(Missing { count, since }) = missing {
                take(last, cpu, Item::Missing(count, since.unwrap_or(begin)))?;
            }
            take(last, cpu, Item::Record(record))?;
            stream.advance();
            match stream.time() {
                Some(later) if (later, at) <= next => time = later,
                Some(later) => {
                    line.push(Reverse((later, at)));
                    break;
                }
                None => break,
            }
        }
    }
    Ok(early)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct List {
        cpu: u32,
        times: Vec<i64>,
        at: usize,
    }

    impl Stream for List {
        fn time(&self) -> Option<i64> {
            self.times.get(self.at).copied()
        }

        fn record(&self) -> (u32, &[u8]) {
            (self.cpu, &[])
        }

        fn advance(&mut self) {
            self.at += 1;
        }
    }

    proptest! {
        #[test]
        fn all_come_in_order(mut times in prop::collection::vec(prop::collection::vec(0i64..50, 0..20), 0..5)) {
            let mut all: Vec<(i64, u32)> = Vec::new();
            for (cpu, times) in times.iter_mut().enumerate() {
                times.sort_unstable();
                all.extend(times.iter().map(|&time| (time, u32::try_from(cpu).unwrap())));
            }
            all.sort_unstable();
            let mut streams: Vec<List> =
                times.into_iter().zip(0..).map(|(times, cpu)| List { cpu, times, at: 0 }).collect();
            let mut merged = Vec::new();
            let early = merge(&mut streams, |time, cpu, _| {
                merged.push((time, cpu));
                Ok(())
            });
            prop_assert_eq!(early.unwrap(), Early::default());
            prop_assert_eq!(merged, all);
        }
    }

    #[test]
    fn what_comes_early_gets_the_time_before_it() {
        let mut streams = [List { cpu: 0, times: vec![5, 3, 9], at: 0 }];
        let mut times = Vec::new();
        let early = merge(&mut streams, |time, _, _| {
            times.push(time);
            Ok(())
        });
        assert_eq!((early.unwrap(), times), (Early { count: 1, most_ns: 2 }, vec![5, 5, 9]));
    }
}
