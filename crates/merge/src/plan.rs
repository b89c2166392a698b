//! Where equal pages are likely: for each process that runs a guest, which of its pages to have KSM look at.
//!
//! What guests say is input: wrong, it makes KSM visit pages that are equal to nothing. Those of other processes it cannot name.

use std::{cmp::Reverse, collections::HashMap};

use xweave_wire::pages::PAGE;

use crate::{
    mark::Range,
    slots::Slots,
    tree::{Guest, SameBy, Tree},
};

/// Ranges of a process's memory that are marked at most, of those of one guest: each is a mapping of its own then, and maybe
/// another between it and the next. A process may have 65,530 (`vm.max_map_count`), and the virtual machine monitor needs some.
pub const RANGES: usize = 20_000;

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The files of which several guests hold the same pages, those with most first.
    pub files: Vec<String>,
    /// How many pages of these several guests hold.
    pub pages: u32,
    /// The guests, in the order given.
    pub guests: Vec<OfGuest>,
}

/// A guest's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfGuest {
    /// Its name.
    pub name: String,
    /// The process that runs it.
    pub pid: u32,
    /// Pages that it holds of files.
    pub hinted: u64,
    /// Of these, pages that another guest holds too, by their addresses in the process.
    pub spots: Vec<Spot>,
    /// Of its pages that another holds too, those of which it is not known where they are: it did not say, or says what is not
    /// its memory, or says it of two pages.
    pub lost: u64,
    /// Of its pages that another holds too, those that no other holds on the same NUMA node, where KSM merges within nodes only.
    pub apart: u64,
}

/// A page that several guests hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Where it is in the process.
    pub address: u64,
    /// Of which file it is: its place in [`Plan::files`].
    pub file: u32,
    /// Which page: of [`Plan::pages`], the same number in each guest.
    pub page: u32,
}

impl Plan {
    /// Of these guests, which these processes run.
    pub fn of(guests: &[Guest], pids: &[u32], slots: &Slots, same_by: SameBy) -> Self {
        let mut plan = Self::default();
        plan.guests.extend(guests.iter().zip(pids).map(|(guest, pid)| OfGuest {
            name: guest.name.clone(),
            pid: *pid,
            hinted: guest.files.iter().map(|file| file.pages()).sum(),
            ..OfGuest::default()
        }));
        let tree = Tree::new(guests, same_by);
        let mut files: Vec<_> = tree.iter().filter(|holders| holders.len() > 1).collect();
        files.sort_by_key(|holders| Reverse(holders.iter().map(|(_, file)| file.pages()).sum::<u64>()));
        let mut found = Vec::new();
        for holders in files {
            found.clear();
            for (guest, file) in holders {
                let Some(OfGuest { pid, .. }) = plan.guests.get(*guest) else { continue };
                let pages = file.runs.iter().flat_map(|run| run.first..run.end());
                let frames = file.frames.iter().copied().map(|frame| (frame > 0).then_some(frame));
                for (page, frame) in pages.zip(frames.chain(std::iter::repeat(None))) {
                    found.push((page, *guest, frame.and_then(|frame| slots.address(*pid, frame))));
                }
            }
            plan.add(&holders[0].1.path, &mut found);
        }
        for guest in &mut plan.guests {
            guest.spots.sort_unstable();
            let all = guest.spots.len();
            guest.spots.dedup_by_key(|spot| spot.address);
            guest.lost += (all - guest.spots.len()) as u64;
        }
        plan
    }

    /// Adds those pages of a file that several guests hold: each is (its place, who holds it, where).
    fn add(&mut self, path: &str, found: &mut [(u64, usize, Option<u64>)]) {
        found.sort_unstable();
        let Ok(file) = u32::try_from(self.files.len()) else { return };
        let mut any = false;
        for of_page in found.chunk_by(|one, other| one.0 == other.0).filter(|of| of.len() > 1) {
            let known = of_page.iter().filter(|(.., address)| address.is_some()).count();
            let page = self.pages;
            for (_, guest, address) in of_page {
                let guest = &mut self.guests[*guest];
                match address.filter(|_| known > 1) {
                    Some(address) => guest.spots.push(Spot { address, file, page }),
                    None => guest.lost += 1,
                }
            }
            any |= known > 1;
            // 16 TiB of them are more than any host has.
            self.pages = self.pages.saturating_add(u32::from(known > 1));
        }
        if any {
            self.files.push(path.to_owned());
        }
    }
}

