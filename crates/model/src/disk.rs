//! Disks, and the accesses that are under way on each.
//!
//! An access is asked for (`DiskQueue`), perhaps joined with others that lie beside it (`DiskMerge`), given to the
//! disk (`DiskIssue`) and done (`DiskComplete`). The last two tell what the disk was given, which may be several
//! accesses, or a part of a large one: an access is given with the first of its sectors, and done with the last. What is given
//! again, as the disk had no room, was in the queue again: the disk has had it only since the last time.
//!
//! Several may be under way to the same sectors. Which of them a request is of, is known of its first one if the kernel's
//! own name for it was recorded; of the others it takes the one that waits longest.
//!
//! Disks may lie on disks. Device mapper asks those below for accesses of its own, and ends its own as it was asked for
//! them, without requests; md and NVMe's multipath pass accesses on as they are (`DiskRemap`).

use std::{
    collections::{BTreeMap, VecDeque, hash_map::Entry},
    fmt,
};

use rustc_hash::FxHashMap;
use xweave_replay::{ThreadId, between};
use xweave_trace::{
    Trace,
    event::{Access as What, Event},
};

use crate::sectors::{Candidate, SECTOR, Sectors, common, cover, end};

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

/// For no longer than this, in nanoseconds, does the kernel keep an access from an idle disk, to join it with others.
const PLUGGED: u64 = 1_000_000;

/// A disk of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DiskId {
    /// The domain's number.
    pub domain: u8,
    /// The device's number: major << 20 | minor.
    pub device: u64,
}

impl fmt::Display for DiskId {
    /// As `lsblk` numbers it: `254:0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device >> 20, self.device & 0xf_ffff)
    }
}

/// Names of a trace's disks.
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

    /// A disk's name, `vda`; its number, where none is known.
    pub fn name(&self, disk: DiskId) -> String {
        self.0.get(&disk).cloned().unwrap_or_else(|| disk.to_string())
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
    /// When the disk was given it, for the last time; `None` if that was not seen.
    pub issued: Option<i64>,
    /// When the disk had done it.
    pub done: Option<i64>,
    /// The access to a disk below with which this one ended, by its number.
    pub below: Option<u64>,
    /// How much of it the disk was not given yet.
    to_issue: u64,
    /// How much of it the disk has not done.
    to_do: u64,
    /// What the kernel calls it by; 0 if that is not known.
    bio: u32,
    /// How long the disk had been busy when it was asked for; none if that was another disk.
    busy_before: Option<u64>,
    /// The disk had nothing to do, for most of the time until it was given this one.
    held_back: bool,
}

impl Access {
    /// Reports whether something else than the disk kept it in the queue.
    pub(crate) fn is_held_back(&self) -> bool {
        self.held_back
    }

    fn within(&self, event: &Event) -> Option<u64> {
        common(self.position, self.bytes, event)
    }

    /// The first sector that the disk was not given: a large access is given from its beginning on.
    fn next(&self) -> u64 {
        end(self.position, self.bytes.saturating_sub(self.to_issue))
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
    /// Sum of the requests' times in the queue: from when the first of a request's accesses was asked for, until the disk
    /// was given it. Those merged into it are not counted again.
    pub queue_ns: u64,
    /// Sum of the requests' times in the disk: from being given to being done.
    pub device_ns: u64,
    /// Sectors between the end of an access and the beginning of the next, either way.
    pub distance: u64,
}

/// What was given to a disk in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    issued: i64,
    bytes: u64,
    /// Its first access as the kernel calls it; 0 if that is not known.
    bio: u32,
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
    /// What it was given and has not done, by first sector and number.
    requests: BTreeMap<(u64, u64), Request>,
    /// The accesses under way that the kernel's names stand for.
    bios: FxHashMap<u32, u64>,
    /// The latest accesses, done or not, in the order in which they were asked for.
    latest: VecDeque<u64>,
    busy_since: i64,
    /// If it takes accesses without requests: since when it has had one.
    bare_since: i64,
    head: Option<u64>,
    used: Use,
}

impl Disk {
    /// For how long it had something to do until that time, in nanoseconds.
    fn busy(&self, time: i64) -> u64 {
        let now = if self.requests.is_empty() { 0 } else { between(self.busy_since, time) };
        self.used.busy_ns.saturating_add(now)
    }

    /// The oldest of the requests at a position that is one of these.
    fn oldest(&self, position: u64, one: impl Fn(&Request) -> bool) -> Option<(u64, u64)> {
        let mut here = self.requests.range((position, 0)..=(position, u64::MAX));
        here.find(|(_, request)| one(request)).map(|(at, _)| *at)
    }

    /// The same of those that an event with this name of the first access is about; 0 may be any.
    fn given(&self, position: u64, bio: u32) -> Option<(u64, u64)> {
        self.oldest(position, |request| bio == 0 || request.bio == bio)
    }

