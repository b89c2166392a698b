//! Threads that are ready and may not run.

use xweave_trace::event::{Context, Event, Quota, State};

use super::{switch, told, wake};

/// A quota keeps a thread from a processor that has nothing else to do. Where no event tells of one, it is not known what does.
#[test]
fn who_may_not_run_is_not_told_to_wait_for_others_nor_to_be_halted() {
    let mut events = vec![
        switch(0, 0, 0, State::Runnable, 7),
        switch(10, 0, 7, State::Runnable, 8),
        switch(30, 0, 8, State::Sleeping, 0),
        switch(50, 0, 0, State::Runnable, 9),
        switch(60, 0, 9, State::Sleeping, 7),
    ];
    assert_eq!(
        told(&events, 7, 0, 70),
        ["7:running=10", "7:ready=20 by 8", "7:ready=20", "7:ready=10 by 9", "7:running=10"]
    );
    events[1].code = State::Throttled.code();
    assert_eq!(told(&events, 7, 0, 70), ["7:running=10", "7:throttled=50", "7:running=10"]);
}

/// A wake-up from another processor takes effect when that has told this one: late, if the host took it away in between.
/// Meanwhile this one may do something else, and be idle again.
#[test]
fn who_was_woken_from_afar_is_throttled_only_if_a_quota_is_used_up() {
    let woken = |quota: Option<Quota>| Event {
        object: 1,
        code: Context::Softirq.code() + quota.map_or(0, Quota::code),
        ..wake(20, 1, 8, 7)
    };
    let events = |quota, left: State| {
        vec![
            switch(0, 0, 0, State::Runnable, 7),
            switch(10, 0, 7, State::Sleeping, 0),
            woken(quota),
            switch(30, 0, 0, State::Runnable, 9),
            switch(40, 0, 9, left, 0),
            switch(60, 0, 0, State::Runnable, 7),
        ]
    };
    let of = |quota, left| told(&events(quota, left), 7, 15, 70)[1..].to_vec();
    assert_eq!(
        of(Some(Quota::Left), State::Sleeping),
        ["7:waking=10", "7:ready=10 by 9", "7:waking=20", "7:running=10"]
    );
    assert_eq!(of(Some(Quota::UsedUp), State::Sleeping), ["7:throttled=40", "7:running=10"]);
    // Another one used it up meanwhile.
    assert_eq!(of(Some(Quota::Left), State::Throttled), ["7:throttled=40", "7:running=10"]);
    // Other recorders do not tell of quotas.
    assert_eq!(of(None, State::Sleeping), ["7:waking=10", "7:ready=10 by 9", "7:ready=20", "7:running=10"]);
    // It was about to wait: it does not, and goes on as late.
    let mut events = events(Some(Quota::Left), State::Sleeping);
    (events[1].time_ns, events[2].time_ns) = (20, 15);
    events.swap(1, 2);
    assert_eq!(
        told(&events, 7, 0, 70),
        ["7:running=20", "7:waking=10", "7:ready=10 by 9", "7:waking=20", "7:running=10"]
    );
}
