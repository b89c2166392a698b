//! Memory that a process marks by calls of its own.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::*;
use crate::mark::inject::HELD_FOR;

/// Every second page of a target's memory.
fn every_second(target: &Target) -> Vec<Range> {
    (0..128).map(|page| target.range(2 * page, 1)).collect()
}

fn for_calls(target: &Target) -> Marker {
    Marker::open_for_calls(target.pid, &mut |_| {}).unwrap()
}

#[test]
fn a_process_that_may_have_no_ring_marks_its_memory_itself() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::ReadsForbidden);
    let mut marker = target.opened();
    assert!(!marker.has_ring() && target.rings() == 0);
    let outcome = marker.mark(&every_second(&target), &|| false).unwrap();
    assert!(outcome.failed.is_empty() && outcome.bytes == 128 * 4096, "{outcome:?}");
    let even: Vec<(u64, u64)> = (0..128).map(|page| (2 * page, 1)).collect();
    assert_eq!(target.marked(), pages(&even));
    assert_eq!(marker.unmark(&[target.range(0, 256)], &|| false).unwrap().bytes, 256 * 4096);
    assert_eq!(target.marked(), pages(&[]));
    marker.close().unwrap();
    target.is_left_alone();
    target.goes_on();
}

#[test]
fn one_that_may_do_neither_is_refused_with_both_reasons() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::ReadsForbiddenBoth);
    let error = Marker::open(target.pid).err().expect("refused").to_string();
    assert!(error.contains("does not allow io_uring_setup"), "{error}");
    assert!(error.contains("does not allow madvise"), "{error}");
    assert_eq!(target.marked(), pages(&[]));
    target.is_left_alone();
    target.goes_on();
}

#[test]
fn it_goes_on_as_before_whatever_it_does() {
    if !may_try() {
        return;
    }
    for does in ALL {
        let target = Target::start(does);
        let mut marker = for_calls(&target);
        let nothing = Range { start: 4096, length: 4096 };
        let mut ranges = every_second(&target);
        ranges.insert(50, nothing);
        for _ in 0..5 {
            let outcome = marker.mark(&ranges, &|| false).unwrap();
            assert_eq!((outcome.bytes, outcome.failed.len()), (128 * 4096, 1), "{does:?}");
            let (refused, error) = &outcome.failed[0];
            assert_eq!((*refused, error.raw_os_error()), (nothing, Some(libc::ENOMEM)));
            assert_eq!(target.marked().iter().filter(|marked| **marked).count(), 128, "{does:?}");
            assert_eq!(marker.unmark(&every_second(&target), &|| false).unwrap().bytes, 128 * 4096);
            assert_eq!(target.marked(), pages(&[]), "{does:?}");
        }
        target.is_left_alone();
        target.goes_on();
    }
}

#[test]
fn a_thread_is_held_for_a_time_and_goes_on_before_it_is_borrowed_again() {
    if !may_try() {
        return;
    }
    // Where each call takes longer than a thread is held, there is one each time.
    let target = Target::start(Does::Reads);
    let mut marker = for_calls(&target);
    let mut steps = Vec::new();
    let ranges = &every_second(&target)[..5];
    let outcome = marker.advise(ranges, libc::MADV_MERGEABLE, &|| false, &mut |step| {
        if step == Step::Made {
            thread::sleep(HELD_FOR);
        }
        steps.push(step);
    });
    assert_eq!(outcome.unwrap().bytes, 5 * 4096);
    let count = |wanted| steps.iter().filter(|step| **step == wanted).count();
    assert_eq!((count(Step::Stopped), count(Step::Made), count(Step::Left)), (5, 5, 5), "{steps:?}");

    // As they are, there are several. Others run here too, which may keep a thread for longer: not all the time.
    let (mut held, mut calls, mut since) = (Vec::new(), 0, Instant::now());
    for _ in 0..20 {
        let outcome =
            marker.advise(&every_second(&target), libc::MADV_MERGEABLE, &|| false, &mut |step| match step {
                Step::Stopped => since = Instant::now(),
                Step::Made => calls += 1,
                Step::Left => held.push(since.elapsed()),
                _ => {}
            });
        assert!(outcome.unwrap().failed.is_empty());
        marker.unmark(&[target.range(0, 256)], &|| false).unwrap();
    }
    held.sort();
    let [quarter, middle, longest] = [held.len() / 4, held.len() / 2, held.len() - 1].map(|nth| held[nth]);
    println!("{calls} calls in {} times; held for {middle:?}, at most {longest:?}", held.len());
    assert!(held.len() < calls / 2 && quarter < HELD_FOR + Duration::from_millis(1), "{held:?}");
    target.is_left_alone();
    target.goes_on();
}

#[test]
fn it_goes_on_when_we_are_killed_between_calls() {
    if !may_try() {
        return;
    }
    for does in [Does::Reads, Does::ReadsForbidden, Does::SpinsWithSignals, Does::Suspends] {
        for (at, step) in STEPS.iter().enumerate() {
            // The first call, and one after it.
            let is_repeated = matches!(step, Step::Set | Step::Running | Step::Entered | Step::Made);
            for nth in 1..=1 + usize::from(is_repeated) {
                let target = Target::start(does);
                ends_in_the_middle(&target, CALLS, at, nth);
                target.is_left_alone();
                target.goes_on();
                // Once registers are set, the call is made, by whomever. And it can be borrowed again.
                let marked = target.marked();
                assert!(marked.iter().skip(1).step_by(2).all(|marked| !marked), "{does:?} {step:?}");
                let done = marked.iter().filter(|marked| **marked).count();
                let is_set = STEPS[..=at].contains(&Step::Set);
                assert!(if is_set { done >= nth } else { done == 0 }, "{does:?} {step:?}: {done}");
                assert_eq!(
                    for_calls(&target).mark(&every_second(&target), &|| false).unwrap().bytes,
                    128 * 4096
                );
                target.goes_on();
            }
        }
    }
}
