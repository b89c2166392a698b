//! This host's part: which of its virtual machines' memory KSM may merge, and what keeps it from the rest.
//!
//! KSM takes anonymous memory that its owner has marked (`madvise`, `MADV_MERGEABLE`), and none that is shared, of
//! hugetlbfs, or pinned for a device (`mm/ksm.c`, `vma_ksm_compatible` and `write_protect_page`, Linux 6.12).

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::Path,
};

use xweave_system::kvm;
use xweave_wire::message::{BackEnd, Vm};

use crate::{maps::Line, mark::Range, nodes};

const KSM: &str = "/sys/kernel/mm/ksm";

/// A mapping of fewer bytes is no memory of a guest, but of its process.
const LEAST: u64 = 16 << 20;

/// Mappings that a process may have, unless somebody has changed it (DEFAULT_MAX_MAP_COUNT).
const MAPPINGS: usize = 65_530;

/// Mappings that are left to a process for itself.
const RESERVE: usize = 8192;

/// KSM, and the virtual machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// None if the kernel has none.
    pub ksm: Option<Ksm>,
    /// The machines, by their processes.
    pub vms: Vec<VmMemory>,
    /// Mappings that a process may have (`vm.max_map_count`).
    pub most_mappings: usize,
}

/// How KSM stands (Documentation/admin-guide/mm/ksm.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ksm {
    /// 0: stopped, 1: running, 2: stopped, and nothing stays merged.
    pub run: u64,
    /// Pages that are given back.
    pub pages_sharing: u64,
    /// Whether pages of two NUMA nodes are merged.
    pub merge_across_nodes: bool,
    /// How many NUMA nodes have memory.
    pub nodes: u64,
}

impl Ksm {
    /// Whether equal pages of this host may be on two nodes, of which KSM makes none one.
    pub fn is_within_nodes(self) -> bool {
        !self.merge_across_nodes && self.nodes > 1
    }
}

/// A virtual machine's memory: what it holds now, in bytes, without what its process has for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmMemory {
    /// Its process.
    pub pid: u32,
    /// What its user calls it, or else its process is called.
    pub name: String,
    /// That KSM may merge.
    pub mergeable: u64,
    /// What is marked for that: where in the process, in order.
    pub marked: Vec<Range>,
    /// Mappings of the process, whatever they are of.
    pub mappings: usize,
    /// That it may not, and why.
    pub kept: Vec<Kept>,
}

/// Memory that KSM may not merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Why.
    pub why: Why,
    /// How much, in bytes.
    pub bytes: u64,
}

/// Why KSM may not merge memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Why {
    /// A device writes to it by itself: VFIO and vDPA pin all of a guest's memory.
    Pinned,
    /// It is of hugetlbfs.
    Hugetlb,
    /// It is shared with other processes: a memfd or a file.
    Shared,
    /// It is not marked.
    Unmarked,
}

impl Why {
    /// In a word, for programs.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// In words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Pinned => "a device is passed through, for which it is pinned",
            Self::Hugetlb => "it is in hugetlbfs pages",
            Self::Shared => "it is shared: a memfd or a file",
            Self::Unmarked => "it is not marked for merging",
        }
    }

    /// What to do about it.
    pub fn fix(self) -> &'static str {
        match self {
            Self::Pinned => "give it a virtio device instead, if it may do without that one",
            Self::Hugetlb => "let it use transparent huge pages: KSM splits these where it merges",
            Self::Shared => {
                "give it memory of its own (QEMU: share=off), unless vhost-user or virtiofs needs it so"
            }
            Self::Unmarked => "start QEMU with -machine mem-merge=on (libvirt: no <nosharepages/>)",
        }
    }
}

