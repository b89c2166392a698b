//! Disks, and the accesses that are under way on each.
//!
//! An access is asked for (`DiskQueue`), perhaps joined with others that lie beside it (`DiskMerge`), given to the
//! disk (`DiskIssue`) and done (`DiskDone`). The last two tell what the disk was given, which may be several accesses,
//! or a part of a large one: an access is given with the first of its sectors, and done with the last.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use rustc_hash::FxHashMap;
use xweave_trace::event::{Access as What, Event};

use crate::thread::{ThreadId, between};

/// Bytes of a sector, as the kernel counts them.
const SECTOR: u64 = 512;

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
    /// How much the disk has not done.
    left: u64,
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

#[derive(Clone, Debug, Default)]
struct Disk {
    /// By first sector: accesses that are not done.
    waiting: BTreeMap<u64, Vec<u64>>,
    /// Sectors of the longest that ever waited.
    longest: u64,
    /// What the disk has been given and has not done: first sector and when.
    given: FxHashMap<u64, i64>,
    busy_since: i64,
    head: Option<u64>,
    used: Use,
}

/// All disks of all domains.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    all: FxHashMap<DiskId, Disk>,
    accesses: VecDeque<Access>,
    /// The number of the first in `accesses`.
    first: u64,
}

impl Disks {
    /// An access, by its number.
    pub fn access(&self, number: u64) -> Option<&Access> {
        self.accesses.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// What each disk has done, in the order of their numbers.
    pub fn used(&self) -> BTreeMap<DiskId, Use> {
        self.all.iter().map(|(id, disk)| (*id, disk.used)).collect()
    }

    /// An access is asked for, or added to one that waits.
    pub fn queue(&mut self, event: &Event) {
        let disk = DiskId { domain: event.domain, device: event.object };
        let number = self.first + self.accesses.len() as u64;
        self.accesses.push_back(Access {
            disk,
            thread: ThreadId { domain: event.domain, tid: event.tid },
            what: What::of(event.code),
            position: event.position,
            bytes: event.bytes,
            queued: event.time_ns,
            issued: None,
            done: None,
            left: event.bytes,
        });
        let disk = self.all.entry(disk).or_default();
        disk.waiting.entry(event.position).or_default().push(number);
        disk.longest = disk.longest.max(event.bytes / SECTOR);
    }

    /// The disk is given sectors.
    pub fn issue(&mut self, event: &Event) {
        let disk = self.all.entry(DiskId { domain: event.domain, device: event.object }).or_default();
        if disk.given.is_empty() {
            disk.busy_since = event.time_ns;
        }
        // Given again, where the disk had no room: it is one access.
        if disk.given.insert(event.position, event.time_ns).is_none() {
            disk.used.accesses += 1;
            disk.used.bytes += event.bytes;
            if let Some(head) = disk.head {
                disk.used.distance += head.abs_diff(event.position);
            }
            disk.head = Some(event.position + event.bytes / SECTOR);
        }
        for (number, _) in within(disk, &self.accesses, self.first, event) {
            if let Some(access) = at(&mut self.accesses, self.first, number) {
                access.issued.get_or_insert(event.time_ns);
            }
        }
    }

    /// The disk has done sectors. Gives the numbers of the accesses that this ended.
    pub fn done(&mut self, event: &Event) -> Vec<u64> {
        let disk = self.all.entry(DiskId { domain: event.domain, device: event.object }).or_default();
        let given = disk.given.remove(&event.position);
        if let Some(given) = given {
            disk.used.device_ns += between(given, event.time_ns);
            if disk.given.is_empty() {
                disk.used.busy_ns += between(disk.busy_since, event.time_ns);
            }
        }
        let mut ended = Vec::new();
        for (number, bytes) in within(disk, &self.accesses, self.first, event) {
            let Some(access) = at(&mut self.accesses, self.first, number) else { continue };
            // Somebody else's, of the same sectors, may wait yet.
            if given.is_some() && access.issued.is_none() {
                continue;
            }
            access.left = access.left.saturating_sub(bytes);
            if access.left > 0 {
                continue;
            }
            access.done = Some(event.time_ns);
            disk.used.queue_ns += between(access.queued, access.issued.unwrap_or(event.time_ns));
            if let Some(left) = disk.waiting.get_mut(&access.position) {
                left.retain(|other| *other != number);
                if left.is_empty() {
                    disk.waiting.remove(&access.position);
                }
            }
            ended.push(number);
        }
        ended
    }

    /// The numbers of the accesses that are not done and have sectors of an event's, the first of them first.
    pub fn waiting(&self, event: &Event) -> impl Iterator<Item = u64> {
        let disk = self.all.get(&DiskId { domain: event.domain, device: event.object });
        let numbers = disk.map(|disk| within(disk, &self.accesses, self.first, event)).unwrap_or_default();
        numbers.into_iter().map(|(number, _)| number)
    }

    /// Forgets accesses that were done before this time, up to the first that was not.
    pub fn forget_before(&mut self, time: i64) {
        while self.accesses.front().is_some_and(|access| access.done.is_some_and(|done| done < time)) {
            self.accesses.pop_front();
            self.first += 1;
        }
    }
}

/// The accesses that have sectors of an event's, and how many bytes of each lie there, in the order of their first
/// sectors. One without sectors, a flush, is itself.
fn within(disk: &Disk, accesses: &VecDeque<Access>, first: u64, event: &Event) -> Vec<(u64, u64)> {
    let (from, to) = (event.position, event.position.saturating_add(event.bytes / SECTOR));
    let range = from.saturating_sub(disk.longest)..to.max(from.saturating_add(1));
    let numbers = disk.waiting.range(range).flat_map(|(_, numbers)| numbers);
    let common = |number: &u64| {
        let access = accesses.get(usize::try_from(number.checked_sub(first)?).ok()?)?;
        if event.bytes == 0 || access.bytes == 0 {
            return (event.bytes == access.bytes && access.position == from).then_some((*number, 0));
        }
        let end = access.position.saturating_add(access.bytes / SECTOR).min(to);
        let sectors = end.saturating_sub(access.position.max(from));
        (sectors > 0).then_some((*number, sectors * SECTOR))
    };
    numbers.filter_map(common).collect()
}

fn at(accesses: &mut VecDeque<Access>, first: u64, number: u64) -> Option<&mut Access> {
    accesses.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
}

#[cfg(test)]
mod tests {
    use xweave_trace::event::Kind;

