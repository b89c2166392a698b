//! Waits within calls of the kernel, for the other end of a pipe or a page.

use xweave_trace::event::{Event, Kind, Sending, State};

use super::{disk, switch, told, wake};

#[test]
fn a_wait_for_a_pipe_is_what_its_other_end_did() {
    let pipe = |kind, time, cpu, tid| Event {
        object: 99,
        position: 14,
        bytes: 8,
        ..Event::new(kind, 1, time, cpu, tid)
    };
    let begins =
        |time, cpu, tid| Event { code: Sending::Begins.code(), ..pipe(Kind::PipeWrite, time, cpu, tid) };
    // 7 reads, and 8 writes after a while; then 8 writes more than there is room for, and 7 reads that after a while.
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        switch(5, 1, 0, State::Runnable, 8),
        switch(10, 0, 7, State::Sleeping, 0),
        begins(60, 1, 8),
        wake(62, 1, 8, 7),
        switch(65, 0, 0, State::Runnable, 7),
        Event { code: 58, ..pipe(Kind::PipeRead, 66, 0, 7) },
        begins(70, 1, 8),
        switch(80, 1, 8, State::Sleeping, 0),
        wake(100, 0, 7, 8),
        switch(102, 1, 0, State::Runnable, 8),
        pipe(Kind::PipeRead, 103, 0, 7),
        Event { bytes: 40, ..pipe(Kind::PipeFull, 110, 1, 8) },
    ];
    let data = "for Data { pipe: 99, writer: ThreadId { domain: 1, tid: 8 } }";
    assert_eq!(
        told(&events, 7, 0, 70),
        [
            "7:running=10".to_owned(),
            format!("8:running=52 {data}"),
            "7:waking=3".into(),
            "7:running=5".into()
        ]
    );
    let room = "for Room { pipe: 99, reader: ThreadId { domain: 1, tid: 7 } }";
    assert_eq!(
        told(&events, 8, 70, 110),
        [
            "8:running=10".to_owned(),
            format!("7:running=20 {room}"),
            "8:waking=2".into(),
            "8:running=8".into()
        ]
    );
}

#[test]
fn a_wait_for_a_disk_within_a_fault_is_told_as_such() {
    let events = |fault| {
        [
            switch(0, 0, 0, State::Runnable, 7),
            disk(Kind::DiskQueue, 10, 0, 7, 64),
            disk(Kind::DiskIssue, 10, 0, 7, 64),
            switch(12, 0, 7, State::Blocked, 0),
            Event::new(Kind::IrqEnter, 1, 90, 0, 0),
            disk(Kind::DiskComplete, 90, 0, 0, 64),
            wake(90, 0, 0, 7),
            Event::new(Kind::IrqExit, 1, 91, 0, 0),
            switch(95, 0, 0, State::Runnable, 7),
            Event { bytes: 90, ..Event::new(fault, 1, 99, 0, 7) },
        ]
    };
    for (fault, why) in
        [(Kind::PageFault, " for PageOf(Name(0))"), (Kind::SwapIn, " for Swapped"), (Kind::Other, "")]
    {
        assert_eq!(
            told(&events(fault), 7, 0, 100),
            [
                "7:running=12".to_owned(),
                format!("disk:device=78{why}"),
                "7:waking=5".into(),
                "7:running=5".into()
            ]
        );
    }
}
