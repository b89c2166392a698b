//! The prelude's guard, its counters and its tables, in the kernel itself. Where loading programs is not allowed,
//! the tests say so and pass.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod prelude;

use std::{collections::HashMap, thread};

use libbpf_rs::{MapCore, MapFlags};
use prelude::{Programs, random};

/// Words of a tally: `struct xw_tally`.
const DROPPED: usize = 0;
const UNATTRIBUTED: usize = 2;
const STOOD_IN: usize = 3;
const NESTED: usize = 4;
const FAULTS: usize = 5;

fn programs() -> Option<Programs> {
    Programs::load(include_str!("guard.c"), 1, 4)
}

/// How much the bodies that ran have added.
fn ran(programs: &Programs) -> u64 {
    let bytes = programs.map(".bss").lookup(&0u32.to_le_bytes(), MapFlags::ANY).unwrap().unwrap();
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// The contexts that the guard holds, of all CPUs.
fn held(programs: &Programs) -> Vec<u64> {
    let cpus = programs.map("xw_guard").lookup_percpu(&0u32.to_le_bytes(), MapFlags::ANY).unwrap().unwrap();
    let contexts = cpus.iter().flat_map(|cpu| cpu[..64].chunks(8));
    contexts.map(|word| u64::from_le_bytes(word.try_into().unwrap())).filter(|word| *word != 0).collect()
}

#[test]
fn the_guard_is_freed_by_advice_that_returns_early() {
    let Some(programs) = programs() else { return };
    for _ in 0..3 {
        programs.run("leaves_early", [1, 0]);
    }
    assert_eq!(ran(&programs), 3, "each was run");
    programs.run("leaves_early", [0, 0]);
    assert_eq!(ran(&programs), 104, "and so was what comes after the return, where there was none");
    assert_eq!(held(&programs), []);
    assert_eq!(programs.tally(0, NESTED), 0);
}

#[test]
fn what_is_reached_from_within_a_program_is_counted_once_and_not_run() {
    let Some(programs) = programs() else { return };
    programs.run("nested", [0, 0]);
    assert_eq!(ran(&programs), 110, "the outer one, and what the inner one does when it is nested");
    assert_eq!([0, 1].map(|place| programs.tally(place, NESTED)), [0, 1], "its spare counts nothing");
    assert_eq!([0, 1].map(|place| programs.tally(place, STOOD_IN)), [0, 0]);
    assert_eq!(held(&programs), []);
}

#[test]
fn programs_run_on_top_of_those_of_other_contexts_while_there_is_room() {
    let Some(programs) = programs() else { return };
    // As if programs were under way in other contexts of all CPUs.
    let hold = |slot: u64, context: u64| {
        let cpus = programs.map("xw_guard").lookup_percpu(&0u32.to_le_bytes(), MapFlags::ANY);
        let mut cpus = cpus.unwrap().unwrap();
        let at = usize::try_from(slot).unwrap() * 8;
        cpus.iter_mut().for_each(|cpu| cpu[at..at + 8].copy_from_slice(&context.to_le_bytes()));
        programs.map("xw_guard").update_percpu(&0u32.to_le_bytes(), &cpus, MapFlags::ANY).unwrap();
    };
    for slot in 0..7 {
        hold(slot, 0xffff_8881_0000_0001 + slot * 64);
        programs.run("leaves_early", [1, 0]);
        assert_eq!((ran(&programs), programs.tally(0, NESTED)), (slot + 1, 0));
    }
    hold(7, 0xffff_8881_0000_0001 + 7 * 64);
    programs.run("leaves_early", [1, 0]);
    assert_eq!((ran(&programs), programs.tally(0, NESTED)), (7, 1), "no room: missed, and counted");
    hold(3, 0);
    programs.run("leaves_early", [1, 0]);
    assert_eq!((ran(&programs), programs.tally(0, NESTED)), (8, 1));
}

#[test]
fn reads_of_memory_that_is_not_there_are_counted_for_the_clause_that_made_them() {
    let Some(programs) = programs() else { return };
    let faults = || [2, 3].map(|place| programs.tally(place, FAULTS));
    // The first page of the address space is nobody's.
    programs.run("reads", [8, 0]);
    assert_eq!((faults(), ran(&programs)), ([1, 2], 0), "what could not be read is 0");
    let word = 40u64;
    programs.run("reads", [std::ptr::from_ref(&word) as u64, 0]);
    assert_eq!(faults()[1], 3, "the kernel's reads do not reach this process, the user's do");
    assert_eq!(ran(&programs), 40);
    assert_eq!(held(&programs), []);
}

#[test]
fn a_lost_record_is_told_of_its_flow_or_counted_where_there_is_no_room() {
    let Some(programs) = programs() else { return };
    let mut model: HashMap<u64, u64> = HashMap::new();
    let mut state = 7;
    let lossy = || -> HashMap<u64, u64> {
        let table = programs.map("xw_lossy_flows");
        let slots = table.lookup_batch(table.max_entries(), MapFlags::ANY, MapFlags::ANY).unwrap();
        let word = |slot: &[u8], at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().unwrap());
        let flows: Vec<_> = slots.map(|(_, slot)| (word(&slot, 0), word(&slot, 8))).collect();
        assert_eq!(flows.len(), 16384);
        let used = || flows.iter().filter(|(flow, _)| *flow != 0);
        assert_eq!(
            used().count(),
            used().map(|(flow, _)| flow).collect::<std::collections::HashSet<_>>().len()
        );
        used().copied().collect()
    };
    let rounds = 60_000;
    for _ in 0..rounds {
        // Flow IDs as they are made: domain, CPU, and a counter; half as many again as there is room for.
        let flow = 1 << 56 | (random(&mut state) % 4) << 44 | (1 + random(&mut state) % 6144);
        programs.run("lose", [flow, 0]);
        *model.entry(flow).or_default() += 1;
    }
    let noted = lossy();
    let attributed: u64 = noted.values().sum();
    assert_eq!(programs.tally(0, DROPPED), rounds);
    assert_eq!(attributed + programs.tally(0, UNATTRIBUTED), rounds);
    assert!(programs.tally(0, UNATTRIBUTED) > 0 && noted.len() > 12_000, "{} were noted", noted.len());
    // What is noted is all that a flow has lost.
    assert!(noted.iter().all(|(flow, records)| model[flow] == *records));
    programs.run("lose", [0, 0]);
    assert_eq!((programs.tally(0, DROPPED), lossy().len()), (rounds + 1, noted.len()), "a record of no flow");
}

