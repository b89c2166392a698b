//! Where guests' memory is in the processes that run them, as KVM's memory slots say: whoever made the machine, and however.
//!
//! Read by a BPF iterator over the files that processes have open (`bpf/kvm-slots.c`). Linux 6.1 to 6.12.

use std::{collections::BTreeMap, io::Read};

use libbpf_rs::{Iter, IterOpts, ObjectBuilder};
use xweave_bytes::read_le;
use xweave_wire::pages::PAGE;

const PROGRAM: &str = "kvm_slots";

/// Bytes of what is told of a slot: `struct told` of the program.
const TOLD: usize = 32;

/// Flags of slots that are no memory which a process and its guest share: read-only ones, as a ROM's, and those whose memory
/// is a `guest_memfd` (include/uapi/linux/kvm.h).
const NOT_ORDINARY: u32 = 1 << 1 | 1 << 2;

/// The most slots that are taken of all processes.
const MOST: usize = 1 << 16;

/// Memory of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The guest's first page of it (its frame number).
    pub first_frame: u64,
    /// How many pages.
    pub pages: u64,
    /// Where that is in the process.
    pub address: u64,
}

/// The slots of all virtual machines of this host, by their processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots(BTreeMap<u32, Vec<Slot>>);

/// Why slots are not known.
#[derive(Debug, thiserror::Error)]
pub enum SlotsError {
    /// The kernel does not take it.
    #[error("KVM's memory slots cannot be read: {0}: it takes root, a kernel with BTF, and KVM")]
    Load(#[from] libbpf_rs::Error),
    /// What it tells cannot be read.
    #[error("KVM's memory slots cannot be read: {0}")]
    Read(#[from] std::io::Error),
}

impl Slots {
    /// As they are now.
    ///
    /// # Errors
    /// [`SlotsError`].
    pub fn read() -> Result<Self, SlotsError> {
        let object = ObjectBuilder::default().open_memory(xweave_programs::kvm_slots())?.load()?;
        let mut link = None;
        for program in object.progs_mut().filter(|program| program.name() == PROGRAM) {
            link = Some(program.attach_iter_with_opts(IterOpts::None)?);
        }
        let Some(link) = link else { return Ok(Self::default()) };
        let mut told = Vec::new();
        Iter::new(&link)?.take((MOST * TOLD) as u64).read_to_end(&mut told)?;
        Ok(Self::of_told(&told))
    }

    /// What the program told: nothing of it is sure, as slots may go while they are read.
    fn of_told(told: &[u8]) -> Self {
        let mut all: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
        let (told, _) = told.as_chunks::<TOLD>();
        for slot in told {
            let half = |at: usize| read_le::<u32>(slot, at).unwrap_or(0);
            let whole = |at: usize| read_le::<u64>(slot, at).unwrap_or(0);
            let (pid, flags) = (half(0), half(4));
            let slot = Slot { first_frame: whole(8), pages: whole(16), address: whole(24) };
            if flags & NOT_ORDINARY == 0 && slot.is_possible() {
                all.entry(pid).or_default().push(slot);
            }
        }
        Self::of(all)
    }

    /// Of these processes.
    pub(crate) fn of(all: impl IntoIterator<Item = (u32, Vec<Slot>)>) -> Self {
        let mut all: BTreeMap<u32, Vec<Slot>> = all.into_iter().collect();
        for slots in all.values_mut() {
            slots.sort_unstable();
            // A process that shares its files with another is told twice.
            slots.dedup();
            let mut behind = 0;
            slots.retain(|slot| {
                let fits = slot.first_frame >= behind;
                if fits {
                    behind = slot.first_frame + slot.pages;
                }
                fits
            });
        }
        Self(all)
    }

    /// Those of a process, in the order of the guest's frames.
    pub fn of_process(&self, pid: u32) -> &[Slot] {
        self.0.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Where a guest's page is in the process; none if it is no memory of its.
    pub fn address(&self, pid: u32, frame: u64) -> Option<u64> {
        let slots = self.of_process(pid);
        let slot = slots[..slots.partition_point(|slot| slot.first_frame <= frame)].last()?;
        let place = frame - slot.first_frame;
        (place < slot.pages).then(|| slot.address + place * PAGE)
    }
}

impl Slot {
    /// Whether a process of x86-64 could have it: 2^47 bytes, the guest 2^52.
    fn is_possible(self) -> bool {
        let end = |first: u64, most: u64| first.checked_add(self.pages).is_some_and(|end| end <= most);
        self.pages > 0
            && self.address.is_multiple_of(PAGE)
            && self.address > 0
            && end(self.first_frame, 1 << 40)
            && end(self.address / PAGE, 1 << 35)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(slots: &[(u32, u32, u64, u64, u64)]) -> Vec<u8> {
        let one = |&(pid, flags, first, pages, address): &(u32, u32, u64, u64, u64)| {
            let halves = [pid, flags].map(u32::to_ne_bytes).concat();
            [halves, [first, pages, address].map(u64::to_ne_bytes).concat()].concat()
        };
        slots.iter().flat_map(one).collect()
    }

    #[test]
    fn a_guest_s_page_is_where_its_slot_says() {
        let slots = Slots::of_told(&told(&[
            (7, 0, 0x10_0000, 0x100, 0x7f00_0010_0000),
            (7, 0, 0, 0xa0, 0x7f00_0000_0000),
            (7, 0, 0, 0xa0, 0x7f00_0000_0000),
            (9, 0, 0, 1, 0x1000),
        ]));
        assert_eq!(slots.of_process(7).len(), 2);
        assert_eq!(slots.address(7, 0), Some(0x7f00_0000_0000));
        assert_eq!(slots.address(7, 0x9f), Some(0x7f00_0009_f000));
        assert_eq!(slots.address(7, 0x10_00ff), Some(0x7f00_001f_f000));
        for (pid, frame) in [(7, 0xa0), (7, 0x10_0100), (9, 1), (8, 0), (7, u64::MAX)] {
            assert_eq!(slots.address(pid, frame), None, "{pid}, {frame:#x}");
        }
    }

    #[test]
    fn what_no_process_has_so_is_left_out() {
        let slots = Slots::of_told(&told(&[
            (7, 1 << 1, 0, 1, 0x1000),
            (7, 1 << 2, 0, 1, 0x1000),
            (7, 0, 0, 0, 0x1000),
            (7, 0, 0, 1, 0x1001),
            (7, 0, 0, 1, 0),
            (7, 0, u64::MAX, 2, 0x1000),
            (7, 0, 5, u64::MAX, 0x1000),
            (7, 0, 5, 1, 1 << 47),
        ]));
        assert_eq!(slots, Slots::default());
        // Of two for the same page, one.
        let slots = Slots::of_told(&told(&[(7, 0, 0, 10, 0x1000), (7, 0, 9, 10, 0x10_0000)]));
        assert_eq!(slots.of_process(7), [Slot { first_frame: 0, pages: 10, address: 0x1000 }]);
    }
}
