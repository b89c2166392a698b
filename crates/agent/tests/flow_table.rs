//! The prelude's flow table in the kernel itself, by BPF_PROG_TEST_RUN. Where loading programs is not allowed,
//! the tests say so and pass.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod prelude;

use std::{collections::HashMap, thread};

use libbpf_rs::{MapCore, MapFlags};
use prelude::{Programs, random};

struct Table {
    programs: Programs,
    buckets: u32,
}

impl Table {
    fn new(buckets: u32) -> Option<Self> {
        let programs = Programs::load(include_str!("flow_table.c"), buckets, 1)?;
        Some(Self { programs, buckets })
    }

    fn run(&self, program: &str, words: [u64; 2]) -> u32 {
        self.programs.run(program, words)
    }

    fn register(&self, key: u64, id: u32) -> bool {
        self.run("register_flow", [key, id.into()]) == 1
    }

    fn flow_of(&self, key: u64) -> u32 {
        self.run("lookup", [key, 0])
    }

    fn remove(&self, key: u64) {
        self.run("remove_flow", [key, 0]);
    }

    /// The keys in all slots, those that are empty among them.
    fn keys(&self) -> Vec<u64> {
        let map = self.programs.map("xw_flow_test");
        let bucket = |at: u32| map.lookup(&at.to_le_bytes(), MapFlags::ANY).unwrap().unwrap();
        let word = |word: &[u8]| u64::from_le_bytes(word.try_into().unwrap());
        (0..self.buckets).flat_map(|at| bucket(at)[..56].chunks(8).map(word).collect::<Vec<_>>()).collect()
    }
}

#[test]
fn it_holds_what_is_registered_and_not_removed() {
    let Some(table) = Table::new(8) else { return };
    let (mut model, mut state) = (HashMap::new(), 1);
    for id in 1..20_000 {
        // Twice as many keys as buckets, most of which are registered: some do not fit into their bucket.
        let key = 0xffff_8881_0000_0000 + random(&mut state) % 32 * 232;
        if random(&mut state).is_multiple_of(4) {
            table.remove(key);
            model.remove(&key);
        } else {
            assert!(table.register(key, id));
            model.insert(key, id);
        }
        let other = 0xffff_8881_0000_0000 + random(&mut state) % 32 * 232;
        for key in [key, other] {
            assert_eq!(table.flow_of(key), model.get(&key).copied().unwrap_or(0), "{key:#x} at {id}");
        }
    }
    let mut keys: Vec<_> = table.keys().into_iter().filter(|key| *key != 0).collect();
    keys.sort_unstable();
    let mut expected: Vec<_> = model.into_keys().collect();
    expected.sort_unstable();
    assert_eq!(keys, expected);
}

/// The word of a tally that counts keys that still carried a flow: `struct xw_tally`.
const OVERWRITTEN: usize = 6;

#[test]
fn what_begins_under_a_key_that_still_carries_a_flow_is_no_part_of_it() {
    let Some(table) = Table::new(8) else { return };
    let started = table.run("start_flow", [77, 0]);
    assert_eq!((table.flow_of(77), table.programs.tally(0, OVERWRITTEN)), (started, 0), "nothing was there");
    let again = table.run("start_flow", [77, 0]);
    assert!(again != started && table.flow_of(77) == again);
    assert_eq!(table.programs.tally(0, OVERWRITTEN), 1);
    // Memory that is given out anew carries nothing; what carried nothing before is not counted.
    assert_eq!((table.run("fresh", [77, 0]), table.flow_of(77)), (0, 0));
    assert_eq!((table.run("fresh", [77, 0]), table.run("fresh", [78, 0])), (0, 0));
    assert_eq!(table.programs.tally(0, OVERWRITTEN), 2);
}

#[test]
fn what_is_dropped_is_followed_no_further() {
    let Some(table) = Table::new(8) else { return };
    assert!(table.register(77, 5));
    assert_eq!((table.run("drop_flow", [77, 0]), table.flow_of(77)), (5, 0));
    assert_eq!(table.run("drop_flow", [77, 0]), 0, "once");
}

#[test]
fn what_finds_no_room_is_counted_and_room_is_used_again() {
    let Some(table) = Table::new(4) else { return };
    let held: Vec<_> = (1..=40).filter(|key| table.register(*key << 8, 1)).collect();
    assert_eq!(held.len(), 28, "four buckets of seven");
    let full = table.programs.tally(0, 1);
    assert_eq!(full, 12);
    // A key that is there needs no room.
    assert!(table.register(held[3] << 8, 2));
    assert_eq!(table.flow_of(held[3] << 8), 2);
    for key in held {
        table.remove(key << 8);
        assert_eq!(table.flow_of(key << 8), 0);
        assert!(table.register(key << 8 | 1, 3));
    }
}

#[test]
fn no_key_and_the_mark_of_a_taken_slot_carry_nothing() {
    let Some(table) = Table::new(4) else { return };
    assert!(table.register(77, 1));
    table.remove(77);
    for key in [0, u64::MAX] {
        assert!(!table.register(key, 2));
        assert_eq!(table.flow_of(key), 0);
        table.remove(key);
    }
}

#[test]
fn processors_do_not_see_ids_of_other_keys() {
    let Some(table) = Table::new(8) else { return };
    let table = &table;
    thread::scope(|scope| {
        for seed in 1..=4 {
            scope.spawn(move || {
                for round in 0..20 {
                    assert_eq!(table.run("churn", [seed << 32 | round, 0]), 0);
                }
            });
        }
    });
    for key in 1..=64 {
        table.remove(key);
    }
    assert!(table.keys().iter().all(|key| *key == 0), "{:x?}", table.keys());
}