/// Memory of this host's virtual machines cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the mappings of a virtual machine's process: {0}: run it as root")]
pub struct HostError(#[from] io::Error);

impl Host {
    /// Reads KSM's state and the memory of all virtual machines of this host. A virtual machine that has ended is left out.
    ///
    /// # Errors
    /// The mappings of a virtual machine's process cannot be read.
    pub fn read() -> Result<Self, HostError> {
        Ok(Self::read_vms(&kvm::list_vms())?)
    }

    fn read_vms(vms: &[Vm]) -> io::Result<Self> {
        let number = |file: &str| fs::read_to_string(Path::new(KSM).join(file)).ok()?.trim().parse().ok();
        let ksm = number("run").map(|run| Ksm {
            run,
            pages_sharing: number("pages_sharing").unwrap_or(0),
            merge_across_nodes: number("merge_across_nodes").is_none_or(|of: u64| of != 0),
            nodes: nodes::count(),
        });
        let mut all = Vec::new();
        for vm in vms {
            let pinned = vm.back_ends.iter().any(|of| matches!(of, BackEnd::Vfio | BackEnd::Vdpa));
            let name = if vm.name.is_empty() { &vm.comm } else { &vm.name };
            let memory = VmMemory { pid: vm.pid, name: name.clone(), ..VmMemory::default() };
            let file = File::open(format!("/proc/{}/smaps", vm.pid));
            match file.and_then(|file| memory.with(BufReader::new(file), pinned)) {
                Err(error) if has_ended(&error) => {}
                memory => all.push(memory?),
            }
        }
        let most = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        let most_mappings = most.and_then(|most| most.trim().parse().ok()).unwrap_or(MAPPINGS);
        Ok(Self { ksm, vms: all, most_mappings })
    }

    /// Whether KSM may merge most of what a process's virtual machine holds; none if it is not known.
    pub fn may_merge(&self, pid: u32) -> Option<bool> {
        self.vm(pid).map(VmMemory::may_be_merged)
    }

    /// In how many more ranges its memory may be marked: each may make two mappings of one.
    pub fn room(&self, vm: &VmMemory) -> usize {
        self.most_mappings.saturating_sub(vm.mappings).saturating_sub(RESERVE) / 2
    }

    /// The machine that a process runs.
    pub fn vm(&self, pid: u32) -> Option<&VmMemory> {
        self.vms.iter().find(|vm| vm.pid == pid)
    }

    /// What all machines hold, and what of that may be merged, in bytes.
    pub fn held(&self) -> (u64, u64) {
        let sum = |of: fn(&VmMemory) -> u64| self.vms.iter().map(of).fold(0, u64::saturating_add);
        (sum(VmMemory::held), sum(|vm| vm.mergeable))
    }
}

impl VmMemory {
    /// The same machine as it is now, if nothing pins its memory.
    ///
    /// # Errors
    /// Its process's mappings may not be read, or it has ended.
    pub fn now(&self) -> io::Result<Self> {
        let of = Self { pid: self.pid, name: self.name.clone(), ..Self::default() };
        of.with(BufReader::new(File::open(format!("/proc/{}/smaps", self.pid))?), false)
    }

    /// Whether KSM may merge most of it.
    pub fn may_be_merged(&self) -> bool {
        self.mergeable > self.held() / 2
    }

    /// What keeps KSM from most of it; none if nothing does.
    pub fn barred_by(&self) -> Option<Why> {
        let most = self.kept.iter().max_by_key(|kept| kept.bytes)?;
        (!self.may_be_merged()).then_some(most.why)
    }

    /// What it holds, in bytes.
    pub fn held(&self) -> u64 {
        self.kept.iter().map(|kept| kept.bytes).fold(self.mergeable, u64::saturating_add)
    }

    /// With the mappings of its process (`/proc/PID/smaps`).
    fn with(mut self, smaps: impl BufRead, pinned: bool) -> io::Result<Self> {
        // Where a part is marked, what was one mapping is several that adjoin.
        let mut adjoining: Vec<Mapping> = Vec::new();
        for line in smaps.lines() {
            let line = line?;
            if let Some(begun) = Mapping::begun(&line) {
                self.mappings += 1;
                if adjoining.last().is_some_and(|last| !last.adjoins(&begun)) {
                    self.add(&adjoining, pinned);
                    adjoining.clear();
                }
                adjoining.push(begun);
                continue;
            }
            let Some((mapping, (key, value))) = adjoining.last_mut().zip(line.split_once(':')) else {
                continue;
            };
            let kib = || value.trim().trim_end_matches(" kB").parse().unwrap_or(0_u64);
            match key {
                "Rss" | "Private_Hugetlb" | "Shared_Hugetlb" => {
                    mapping.held = mapping.held.saturating_add(kib().saturating_mul(1024));
                }
                "VmFlags" => mapping.flags = value.to_owned(),
                _ => {}
            }
        }
        self.add(&adjoining, pinned);
        self.kept.sort_by_key(|kept| kept.why);
        Ok(self)
    }

    fn add(&mut self, adjoining: &[Mapping], pinned: bool) {
        if adjoining.iter().map(|of| of.range.length).fold(0, u64::saturating_add) < LEAST {
            return;
        }
        for mapping in adjoining.iter().filter(|of| of.has("wr") && !of.name.starts_with('[')) {
            let why = match () {
                () if mapping.has("ht") => Why::Hugetlb,
                () if mapping.has("sh") => Why::Shared,
                () if pinned => Why::Pinned,
                () if mapping.has("mg") => {
                    self.mergeable += mapping.held;
                    self.marked.push(mapping.range);
                    continue;
                }
                () => Why::Unmarked,
            };
            match self.kept.iter_mut().find(|kept| kept.why == why) {
                Some(kept) => kept.bytes += mapping.held,
                None if mapping.held > 0 => self.kept.push(Kept { why, bytes: mapping.held }),
                None => {}
            }
        }
    }
}

/// Whether that is what the kernel says of a process that has ended, or is about to: also in the middle of a file of it.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
        || error.raw_os_error() == Some(libc::ESRCH)
}

