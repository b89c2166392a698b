//! Disks, and the accesses that are under way on each.
//!
//! An access is asked for (`DiskQueue`), perhaps joined with others that lie beside it (`DiskMerge`), given to the
//! disk (`DiskIssue`) and done (`DiskDone`). The last two tell what the disk was given, which may be several accesses,
//! or a part of a large one: an access is given with the first of its sectors, and done with the last.

use std::{
    collections::{BTreeMap, VecDeque, hash_map::Entry},
    fmt,
};

use rustc_hash::FxHashMap;
use xweave_trace::{
    Trace,
    event::{Access as What, Event},
};

use crate::{
    sectors::{Sectors, common, end},
    thread::{ThreadId, between},
};

/// As many accesses as a disk may have under way: of more than those, the end of the oldest was not recorded. The
/// kernel gives a disk hundreds (`nr_requests` of each of its queues).
const MOST: usize = 1 << 12;

/// What a domain may have on all of its disks, so that memory is bounded whatever it tells: disks, of which no more are
/// followed;
const DISKS: usize = 1 << 12;
/// accesses under way, of which the oldest have no end then;
const UNDER_WAY: usize = 1 << 16;
/// and requests together with the accesses that they are of. If there are more, their ends were not recorded.
const GIVEN: usize = 1 << 17;

/// A disk of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DiskId {
    /// The domain's number.
    pub domain: u8,
    /// The device's number: major << 20 | minor.
    pub device: u64,
}

impl fmt::Display for DiskId {
    /// As `lsblk` numbers it: `disk 254:0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {}:{}", self.device >> 20, self.device & 0xf_ffff)
    }
}

/// What the disks of a trace are called.
#[derive(Clone, Debug, Default)]
pub struct DiskNames(FxHashMap<DiskId, String>);

impl DiskNames {
    /// As those who recorded them were told.
    pub fn of(trace: &Trace) -> Self {
        let disks = trace.manifest().domains.iter().flat_map(|domain| {
            domain.disks.iter().map(|disk| {
                let device = u64::from(disk.major) << 20 | u64::from(disk.minor);
                (DiskId { domain: domain.number, device }, disk.name.clone())
            })
        });
        Self(disks.collect())
    }

    /// A disk's name, `disk vda`; its number, where none is known.
    pub fn called(&self, disk: DiskId) -> String {
        self.0.get(&disk).map_or_else(|| disk.to_string(), |name| format!("disk {name}"))
    }
}

/// What was asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which disk.
    pub disk: DiskId,
    /// Who asked.
    pub thread: ThreadId,
    /// What for.
    pub what: What,
    /// The first sector.
    pub position: u64,
    /// How much.
    pub bytes: u64,
    /// When it was asked for, in nanoseconds.
    pub queued: i64,
    /// When the disk was given it; `None` if that was not seen.
    pub issued: Option<i64>,
    /// When the disk had done it.
    pub done: Option<i64>,
    /// How much of it the disk was not given yet.
    to_issue: u64,
    /// How much of it the disk has not done.
    to_do: u64,
}

impl Access {
    fn within(&self, event: &Event) -> Option<u64> {
        common(self.position, self.bytes, event)
    }
}

/// What a disk has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Accesses that the disk was given, after merging.
    pub accesses: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The time during which it had at least one, in nanoseconds.
    pub busy_ns: u64,
    /// Sums of the times from the asking to the disk's being given it, and from then to its being done.
    pub queue_ns: u64,
    /// See `queue_ns`.
    pub device_ns: u64,
    /// Sectors between the end of an access and the beginning of the next, either way.
    pub distance: u64,
}

/// What was given to a disk in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    issued: i64,
    bytes: u64,
    /// The accesses that it is of, or is a part of, in the order of their first sectors.
    of: Vec<u64>,
}

impl Request {
    /// What it counts for among all that a domain's disks were given.
    fn weight(&self) -> usize {
        1 + self.of.len()
    }
}

/// That a disk has done something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// When the disk had been given it; `None` if that was not seen.
    pub issued: Option<i64>,
    /// The number of the first access that it was of, or was a part of.
    pub of: Option<u64>,
    /// The numbers of the accesses that this ended.
    pub ended: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    /// Accesses that it was not given, or not as a whole.
    queued: Sectors,
    /// What it was given and has not done, by first sector.
    requests: FxHashMap<u64, Request>,
    /// The latest accesses, done or not, in the order in which they were asked for.
    latest: VecDeque<u64>,
    busy_since: i64,
    head: Option<u64>,
    used: Use,
}

/// All disks of a domain.
#[derive(Clone, Debug, Default)]
struct Share {
    disks: usize,
    /// The latest accesses, as each disk has them.
    latest: VecDeque<u64>,
    /// The weight of all requests.
    given: usize,
}

