//! On the running kernel, with children that see for themselves whether they were changed.

use std::{
    env,
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::Duration,
};

use super::*;
use target::{Does, Target};

mod calls;
mod target;

const ALL: [Does; 8] = [
    Does::Sleeps,
    Does::WaitsForFutex,
    Does::Polls,
    Does::Reads,
    Does::Spins,
    Does::SpinsWithSignals,
    Does::ReadsWithSignals,
    Does::Suspends,
];

const STEPS: [Step; 10] = [
    Step::Seized,
    Step::Stopped,
    Step::Read,
    Step::Written,
    Step::Set,
    Step::Masked,
    Step::Running,
    Step::Entered,
    Step::Made,
    Step::Left,
];

/// Tells a process that is to end in the middle which one it is to borrow, and when to end: in numbers, as
/// [`ends_in_the_middle`] is given them.
const ENDS_AT: &str = "XWEAVE_MARK_ENDS_AT";

/// Of what it is the middle: of opening a ring, of closing it, of marking every second page by calls.
const OPENS: usize = 0;
const CLOSES: usize = 1;
const CALLS: usize = 2;

/// Borrows a target, and is killed when it gets to a step of that for the nth time.
fn ends_in_the_middle(target: &Target, of: usize, step: usize, nth: usize) {
    let status = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "mark::tests::the_one_that_ends_in_the_middle"])
        .env(ENDS_AT, format!("{} {} {of} {step} {nth}", target.pid, target.range(0, 1).start))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{:?}: {status:?}", STEPS[step]);
    target.is_let_go();
}

/// Says so if it cannot be tried here.
fn may_try() -> bool {
    let target = Target::start(Does::Reads);
    let refused = match Marker::open(target.pid) {
        Err(
            MarkError::IoUringDisabled { .. } | MarkError::NotPermitted { .. } | MarkError::ShadowStack(_),
        ) => true,
        Err(MarkError::NoThread { last: Unfit::NotTraceable, .. }) => true,
        Err(MarkError::Refused { ref source, .. }) => {
            matches!(source.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
        }
        _ => return std::is_x86_feature_detected!("avx") || skipped("no AVX"),
    };
    !refused || skipped("tracing or io_uring is not permitted here")
}

fn skipped(why: &str) -> bool {
    println!("SKIPPED: {why}");
    false
}

/// Which pages are to be marked: of these ranges.
fn pages(ranges: &[(u64, u64)]) -> Vec<bool> {
    (0..256).map(|page| ranges.iter().any(|(first, pages)| (*first..first + pages).contains(&page))).collect()
}

#[test]
fn memory_of_a_process_is_marked_and_unmarked_whatever_it_does_and_it_goes_on() {
    if !may_try() {
        return;
    }
    for does in ALL {
        let target = Target::start(does);
        let mut marker = target.opened();
        // It is ours alone.
        assert_eq!(target.rings(), 0);
        let (first, second) = (target.range(16, 40), target.range(100, 1));
        let outcome = marker.mark(&[first, second], &|| false).unwrap();
        assert!(outcome.failed.is_empty(), "{outcome:?}");
        assert_eq!(outcome.bytes, 41 * 4096);
        assert_eq!(target.marked(), pages(&[(16, 40), (100, 1)]), "{does:?}");
        let outcome = marker.unmark(&[target.range(20, 10), second], &|| false).unwrap();
        assert_eq!(outcome.bytes, 11 * 4096);
        assert_eq!(target.marked(), pages(&[(16, 4), (30, 26)]), "{does:?}");
        target.goes_on();
        marker.close().unwrap();
        target.is_left_alone();
        target.goes_on();
    }
}

#[test]
fn a_process_can_be_borrowed_again_and_again() {
    if !may_try() {
        return;
    }
    for does in [Does::SpinsWithSignals, Does::ReadsWithSignals] {
        let target = Target::start(does);
        for _ in 0..20 {
            target.opened().close().unwrap();
        }
        target.is_left_alone();
        target.goes_on();
    }
}

#[test]
fn a_ring_that_is_not_ours_is_not_closed() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::Reads);
    let still_open = || Marker::open_hooked(target.pid, &mut |_| {}).unwrap();
    let (mut one, mut other) = (still_open(), still_open());
    let right = one.descriptor;
    // As if the process had closed ours, and made one of its own.
    one.descriptor = other.descriptor;
    one.close_hooked(&mut |_| {}).unwrap();
    assert_eq!(target.rings(), 2);
    // Nor is what is none at all.
    one.descriptor = 0;
    one.close_hooked(&mut |_| {}).unwrap();
    assert_eq!(target.rings(), 2);
    one.descriptor = right;
    drop(one);
    assert_eq!(target.rings(), 1);
    assert_eq!(other.mark(&[target.range(0, 1)], &|| false).unwrap().bytes, 4096);
    drop(other);
    target.is_left_alone();
    target.goes_on();
}

