//! Records on their way from a domain into the trace: decoded, put into the order of their times.

use xweave_wire::record::Record;

/// A domain's records that cannot be written yet: clocks are compared later.
#[derive(Default)]
pub(crate) struct Waiting {
    records: Vec<Record>,
    /// Values of all of them that there is room for.
    values: usize,
}

impl Waiting {
    /// Takes in a batch.
    pub(crate) fn take(&mut self, records: Vec<Record>) {
        self.values += values(&records);
        self.records.extend(records);
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.records.len() * size_of::<Record>() + self.values * size_of::<u64>()
    }

    /// Those until the horizon, in the order of their times.
    pub(crate) fn settled(&mut self, horizon: u64) -> Vec<Record> {
        // Each CPU has a buffer of its own.
        self.records.sort_by_key(|record| record.time_ns);
        let settled = self.records.partition_point(|record| record.time_ns <= horizon);
        let settled: Vec<_> = self.records.drain(..settled).collect();
        self.values -= values(&settled);
        settled
    }
}

fn values(records: &[Record]) -> usize {
    records.iter().map(|record| record.values.capacity()).sum()
}

#[cfg(test)]
mod tests {
    use xweave_wire::record::Kind;

    use super::*;

    #[test]
    fn what_waits_is_counted_and_comes_out_in_order() {
        let record = |time_ns, values: usize| Record {
            time_ns,
            flow: 0,
            site: 1,
            pid: 1,
            tid: 1,
            cpu: 0,
            kind: Kind::Hop,
            comm: [0; 16],
            values: vec![7; values],
        };
        let mut waiting = Waiting::default();
        waiting.take(vec![record(30, 2), record(10, 1)]);
        waiting.take(vec![record(20, 4)]);
        assert_eq!((waiting.len(), waiting.bytes()), (3, 3 * size_of::<Record>() + 7 * 8));
        let times: Vec<_> = waiting.settled(20).iter().map(|record| record.time_ns).collect();
        assert_eq!(times, [10, 20]);
        assert_eq!((waiting.len(), waiting.bytes()), (1, size_of::<Record>() + 2 * 8));
        assert!(waiting.settled(29).is_empty());
    }
}
