//! Where the time of a wait for a disk went.

use xweave_replay::{CpuId, ThreadId};

use super::{BackwardWalk, DEPTH, Object, TimeState};
use crate::disk::Access;

impl BackwardWalk<'_> {
    /// A wait for an access to a disk, which an interrupt of that CPU ended if one did.
    pub(super) fn accessing(&mut self, access: &Access, id: ThreadId, cpu: Option<u32>, from: i64, to: i64) {
        // When it was issued, or that this was another, may be among what was lost.
        let lost = self.machine.threads().lost(id.domain, access.queued, access.done.unwrap_or(to));
        let state = |state| if lost { TimeState::Unknown } else { state };
        // A disk on another one has the access until it asks that one; then it is that one's.
        let (mut at, mut above) = (access, Vec::new());
        while let Some(below) = at.below.and_then(|number| self.machine.disks.access(number))
            && below.queued >= at.queued
            && above.len() < DEPTH
        {
            above.push(at);
            at = below;
        }
        let queued = at.queued.clamp(from, to);
        let issued = at.issued.unwrap_or(at.queued).clamp(queued, to);
        let done = at.done.unwrap_or(to).clamp(issued, to);
        let disk = Object::Disk(at.disk);
        self.add(done, to, disk, TimeState::Completion);
        match cpu {
            _ if lost => self.add(issued, done, disk, TimeState::Unknown),
            Some(cpu) => self.in_device(disk, CpuId { domain: id.domain, cpu }, issued, done),
            None => self.add(issued, done, disk, TimeState::Device),
        }
        // What an idle disk was not given was held back elsewhere, as by a limit of the control group (`io.max`).
        let queue = if at.is_held_back() { TimeState::Waiting } else { TimeState::Queue };
        self.add(queued, issued, disk, state(queue));
        let mut until = queued;
        for access in above.into_iter().rev() {
            let queued = access.queued.clamp(from, until);
            self.add(queued, until, Object::Disk(access.disk), state(TimeState::Queue));
            until = queued;
        }
        // It waited before the access was asked for only if somebody else did that.
        self.add(from, until, Object::Thread(id), TimeState::Waiting);
    }
}