    use super::*;

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
        assert_eq!(disks.done(&event(Kind::DiskDone, 90, 100, 8192)), [0, 1]);
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
        assert!(disks.done(&event(Kind::DiskDone, 60, 100, 130_560)).is_empty());
        // Somebody else asks for the last sector as well.
        disks.queue(&event(Kind::DiskQueue, 65, 355, 512));
        disks.issue(&event(Kind::DiskIssue, 70, 355, 512));
        let told = disks.access(0).map(|access| (access.issued, access.done));
        assert_eq!(told, Some((Some(20), None)));
        assert_eq!(disks.done(&event(Kind::DiskDone, 90, 355, 512)), [0, 1]);
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
        assert_eq!(disks.done(&event(Kind::DiskDone, 40, 100, 4096)), [0]);
        disks.issue(&event(Kind::DiskIssue, 50, 96, 4096));
        assert_eq!(disks.done(&event(Kind::DiskDone, 60, 96, 4096)), [1]);
    }

    #[test]
    fn a_flush_has_no_sectors_and_is_done_all_the_same() {
        let mut disks = Disks::default();
        disks.queue(&event(Kind::DiskQueue, 1, 0, 0));
        disks.issue(&event(Kind::DiskIssue, 2, 0, 0));
        assert_eq!(disks.done(&event(Kind::DiskDone, 5, 0, 0)), [0]);
    }
}
