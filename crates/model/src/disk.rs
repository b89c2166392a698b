//! Disks, and the accesses that are under way on each.
//!
//! An access is asked for (`DiskQueue`), perhaps joined with others that lie beside it (`DiskMerge`), given to the
//! disk (`DiskIssue`) and done (`DiskDone`). The last two tell what the disk was given: an access is part of it if
//! its sectors are.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use xweave_trace::event::{Access as What, Event};

use crate::thread::ThreadId;

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
        });
        self.all.entry(disk).or_default().waiting.entry(event.position).or_default().push(number);
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
        for number in within(disk, event) {
            let at = usize::try_from(number - self.first).unwrap_or(usize::MAX);
            if let Some(access) = self.accesses.get_mut(at) {
                access.issued.get_or_insert(event.time_ns);
            }
        }
    }

    /// The disk has done sectors. Gives the numbers of the accesses that this ended.
    pub fn done(&mut self, event: &Event) -> Vec<u64> {
        let disk = self.all.entry(DiskId { domain: event.domain, device: event.object }).or_default();
        if let Some(given) = disk.given.remove(&event.position) {
            disk.used.device_ns += since(given, event.time_ns);
            if disk.given.is_empty() {
                disk.used.busy_ns += since(disk.busy_since, event.time_ns);
            }
        }
        let ended = within(disk, event);
        for &number in &ended {
            let at = usize::try_from(number - self.first).unwrap_or(usize::MAX);
            let Some(access) = self.accesses.get_mut(at) else { continue };
            access.done = Some(event.time_ns);
            disk.used.queue_ns += since(access.queued, access.issued.unwrap_or(event.time_ns));
            if let Some(left) = disk.waiting.get_mut(&access.position) {
                left.retain(|other| *other != number);
                if left.is_empty() {
                    disk.waiting.remove(&access.position);
                }
            }
        }
        ended
    }

    /// Forgets accesses that were done before this time, up to the first that was not.
    pub fn forget_before(&mut self, time: i64) {
        while self.accesses.front().is_some_and(|access| access.done.is_some_and(|done| done < time)) {
            self.accesses.pop_front();
            self.first += 1;
        }
    }
}

/// The accesses that lie within an event's sectors. One without sectors, a flush, is itself.
fn within(disk: &Disk, event: &Event) -> Vec<u64> {
    let sectors = (event.bytes / SECTOR).max(1);
    let range = event.position..event.position.saturating_add(sectors);
    disk.waiting.range(range).flat_map(|(_, numbers)| numbers).copied().collect()
}

fn since(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
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
    fn a_flush_has_no_sectors_and_is_done_all_the_same() {
        let mut disks = Disks::default();
        disks.queue(&event(Kind::DiskQueue, 1, 0, 0));
        disks.issue(&event(Kind::DiskIssue, 2, 0, 0));
        assert_eq!(disks.done(&event(Kind::DiskDone, 5, 0, 0)), [0]);
    }
}
