//! Which instruction has always touched a structure before another does: so that, of all that touch it,
//! the first on each path are known.
//!
//! A value is made at one place. If an instruction that uses it lies on every way from the function's entry
//! to another one that uses it, then it lies on every way from that place too: between the two the value
//! is not made anew, in loops neither.

use rustc_hash::FxHashMap;

use crate::cfg::{Cfg, to_usize};
use crate::value::Ref;

/// For each of these instructions (in their order; with the address of what it touches, where that is known)
/// the number of the nearest of them that has always come before with the same address.
pub(crate) fn earlier(cfg: &Cfg, targets: &[(u32, Option<Ref>)]) -> Vec<Option<u32>> {
    let dominators = dominators(cfg);
    let block_of = |instruction: u32| {
        let behind = cfg.blocks.partition_point(|block| block.first <= instruction);
        behind.saturating_sub(1)
    };
    let mut same: FxHashMap<Ref, Vec<(usize, u32, u32)>> = FxHashMap::default();
    for (nth, (instruction, target)) in (0..).zip(targets) {
        if let Some(target) = target.filter(|target| target.value != Ref::UNKNOWN.value) {
            same.entry(target).or_default().push((block_of(*instruction), *instruction, nth));
        }
    }
    let mut earlier = vec![None; targets.len()];
    for group in same.values_mut().filter(|group| group.len() > 1) {
        group.sort_unstable();
        for at in 0..group.len() {
            let (block, instruction, nth) = group[at];
            earlier[to_usize(nth)] = nearest(group, &dominators, block, instruction);
        }
    }
    earlier
}

/// The last of `group` (block, instruction, number) that dominates an instruction.
fn nearest(
    group: &[(usize, u32, u32)],
    dominators: &[Option<usize>],
    mut block: usize,
    instruction: u32,
) -> Option<u32> {
    let mut below = instruction;
    loop {
        // Of those in this block and before that instruction, the last.
        let behind = group.partition_point(|(of, at, _)| (*of, *at) < (block, below));
        if let Some((of, _, number)) = behind.checked_sub(1).and_then(|before| group.get(before))
            && *of == block
        {
            return Some(*number);
        }
        block = dominators[block]?;
        below = u32::MAX;
    }
}

/// The block that comes last before each block on every way to it; none for where ways begin.
///
/// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001.
fn dominators(cfg: &Cfg) -> Vec<Option<usize>> {
    const ROOT: usize = usize::MAX;
    let rank = |block: usize| cfg.rank[block];
    let mut of: Vec<Option<usize>> = vec![None; cfg.blocks.len()];
    let meet = |of: &[Option<usize>], mut a: usize, mut b: usize| {
        while a != b {
            if a == ROOT || b == ROOT {
                return ROOT;
            }
            if rank(a) > rank(b) {
                a = of[a].unwrap_or(ROOT);
            } else {
                b = of[b].unwrap_or(ROOT);
            }
        }
        a
    };
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &cfg.order {
            let block = to_usize(block);
            let begins = cfg.blocks[block].orphan || cfg.rank[block] == 0;
            let mut found = begins.then_some(ROOT);
            for &before in &cfg.blocks[block].before {
                let before = to_usize(before);
                // One that was not reached yet says nothing.
                if of[before].is_some() {
                    found = Some(found.map_or(before, |found| meet(&of, found, before)));
                }
            }
            if found.is_some() && of[block] != found {
                of[block] = found;
                changed = true;
            }
        }
    }
    of.into_iter().map(|block| block.filter(|block| *block != ROOT)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::HiddenJumps;

    /// `cmp; je L; mov; jmp M; L: mov; M: loop`: a fork that joins, and a loop behind it.
    const CODE: [u8; 16] = [
        0x48, 0x85, 0xff, // 0: test rdi, rdi
        0x74, 0x04, // 1: je L
        0x8b, 0x07, // 2: mov eax, [rdi]
        0xeb, 0x02, // 3: jmp M
        0x90, 0x90, // L: 4, 5: nops
        0x8b, 0x0f, // M: 6: mov ecx, [rdi]
        0x75, 0xfc, // 7: jne M
        0xc3, // 8: ret
    ];

    #[test]
    fn only_what_lies_on_every_way_comes_before() {
        let cfg = Cfg::new(&[(0x1000, &CODE)], &HiddenJumps::default());
        assert_eq!(cfg.instructions.len(), 9);
        let value = Ref { value: 7, add: 0 };
        let at = |instructions: &[u32]| {
            let targets: Vec<_> = instructions.iter().map(|nth| (*nth, Some(value))).collect();
            earlier(&cfg, &targets)
        };
        assert_eq!(at(&[0, 2, 6]), [None, Some(0), Some(0)]);
        assert_eq!(at(&[2, 4, 6]), [None, None, None]);
        assert_eq!(at(&[6, 7, 8]), [None, Some(0), Some(1)]);
        let other = Ref { value: 8, add: 0 };
        assert_eq!(earlier(&cfg, &[(0, Some(value)), (2, Some(other)), (6, None)]), [None, None, None]);
        assert_eq!(earlier(&cfg, &[(0, Some(Ref::UNKNOWN)), (6, Some(Ref::UNKNOWN))]), [None, None]);
    }

    #[test]
    fn the_nearest_is_found_first() {
        let cfg = Cfg::new(&[(0x1000, &CODE)], &HiddenJumps::default());
        let value = Some(Ref { value: 7, add: 8 });
        assert_eq!(earlier(&cfg, &[(0, value), (1, value), (6, value)]), [None, Some(0), Some(1)]);
        assert_eq!(cfg.blocks.len(), 5);
    }
}
