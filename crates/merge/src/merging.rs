//! Merging what guests hold twice, once: from what they say to what came of it.

use std::time::{Duration, Instant};

use xweave_system::ksm::MAX_PAGES_TO_SCAN;
use xweave_wire::pages::PAGE;

use crate::{
    direct::{self, Taken, Work, is_enough},
    host::{self, Host, Ksm, VmMemory, Why},
    mark::Range,
    merged::{LookError, Merged},
    nodes,
    outcome::Outcome,
    plan::{self, OfGuest, Plan},
    slots::{Slots, SlotsError},
    tree::{Guest, SameBy},
    ways::{Allowed, Marked, Way, WayError},
};

/// For how long KSM is directed at most.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// What guests say, and what may be done for it.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// What they hold, and where.
    pub guests: Vec<Guest>,
    /// The process that runs each, where that is known.
    pub pids: Vec<Option<u32>>,
    /// What makes their files the same.
    pub same_by: SameBy,
    /// By which ways their memory may be marked.
    pub allowed: Allowed,
}

/// Why nothing was merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// KVM shows no process that runs a guest.
    #[error(
        "which process of this host runs {0} is not known: xweave merge doctor lists those that KVM shows"
    )]
    NoProcess(String),
    /// A guest's memory would have to be marked, and no way of that is allowed.
    #[error(
        "KSM may not merge memory of {name}: nobody has marked it. With --allow inject, xweave has the process that runs it \
         (PID {pid}) make a system call or more, by which pages are marked; with --allow qmp, it asks QEMU to mark all of its \
         memory; without, {}", Why::Unmarked.fix()
    )]
    NotAllowed {
        /// The guest.
        name: String,
        /// Its process.
        pid: u32,
    },
    /// A process has as many mappings as it may have, nearly.
    #[error(
        "memory of {name} is not marked: each range would be a mapping of its own, and process {pid} has nearly as many as it \
         may have: raise vm.max_map_count"
    )]
    Mappings {
        /// The guest.
        name: String,
        /// Its process.
        pid: u32,
    },
    /// Something else keeps KSM from a guest's memory.
    #[error("KSM may not merge memory of {name}: {}: {}", .why.reason(), .why.fix())]
    Barred {
        /// The guest.
        name: String,
        /// What.
        why: Why,
    },
    /// A guest's memory is not marked.
    #[error("memory of {0} is not marked: {1}")]
    Mark(String, #[source] WayError),
    /// It is not known where guests' memory is.
    #[error(transparent)]
    Slots(#[from] SlotsError),
    /// It cannot be looked what is merged.
    #[error(transparent)]
    Look(#[from] LookError),
    /// It is not known on which NUMA nodes a guest's memory is.
    #[error("on which NUMA nodes memory of {0} is cannot be read (move_pages): {1}: run it as root")]
    Nodes(String, #[source] std::io::Error),
    /// KSM cannot be directed: why, in words.
    #[error("{0}")]
    Ksm(String),
}

impl MergeError {
    /// The guest that cannot be merged, where there is nothing wrong with the others.
    pub fn of_guest(&self) -> Option<&str> {
        match self {
            Self::NoProcess(name) | Self::Mark(name, _) | Self::Nodes(name, _) => Some(name),
            Self::NotAllowed { name, .. } | Self::Mappings { name, .. } | Self::Barred { name, .. } => {
                Some(name)
            }
            Self::Look(LookError::Ended { name, .. }) => Some(name),
            _ => None,
        }
    }
}

/// When KSM is worth its passes, where guests are asked again and again. It visits all that is marked in each, also what is
/// merged already: so new pages are waited for until they are as many as that, or until hardly any more come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Pages that it has looked at and not merged.
    vain: u64,
    /// Pages that it had not looked at the last time.
    new: u64,
    /// When the first of these were there.
    since: Option<Instant>,
}

impl Pace {
    /// Whether it is time, with that many pages merged, and that many left.
    pub fn is_time(&mut self, merged: u64, left: u64) -> bool {
        // Some of what is not equal may be gone.
        self.vain = self.vain.min(left);
        let before = std::mem::replace(&mut self.new, left - self.vain);
        self.since = self.since.filter(|_| self.new > 0).or_else(|| (self.new > 0).then(Instant::now));
        // A few more come all the time; and for a few alone, all others are not visited.
        let no_more = self.new <= before + before / 8 && self.new > merged / 16;
        !is_enough(merged, self.new) && (self.new >= merged || no_more)
    }

    /// After its passes, with that many left.
    pub fn looked(&mut self, left: u64) {
        *self = Self { vain: left, ..Self::default() };
    }
}

/// Marks what several guests hold, where it is not marked yet, and has KSM merge it; at its pace, if there is one. It ends
/// early when `ended` says so.
///
/// # Errors
/// [`MergeError`]. What was marked or merged until then stays so.
pub fn merge(
    asked: &Asked,
    host: &Host,
    mut pace: Option<&mut Pace>,
    ended: impl Fn() -> bool,
) -> Result<Outcome, MergeError> {
    let told = Instant::now();
    let Asked { guests, pids, same_by, allowed } = asked;
    let known =
        |(guest, pid): (&Guest, &Option<u32>)| pid.ok_or_else(|| MergeError::NoProcess(guest.name.clone()));
    let pids = guests.iter().zip(pids).map(known).collect::<Result<Vec<u32>, MergeError>>()?;
    let slots = Slots::read()?;
    let mut plan = Plan::of(guests, &pids, &slots, *same_by);
    if host.ksm.is_some_and(Ksm::is_within_nodes) {
        let nodes = plan.guests.iter().map(nodes_of).collect::<Result<Vec<_>, MergeError>>()?;
        plan.keep_within(&nodes);
    }
    let wanted = plan.guests.iter().map(|guest| Wanted::of(guest, host, &slots, allowed));
    let wanted = wanted.collect::<Result<Vec<Wanted>, MergeError>>()?;
    let before = Merged::look(&plan)?;
    let all = plan.guests.iter().map(|of| of.spots.len() as u64).sum();
    let left = |now: &Merged| all - now.merged;
    let is_time = match &mut pace {
        Some(pace) => pace.is_time(before.merged, left(&before)),
        None => !is_enough(before.merged, left(&before)),
    };
    if !is_time {
        let marked: Vec<Marked> = wanted.iter().map(Wanted::not_now).collect();
        return Ok(Outcome::of(&plan, &marked, &before, &before, Taken::default()));
    }
    let marked = plan.guests.iter().zip(wanted).map(|(guest, wanted)| wanted.mark(guest, allowed, &ended));
    let marked = marked.collect::<Result<Vec<Marked>, MergeError>>()?;
    let work = Work {
        at_a_time: MAX_PAGES_TO_SCAN,
        marked: marked.iter().map(|of| of.pages).sum(),
        wanted: all,
        limit: LIMIT,
    };
    // It is looked again after each pass.
    let mut now = before.clone();
    let merged = || {
        now = Merged::look(&plan)?;
        Ok(now.merged)
    };
    let taken = direct::until_merged(&work, ended, merged).map_err(MergeError::Ksm)?;
    let since = pace.as_ref().and_then(|pace| pace.since).unwrap_or(told);
    let waited = (now.merged > before.merged).then(|| since.elapsed());
    if let Some(pace) = pace.filter(|_| !taken.cut) {
        pace.looked(left(&now));
    }
    Ok(Outcome { waited, ..Outcome::of(&plan, &marked, &before, &now, taken) })
}

/// On which nodes what is to be looked at is.
fn nodes_of(guest: &OfGuest) -> Result<Vec<Option<u32>>, MergeError> {
    let addresses: Vec<u64> = guest.spots.iter().map(|spot| spot.address).collect();
    nodes::of(guest.pid, &addresses).map_err(|error| match host::has_ended(&error) {
        true => LookError::Ended { name: guest.name.clone(), pid: guest.pid }.into(),
        false => MergeError::Nodes(guest.name.clone(), error),
    })
}

/// What is to be marked of a guest.
struct Wanted {
    /// As it is.
    vm: VmMemory,
    ranges: Vec<Range>,
}

impl Wanted {
    /// Or why it may not be.
    fn of(guest: &OfGuest, host: &Host, slots: &Slots, allowed: &Allowed) -> Result<Self, MergeError> {
        let vm = host.vm(guest.pid);
        if let Some(why) = vm.and_then(VmMemory::barred_by).filter(|why| *why != Why::Unmarked) {
            return Err(MergeError::Barred { name: guest.name.clone(), why });
        }
        let room = vm.map_or(0, |vm| host.room(vm)).min(plan::RANGES);
        let ranges = guest.ranges(slots, room);
        let vm = vm.cloned().unwrap_or_else(|| VmMemory { pid: guest.pid, ..VmMemory::default() });
        let ranges = plan::unmarked(&ranges, &vm.marked);
        if !ranges.is_empty() && !allowed.any() {
            return Err(MergeError::NotAllowed { name: guest.name.clone(), pid: guest.pid });
        }
        // QEMU marks all of it, and that is one.
        if room == 0 && !ranges.is_empty() && !allowed.qmp {
            return Err(MergeError::Mappings { name: guest.name.clone(), pid: guest.pid });
        }
        Ok(Self { vm, ranges })
    }

    /// Nothing of it is marked, now.
    fn not_now(&self) -> Marked {
        Marked { way: Way::Before, ranges: 0, pages: self.vm.mergeable / PAGE }
    }

    /// Marks it, by what is gone from its process afterwards.
    fn mark(
        self,
        guest: &OfGuest,
        allowed: &Allowed,
        ended: &dyn Fn() -> bool,
    ) -> Result<Marked, MergeError> {
        if self.ranges.is_empty() {
            return Ok(self.not_now());
        }
        let marked = allowed.mark(&guest.name, &self.vm, &self.ranges, ended);
        marked.map_err(|error| MergeError::Mark(guest.name.clone(), error))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_error_names_the_one_guest_that_it_is_of() {
        let name = || "vm2".to_owned();
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        for error in [
            MergeError::NoProcess(name()),
            MergeError::NotAllowed { name: name(), pid: 7 },
            MergeError::Mappings { name: name(), pid: 7 },
            MergeError::Barred { name: name(), why: Why::Pinned },
            MergeError::Mark(name(), WayError::None),
            MergeError::Nodes(name(), denied()),
            MergeError::Look(LookError::Ended { name: name(), pid: 7 }),
        ] {
            assert_eq!(error.of_guest(), Some("vm2"), "{error}");
        }
        for error in [
            MergeError::Slots(SlotsError::Read(denied())),
            MergeError::Look(LookError::Look(denied())),
            MergeError::Ksm("KSM is off".to_owned()),
        ] {
            assert_eq!(error.of_guest(), None, "{error}");
        }
    }

    #[test]
    fn of_three_guests_the_one_without_a_process_is_named() {
        let guest = |name: &str| Guest { name: name.to_owned(), ..Guest::default() };
        let guests = ["vm1", "vm2", "vm3"].map(guest).to_vec();
        let asked = Asked { guests, pids: vec![Some(1), None, Some(3)], ..Asked::default() };
        let error = merge(&asked, &Host::default(), None, || false).unwrap_err();
        assert!(matches!(&error, MergeError::NoProcess(name) if name == "vm2"), "{error}");
    }

    #[test]
    fn what_comes_while_guests_read_is_waited_for_until_it_is_worth_it_or_hardly_any_more_comes() {
        let mut pace = Pace::default();
        assert!(!pace.is_time(0, 0));
        assert!(pace.is_time(0, 100));
        // 4 are not equal.
        pace.looked(4);
        assert!(!pace.is_time(96, 4));
        // More, and more again: half of it all is worth it.
        assert!(!pace.is_time(96, 44) && !pace.is_time(96, 84) && pace.is_time(96, 104));
        pace.looked(4);
        // Some, and then hardly any more.
        assert_eq!(pace.since, None);
        assert!(!pace.is_time(196, 24));
        let since = pace.since;
        assert!(since.is_some() && !pace.is_time(196, 27) && pace.is_time(196, 28));
        assert_eq!(pace.since, since, "the first of them");
        pace.looked(4);
        // A few are not worth it, however long there are no more.
        assert!(!pace.is_time(320, 23) && !pace.is_time(320, 24) && !pace.is_time(320, 24));
        assert!(pace.is_time(320, 25));
        pace.looked(25);
        // What was not equal went, and as much came: that is not known. Only what is more than that is.
        assert!(!pace.is_time(320, 25) && !pace.is_time(320, 3));
        assert!(!pace.is_time(320, 30) && pace.is_time(320, 30));
    }
}