/// Memory that can be had without swapping, in bytes.
pub fn available() -> u64 {
    of_meminfo("MemAvailable:")
}

/// This host's memory, in bytes.
pub(crate) fn memory() -> u64 {
    of_meminfo("MemTotal:")
}

fn of_meminfo(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kib: Option<u64> = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// A mapping of a process.
struct Mapping {
    range: Range,
    name: String,
    held: u64,
    flags: String,
}

impl Mapping {
    /// Of its first line: `7f..-7f.. rw-p 00000000 00:00 0   [heap]`.
    fn begun(line: &str) -> Option<Self> {
        let Line { start, end, name, .. } = Line::parse(line)?;
        let range = Range { start, length: end.checked_sub(start)? };
        Some(Self { range, name: name.to_owned(), held: 0, flags: String::new() })
    }

    /// Whether the next one is where this ends, and of the same.
    fn adjoins(&self, next: &Self) -> bool {
        self.range.start.checked_add(self.range.length) == Some(next.range.start) && self.name == next.name
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.split_ascii_whitespace().any(|of| of == flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mappings as the kernel tells them: addresses in MiB, name, KiB that it holds, flags.
    fn smaps(mappings: &[(u64, u64, &str, u64, &str)]) -> String {
        let line = |(from, to, name, kib, flags): &(u64, u64, &str, u64, &str)| {
            format!(
                "{:x}-{:x} rw-p 00000000 00:01 17 {name}\nSize: 1 kB\nRss: {kib} kB\nPss: 1 kB\n\
                 Private_Hugetlb: 0 kB\nVmFlags: rd wr mr mw me {flags}\n",
                from << 20,
                to << 20
            )
        };
        mappings.iter().map(line).collect()
    }

    fn of(text: &str, pinned: bool) -> VmMemory {
        VmMemory::default().with(text.as_bytes(), pinned).unwrap()
    }

    #[test]
    fn what_is_marked_may_be_merged_and_what_is_not_is_told_by_why() {
        let text = smaps(&[
            (1, 2, "[heap]", 900, "ac"),
            (100, 400, "", 100_000, "ac mg"),
            (400, 420, "/memfd:pc.ram (deleted)", 5_000, "sh ms"),
            (500, 600, "", 7_000, "ac"),
            (600, 700, "", 1_000, "ac"),
            (800, 900, "[heap]", 9_000, "ac"),
            (900, 1000, "", 0, "ac"),
        ]);
        let memory = of(&text, false);
        assert_eq!(memory.mergeable, 100_000 << 10);
        let kept = |why, kib: u64| Kept { why, bytes: kib << 10 };
        assert_eq!(memory.kept, [kept(Why::Shared, 5_000), kept(Why::Unmarked, 8_000)]);
        assert_eq!(memory.held(), 113_000 << 10);
        // For a device all of its own is pinned, marked or not.
        let memory = of(&text, true);
        assert_eq!((memory.mergeable, memory.kept[0]), (0, kept(Why::Pinned, 108_000)));
    }

    #[test]
    fn a_process_keeps_mappings_for_itself() {
        let host = Host { most_mappings: 65_530, ..Host::default() };
        let room = |mappings| host.room(&VmMemory { mappings, ..VmMemory::default() });
        assert_eq!((room(338), room(57_336), room(57_340), room(70_000)), (28_500, 1, 0, 0));
    }

    #[test]
    fn memory_of_which_parts_are_marked_is_still_a_guest_s() {
        let text = smaps(&[
            (100, 108, "", 8_000, "ac"),
            (108, 109, "", 1_000, "ac mg"),
            (109, 120, "", 0, "ac"),
            // Not of one piece with what is before, and small.
            (121, 122, "", 10, "ac mg"),
            (122, 130, "/lib/x.so", 20, "mg"),
        ]);
        let memory = of(&text, false);
        assert_eq!((memory.mergeable, memory.held()), (1_000 << 10, 9_000 << 10));
        assert_eq!(memory.marked, [Range { start: 108 << 20, length: 1 << 20 }]);
        assert!(!memory.may_be_merged() && memory.barred_by() == Some(Why::Unmarked));
    }

    #[test]
    fn hugetlbfs_tells_what_it_holds_by_itself() {
        let text = smaps(&[(100, 400, "/dev/hugepages/ram", 0, "sh ht")])
            .replace("Private_Hugetlb: 0", "Private_Hugetlb: 4096");
        assert_eq!(of(&text, false).kept, [Kept { why: Why::Hugetlb, bytes: 4 << 20 }]);
        assert_eq!(of("nothing: that\nis one", false), VmMemory::default());
    }

    #[test]
    fn memory_that_is_marked_is_found_in_a_real_process() {
        let mut memory = memmap2::MmapMut::map_anon(40 << 20).unwrap();
        memory.fill(7);
        if let Err(error) = memory.advise(memmap2::Advice::Mergeable) {
            println!("SKIPPED: this kernel has no KSM: {error}");
            return;
        }
        let vm = Vm { pid: std::process::id(), ..Vm::default() };
        let host = Host::read_vms(&[vm]).unwrap();
        assert!(host.ksm.is_some() && host.vms[0].mergeable >= 40 << 20, "{host:?}");
        let mappings = fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        assert!(host.vms[0].mappings.abs_diff(mappings) < 20 && host.most_mappings > 1000, "{host:?}");
    }

    #[test]
    fn this_process_is_no_machine_and_one_that_has_ended_is_left_out() {
        let vm = |pid| Vm { pid, comm: "qemu".into(), ..Vm::default() };
        let host = Host::read_vms(&[vm(std::process::id()), vm(u32::MAX)]).unwrap();
        assert_eq!(host.vms.len(), 1);
        assert_eq!(host.vms[0].name, "qemu");
        assert!(host.may_merge(std::process::id()).is_some() && host.may_merge(u32::MAX).is_none());
    }
}
