use xweave_trace::event::Kind;

use super::*;
use crate::sectors::TOGETHER;

fn event(kind: Kind, time: i64, position: u64, bytes: u64) -> Event {
    Event { object: 8, position, bytes, ..Event::new(kind, 1, time, 0, 42) }
}

#[test]
fn merged_accesses_are_given_and_done_together() {
    let mut disks = Disks::default();
    for (time, position) in [(10, 100), (20, 108), (30, 900)] {
        disks.queue(&event(Kind::DiskQueue, time, position, 4096));
    }
    disks.issue(&event(Kind::DiskIssue, 50, 100, 8192));
    assert_eq!(disks.done(&event(Kind::DiskComplete, 90, 100, 8192)).ended, [0, 1]);
    let times = |number| disks.access(number).map(|access| (access.queued, access.issued, access.done));
    assert_eq!(times(0), Some((10, Some(50), Some(90))));
    assert_eq!(times(1), Some((20, Some(50), Some(90))));
    assert_eq!(times(2), Some((30, None, None)));
    let used = disks.used()[&DiskId { domain: 1, device: 8 }];
    assert_eq!((used.accesses, used.bytes, used.busy_ns), (1, 8192, 40));
    assert_eq!((used.queue_ns, used.device_ns), (40, 40));
    disks.forget_before(100);
    assert_eq!((disks.access(1), disks.access(2).map(|access| access.queued)), (None, Some(30)));
}

/// Whichever says it: what became of the accesses, and what the disk did.
#[test]
fn what_is_given_again_was_in_the_queue_until_then() {
    for bio in [0, 7] {
        let mut disks = Disks::default();
        let named = |kind, time| Event { other: bio, ..event(kind, time, 100, 8192) };
        for position in [100, 108] {
            disks.queue(&Event {
                other: if position == 100 { bio } else { 0 },
                ..event(Kind::DiskQueue, 10, position, 4096)
            });
        }
        for time in [20, 500, 1_000] {
            disks.issue(&named(Kind::DiskIssue, time));
        }
        assert_eq!(disks.done(&named(Kind::DiskComplete, 1_010)).ended, [0, 1]);
        for number in [0, 1] {
            assert_eq!(
                disks.access(number).map(|access| (access.queued, access.issued)),
                Some((10, Some(1_000)))
            );
        }
        let used = disks.used()[&DiskId { domain: 1, device: 8 }];
        assert_eq!((used.accesses, used.queue_ns, used.device_ns, used.busy_ns), (1, 990, 10, 10));
    }
}

#[test]
fn what_is_left_of_a_request_may_be_given_again() {
    let mut disks = Disks::default();
    disks.queue(&Event { other: 7, ..event(Kind::DiskQueue, 10, 100, 8192) });
    disks.issue(&Event { other: 7, ..event(Kind::DiskIssue, 20, 100, 8192) });
    assert!(disks.done(&Event { other: 7, ..event(Kind::DiskComplete, 40, 100, 4096) }).ended.is_empty());
    disks.issue(&Event { other: 7, ..event(Kind::DiskIssue, 60, 108, 4096) });
    assert_eq!(disks.done(&Event { other: 7, ..event(Kind::DiskComplete, 90, 108, 4096) }).ended, [0]);
    let used = disks.used()[&DiskId { domain: 1, device: 8 }];
    assert_eq!((used.accesses, used.bytes, used.device_ns), (1, 8192, 70));
}

#[test]
fn a_large_access_is_done_with_its_last_part() {
    let mut disks = Disks::default();
    disks.queue(&event(Kind::DiskQueue, 10, 100, 131_072));
    disks.issue(&event(Kind::DiskIssue, 20, 100, 130_560));
    assert!(disks.done(&event(Kind::DiskComplete, 60, 100, 130_560)).ended.is_empty());
    // Somebody else asks for the last sector as well, which the disk is given twice then.
    disks.queue(&event(Kind::DiskQueue, 65, 355, 512));
    disks.issue(&event(Kind::DiskIssue, 70, 355, 512));
    let told = disks.access(0).map(|access| (access.issued, access.done));
    assert_eq!(told, Some((Some(20), None)));
    assert_eq!(disks.done(&event(Kind::DiskComplete, 90, 355, 512)).ended, [0]);
    disks.issue(&event(Kind::DiskIssue, 92, 355, 512));
    assert_eq!(disks.done(&event(Kind::DiskComplete, 99, 355, 512)).ended, [1]);
    assert_eq!(disks.access(0).and_then(|access| access.done), Some(90));
    let used = disks.used()[&DiskId { domain: 1, device: 8 }];
    assert_eq!((used.accesses, used.bytes, used.busy_ns), (3, 131_584, 67));
    assert_eq!((used.queue_ns, used.device_ns), (10 + 27, 40 + 20 + 7));
}

