//! Local flows connected by crossings, and the path through them.

use std::{cmp::Reverse, ops::Range};

use xweave_trace::{Row, Trace};

use crate::{
    crossing::{Crossing, Crossings},
    dropped::{self, Dropped, Words},
    frame::Frame,
    key::Key,
    local::{Local, Locals},
};

/// One piece of data, followed through all domains.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The local ID that it began under.
    pub id: u64,
    /// What it is a flow of: the flow definition of its first site that names one.
    pub name: String,
    /// What its data is, where that was recorded: the first that was, on its path if any was.
    pub frame: Option<Frame>,
    /// The key of the message that it carries, where events tell it; and a hash of how that begins.
    pub key: Option<Key>,
    pub(crate) head: u32,
    /// The numbers of the domains that its path begins and ends in.
    pub(crate) ends: (u8, u8),
    /// Flows that it is a part of, or that became parts of it; in ascending order.
    pub parents: Vec<u64>,
    /// When its path began, in nanoseconds of the reference domain.
    pub start_ns: i64,
    /// When its path ended.
    pub end_ns: i64,
    /// Why it is not known from its beginning to its end; none if it is.
    pub incomplete: Option<Incomplete>,
    /// Where and why it was dropped, if it was: where its path ends.
    pub dropped: Option<Dropped>,
    /// How many copies of it were dropped, on its path and beside it.
    pub drops: u32,
    /// Records of it that are known to be missing.
    pub lost: u64,
    /// Crossings on its path.
    pub crossings: u32,
    /// How many copies of it went different ways: the path is that of one.
    pub copies: u32,
    /// All local IDs that it had, the path's first.
    pub locals: Vec<u64>,
    /// Its records: those of the path in the path's order, the others among them by time.
    pub(crate) steps: Vec<Step>,
}

/// One record of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub row: Row,
    pub on_path: bool,
}

/// Why a flow is not known from its beginning to its end. The first that applies is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Incomplete {
    /// Records of it were lost.
    Lost,
    /// No record says how it began: it came off a carrier whose other side is not in the trace.
    NoStart,
    /// It was put on a carrier and not seen to come off, though the other side was traced.
    Unmatched,
    /// It was dropped: [`Flow::dropped`].
    Dropped,
    /// It was still under way when the recording ended, or went where no site is.
    NoEnd,
}

impl Flow {
    /// Whether it is known from its beginning to its end.
    pub fn complete(&self) -> bool {
        self.incomplete.is_none()
    }

    /// How long its path took, in nanoseconds.
    pub fn total_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// The records of its path, in the path's order.
    pub(crate) fn path(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.steps.iter().filter(|step| step.on_path).map(|step| &step.row)
    }
}

/// A flow, and what it is made of.
pub(crate) struct Connected {
    pub flow: Flow,
    /// Places of its local flows.
    pub members: Vec<usize>,
}

/// Connects local flows.
pub(crate) fn connect(
    trace: &Trace,
    words: &Words<'_>,
    locals: &Locals,
    crossings: &Crossings,
) -> Vec<Connected> {
    let mut incoming: Vec<Option<&Crossing>> = vec![None; locals.flows.len()];
    let mut outgoing: Vec<(usize, usize)> = Vec::with_capacity(crossings.pairs.len());
    for pair in &crossings.pairs {
        // A local flow comes off one carrier once: what else claims it is damaged data.
        if incoming[pair.to.0].is_none() && pair.to.0 != pair.from.0 {
            incoming[pair.to.0] = Some(pair);
            outgoing.push((pair.from.0, pair.to.0));
        }
    }
    // Stable: those of one local flow stay in the order of their pairs.
    outgoing.sort_by_key(|(from, _)| *from);
    let mut first = vec![0; locals.flows.len() + 1];
    outgoing.iter().for_each(|(from, _)| first[from + 1] += 1);
    (1..first.len()).for_each(|at| first[at] += first[at - 1]);
    let mut unmatched = crossings.unmatched_rows.clone();
    unmatched.sort_unstable();
    let mut builder = Builder {
        trace,
        locals,
        words,
        incoming,
        outgoing: outgoing.into_iter().map(|(_, to)| to).collect(),
        first,
        seen: vec![false; locals.flows.len()],
        depth: vec![0; locals.flows.len()],
        on_path: vec![false; locals.flows.len()],
        unmatched,
    };
    let mut flows = Vec::new();
    for root in 0..locals.flows.len() {
        if builder.incoming[root].is_none() {
            flows.push(builder.flow(root));
        }
    }
    // What no root leads to goes round in a circle, which honest data does not: cut it anywhere.
    for root in 0..locals.flows.len() {
        if !builder.seen[root] {
            builder.incoming[root] = None;
            flows.push(builder.flow(root));
        }
    }
    flows
}

