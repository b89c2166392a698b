//! Interrupts of guests, which cross one at a time and have no index that both sides see: none is joined with another.

use proptest::{collection::vec, prelude::*};
use xweave_flow::{Flows, Incomplete, Join, Wanted};
use xweave_trace::{
    Clock, ClockBreak, Domain, DomainVm, FlowLoss, Manifest, Part, Role, Site, Trace, Writer,
};
use xweave_wire::record::{Kind, Record};

use crate::notation::Snapshot;

const HOST: u8 = 1;
/// The guests, and the processes that run them.
const GUESTS: [(u8, u64); 2] = [(2, 4002), (3, 4003)];
/// Vector 39 of vCPU 1, in either: `XW_INTERRUPT` of `bpf/carriers/numbered.h`.
const INTERRUPT: u64 = 0xfe << 56 | 1 << 8 | 39;
/// Of each clock, in nanoseconds.
const ERROR: u64 = 20;

/// What becomes of an interrupt's records.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Recorded,
    /// The host's is lost, or the guest's. Both have a number.
    PutLost,
    OffLost,
    /// The guest's program did not run: it has no number.
    OffMissed,
}

/// One of a guest's interrupts, which follow each other.
#[derive(Clone, Copy, Debug)]
struct Interrupt {
    /// From when the guest has taken the one before; and until it takes this one, in nanoseconds.
    after: u64,
    gap: u64,
    fate: Fate,
}

fn interrupts(fates: &'static [Fate]) -> impl Strategy<Value = [Vec<Interrupt>; 2]> {
    let mostly = prop_oneof![3 => Just(Fate::Recorded), 1 => prop::sample::select(fates)];
    let one =
        (200u64..5_000, 50u64..3_000, mostly).prop_map(|(after, gap, fate)| Interrupt { after, gap, fate });
    let of_guest = || vec(one.clone(), 0..60);
    [of_guest(), of_guest()]
}

/// The ID of the nth interrupt of a guest: in the host, or there.
fn id(domain: u8, guest: u8, nth: usize) -> u64 {
    u64::from(domain) << 56 | u64::from(guest) << 32 | (nth as u64 + 1)
}

/// The trace of the host and those guests that are recorded.
fn trace(
    dir: &std::path::Path,
    of_guests: &[Vec<Interrupt>; 2],
    recorded: &[(u8, u64)],
    breaks: &[ClockBreak],
) -> Trace {
    let guest = |(number, pid): (u8, u64)| Domain {
        name: format!("vm{}", number - 1),
        number,
        role: Role::Guest,
        vm: Some(DomainVm { host: "host".into(), pid: u32::try_from(pid).unwrap(), cid: None }),
        ..Domain::default()
    };
    let host = Domain { name: "host".into(), number: HOST, ..Domain::default() };
    let domains: Vec<Domain> = std::iter::once(host).chain(recorded.iter().copied().map(guest)).collect();
    let clock = |domain: &Domain| Clock {
        domain: domain.name.clone(),
        error_ns: ERROR,
        breaks: if domain.number == HOST { Vec::new() } else { breaks.to_vec() },
        ..Clock::default()
    };
    let clocks = domains.iter().map(clock).collect();
    let mut writer =
        Writer::create(dir, Manifest { domains: domains.clone(), clocks, ..Manifest::default() }).unwrap();
    let site = |domain: &Domain| Site {
        site: u32::from(domain.number),
        domain: domain.name.clone(),
        function: "f".into(),
        xflow: Some("interrupt".into()),
        carrier: Some("interrupt".into()),
        ..Site::default()
    };
    writer.sites(&domains.iter().map(site).collect::<Vec<_>>()).unwrap();
    let (mut records, mut lost) = (Vec::new(), Vec::new());
    for ((guest, pid), interrupts) in GUESTS.into_iter().zip(of_guests) {
        let (mut time, mut puts, mut offs) = (1_000, 0, 0);
        for (nth, Interrupt { after, gap, fate }) in interrupts.iter().copied().enumerate() {
            let (in_host, in_guest) = (id(HOST, guest, nth), id(guest, guest, nth));
            let (put, off) = (time + after, time + after + gap);
            time = off;
            puts += 1;
            records.push((HOST, in_host, put - 100, Kind::Start, vec![7]));
            records.push((HOST, in_host, put - 50, Kind::Quit, vec![8]));
            match fate {
                Fate::PutLost => lost.push((in_host, "host")),
                _ => records.push((HOST, in_host, put, Kind::Xin, vec![INTERRUPT, puts, 0, pid])),
            }
            offs += u64::from(fate != Fate::OffMissed);
            match fate {
                Fate::OffMissed => continue,
                Fate::OffLost => lost.push((in_guest, if guest == 2 { "vm1" } else { "vm2" })),
                _ => records.push((guest, in_guest, off, Kind::Xout, vec![INTERRUPT, offs, 0, 0])),
            }
            records.push((guest, in_guest, off + 10, Kind::Quit, vec![7]));
        }
    }
    records.retain(|(domain, ..)| domains.iter().any(|of| of.number == *domain));
    records.sort_by_key(|(_, _, time, ..)| *time);
    for (domain, flow, time_ns, kind, values) in records {
        let (site, tid) = (u32::from(domain), u32::from(domain));
        let record = Record { time_ns, flow, site, pid: tid, tid, cpu: 0, kind, comm: [0; 16], values };
        writer.append(domain, time_ns.cast_signed(), &record).unwrap();
    }
    writer.manifest_mut().loss.flows =
        lost.into_iter().map(|(flow, domain)| FlowLoss { flow, domain: domain.into(), records: 1 }).collect();
    writer.finish().unwrap();
    Trace::open(dir).unwrap()
}

