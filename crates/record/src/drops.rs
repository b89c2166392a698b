//! Where and why a domain's kernel dropped packets: records have numbers and addresses, which mean something in that
//! kernel only. The numbers' names come with the plan; which functions the addresses lie in is asked at the end, when
//! that disturbs nothing that is recorded.

use std::collections::BTreeSet;

use xweave_wire::{
    limits,
    message::{DropReason, Request, Symbol},
    record::{Kind, Record},
};

/// What is known of a domain's drops.
#[derive(Default)]
pub(crate) struct Drops {
    /// In records, so many at most.
    addresses: BTreeSet<u64>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) reasons: Vec<DropReason>,
}

impl Drops {
    /// Looks where a record says that something was dropped, if it does.
    pub(crate) fn see(&mut self, record: &Record) {
        if let (Kind::Quit, &[_, _, address, ..]) = (record.kind, record.values.as_slice())
            && self.addresses.len() < limits::SYMBOLS
        {
            self.addresses.insert(address);
        }
    }

    /// What is to be asked, if there is anything.
    pub(crate) fn question(&self) -> Option<Request> {
        let addresses = || self.addresses.iter().copied().collect();
        (!self.addresses.is_empty()).then(|| Request::Symbols(addresses()))
    }

    /// Takes the answer: what was asked for, each once.
    pub(crate) fn answered(&mut self, symbols: Vec<Symbol>) {
        self.symbols = symbols.into_iter().filter(|symbol| self.addresses.remove(&symbol.address)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind, values: &[u64]) -> Record {
        let (comm, values) = ([0; 16], values.to_vec());
        Record { time_ns: 1, flow: 1, site: 1, pid: 1, tid: 1, cpu: 0, kind, comm, values }
    }

    #[test]
    fn addresses_of_drops_are_asked_for_once_and_nothing_else_is_taken() {
        let mut drops = Drops::default();
        assert!(drops.question().is_none());
        let others = [(Kind::Quit, &[1][..]), (Kind::Hop, &[1, 2, 3]), (Kind::Xin, &[9, 1, 1, 0])];
        others.iter().for_each(|(kind, values)| drops.see(&record(*kind, values)));
        assert!(drops.question().is_none());
        for address in [0xa, 0xb, 0xa] {
            drops.see(&record(Kind::Quit, &[1, 2, address]));
        }
        assert!(matches!(drops.question(), Some(Request::Symbols(all)) if all == [0xa, 0xb]));
        let symbol = |address| Symbol { address, function: "f".into(), ..Symbol::default() };
        drops.answered(vec![symbol(0xb), symbol(0xc), symbol(0xb)]);
        assert_eq!(drops.symbols, [symbol(0xb)]);
    }

    #[test]
    fn a_guest_that_names_ever_more_addresses_fills_no_memory() {
        let mut drops = Drops::default();
        (0..100_000).for_each(|address| drops.see(&record(Kind::Quit, &[1, 2, address])));
        assert!(matches!(drops.question(), Some(Request::Symbols(all)) if all.len() == limits::SYMBOLS));
    }
}