    /// The accesses that a request is of, in the order of their first sectors: each sector is one's. Those that were asked
    /// for before events were lost may be over.
    fn covering(&self, event: &Event, accesses: &FxHashMap<u64, Access>, lost: i64) -> Vec<u64> {
        let candidates = self.queued.within(event);
        let first = self.bios.get(&event.other).copied();
        // All that wait for the disk's cache are served by one request; or it is a whole access, however large.
        if event.bytes == 0 {
            return first.map_or(candidates, |first| vec![first]);
        }
        if candidates.len() < 2 {
            return candidates;
        }
        let ranges: Vec<_> = candidates
            .iter()
            .filter_map(|number| {
                let access = accesses.get(number)?;
                let range = access.position..end(access.position, access.bytes);
                Some(Candidate { order: (access.queued <= lost, *number), range, next: access.next() })
            })
            .collect();
        cover(event.position..end(event.position, event.bytes), first, &ranges)
    }

    /// An access is not under way any more.
    fn forget(&mut self, number: u64, access: &Access) {
        self.queued.remove(access.position, number, access.bytes);
        if self.bios.get(&access.bio) == Some(&number) {
            self.bios.remove(&access.bio);
        }
    }
}

/// All disks of a domain.
#[derive(Clone, Debug, Default)]
struct Share {
    disks: usize,
    /// The latest accesses, as each disk has them.
    latest: VecDeque<u64>,
    /// The weight of all requests.
    given: usize,
    /// The number of the next request.
    requests: u64,
    /// Until when some of the domain's events were lost, among them perhaps ends of accesses.
    lost: i64,
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
        disk.requests.insert((position, self.requests), request);
        self.requests += 1;
    }

    /// The disk has done this request.
    fn take(&mut self, disk: &mut Disk, at: (u64, u64)) -> Option<Request> {
        disk.requests.remove(&at).inspect(|request| self.given -= request.weight())
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
        let access = Access {
            disk: id,
            thread: ThreadId { domain: event.domain, tid: event.tid },
            what: What::of(event.code),
            position: event.position,
            bytes: event.bytes,
            queued: event.time_ns,
            issued: None,
            done: None,
            below: None,
            to_issue: event.bytes,
            to_do: event.bytes,
            bio: event.other,
            busy_before: Some(self.all.get(&id).map_or(0, |disk| disk.busy(event.time_ns))),
            held_back: false,
        };
        self.insert(access, event.time_ns)
    }

    /// An access is under way from this time on. Gives its number.
    fn insert(&mut self, access: Access, time: i64) -> u64 {
        let number = self.next;
        self.next += 1;
        let share = self.shares.entry(access.disk.domain).or_default();
        let Some(disk) = share.disk(&mut self.all, access.disk) else { return number };
        self.accesses.insert(number, access);
        disk.queued.insert(access.position, number, access.bytes);
        if access.bio != 0 {
            if disk.bios.is_empty() {
                disk.bare_since = time;
            }
            disk.bios.insert(access.bio, number);
        }
        disk.latest.push_back(number);
        share.latest.push_back(number);
        let mut lost = oldest(&mut disk.latest, MOST, &self.accesses);
        lost.extend(oldest(&mut share.latest, UNDER_WAY, &self.accesses));
        for number in lost {
            if let Some(access) = self.accesses.remove(&number)
                && let Some(disk) = self.all.get_mut(&access.disk)
            {
                disk.forget(number, &access);
            }
        }
        number
    }

    /// Accesses, or parts of them, go on as those to another disk. Gives the numbers that they had and have.
    pub fn remap(&mut self, event: &Event) -> Vec<(u64, u64)> {
        let from = DiskId { domain: event.domain, device: event.other.into() };
        let to = DiskId { domain: event.domain, device: event.object };
        let sectors = u64::from(event.code.unsigned_abs());
        let moved = Event { position: event.bytes, bytes: sectors * SECTOR, other: 0, ..*event };
        let Some(disk) = self.all.get(&from) else { return Vec::new() };
        let lost = self.shares.get(&from.domain).map_or(i64::MIN, |share| share.lost);
        let mut of = disk.covering(&moved, &self.accesses, lost);
        if sectors == 0 {
            of.truncate(1);
        }
        let mut numbers = Vec::new();
        for old in of {
            let Some(access) = self.accesses.get_mut(&old) else { continue };
            let bytes = access.within(&moved).unwrap_or(0);
            let position = event.position.saturating_add(access.position.saturating_sub(moved.position));
            let bio = if bytes == access.bytes { access.bio } else { 0 };
            let new = Access {
                disk: to,
                position,
                bytes,
                to_issue: bytes,
                to_do: bytes,
                bio,
                busy_before: None,
                ..*access
            };
            access.to_issue = access.to_issue.saturating_sub(bytes);
            access.to_do = access.to_do.saturating_sub(bytes);
            if access.to_do == 0
                && let Some(access) = self.accesses.remove(&old)
                && let Some(disk) = self.all.get_mut(&from)
            {
                disk.forget(old, &access);
                self.ended += 1;
            }
            numbers.push((old, self.insert(new, event.time_ns)));
        }
        numbers
    }

    /// The disk is given sectors.
    pub fn issue(&mut self, event: &Event) {
        let id = DiskId { domain: event.domain, device: event.object };
        let share = self.shares.entry(id.domain).or_default();
        let Some(disk) = share.disk(&mut self.all, id) else { return };
        if disk.requests.is_empty() {
            disk.busy_since = event.time_ns;
        }
        // Given again, where the disk had no room: it is one access. What is left of one has no name.
        let left = || disk.oldest(event.position, |request| request.bio == 0);
        let again = disk.given(event.position, event.other).or_else(left);
        let of = disk.covering(event, &self.accesses, share.lost);
        let alone = disk.requests.len() == 1;
        if let Some(request) = again.and_then(|at| disk.requests.get_mut(&at))
            && !of.iter().any(|number| event.other == 0 || disk.bios.get(&event.other) == Some(number))
        {
            request.bytes = event.bytes;
            let sectors = event.position..=end(event.position, event.bytes);
            // Of what is left of one, the disk has done the beginning.
            let mut from_its_beginning = request.of.is_empty();
            for number in &request.of {
                if let Some(access) =
                    self.accesses.get_mut(number).filter(|of| sectors.contains(&of.position))
                {
                    access.issued = Some(event.time_ns);
                    from_its_beginning = true;
                }
            }
            if from_its_beginning {
                request.issued = event.time_ns;
                if alone {
                    disk.busy_since = event.time_ns;
                }
            }
            return;
        }
        let busy = disk.busy(event.time_ns);
        for number in &of {
            let Some(access) = self.accesses.get_mut(number) else { continue };
            if access.issued.is_none()
                && let Some(before) = access.busy_before
            {
                let waited = between(access.queued, event.time_ns);
                let idle = waited.saturating_sub(busy.saturating_sub(before));
                access.held_back = idle > PLUGGED && idle > waited / 2;
            }
            access.issued.get_or_insert(event.time_ns);
            access.to_issue = access.to_issue.saturating_sub(access.within(event).unwrap_or(0));
            if access.to_issue == 0 {
                disk.queued.remove(access.position, *number, access.bytes);
            }
        }
        if disk.requests.len() >= MOST {
            share.forget(disk);
        }
        // The disk has done what it was given before of the same sectors, though that was not seen; unless they are told
        // apart.
        while let Some(before) = disk.given(event.position, event.other) {
            share.take(disk, before);
        }
        let request = Request { issued: event.time_ns, bytes: event.bytes, bio: event.other, of };
        share.give(disk, event.position, request);
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
        let unnamed = || disk.oldest(event.position, |request| request.bio == 0);
        let at = disk.given(event.position, event.other).or_else(unnamed);
        let request = at.and_then(|at| share.take(disk, at));
        if let Some(request) = &request {
            disk.used.busy_ns += between(disk.busy_since, time);
            disk.busy_since = time;
            let left = request.bytes.saturating_sub(event.bytes);
            if left > 0 {
                let position = end(event.position, event.bytes);
                share.give(disk, position, Request { bytes: left, bio: 0, ..request.clone() });
            } else {
                disk.used.device_ns += between(request.issued, time);
            }
        }
        let issued = request.as_ref().map(|request| request.issued);
        let mut of =
            request.map_or_else(|| disk.covering(event, &self.accesses, share.lost), |request| request.of);
        let first = of.first().copied();
        of.retain(|number| {
            let Some(access) = self.accesses.get_mut(number) else { return false };
            let bytes = if event.bytes == 0 { access.bytes } else { access.within(event).unwrap_or(0) };
            access.to_do = access.to_do.saturating_sub(bytes);
            if access.to_do > 0 || access.done.is_some() {
                return false;
            }
            access.done = Some(time);
            if issued.is_none() && event.bytes == 0 && access.bytes > 0 {
                disk.used.accesses += 1;
                disk.used.bytes += access.bytes;
                disk.used.busy_ns += between(disk.bare_since, time);
                disk.used.device_ns += between(access.queued, time);
                disk.bare_since = time;
            } else if issued.is_none() || first == Some(*number) {
                disk.used.queue_ns += between(access.queued, access.issued.unwrap_or(time));
            }
            disk.forget(*number, access);
            self.over.push_back((time, *number));
            self.ended += 1;
            true
        });
        Done { issued, of: issued.and(first), ended: of }
    }

    /// An access to a disk on another one ended with that one's.
    pub fn lies_on(&mut self, number: u64, below: u64) {
        if let Some(access) = self.accesses.get_mut(&number)
            && access.issued.is_none()
        {
            access.below = Some(below);
        }
    }

    /// Some of a domain's events were lost until then.
    pub fn lose(&mut self, domain: u8, until: i64) {
        let share = self.shares.entry(domain).or_default();
        share.lost = share.lost.max(until);
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
mod tests;
