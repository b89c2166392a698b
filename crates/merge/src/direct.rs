//! Having KSM visit what is marked, until it has merged what it can.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use xweave_system::ksm::{Counters, Directed, MAX_PAGES_TO_SCAN, NodesError, WithinNodes};

use crate::{
    host::{Host, HostError},
    merged::LookError,
};

/// How often KSM is woken where it may be asleep, and its counters are looked at.
const EVERY: Duration = Duration::from_millis(10);

/// Whole passes that merge all that stays as it is: KSM has to see twice that a page does not change.
const WHOLE: u64 = 2;

/// Passes at most, if none seems whole: of what is marked, not all may be there.
const PASSES: usize = 4;

/// What KSM is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Pages that it visits at a time ([`MAX_PAGES_TO_SCAN`] at most).
    pub at_a_time: u64,
    /// Pages that are marked for it.
    pub marked: u64,
    /// Pages of which it may find equal ones.
    pub wanted: u64,
    /// For how long it goes on at most.
    pub limit: Duration,
}

/// What it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Passes over all marked memory of this host: how many of the pages wanted were merged after each, the last time.
    pub passes: Vec<u64>,
    /// How many passes there were in all.
    pub made: u64,
    /// Pages that KSM visited: as it has counted, or, before Linux 6.6, as many as are marked in each pass.
    pub visited: u64,
    /// CPU time of ksmd.
    pub ksmd: Duration,
    /// Whether it was ended before KSM was through.
    pub cut: bool,
}

/// Has KSM make passes until two have been whole, or nearly all that is wanted is merged: `merged` tells how much is, after each.
///
/// # Errors
/// KSM is not to be had, or `merged` fails.
pub fn until_merged(
    work: &Work,
    ended: impl Fn() -> bool,
    mut merged: impl FnMut() -> Result<u64, LookError>,
) -> Result<Taken, String> {
    let counted = || Counters::read().map_err(|error| format!("KSM's counters cannot be read: {error}"));
    let begun = Instant::now();
    let cpu = ksmd();
    // It begins at once.
    let (first, mut whole) = (counted()?, 0);
    let mut directed = Directed::begin(work.at_a_time)?;
    let (mut taken, mut last) = (Taken::default(), first);
    while whole < WHOLE && taken.passes.len() < PASSES && !taken.cut {
        let pass = last;
        while !taken.cut {
            // Looked at before KSM is woken: on another CPU it may have gone on, and be through with this pass as well.
            last = counted()?;
            if last.full_scans != pass.full_scans {
                break;
            }
            directed.wake()?;
            thread::sleep(EVERY);
            taken.cut = ended() || begun.elapsed() >= work.limit;
        }
        let now = merged().map_err(|error| error.to_string())?;
        // The first may begin in the middle.
        whole += match last.pages_scanned.zip(pass.pages_scanned) {
            Some((now, before)) => u64::from(now.saturating_sub(before) >= work.marked / 10 * 9),
            None => u64::from(!taken.passes.is_empty()),
        };
        if !taken.cut {
            taken.passes.push(now);
            taken.made += 1;
        }
        if is_enough(now, work.wanted.saturating_sub(now)) {
            break;
        }
    }
    directed.restore()?;
    let scanned = counted()?.pages_scanned.zip(first.pages_scanned);
    taken.visited =
        scanned.map_or(taken.passes.len() as u64 * work.marked, |(last, first)| last.saturating_sub(first));
    taken.ksmd = ksmd().zip(cpu).map_or(Duration::ZERO, |(now, before)| now.saturating_sub(before));
    Ok(taken)
}

/// How long KSM may take to notice that nothing is merged any more.
const NOTICES: Duration = Duration::from_secs(10);

/// Has KSM merge within NUMA nodes only; why not, in words.
///
/// # Errors
/// Anything is merged, or KSM is not to be had.
pub fn within_nodes(ended: impl Fn() -> bool) -> Result<WithinNodes, String> {
    let within = match WithinNodes::begin() {
        Err(NodesError::Merged) => {
            notice(ended)?;
            WithinNodes::begin()
        }
        within => within,
    };
    within.map_err(|error| match error {
        NodesError::Merged => format!(
            "{error}: have all be its owners' again first, by xweave merge release --allow inject VM…, or, what \
             others have merged too, by echo 2 >/sys/kernel/mm/ksm/run"
        ),
        NodesError::Other(_) => error.to_string(),
    })
}

/// Ends merging within NUMA nodes only. Returns whether KSM goes on with it, as it does while pages are merged.
///
/// # Errors
/// This host's virtual machines cannot be read.
pub fn leave_nodes(within: WithinNodes) -> Result<bool, HostError> {
    drop(within);
    Ok(Host::read()?.ksm.is_some_and(|ksm| !ksm.merge_across_nodes))
}

/// Has KSM merge across NUMA nodes again, where it was made to merge within them only and nothing is merged any more.
///
/// # Errors
/// KSM is not to be had.
pub fn across_nodes(ended: impl Fn() -> bool) -> Result<(), String> {
    if WithinNodes::is_left() {
        notice(ended)?;
        xweave_system::restore_settings();
    }
    Ok(())
}

/// Has KSM visit all that is marked, so that it knows what is not merged any more.
fn notice(ended: impl Fn() -> bool) -> Result<(), String> {
    let counted = || Counters::read().map_err(|error| format!("KSM's counters cannot be read: {error}"));
    let (begun, first) = (Instant::now(), counted()?);
    let mut directed = Directed::begin(MAX_PAGES_TO_SCAN)?;
    loop {
        let now = counted()?;
        // The first pass may begin in the middle. Where nothing is marked there is none.
        let is_through = now.pages_shared == 0 || now.full_scans >= first.full_scans + WHOLE;
        if is_through || begun.elapsed() >= NOTICES || ended() {
            return directed.restore();
        }
        directed.wake()?;
        thread::sleep(EVERY);
    }
}

/// Whether so many pages merged are nearly all: a few more are not worth a pass of KSM's.
pub(crate) fn is_enough(merged: u64, left: u64) -> bool {
    left <= (merged + left) / 100
}

/// CPU time that ksmd has had (`/proc/PID/schedstat`, in nanoseconds). Only the kernel's own threads have no program.
pub fn ksmd() -> Option<Duration> {
    let is_ksmd = |entry: &fs::DirEntry| {
        let path = entry.path();
        fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == "ksmd")
            && fs::read(path.join("cmdline")).is_ok_and(|line| line.is_empty())
    };
    let found = fs::read_dir("/proc").ok()?.flatten().find(is_ksmd)?;
    let ran = fs::read_to_string(found.path().join("schedstat")).ok()?;
    Some(Duration::from_nanos(ran.split_ascii_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_is_enough() {
        assert!(is_enough(0, 0) && is_enough(99, 1) && is_enough(1000, 9));
        assert!(!is_enough(0, 1) && !is_enough(98, 2));
    }
}