/// Joins them; each flow that crossed has the two halves of one interrupt. Gives how many did.
fn joined(of_guests: &[Vec<Interrupt>; 2]) -> Result<Vec<(u8, usize)>, TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&trace(dir.path(), of_guests, &GUESTS, &[]));
    let mut joined = Vec::new();
    for flow in flows.flows() {
        if let [host, guest] = flow.locals[..] {
            let number = u8::try_from(guest >> 56).unwrap();
            let nth = usize::try_from((guest & 0xffff_ffff) - 1).unwrap();
            prop_assert_eq!((host, guest), (id(HOST, number, nth), id(number, number, nth)));
            joined.push((number, nth));
        }
    }
    prop_assert_eq!(flows.summary().negative_gaps, 0);
    if let Some(carrier) = flows.summary().carriers.first() {
        prop_assert_eq!(carrier.crossings, joined.len() as u64);
    }
    Ok(joined)
}

proptest! {
    #[test]
    fn no_interrupt_is_joined_with_another_whichever_records_are_lost(
        of_guests in interrupts(&[Fate::PutLost, Fate::OffLost]),
    ) {
        let joined = joined(&of_guests)?;
        // All that can be are joined, but for those after what may not have been taken yet, as far as the records tell.
        for ((guest, _), interrupts) in GUESTS.into_iter().zip(&of_guests) {
            for (nth, interrupt) in interrupts.iter().enumerate() {
                let before = nth.checked_sub(1).map_or(Fate::Recorded, |before| interrupts[before].fate);
                if (interrupt.fate, before) == (Fate::Recorded, Fate::Recorded) {
                    prop_assert!(joined.contains(&(guest, nth)), "{}: {}", guest, nth);
                }
            }
        }
    }

    #[test]
    fn no_interrupt_is_joined_with_another_where_the_guest_s_program_did_not_run(
        of_guests in interrupts(&[Fate::OffMissed, Fate::OffLost]),
    ) {
        joined(&of_guests)?;
    }

    #[test]
    fn interrupts_are_the_same_wherever_windows_end(
        of_guests in interrupts(&[Fate::PutLost, Fate::OffLost, Fate::OffMissed]),
        (window, part) in (20usize..100, 1usize..30),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let trace = trace(dir.path(), &of_guests, &GUESTS, &[]);
        let (mut rows, _) = trace.rows();
        // So that most is settled long before a window ends.
        rows.iter_mut().for_each(|row| row.time_ns *= 10_000);
        rows.sort_by_key(|row| row.time_ns);
        let read = |window: usize| {
            let next = |at: usize| rows.get(at).map_or(i64::MAX, |row| row.time_ns);
            let parts = rows.chunks(part).enumerate().map(|(nth, rows)| {
                Ok(Part { rows: rows.to_vec(), before_ns: next(nth * part + rows.len()) })
            });
            let join = Join::of_parts(&trace, parts).windows(window, usize::MAX);
            let flows = Flows::read(&trace, join, Wanted { of: &|_| true, kept: None });
            Snapshot::new(&flows)
        };
        let (whole, windows) = (read(usize::MAX), read(window));
        prop_assert_eq!(windows.summary, whole.summary);
        prop_assert_eq!(windows.flows, whole.flows);
    }
}

#[test]
fn while_a_clock_s_times_say_nothing_no_interrupt_is_joined() {
    let one = Interrupt { after: 1_000, gap: 500, fate: Fate::Recorded };
    let dir = tempfile::tempdir().unwrap();
    let jump = ClockBreak { after_ns: Some(5_000), before_ns: Some(9_000), ..ClockBreak::default() };
    let flows = Flows::of(&trace(dir.path(), &[vec![one; 10], Vec::new()], &GUESTS, &[jump]));
    let joined: Vec<bool> = (0..10).map(|nth| flows.flow(id(HOST, 2, nth)).unwrap().crossings == 1).collect();
    // They come off at 2,500, 4,000, 5,500 … ns.
    assert_eq!(joined[..2], [true; 2]);
    assert_eq!(joined[2..5], [false; 3]);
    assert_eq!(joined[5..], [true; 5]);
}

#[test]
fn an_interrupt_that_came_before_the_one_before_was_taken_is_not_guessed() {
    // Two that were given at once, as where the processor gives them itself, and one that the guest took.
    let one = |after, fate| Interrupt { after, gap: 500, fate };
    let of_guest = [one(1_000, Fate::Recorded), one(1_000, Fate::OffMissed), one(1_000, Fate::Recorded)];
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&trace(dir.path(), &[of_guest.to_vec(), Vec::new()], &GUESTS, &[]));
    assert_eq!(flows.flow(id(HOST, 2, 0)).unwrap().incomplete, None);
    for nth in [1, 2] {
        assert_eq!(flows.flow(id(HOST, 2, nth)).unwrap().incomplete, Some(Incomplete::Unmatched));
    }
    assert_eq!(flows.flow(id(2, 2, 2)).unwrap().incomplete, Some(Incomplete::NoStart));
}

#[test]
fn what_goes_to_a_guest_that_is_not_recorded_is_over_where_the_host_gives_it_away() {
    let one = Interrupt { after: 1_000, gap: 500, fate: Fate::Recorded };
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&trace(dir.path(), &[vec![one; 3], vec![one; 3]], &GUESTS[..1], &[]));
    let carrier = &flows.summary().carriers[0];
    assert_eq!((carrier.crossings, carrier.unmatched_xin, flows.summary().complete), (3, 3, 6));
    let stranger = flows.flow(id(HOST, 3, 0)).unwrap();
    assert_eq!((stranger.crossings, stranger.total_ns()), (0, 100));
}