impl Plan {
    /// Leaves only what KSM can put together where it merges within NUMA nodes only: pages that another guest holds on the same
    /// node. Of each guest's spots, in order, the nodes; none of a page that is not there now.
    pub fn keep_within(&mut self, nodes: &[Vec<Option<u32>>]) {
        let mut holders: HashMap<(u32, u32), u32> = HashMap::new();
        for (guest, nodes) in self.guests.iter().zip(nodes) {
            for (spot, node) in guest.spots.iter().zip(nodes) {
                if let Some(node) = node {
                    *holders.entry((spot.page, *node)).or_default() += 1;
                }
            }
        }
        for (guest, nodes) in self.guests.iter_mut().zip(nodes) {
            let OfGuest { spots, lost, apart, .. } = guest;
            let mut nodes = nodes.iter().copied();
            spots.retain(|spot| {
                let Some(node) = nodes.next().flatten() else {
                    *lost += 1;
                    return false;
                };
                let has_partner = holders.get(&(spot.page, node)).is_some_and(|holders| *holders > 1);
                *apart += u64::from(!has_partner);
                has_partner
            });
        }
    }
}

impl OfGuest {
    /// What of its process's memory to mark: all of these pages in so many ranges at most, and what lies between two of them
    /// that are marked as one. The closest are.
    pub fn ranges(&self, slots: &Slots, most: usize) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        for Spot { address, .. } in &self.spots {
            match ranges.last_mut().filter(|last| last.start + last.length == *address) {
                Some(last) => last.length += PAGE,
                None => ranges.push(Range { start: *address, length: PAGE }),
            }
        }
        // What is between memory of two slots is none of the guest's.
        let slots: Vec<_> =
            slots.of_process(self.pid).iter().map(|slot| (slot.address, slot.pages * PAGE)).collect();
        let gap = |one: &Range, next: &Range| {
            let whole = (one.start, next.start + next.length - one.start);
            let within =
                slots.iter().any(|(start, length)| whole.0 >= *start && whole.0 - start + whole.1 <= *length);
            within.then(|| next.start - one.start - one.length)
        };
        let mut gaps: Vec<u64> = ranges.windows(2).filter_map(|pair| gap(&pair[0], &pair[1])).collect();
        let too_many = ranges.len().saturating_sub(most.max(1)).min(gaps.len());
        if too_many == 0 {
            return ranges;
        }
        let (_, widest, _) = gaps.select_nth_unstable(too_many - 1);
        let widest = *widest;
        let mut filled: Vec<Range> = Vec::new();
        for range in ranges {
            match filled.last_mut() {
                Some(last) if gap(last, &range).is_some_and(|gap| gap <= widest) => {
                    last.length = range.start + range.length - last.start;
                }
                _ => filled.push(range),
            }
        }
        filled
    }
}