impl Share {
    /// A disk of the domain; none if it has too many.
    fn disk<'d>(&mut self, all: &'d mut FxHashMap<DiskId, Disk>, id: DiskId) -> Option<&'d mut Disk> {
        match all.entry(id) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if self.disks >= DISKS => None,
            Entry::Vacant(new) => {
                self.disks += 1;
                Some(new.insert(Disk::default()))
            }
        }
    }

    /// A disk is given a request.
    fn give(&mut self, disk: &mut Disk, position: u64, request: Request) {
        self.given += request.weight();
        if let Some(before) = disk.requests.insert(position, request) {
            self.given -= before.weight();
        }
    }

    /// What the disk was given at a position, which it has done.
    fn take(&mut self, disk: &mut Disk, position: u64) -> Option<Request> {
        disk.requests.remove(&position).inspect(|request| self.given -= request.weight())
    }

    /// Forgets all that a disk was given.
    fn forget(&mut self, disk: &mut Disk) {
        // Not kept as large as it was: there may be many disks.
        let forgotten = std::mem::take(&mut disk.requests);
        self.given -= forgotten.values().map(Request::weight).sum::<usize>();
    }
}

/// Those accesses that are too many among the latest ones, if these are twice as many as may be under way.
fn oldest(latest: &mut VecDeque<u64>, most: usize, accesses: &FxHashMap<u64, Access>) -> Vec<u64> {
    if latest.len() < 2 * most {
        return Vec::new();
    }
    latest.retain(|number| accesses.get(number).is_some_and(|access| access.done.is_none()));
    let lost = latest.len().saturating_sub(most);
    latest.drain(..lost).collect()
}

/// All disks of all domains.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    all: FxHashMap<DiskId, Disk>,
    shares: FxHashMap<u8, Share>,
    accesses: FxHashMap<u64, Access>,
    /// The number of the next one.
    next: u64,
    /// Accesses that are done: when, and their numbers.
    over: VecDeque<(i64, u64)>,
    ended: u64,
}

impl Disks {
    /// An access, by its number.
    pub fn access(&self, number: u64) -> Option<&Access> {
        self.accesses.get(&number)
    }

    /// How many accesses were asked for, and of how many of those the end was not seen.
    pub fn endless(&self) -> (u64, u64) {
        (self.next, self.next - self.ended)
    }

    /// What each disk has done, in the order of their numbers.
    pub fn used(&self) -> BTreeMap<DiskId, Use> {
        self.all.iter().map(|(id, disk)| (*id, disk.used)).collect()
    }

    /// An access is asked for, or added to one that waits. Gives its number.
    pub fn queue(&mut self, event: &Event) -> u64 {
        let id = DiskId { domain: event.domain, device: event.object };
        let number = self.next;
        self.next += 1;
        let access = Access {
            disk: id,
            thread: ThreadId { domain: event.domain, tid: event.tid },
            what: What::of(event.code),
            position: event.position,
            bytes: event.bytes,
            queued: event.time_ns,
            issued: None,
            done: None,
            to_issue: event.bytes,
            to_do: event.bytes,
        };
        let share = self.shares.entry(id.domain).or_default();
        let Some(disk) = share.disk(&mut self.all, id) else { return number };
        self.accesses.insert(number, access);
        disk.queued.insert(event.position, number, event.bytes);
        disk.latest.push_back(number);
        share.latest.push_back(number);
        let mut lost = oldest(&mut disk.latest, MOST, &self.accesses);
        lost.extend(oldest(&mut share.latest, UNDER_WAY, &self.accesses));
        for number in lost {
            if let Some(access) = self.accesses.remove(&number)
                && let Some(disk) = self.all.get_mut(&access.disk)
            {
                disk.queued.remove(access.position, number, access.bytes);
            }
        }
        number
    }

    /// The disk is given sectors.
    pub fn issue(&mut self, event: &Event) {
        let id = DiskId { domain: event.domain, device: event.object };
        let share = self.shares.entry(id.domain).or_default();
        let Some(disk) = share.disk(&mut self.all, id) else { return };
        if disk.requests.is_empty() {
            disk.busy_since = event.time_ns;
        }
        let of = disk.queued.within(event);
        for number in &of {
            let Some(access) = self.accesses.get_mut(number) else { continue };
            access.issued.get_or_insert(event.time_ns);
            access.to_issue = access.to_issue.saturating_sub(access.within(event).unwrap_or(0));
            if access.to_issue == 0 {
                disk.queued.remove(access.position, *number, access.bytes);
            }
        }
        // Given again, where the disk had no room: it is one access.
        if of.is_empty()
            && let Some(request) = disk.requests.get_mut(&event.position)
        {
            (request.issued, request.bytes) = (event.time_ns, event.bytes);
            return;
        }
        if disk.requests.len() >= MOST {
            share.forget(disk);
        }
        // What the disk was given before of the same sectors it has done, though that was not seen.
        share.give(disk, event.position, Request { issued: event.time_ns, bytes: event.bytes, of });
        disk.used.accesses += 1;
        disk.used.bytes += event.bytes;
        if let Some(head) = disk.head {
            disk.used.distance += head.abs_diff(event.position);
        }
        disk.head = Some(end(event.position, event.bytes));
        if share.given > GIVEN {
            let all = self.all.iter_mut().filter(|(other, _)| other.domain == id.domain);
            all.for_each(|(_, disk)| share.forget(disk));
        }
    }