/// Of the access that the kernel calls so.
fn named(kind: Kind, time: i64, bio: u32) -> Event {
    Event { other: bio, ..event(kind, time, 100, 4096) }
}

#[test]
fn accesses_to_the_same_sectors_are_told_apart_by_their_names_and_else_come_in_their_order() {
    for names in [[3, 4], [0, 0]] {
        let mut disks = Disks::default();
        // The second is given to the disk and done first, if that can be known.
        let (first, second) = if names[0] == 0 { (0, 1) } else { (1, 0) };
        disks.queue(&named(Kind::DiskQueue, 10, names[0]));
        disks.queue(&named(Kind::DiskQueue, 20, names[1]));
        disks.issue(&named(Kind::DiskIssue, 30, names[first]));
        let done = disks.done(&named(Kind::DiskComplete, 40, names[first]));
        assert_eq!((done.of, done.ended), (Some(first as u64), vec![first as u64]));
        disks.issue(&named(Kind::DiskIssue, 50, names[second]));
        let done = disks.done(&named(Kind::DiskComplete, 70, names[second]));
        assert_eq!((done.issued, done.ended), (Some(50), vec![second as u64]));
        let used = disks.used()[&DiskId { domain: 1, device: 8 }];
        assert_eq!((used.accesses, used.busy_ns, used.device_ns), (2, 30, 30));
    }
}

#[test]
fn a_disk_may_work_on_two_accesses_to_the_same_sectors() {
    let mut disks = Disks::default();
    for (time, bio) in [(10, 3), (20, 4)] {
        disks.queue(&named(Kind::DiskQueue, time, bio));
        disks.issue(&named(Kind::DiskIssue, time + 2, bio));
    }
    // Given again, where the disk had no room: one access.
    disks.issue(&named(Kind::DiskIssue, 30, 3));
    let done = disks.done(&named(Kind::DiskComplete, 40, 4));
    assert_eq!((done.issued, done.ended), (Some(22), vec![1]));
    let done = disks.done(&named(Kind::DiskComplete, 50, 3));
    assert_eq!((done.issued, done.ended), (Some(30), vec![0]));
}

#[test]
fn a_request_that_is_done_in_parts_is_known_by_what_is_left_of_it() {
    let mut disks = Disks::default();
    for (bio, position) in [(3, 100), (4, 108)] {
        disks.queue(&Event { other: bio, ..event(Kind::DiskQueue, 10, position, 4096) });
    }
    disks.issue(&Event { other: 3, ..event(Kind::DiskIssue, 20, 100, 8192) });
    disks.queue(&Event { other: 5, ..event(Kind::DiskQueue, 25, 108, 4096) });
    disks.issue(&Event { other: 5, ..event(Kind::DiskIssue, 30, 108, 4096) });
    assert_eq!(disks.done(&named(Kind::DiskComplete, 40, 3)).ended, [0]);
    let rest = |time, bio| Event { other: bio, ..event(Kind::DiskComplete, time, 108, 4096) };
    assert_eq!(disks.done(&rest(50, 4)).ended, [1]);
    assert_eq!(disks.done(&rest(60, 5)).ended, [2]);
}

#[test]
fn what_a_driver_takes_without_requests_ends_as_a_whole() {
    let mut disks = Disks::default();
    // Its sectors were asked for in parts: the end is told of once.
    for (time, bio) in [(10, 3), (20, 4)] {
        disks.queue(&Event { other: bio, ..event(Kind::DiskQueue, time, 100, 1 << 20) });
    }
    let end = |time, bio| Event { other: bio, ..event(Kind::DiskComplete, time, 0, 0) };
    assert_eq!(disks.done(&end(50, 4)), Done { ended: vec![1], ..Done::default() });
    assert_eq!(disks.done(&end(70, 3)), Done { ended: vec![0], ..Done::default() });
    assert!(disks.done(&end(80, 3)).ended.is_empty());
    let used = disks.used()[&DiskId { domain: 1, device: 8 }];
    assert_eq!((used.accesses, used.bytes, used.busy_ns), (2, 2 << 20, 60));
    assert_eq!((used.queue_ns, used.device_ns, disks.endless()), (0, 30 + 60, (2, 0)));
}