/// What of these ranges is in none of those that are marked. Both are in order, and apart.
pub fn unmarked(ranges: &[Range], marked: &[Range]) -> Vec<Range> {
    let mut left = Vec::new();
    let mut marked = marked.iter().peekable();
    for range in ranges {
        let (mut start, end) = (range.start, range.start + range.length);
        while let Some(of) = marked.peek() {
            let of_end = of.start + of.length;
            if of.start >= end {
                break;
            }
            if of.start > start {
                left.push(Range { start, length: of.start - start });
            }
            start = start.max(of_end.min(end));
            if of_end > end {
                break;
            }
            marked.next();
        }
        if start < end {
            left.push(Range { start, length: end - start });
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xweave_wire::pages::{CachedFile, Run};

    use super::*;
    use crate::slots::Slot;

    const BASE: u64 = 0x7f00_0000_0000;

    fn slots() -> Slots {
        let low = Slot { first_frame: 0, pages: 0x100, address: BASE };
        let high = Slot { first_frame: 0x1000, pages: 0x1000, address: BASE + 0x1000_0000 };
        Slots::of([(1, vec![low, high]), (2, vec![low, high]), (3, vec![low])])
    }

    /// A file, of whose pages each lies in that frame.
    fn file(path: &str, frames: &[u64]) -> CachedFile {
        let pages = u32::try_from(frames.len()).unwrap();
        let runs = vec![Run { first: 0, pages }];
        CachedFile { path: path.into(), runs, frames: frames.to_vec(), ..CachedFile::default() }
    }

    fn plan(guests: &[&[CachedFile]]) -> Plan {
        let guest = |files: &&[CachedFile]| Guest { name: String::new(), files: files.to_vec() };
        let guests: Vec<Guest> = guests.iter().map(guest).collect();
        Plan::of(&guests, &[1, 2, 3][..guests.len()], &slots(), SameBy::Path)
    }

    fn addresses(of: &OfGuest) -> Vec<u64> {
        of.spots.iter().map(|spot| (spot.address - BASE) / PAGE).collect()
    }

    #[test]
    fn pages_that_several_hold_are_looked_at_where_they_are() {
        let of = plan(&[
            &[file("/a", &[5, 6, 7]), file("/only", &[8])],
            &[file("/a", &[0x1001, 9])],
            &[file("/b", &[1])],
        ]);
        assert_eq!(of.files, ["/a"]);
        // Page 2 of /a is held by one.
        assert_eq!(addresses(&of.guests[0]), [5, 6]);
        assert_eq!(addresses(&of.guests[1]), [9, 0x1_0001]);
        let counts = |of: &OfGuest| (of.hinted, of.spots.len(), of.lost);
        assert_eq!(of.guests.iter().map(counts).collect::<Vec<_>>(), [(4, 2, 0), (2, 2, 0), (1, 0, 0)]);
    }

    #[test]
    fn what_is_no_memory_of_a_guest_or_is_said_twice_is_left_out() {
        // Page 0: one does not say where; page 1: says what is not its; page 2: the same frame as page 3.
        let of = plan(&[&[file("/a", &[0, 1, 7, 7])], &[file("/a", &[1, 0x200, 3, 4])]]);
        assert_eq!(addresses(&of.guests[0]), [7]);
        assert_eq!(addresses(&of.guests[1]), [3, 4]);
        assert_eq!(of.guests.iter().map(|of| of.lost).collect::<Vec<_>>(), [3, 2]);
        // Who names fewer frames than pages says of the others nothing.
        let mut short = file("/a", &[1, 2]);
        short.frames.pop();
        let of = plan(&[&[short], &[file("/a", &[1, 2])]]);
        assert_eq!((addresses(&of.guests[0]), of.guests[1].lost), (vec![1], 1));
    }

    fn of_pages(pages: &[u64]) -> OfGuest {
        let spot = |page: &u64| Spot { address: BASE + page * PAGE, file: 0, page: 0 };
        OfGuest { pid: 1, spots: pages.iter().map(spot).collect(), ..OfGuest::default() }
    }

    #[test]
    fn the_closest_are_marked_as_one_where_ranges_are_few() {
        let of = of_pages(&[1, 2, 5, 10, 11, 0x1_0000]);
        let ranges = |most| -> Vec<(u64, u64)> {
            let ranges = of.ranges(&slots(), most);
            ranges.iter().map(|range| ((range.start - BASE) / PAGE, range.length / PAGE)).collect()
        };
        assert_eq!(ranges(10), [(1, 2), (5, 1), (10, 2), (0x1_0000, 1)]);
        assert_eq!(ranges(3), [(1, 5), (10, 2), (0x1_0000, 1)]);
        // Those of two slots never are.
        assert_eq!(ranges(1), [(1, 11), (0x1_0000, 1)]);
    }

    #[test]
    fn within_nodes_only_what_another_holds_on_the_same_node_is_looked_at() {
        let mut of = plan(&[
            &[file("/a", &[1, 2, 3, 4]), file("/b", &[5])],
            &[file("/a", &[11, 12, 13, 14]), file("/b", &[15])],
            &[file("/a", &[21, 22, 23])],
        ]);
        assert_eq!((of.pages, addresses(&of.guests[2])), (5, vec![21, 22, 23]));
        // Page 0 is on node 0 twice and on node 1 once; page 1 on three; of page 2 one is not there; page 3 of /a is together.
        let on = |nodes: &[i32]| nodes.iter().map(|node| u32::try_from(*node).ok()).collect::<Vec<_>>();
        of.keep_within(&[on(&[0, 0, 1, 1, 0]), on(&[0, 1, 1, 1, 1]), on(&[1, 2, -1])]);
        assert_eq!(
            of.guests.iter().map(addresses).collect::<Vec<_>>(),
            [vec![1, 3, 4], vec![11, 13, 14], vec![]]
        );
        let counts = |of: &OfGuest| (of.apart, of.lost);
        assert_eq!(of.guests.iter().map(counts).collect::<Vec<_>>(), [(2, 0), (2, 0), (2, 1)]);
    }

    proptest! {
        #[test]
        fn within_nodes_every_spot_has_a_partner_on_its_node_and_none_that_has_one_is_left_out(
            held in prop::collection::vec(prop::collection::btree_map(0..40_u64, prop::option::of(0..3_u32), 0..40), 2..4)
        ) {
            // Of each guest, which pages of a file it holds, and where.
            let of_file = |pages: &std::collections::BTreeMap<u64, Option<u32>>| CachedFile {
                path: "/a".into(),
                runs: pages.keys().map(|page| Run { first: *page, pages: 1 }).collect(),
                frames: pages.keys().map(|page| page + 1).collect(),
                ..CachedFile::default()
            };
            let guests: Vec<Vec<CachedFile>> = held.iter().map(|pages| vec![of_file(pages)]).collect();
            let mut of = plan(&guests.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let before = of.clone();
            let nodes = |guest: &OfGuest, held: &std::collections::BTreeMap<u64, Option<u32>>| {
                addresses(guest).iter().map(|frame| held[&(frame - 1)]).collect::<Vec<_>>()
            };
            let nodes: Vec<_> = of.guests.iter().zip(&held).map(|(guest, held)| nodes(guest, held)).collect();
            of.keep_within(&nodes);
            for (guest, (before, pages)) in of.guests.iter().zip(before.guests.iter().zip(&held)) {
                let there = addresses(guest);
                for frame in addresses(before) {
                    let page = frame - 1;
                    let on_node = |node| held.iter().filter(|of| of.get(&page) == Some(&Some(node))).count();
                    let has_partner = pages[&page].is_some_and(|node| on_node(node) > 1);
                    prop_assert_eq!(there.contains(&frame), has_partner);
                }
                let all = guest.spots.len() as u64 + guest.apart + guest.lost;
                prop_assert_eq!(all, before.spots.len() as u64 + before.lost);
            }
        }

        #[test]
        fn what_is_marked_already_is_not_marked_again(
            wanted in prop::collection::btree_set(0..80_u64, 0..50), marked in prop::collection::btree_set(0..80_u64, 0..50)
        ) {
            let ranges = |pages: &std::collections::BTreeSet<u64>| {
                of_pages(&pages.iter().copied().collect::<Vec<_>>()).ranges(&slots(), usize::MAX)
            };
            let left = unmarked(&ranges(&wanted), &ranges(&marked));
            prop_assert_eq!(left, ranges(&wanted.difference(&marked).copied().collect()));
        }

        #[test]
        fn every_page_is_in_one_range_and_no_range_overlaps(
            pages in prop::collection::btree_set(0..0x100_u64, 0..60), most in 1..20_usize
        ) {
            let pages: Vec<u64> = pages.into_iter().collect();
            let of = of_pages(&pages);
            let ranges = of.ranges(&slots(), most);
            prop_assert!(ranges.len() <= most);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].start + pair[0].length < pair[1].start));
            let within = |address: u64| ranges.iter().any(|of| address >= of.start && address - of.start < of.length);
            prop_assert!(of.spots.iter().all(|spot| within(spot.address)));
        }
    }
}
