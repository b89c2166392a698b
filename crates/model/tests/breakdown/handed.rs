//! Waits that a thread ends which is not whom, or what, was waited for.

use super::*;

/// Thread 7 waits for a disk, whose interrupt only wakes a thread that handles it: 9, which another one keeps from the CPU.
fn handled(completes: Event) -> Vec<String> {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        switch(0, 1, 9, State::Sleeping, 8),
        disk(Kind::DiskQueue, 10, 0, 7, 64),
        switch(12, 0, 7, State::Blocked, 0),
        disk(Kind::DiskIssue, 20, 0, 0, 64),
        Event::new(Kind::IrqEnter, 1, 80, 1, 8),
        Event { code: Context::Hard.code(), ..wake(82, 1, 8, 9) },
        Event::new(Kind::IrqExit, 1, 84, 1, 8),
        switch(90, 1, 8, State::Runnable, 9),
        completes,
        Event { code: Context::Task.code(), ..wake(94, 1, 9, 7) },
        switch(97, 0, 0, State::Runnable, 7),
        of_end(Kind::Receive, 99, CLIENT),
    ];
    told(&events, 7, 0, 100)
}

#[test]
fn a_wait_for_a_disk_that_a_thread_of_its_interrupt_ends_is_the_disks() {
    assert_eq!(
        handled(disk(Kind::DiskComplete, 92, 1, 9, 64)),
        [
            "7:running=12",
            "disk:queue=8",
            "disk:device=62",
            "9:ready=8 by 8",
            "9:running=4",
            "7:waking=3",
            "7:running=3"
        ]
    );
    // What it completes is another access; or nothing.
    for other in [disk(Kind::DiskComplete, 92, 1, 9, 640), wake(92, 1, 9, 6)] {
        let told = handled(other);
        assert!(told.iter().all(|piece| !piece.starts_with("disk")), "{told:?}");
    }
}

/// Thread 7 is told of something on a connection, and waits for a lock before it reads that.
#[test]
fn a_wait_for_a_lock_is_none_for_what_is_received_next() {
    const FUTEX: u64 = 0x7f00_0000_1000;
    let at = |address, kind, time, tid| Event { object: address, ..Event::new(kind, 1, time, 0, tid) };
    let told = |lets_go: u64| {
        let futex = |kind, time, tid| at(FUTEX, kind, time, tid);
        let mut events = vec![switch(0, 0, 7, State::Sleeping, 0)];
        events.extend(interrupt(1, 20, 7));
        events.extend([
            switch(22, 0, 0, State::Runnable, 7),
            futex(Kind::LockWait, 25, 7),
            switch(26, 0, 7, State::Sleeping, 8),
            futex(Kind::LockWake, 49, 8),
            Event { code: Context::Task.code(), ..wake(50, 0, 8, 7) },
            switch(55, 0, 8, State::Runnable, 7),
            futex(Kind::LockAcquired, 56, 7),
            of_end(Kind::Receive, 58, CLIENT.peer()),
            at(lets_go, Kind::LockWake, 59, 7),
        ]);
        told(&events, 7, 22, 60)
    };
    let by = |how: &str| format!("8:running=24 {how} futex 0x7f0000001000");
    assert_eq!(told(FUTEX)[1], by("with"));
    assert!(!told(FUTEX + 64).contains(&by("with")));
}

/// A thread of the host brings an answer of a guest, of which nothing tells that it is one, and had waited for a CPU for other
/// packets before.
#[test]
fn who_brings_what_another_kernel_sent_was_not_waited_for() {
    let told = |process: u64| {
        let events = [
            Event { other: 7, object: 7, ..Event::new(Kind::Thread, 1, 0, 0, 0) },
            Event { other: 9, object: process, ..Event::new(Kind::Thread, 1, 0, 0, 0) },
            in_domain(2, of_end(Kind::Receive, 1, CLIENT.peer())),
            switch(2, 0, 0, State::Runnable, 7),
            switch(3, 1, 9, State::Sleeping, 8),
            of_end(Kind::Send, 10, CLIENT),
            switch(12, 0, 7, State::Sleeping, 0),
            in_domain(2, of_end(Kind::Send, 20, CLIENT.peer())),
            Event { code: Context::Task.code(), ..wake(30, 2, 5, 9) },
            switch(50, 1, 8, State::Runnable, 9),
            switch(52, 1, 9, State::Sleeping, 8),
            Event { code: Context::Task.code(), ..wake(80, 2, 5, 9) },
            switch(85, 1, 8, State::Runnable, 9),
            Event { code: Context::Task.code(), ..wake(90, 1, 9, 7) },
            switch(95, 0, 0, State::Runnable, 7),
            of_end(Kind::Receive, 99, CLIENT),
        ];
        told_of(&mut Machine::default(), &events, thread(7), 12, 100)
    };
    let other = told(9);
    assert!(other.contains(&"9:ready=5 by 8".to_owned()), "{other:?}");
    assert!(!other.contains(&"9:ready=20 by 8".to_owned()), "{other:?}");
    // One of its own process may have received that, and handed it on.
    assert!(told(7).contains(&"9:ready=20 by 8".to_owned()));
}

/// A thread of the kernel that ends a wait had waited for a CPU before, for others, and slept again.
#[test]
fn who_slept_before_it_ended_a_wait_had_done_other_things_before() {
    let told = |process: u64, sleeps: State| {
        let events = [
            Event { other: 7, object: 7, ..Event::new(Kind::Thread, 1, 0, 0, 0) },
            Event { other: 9, object: process, ..Event::new(Kind::Thread, 1, 0, 0, 0) },
            switch(2, 0, 0, State::Runnable, 7),
            switch(3, 1, 9, State::Sleeping, 8),
            switch(12, 0, 7, State::Sleeping, 0),
            Event { code: Context::Task.code(), ..wake(20, 2, 5, 9) },
            switch(50, 1, 8, State::Runnable, 9),
            switch(60, 1, 9, sleeps, 0),
            Event { code: Context::Task.code(), ..wake(80, 2, 5, 9) },
            switch(85, 1, 0, State::Runnable, 9),
            Event { code: Context::Task.code(), ..wake(90, 1, 9, 7) },
            switch(95, 0, 0, State::Runnable, 7),
        ];
        told(&events, 7, 12, 95)
    };
    assert_eq!(
        told(9, State::Sleeping),
        ["7:waiting=48", "5:unknown=20", "9:waking=5", "9:running=5", "7:waking=5"]
    );
    // What is made to leave the CPU has not slept; and one of the same process is known to work for it.
    assert!(told(9, State::Runnable).contains(&"9:ready=30 by 8".to_owned()));
    assert!(told(7, State::Sleeping).contains(&"9:ready=30 by 8".to_owned()));
}