#[test]
fn what_goes_on_to_another_disk_as_it_is_is_that_one_s() {
    let mut disks = Disks::default();
    disks.queue(&event(Kind::DiskQueue, 10, 96, 8192));
    // The disk 8 lies on the disks 16 and 17, half on each.
    let remap = |object, position, bytes| Event {
        other: 8,
        bytes,
        code: 8,
        ..Event { object, ..event(Kind::DiskRemap, 20, position, 0) }
    };
    assert_eq!(disks.remap(&remap(16, 1000, 96)), [(0, 1)]);
    assert!(disks.access(0).is_some());
    assert_eq!(disks.remap(&remap(17, 2000, 104)), [(0, 2)]);
    assert_eq!(disks.remap(&remap(17, 2000, 104)), []);
    assert!(disks.access(0).is_none());
    for (object, position, number) in [(17, 2000, 2), (16, 1000, 1)] {
        disks.issue(&Event { object, ..event(Kind::DiskIssue, 30, position, 4096) });
        let done = Event { object, ..event(Kind::DiskComplete, 90, position, 4096) };
        assert_eq!(disks.done(&done).ended, [number]);
        let told = disks.access(number).map(|access| (access.thread.tid, access.queued, access.issued));
        assert_eq!(told, Some((42, 10, Some(30))));
    }
    assert_eq!(disks.endless(), (3, 0));
}

#[test]
fn what_waits_for_sectors_that_others_read_is_not_done_with_them() {
    let mut disks = Disks::default();
    disks.queue(&event(Kind::DiskQueue, 10, 100, 4096));
    disks.issue(&event(Kind::DiskIssue, 20, 100, 4096));
    disks.queue(&event(Kind::DiskQueue, 30, 96, 4096));
    assert_eq!(disks.done(&event(Kind::DiskComplete, 40, 100, 4096)).ended, [0]);
    disks.issue(&event(Kind::DiskIssue, 50, 96, 4096));
    assert_eq!(disks.done(&event(Kind::DiskComplete, 60, 96, 4096)).ended, [1]);
}

#[test]
fn a_flush_has_no_sectors_and_is_done_all_the_same() {
    let mut disks = Disks::default();
    disks.queue(&event(Kind::DiskQueue, 1, 0, 0));
    disks.issue(&event(Kind::DiskIssue, 2, 0, 0));
    assert_eq!(disks.done(&event(Kind::DiskComplete, 5, 0, 0)).ended, [0]);
}

#[test]
fn what_is_asked_for_again_is_an_access_of_its_own_though_the_end_of_the_first_was_not_seen() {
    let mut disks = Disks::default();
    for time in [10, 110] {
        disks.queue(&event(Kind::DiskQueue, time, 100, 4096));
        disks.issue(&event(Kind::DiskIssue, time + 10, 100, 4096));
    }
    // Given again, where the disk had no room: one access.
    disks.issue(&event(Kind::DiskIssue, 130, 100, 4096));
    let done = disks.done(&event(Kind::DiskComplete, 150, 100, 4096));
    assert_eq!((done.issued, done.of, done.ended), (Some(130), Some(1), vec![1]));
    assert_eq!(disks.used()[&DiskId { domain: 1, device: 8 }].accesses, 2);
    assert_eq!(disks.endless(), (2, 1));
}

#[test]
fn a_request_that_is_done_in_parts_is_one_access() {
    let mut disks = Disks::default();
    disks.queue(&event(Kind::DiskQueue, 10, 100, 8192));
    disks.issue(&event(Kind::DiskIssue, 20, 100, 8192));
    let first = disks.done(&event(Kind::DiskComplete, 50, 100, 4096));
    assert_eq!((first.issued, first.ended), (Some(20), vec![]));
    let second = disks.done(&event(Kind::DiskComplete, 90, 108, 4096));
    assert_eq!((second.issued, second.of, second.ended), (Some(20), Some(0), vec![0]));
    let used = disks.used()[&DiskId { domain: 1, device: 8 }];
    assert_eq!((used.accesses, used.busy_ns, used.device_ns, used.queue_ns), (1, 70, 70, 10));
}