#[test]
fn memory_that_is_not_there_is_told_and_the_rest_is_marked() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::Reads);
    let mut marker = target.opened();
    let nothing = Range { start: 4096, length: 4096 };
    // More than the ring holds at once.
    let mut ranges: Vec<Range> = (0..100).map(|page| target.range(2 * page, 1)).collect();
    ranges.insert(50, nothing);
    let outcome = marker.mark(&ranges, &|| false).unwrap();
    assert_eq!((outcome.bytes, outcome.failed.len()), (100 * 4096, 1));
    assert_eq!((outcome.failed[0].0, outcome.failed[0].1.raw_os_error()), (nothing, Some(libc::ENOMEM)));
    let even: Vec<(u64, u64)> = (0..100).map(|page| (2 * page, 1)).collect();
    assert_eq!(target.marked(), pages(&even));
    // It is closed when it is dropped, too.
    drop(marker);
    target.is_left_alone();
    target.goes_on();
}

#[test]
#[ignore = "a process of another test's"]
fn the_one_that_ends_in_the_middle() {
    let Ok(text) = env::var(ENDS_AT) else { return };
    let words: Vec<u64> = text.split(' ').map(|word| word.parse().unwrap()).collect();
    let [pid, memory, of, at, mut times] = words[..] else { panic!("{text}") };
    let mut end = |step| {
        times -= u64::from(step == STEPS[usize::try_from(at).unwrap()]);
        if times == 0 {
            // SAFETY: ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    };
    let pid = u32::try_from(pid).unwrap();
    match usize::try_from(of).unwrap() {
        OPENS => drop(Marker::open_hooked(pid, &mut end).unwrap()),
        CLOSES => Marker::open_hooked(pid, &mut |_| {}).unwrap().close_hooked(&mut end).unwrap(),
        _ => {
            let mut marker = Marker::open_for_calls(pid, &mut |_| {}).unwrap();
            let ranges: Vec<Range> =
                (0..128).map(|page| Range { start: memory + 8192 * page, length: 4096 }).collect();
            marker.advise(&ranges, libc::MADV_MERGEABLE, &|| false, &mut end).unwrap();
        }
    }
}

#[test]
fn a_process_goes_on_when_we_are_killed_at_any_step() {
    if !may_try() {
        return;
    }
    for does in ALL {
        for step in 0..STEPS.len() {
            // Both system calls are made alike.
            let closes_too = matches!(does, Does::Reads | Does::SpinsWithSignals);
            for of in [OPENS, CLOSES].into_iter().take(1 + usize::from(closes_too)) {
                let target = Target::start(does);
                let before = target.rounds();
                ends_in_the_middle(&target, of, step, 1);
                if matches!(does, Does::Sleeps | Does::Spins | Does::SpinsWithSignals) {
                    target.went_on_since(before);
                }
                target.goes_on();
                // One that is killed when it closes leaves nothing, once it is too late to stop it.
                if of == CLOSES && STEPS[..step].contains(&Step::Written) {
                    target.is_left_alone();
                }
                // It can be borrowed again.
                drop(target.opened());
                target.goes_on();
            }
        }
    }
}

#[test]
fn a_signal_that_ends_a_wait_ends_it_though_it_comes_meanwhile() {
    if !may_try() {
        return;
    }
    for at in [
        Step::Seized,
        Step::Stopped,
        Step::Written,
        Step::Set,
        Step::Masked,
        Step::Entered,
        Step::Made,
        Step::Left,
    ] {
        let target = Target::start(Does::Suspends);
        let before = target.rounds();
        let marker = Marker::open_hooked(target.pid, &mut |step| {
            if step == at {
                target.signal(libc::SIGUSR1);
            }
        });
        target.went_on_since(before);
        marker.unwrap().close().unwrap();
        target.is_left_alone();
        target.goes_on();
    }
}

#[test]
fn a_process_that_is_stopped_stays_so() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::Reads);
    target.signal(libc::SIGSTOP);
    while !target.status("State").starts_with('T') {
        std::thread::yield_now();
    }
    assert!(matches!(Marker::open(target.pid), Err(MarkError::Stopped(_))));
    assert!(target.status("State").starts_with('T'));
    target.signal(libc::SIGCONT);
    target.goes_on();

    // It is stopped in the middle, and goes on when it may.
    let mut marker = std::thread::scope(|scope| {
        let marker = Marker::open_hooked(target.pid, &mut |step| {
            if step == Step::Stopped {
                target.signal(libc::SIGSTOP);
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(100));
                    assert_eq!(target.rings(), 0);
                    target.signal(libc::SIGCONT);
                });
            }
        });
        marker.unwrap()
    });
    assert_eq!(marker.mark(&[target.range(0, 1)], &|| false).unwrap().bytes, 4096);
    marker.close().unwrap();
    target.is_left_alone();
    target.goes_on();
}

#[test]
fn a_process_that_cannot_be_stopped_is_left_as_it_is() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::WaitsForChild);
    let error = Marker::open(target.pid).err().expect("refused");
    assert!(matches!(error, MarkError::NoThread { last: Unfit::DoesNotStop, tried: 1, .. }), "{error}");
    target.is_left_alone();
    target.goes_on();
}