    /// The disk has done sectors.
    pub fn done(&mut self, event: &Event) -> Done {
        let time = event.time_ns;
        let id = DiskId { domain: event.domain, device: event.object };
        let share = self.shares.entry(id.domain).or_default();
        let Some(disk) = share.disk(&mut self.all, id) else { return Done::default() };
        let request = share.take(disk, event.position);
        if let Some(request) = &request {
            disk.used.busy_ns += between(disk.busy_since, time);
            disk.busy_since = time;
            let left = request.bytes.saturating_sub(event.bytes);
            if left > 0 {
                let position = end(event.position, event.bytes);
                share.give(disk, position, Request { bytes: left, ..request.clone() });
            } else {
                disk.used.device_ns += between(request.issued, time);
            }
        }
        let issued = request.as_ref().map(|request| request.issued);
        let mut of = request.map_or_else(|| disk.queued.within(event), |request| request.of);
        let first = of.first().copied();
        of.retain(|number| {
            let Some(access) = self.accesses.get_mut(number) else { return false };
            access.to_do = access.to_do.saturating_sub(access.within(event).unwrap_or(0));
            if access.to_do > 0 || access.done.is_some() {
                return false;
            }
            access.done = Some(time);
            disk.used.queue_ns += between(access.queued, access.issued.unwrap_or(time));
            disk.queued.remove(access.position, *number, access.bytes);
            self.over.push_back((time, *number));
            self.ended += 1;
            true
        });
        Done { issued, of: issued.and(first), ended: of }
    }

    /// Forgets accesses that were done before this time.
    pub fn forget_before(&mut self, time: i64) {
        let over = self.over.partition_point(|(done, _)| *done < time);
        for (_, number) in self.over.drain(..over) {
            self.accesses.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!((used.queue_ns, used.device_ns), (40 + 30, 40));
        disks.forget_before(100);
        assert_eq!((disks.access(1), disks.access(2).map(|access| access.queued)), (None, Some(30)));
    }

    #[test]
    fn a_large_access_is_done_with_its_last_part() {
        let mut disks = Disks::default();
        disks.queue(&event(Kind::DiskQueue, 10, 100, 131_072));
        disks.issue(&event(Kind::DiskIssue, 20, 100, 130_560));
        assert!(disks.done(&event(Kind::DiskComplete, 60, 100, 130_560)).ended.is_empty());
        // Somebody else asks for the last sector as well.
        disks.queue(&event(Kind::DiskQueue, 65, 355, 512));
        disks.issue(&event(Kind::DiskIssue, 70, 355, 512));
        let told = disks.access(0).map(|access| (access.issued, access.done));
        assert_eq!(told, Some((Some(20), None)));
        assert_eq!(disks.done(&event(Kind::DiskComplete, 90, 355, 512)).ended, [0, 1]);
        assert_eq!(disks.access(0).and_then(|access| access.done), Some(90));
        let used = disks.used()[&DiskId { domain: 1, device: 8 }];
        assert_eq!((used.accesses, used.bytes, used.busy_ns, used.queue_ns), (2, 131_072, 60, 10 + 5));
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
        let of =
            || disks.all.values().flat_map(|disk| disk.requests.values()).map(|request| request.of.len());
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
        use std::time::{Duration, Instant};
        // Before those that it is about.
        let took = |accesses| {
            let mut disks = Disks::default();
            for _ in 0..accesses {
                disks.queue(&event(Kind::DiskQueue, 10, 1 << 20, 512 << 10));
            }
            let begin = Instant::now();
            for _ in 0..20_000 {
                disks.issue(&event(Kind::DiskIssue, 20, (1 << 20) + 1024, 512));
            }
            begin.elapsed()
        };
        let (hostile, honest) = (took(2 * MOST - 1), took(TOGETHER));
        assert!(hostile < 6 * honest + Duration::from_millis(50), "{hostile:?}, and {honest:?}");
    }
}