#[test]
fn accesses_whose_ends_are_not_recorded_do_not_stay() {
    let mut disks = Disks::default();
    let mut late = 0;
    for (time, nth) in (0..).step_by(10).zip(0..10 * MOST as u64) {
        let position = nth % 1000 * 8;
        disks.queue(&event(Kind::DiskQueue, time, position, 4096));
        disks.issue(&event(Kind::DiskIssue, time + 1, position, 4096));
        late = time;
    }
    // One that is slow is not lost for others that were done meanwhile.
    disks.queue(&event(Kind::DiskQueue, late, 1 << 40, 4096));
    for (time, nth) in (late..).step_by(10).zip(0..10 * MOST as u64) {
        let position = (1 << 30) + nth % 1000 * 8;
        disks.queue(&event(Kind::DiskQueue, time, position, 4096));
        disks.done(&event(Kind::DiskComplete, time + 5, position, 4096));
        if nth % 1000 == 0 {
            disks.forget_before(time);
        }
    }
    assert!(disks.accesses.len() < 2 * MOST + 1000, "{}", disks.accesses.len());
    let disk = &disks.all[&DiskId { domain: 1, device: 8 }];
    assert!(disk.queued.len() <= 2 * MOST && disk.requests.len() <= MOST);
    assert!(disk.latest.len() < 2 * MOST);
    assert_eq!(disks.done(&event(Kind::DiskComplete, i64::MAX, 1 << 40, 4096)).ended.len(), 1);
    assert_eq!(disks.endless(), (20 * MOST as u64 + 1, 10 * MOST as u64));
}

#[test]
fn requests_of_the_same_accesses_again_and_again_do_not_keep_them_all() {
    let mut disks = Disks::default();
    for nth in 0..2 * MOST as u64 - 1 {
        disks.queue(&event(Kind::DiskQueue, 10, 0, (1 << 40) + nth));
    }
    for nth in 0..MOST as u64 - 1 {
        disks.issue(&event(Kind::DiskIssue, 20, nth * 8, 512));
    }
    let of = || disks.all.values().flat_map(|disk| disk.requests.values()).map(|request| request.of.len());
    assert!(of().max() <= Some(TOGETHER) && of().sum::<usize>() <= GIVEN);
    assert!(disks.done(&event(Kind::DiskComplete, 30, 8, 512)).ended.is_empty());
    // Their ends are missing, and said to be.
    assert_eq!(disks.endless(), (2 * MOST as u64 - 1, 2 * MOST as u64 - 1));
}

#[test]
fn what_many_disks_have_under_way_is_bounded_and_no_other_domain_pays_for_it() {
    let mut disks = Disks::default();
    let honest = |kind, time| Event { domain: 2, ..event(kind, time, 100, 4096) };
    disks.queue(&honest(Kind::DiskQueue, 1));
    disks.issue(&honest(Kind::DiskIssue, 2));
    let (count, each) = (2 * DISKS as u64, 80);
    for object in 0..count {
        let of = |kind, position| Event { object, ..event(kind, 3, position, 4096) };
        for nth in 0..each {
            disks.queue(&of(Kind::DiskQueue, nth * 8));
            disks.issue(&of(Kind::DiskIssue, nth * 8));
        }
    }
    assert!(disks.all.len() <= DISKS + 1, "{}", disks.all.len());
    assert!(disks.accesses.len() <= 2 * UNDER_WAY, "{}", disks.accesses.len());
    let given: usize = disks.all.values().map(|disk| disk.requests.len()).sum();
    assert!(given <= GIVEN, "{given}");
    assert_eq!(disks.done(&honest(Kind::DiskComplete, 9)).ended, [0]);
    assert_eq!(disks.endless(), (count * each + 1, count * each));
}

#[test]
fn an_event_looks_at_few_of_the_accesses_that_lie_near() {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};
    // Of this thread alone, however busy the machine is.
    let spent = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    // Before those that it is about.
    let took = |accesses| {
        let mut disks = Disks::default();
        for _ in 0..accesses {
            disks.queue(&event(Kind::DiskQueue, 10, 1 << 20, 512 << 10));
        }
        let begin = spent();
        for _ in 0..20_000 {
            disks.issue(&event(Kind::DiskIssue, 20, (1 << 20) + 1024, 512));
        }
        spent() - begin
    };
    let (hostile, honest) = (took(2 * MOST - 1), took(TOGETHER));
    assert!(hostile < 6 * honest + Duration::from_millis(50), "{hostile:?}, and {honest:?}");
}