#[test]
fn a_restartable_sequence_is_not_left_in_the_middle() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::Reads);
    let mut has_rseq = true;
    let marker = Marker::open_hooked(target.pid, &mut |step| {
        if step == Step::Stopped {
            has_rseq &= target.is_in_rseq_where_it_stopped();
        }
    });
    if !has_rseq {
        skipped("the C library makes no use of restartable sequences");
        return;
    }
    let error = marker.err().expect("refused");
    assert!(matches!(error, MarkError::NoThread { last: Unfit::Rseq, .. }), "{error}");
    target.is_left_alone();
    target.goes_on();
}

#[test]
fn a_process_that_is_traced_is_left_to_its_tracer() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::Reads);
    let tracee = ptrace::Tracee::seize(target.pid.cast_signed(), true).unwrap();
    let error = Marker::open(target.pid).err().expect("refused");
    assert!(matches!(error, MarkError::Traced { .. }), "{error}");
    drop(tracee);
    target.goes_on();
}

#[test]
fn a_seccomp_filter_is_asked_first() {
    if !may_try() {
        return;
    }
    let target = Target::start(Does::ReadsFiltered);
    let mut marker = target.opened();
    assert_eq!(marker.mark(&[target.range(0, 1)], &|| false).unwrap().bytes, 4096);
    marker.close().unwrap();
    target.goes_on();
    let target = Target::start(Does::ReadsForbidden);
    let error = Marker::open_hooked(target.pid, &mut |_| {}).err().expect("refused");
    assert!(matches!(error, MarkError::Seccomp { why: Filtered::Call("io_uring_setup"), .. }), "{error}");
    target.is_left_alone();
    target.goes_on();
}

#[test]
fn a_program_of_others_is_borrowed_and_goes_on() {
    if !may_try() {
        return;
    }
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
    let mut echo = |text: &[u8]| {
        input.write_all(text).unwrap();
        let mut back = vec![0; text.len()];
        output.read_exact(&mut back).unwrap();
        assert_eq!(back, text);
    };
    echo(b"before");
    let mut marker = Marker::open(cat.id()).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", cat.id())).unwrap();
    let heap = maps.lines().find(|line| line.ends_with("[heap]")).unwrap();
    let (from, to) = heap.split(' ').next().unwrap().split_once('-').unwrap();
    let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
    assert_eq!(marker.mark(&[Range { start: from, length: to - from }], &|| false).unwrap().bytes, to - from);
    echo(b"meanwhile");
    marker.close().unwrap();
    echo(b"after");
    // One that ends while it is borrowed: there is nothing to be closed.
    let mut marker = Marker::open(cat.id()).unwrap();
    cat.kill().unwrap();
    cat.wait().unwrap();
    assert!(matches!(
        marker.mark(&[Range { start: from, length: 4096 }], &|| false),
        Err(MarkError::Gone(_))
    ));
    marker.close().unwrap();
}

#[test]
fn a_process_that_begins_another_program_meanwhile_is_left_alone() {
    if !may_try() {
        return;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo; read line; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let (mut input, mut output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    // Each program has the C library's code only a little after it began: so each is heard of before it is looked at.
    let mut answers = || output.read_exact(&mut [0]).unwrap();
    answers();
    let name = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let (pid, mut begins) = (shell.id(), true);
    let marker = Marker::open_hooked(pid, &mut |step| {
        if step == Step::Seized && std::mem::take(&mut begins) {
            input.write_all(b"\n").unwrap();
            while name(pid) != "cat\n" {
                std::thread::yield_now();
            }
        }
    });
    let error = marker.err().expect("refused");
    assert!(matches!(error, MarkError::NoThread { last: Unfit::Code, .. }), "{error}");
    input.write_all(b"\n").unwrap();
    answers();
    Marker::open(pid).unwrap().close().unwrap();
    input.write_all(b"after").unwrap();
    drop(input);
    let mut back = String::new();
    output.read_to_string(&mut back).unwrap();
    assert_eq!(back, "after");
    assert!(shell.wait().unwrap().success());
}

#[test]
fn ranges_are_of_whole_pages_and_split_where_the_kernel_takes_no_more() {
    let of = |start, length| pieces(&[Range { start, length }], PIECE);
    let range = |start, length| Range { start, length };
    assert_eq!(of(4096, 8192).unwrap(), [range(4096, 8192)]);
    let (gib, page) = (1 << 30, 4096);
    let split = [range(page, gib), range(page + gib, gib), range(page + 2 * gib, 4096)];
    assert_eq!(of(page, (2 << 30) + page).unwrap(), split);
    for (start, length) in [(1, 4096), (4096, 1), (4096, 0), (u64::MAX - 4095, 4096), (0, 1 << 47)] {
        assert!(matches!(of(start, length), Err(MarkError::NotPages { .. })), "{start} {length}");
    }
}
