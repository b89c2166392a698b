//! Disks: a queue from which any access may be next, neighbours merged and large accesses split, a head that moves.

use std::collections::VecDeque;

use crate::id::{Cpu, Thread};

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 512;

/// The most bytes of a request: larger accesses are split, and merging stops there.
pub(crate) const LARGEST: u64 = 64 << 10;

/// What the disk is given at once.
pub(crate) struct Request {
    pub(crate) position: u64,
    pub(crate) bytes: u64,
    /// The first access of it, as the kernel calls it.
    pub(crate) bio: u32,
    /// Who waits for it.
    pub(crate) waiters: Vec<Thread>,
}

pub(crate) struct Disk {
    pub(crate) domain: usize,
    /// Device number.
    pub(crate) device: u64,
    /// The processor that its interrupts go to.
    pub(crate) cpu: Cpu,
    pub(crate) queue: VecDeque<Request>,
    /// What the disk works on, by place; an empty place is free.
    pub(crate) given: Vec<Option<Request>>,
    head: u64,
    /// How many accesses there were.
    asked: u32,
}

impl Disk {
    pub(crate) fn new(domain: usize, device: u64, cpu: Cpu, depth: usize) -> Self {
        let given = std::iter::repeat_with(|| None).take(depth).collect();
        Self { domain, device, cpu, queue: VecDeque::new(), given, head: 0, asked: 0 }
    }

    /// What the kernel calls the next access by.
    pub(crate) fn name(&mut self) -> u32 {
        self.asked += 1;
        self.asked
    }

    /// Joins an access with a request that waits and that it lies behind or before.
    pub(crate) fn merge(&mut self, position: u64, bytes: u64, bio: u32, waiter: Option<Thread>) -> bool {
        for request in &mut self.queue {
            let end = request.position + request.bytes / SECTOR;
            let behind = end == position;
            let before = position + bytes / SECTOR == request.position;
            if (behind || before) && request.bytes + bytes <= LARGEST {
                if before {
                    (request.position, request.bio) = (position, bio);
                }
                request.bytes += bytes;
                request.waiters.extend(waiter);
                return true;
            }
        }
        false
    }

    /// The time that a request takes: moving there, turning, and reading.
    pub(crate) fn service(&mut self, position: u64, bytes: u64, turn: i64) -> i64 {
        let distance = self.head.abs_diff(position);
        self.head = position + bytes / SECTOR;
        let moving = if distance == 0 { 0 } else { turn + i64::try_from(distance / 8192).unwrap_or(0) };
        60_000 + moving + i64::try_from(bytes).unwrap_or(0) * 5
    }
}
