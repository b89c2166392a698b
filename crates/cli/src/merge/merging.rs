//! `xweave merge`: gives back what guests hold twice.

use std::{io::Write, process::ExitCode, time::Duration};

use xweave_agent::ksm::MOST_AT_A_TIME;
use xweave_merge::{
    Host, Merged, Outcome, Plan, Slots,
    direct::{self, Work},
    host::{VmMemory, Why},
    mark::{MarkError, Marker, Range},
    outcome::{Marked, Way},
    plan::{self, OfGuest},
};
use xweave_report::{View, document, merge as report};
use xweave_wire::pages::PAGE;

use super::{Allow, WIDE, asking};
use crate::{failure::Failure, shown};

/// For how long KSM is directed at most.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Asks the guests where their pages lie, marks those that several hold, has KSM look at them, and tells.
pub fn run(asked: &asking::Args, allow: &[Allow], json: bool) -> Result<ExitCode, Failure> {
    let cache = xweave_weave::cache_directory().map_err(Failure::usage)?;
    let told = asked.ask(false, true)?;
    let host = super::host()?;
    let mut pids = Vec::new();
    for (guest, pid) in told.guests.iter().zip(&told.pids) {
        pids.push(pid.ok_or_else(|| {
            Failure::Failed(format!(
                "which process of this host runs {} is not known: xweave merge doctor lists those that KVM shows",
                guest.name
            ))
        })?);
    }
    let slots = Slots::read(&cache).map_err(|error| Failure::Failed(error.to_string()))?;
    let plan = Plan::of(&told.guests, &pids, &slots, asked.same_by());
    drop(told.guests);
    let wanted = plan.guests.iter().map(|guest| Wanted::of(guest, &host, &slots, allow));
    let wanted = wanted.collect::<Result<Vec<Wanted>, Failure>>()?;
    let before = look(&plan)?;
    let marked = plan.guests.iter().zip(wanted).map(|(guest, wanted)| wanted.mark(guest));
    let marked = marked.collect::<Result<Vec<Marked>, Failure>>()?;
    let work = Work {
        at_a_time: MOST_AT_A_TIME,
        marked: marked.iter().map(|of| of.pages).sum(),
        wanted: plan.guests.iter().map(|of| of.spots.len() as u64).sum(),
        limit: LIMIT,
    };
    let mut taken = direct::Taken::default();
    if work.wanted > 0 {
        let merged = || Merged::look(&plan).map(|of| of.merged);
        taken = direct::until_merged(&work, xweave_interrupt::pending, merged).map_err(Failure::Failed)?;
    }
    let cut = taken.cut;
    let outcome = Outcome::of(&plan, &marked, &before, &look(&plan)?, taken);
    let told_all = shown::only(|out| match json {
        true => document::merge::write_outcome(out, &outcome, &told.looked_at, asked.same_by()),
        false => {
            let view = View::of_stdout(WIDE);
            write!(out, "{}", report::outcome(&outcome, &told.looked_at, asked.limit, view))
        }
    });
    match cut && xweave_interrupt::pending() {
        true => told_all.map(|_| ExitCode::from(130)),
        false => told_all,
    }
}

fn look(plan: &Plan) -> Result<Merged, Failure> {
    Merged::look(plan)
        .map_err(|error| Failure::Failed(format!("what KSM has merged cannot be read: {error}")))
}

/// What is to be marked of a guest.
struct Wanted {
    way: Way,
    ranges: Vec<Range>,
    /// Pages that are marked already.
    before: u64,
}

impl Wanted {
    /// Or why it may not be.
    fn of(guest: &OfGuest, host: &Host, slots: &Slots, allow: &[Allow]) -> Result<Self, Failure> {
        let vm = host.vm(guest.pid);
        let name = &guest.name;
        if let Some(why) = vm.and_then(VmMemory::barred_by).filter(|why| *why != Why::Unmarked) {
            let (reason, fix) = (why.reason(), why.fix());
            return Err(Failure::Failed(format!("KSM may not merge memory of {name}: {reason}: {fix}")));
        }
        let ranges = guest.ranges(slots, plan::RANGES);
        let ranges = plan::unmarked(&ranges, vm.map_or(&[], |vm| &vm.marked));
        if !ranges.is_empty() && !allow.contains(&Allow::Inject) {
            return Err(Failure::Usage(format!(
                "KSM may not merge memory of {name}: nobody has marked it. With --allow inject, xweave has the process that \
                 runs it (PID {}) make one system call (io_uring_setup), by whose ring pages are marked; without, {}",
                guest.pid,
                Why::Unmarked.fix()
            )));
        }
        let way = if ranges.is_empty() { Way::Before } else { Way::Inject };
        Ok(Self { way, ranges, before: vm.map_or(0, |vm| vm.mergeable / PAGE) })
    }

    /// Marks it, by a ring of its process that is gone afterwards.
    fn mark(self, guest: &OfGuest) -> Result<Marked, Failure> {
        let mut pages = self.before;
        if !self.ranges.is_empty() {
            let failed = |error: MarkError| {
                Failure::Failed(format!("memory of {} is not marked: {error}", guest.name))
            };
            let mut marker = Marker::open(guest.pid).map_err(failed)?;
            let made = marker.mark(&self.ranges).map_err(failed)?;
            if let Some((range, error)) = made.failed.first().filter(|_| made.bytes == 0) {
                let at = range.start;
                return Err(Failure::Failed(format!(
                    "memory of {} is not marked: at {at:#x}: {error}",
                    guest.name
                )));
            }
            pages += made.bytes / PAGE;
            marker.close().map_err(failed)?;
        }
        Ok(Marked { way: self.way, ranges: self.ranges.len() as u64, pages })
    }
}