struct Builder<'a> {
    trace: &'a Trace,
    locals: &'a Locals,
    words: &'a Words<'a>,
    /// Per local flow, what it came off.
    incoming: Vec<Option<&'a Crossing>>,
    /// What local flows lead to by crossings, and where each one's begin among these.
    outgoing: Vec<usize>,
    first: Vec<usize>,
    seen: Vec<bool>,
    /// Per local flow, how many crossings lead to it.
    depth: Vec<u32>,
    /// Per local flow, whether it is on the path of the flow that it is a part of.
    on_path: Vec<bool>,
    /// Rows put on a carrier and not taken off, in ascending order.
    unmatched: Vec<usize>,
}

impl Builder<'_> {
    fn flow(&mut self, root: usize) -> Connected {
        let members = self.members(root);
        let path = self.path(root, &members);
        let steps = self.steps(&members, &path);
        let on_path = || steps.iter().filter(|step| step.on_path);
        let time = |step: Option<&Step>| step.map_or(0, |step| step.row.time_ns);
        let (start_ns, end_ns) = (time(on_path().next()), time(on_path().next_back()));
        let domain = |step: Option<&Step>| step.map_or(0, |step| step.row.domain);
        let ends = (domain(on_path().next()), domain(on_path().next_back()));
        let frame = |step: &Step| Frame::of(&step.row);
        let frame = on_path().find_map(frame).or_else(|| steps.iter().find_map(frame));
        let name =
            steps.iter().find_map(|step| self.trace.site(step.row.site).and_then(|site| site.xflow.clone()));
        let lost = members.iter().map(|&local| self.locals.flows[local].lost).fold(0, u64::saturating_add);
        let last = path.last().and_then(|&local| self.locals.flows[local].dropped);
        let dropped = last
            .map(|at| self.words.dropped(&self.locals.rows[at]))
            .filter(|of| !of.is_use_of(frame.as_ref()));
        let drops = steps.iter().filter(|step| dropped::is_drop(&step.row)).count();
        // The path first, then what branched off it.
        let mut ordered = path.clone();
        ordered.extend(members.iter().filter(|&&local| !self.on_path[local]));
        let mut locals: Vec<u64> = ordered.iter().map(|&local| self.locals.flows[local].id).collect();
        locals.dedup();
        let flow = Flow {
            id: self.locals.flows[root].id,
            name: name.unwrap_or_default(),
            frame,
            key: None,
            head: 0,
            ends,
            parents: members.iter().flat_map(|local| &self.locals.flows[*local].parents).copied().collect(),
            start_ns,
            end_ns,
            incomplete: self.incomplete(root, &path, lost, dropped.is_some()),
            dropped,
            drops: u32::try_from(drops).unwrap_or(u32::MAX),
            lost,
            crossings: u32::try_from(path.len() - 1).unwrap_or(u32::MAX),
            copies: u32::try_from(members.iter().filter(|local| self.is_leaf(root, **local)).count())
                .unwrap_or(u32::MAX),
            locals,
            steps,
        };
        Connected { flow, members }
    }

    /// All local flows that a root leads to, itself first.
    fn members(&mut self, root: usize) -> Vec<usize> {
        let mut members = vec![root];
        self.seen[root] = true;
        let mut next = 0;
        while let Some(&local) = members.get(next) {
            for at in self.first[local]..self.first[local + 1] {
                let to = self.outgoing[at];
                if !self.seen[to] {
                    self.seen[to] = true;
                    self.depth[to] = self.depth[local] + 1;
                    members.push(to);
                }
            }
            next += 1;
        }
        members
    }

    /// Whether it was put on no carrier that leads on.
    fn is_leaf(&self, root: usize, local: usize) -> bool {
        self.outgoing[self.first[local]..self.first[local + 1]].iter().all(|&to| to == root)
    }

    /// From the root to the leaf that got farthest; marked as such. A copy that was dropped got nowhere. What crossed
    /// more got farther, then what was used up; of several that were, the first: what came after it had come already.
    fn path(&mut self, root: usize, members: &[usize]) -> Vec<usize> {
        let got = |local: &usize| {
            let of = &self.locals.flows[*local];
            (of.dropped.is_none(), self.depth[*local], of.quit, Reverse(self.locals.end(of)))
        };
        let leaves = members.iter().copied().filter(|local| self.is_leaf(root, *local));
        let last = leaves.max_by_key(got).unwrap_or(root);
        let mut path = vec![last];
        let mut at = last;
        while at != root
            && let Some(crossing) = self.incoming[at]
        {
            at = crossing.from.0;
            path.push(at);
        }
        path.reverse();
        for &local in &path {
            self.on_path[local] = true;
        }
        path
    }

    fn steps(&self, members: &[usize], path: &[usize]) -> Vec<Step> {
        let mut on: Vec<Range<usize>> = Vec::with_capacity(path.len());
        let mut off: Vec<usize> = Vec::new();
        for &local in members {
            if !self.on_path[local] {
                off.extend(self.locals.flows[local].rows.clone());
            }
        }
        for (at, &local) in path.iter().enumerate() {
            let rows = self.locals.flows[local].rows.clone();
            // Up to where it was put on the carrier that leads on.
            let leaves =
                path.get(at + 1).and_then(|&next| self.incoming[next]).map(|crossing| crossing.from.1 + 1);
            let end = leaves.unwrap_or(rows.end);
            on.push(rows.start..end);
            off.extend(end..rows.end);
        }
        off.sort_by_key(|&row| self.locals.rows[row].time_ns);
        let all = on.iter().map(ExactSizeIterator::len).sum::<usize>() + off.len();
        let mut steps = Vec::with_capacity(all);
        let mut off = off.into_iter().map(|row| self.locals.rows[row]).peekable();
        for &row in on.into_iter().flat_map(|rows| &self.locals.rows[rows]) {
            while let Some(row) = off.next_if(|other| other.time_ns < row.time_ns) {
                steps.push(Step { row, on_path: false });
            }
            steps.push(Step { row, on_path: true });
        }
        steps.extend(off.map(|row| Step { row, on_path: false }));
        steps
    }

    fn is_unmatched(&self, local: &Local) -> bool {
        let next = self.unmatched.partition_point(|&row| row < local.rows.start);
        self.unmatched.get(next).is_some_and(|row| local.rows.contains(row))
    }

    fn incomplete(&self, root: usize, path: &[usize], lost: u64, dropped: bool) -> Option<Incomplete> {
        let last = &self.locals.flows[*path.last().unwrap_or(&root)];
        if lost > 0 {
            Some(Incomplete::Lost)
        } else if !self.locals.flows[root].started {
            Some(Incomplete::NoStart)
        } else if self.is_unmatched(last) {
            Some(Incomplete::Unmatched)
        } else if dropped {
            Some(Incomplete::Dropped)
        } else if !last.quit {
            Some(Incomplete::NoEnd)
        } else {
            None
        }
    }
}