#[test]
fn a_table_holds_what_was_put_and_not_dropped() {
    let Some(programs) = programs() else { return };
    let (mut model, mut state): (HashMap<u64, u64>, _) = (HashMap::new(), 3);
    let mut full = 0;
    for word in 1..20_000u64 {
        let key = 0xffff_8881_0000_0000 + random(&mut state) % 48 * 232;
        if random(&mut state).is_multiple_of(4) {
            programs.run("drop", [key, 0]);
            model.remove(&key);
        } else if programs.run("put", [key, word]) == 1 {
            model.insert(key, word);
        } else {
            assert!(!model.contains_key(&key), "a key that is there needs no room");
            full += 1;
        }
        let other = 0xffff_8881_0000_0000 + random(&mut state) % 48 * 232;
        for key in [key, other] {
            let expected = model.get(&key).copied().unwrap_or(0);
            assert_eq!(u64::from(programs.run("get", [key, 0])), expected, "{key:#x} at {word}");
        }
    }
    assert!(full < 2_000, "{full} found no room among 64 slots, with 36 keys there");
    for key in [0, u64::MAX] {
        assert_eq!(programs.run("put", [key, 1]), 0);
        assert_eq!(programs.run("get", [key, 0]), 0);
        programs.run("drop", [key, 0]);
    }
}

#[test]
fn processors_do_not_see_words_of_other_keys_or_times() {
    let Some(programs) = programs() else { return };
    let programs = &programs;
    thread::scope(|scope| {
        for seed in 1..=4 {
            scope.spawn(move || {
                for round in 0..20 {
                    assert_eq!(programs.run("churn", [seed << 32 | round, 0]), 0);
                }
            });
        }
    });
}
