//! The memory that is held: this process's own, so that nobody else has it, and so that it goes with this process.

use std::{fs, io};

use memmap2::{Advice, MmapMut, RemapOptions};

const OOM: &str = "/proc/self/oom_score_adj";

/// More than any other process can have (include/uapi/linux/oom.h, OOM_SCORE_ADJ_MAX).
const FIRST: &str = "1000";

/// Some of it.
pub(super) struct Part(MmapMut);

impl Part {
    /// Takes so many bytes: they are there then, and are not swapped.
    pub(super) fn take(bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let memory = MmapMut::map_anon(bytes)?;
        // Programs that are started meanwhile do not have it, and a core dump would be of zeros.
        memory.advise(Advice::DontFork)?;
        memory.advise(Advice::DontDump)?;
        // Where all of this process is marked (systemd's MemoryKSM=), KSM would make one page of it all.
        match memory.advise(Advice::Unmergeable) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
            _ => {}
        }
        // Locking touches each page, too.
        memory.lock()?;
        Ok(Self(memory))
    }

    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

/// All of it.
///
/// While there is any, this process is what the OOM killer takes first, however little it holds otherwise: what it holds is
/// for others, and they have it at once then. It may be killed at any moment, and guests go on without it; killing one of
/// them instead, which are the largest processes of such a host, is what the reserve is there to prevent.
#[derive(Default)]
pub(super) struct Held {
    parts: Vec<Part>,
    /// What the OOM killer thought of this process before.
    before: Option<String>,
}

impl Held {
    pub(super) fn add(&mut self, part: Part) {
        if self.parts.is_empty() {
            self.before = fs::read_to_string(OOM).ok();
            // Whoever may lock memory may do this, too.
            let _ = fs::write(OOM, FIRST);
        }
        self.parts.push(part);
    }

    /// Lets go what is more than so many bytes, a multiple of pages.
    pub(super) fn keep(&mut self, bytes: u64) {
        let mut more = self.bytes().saturating_sub(bytes);
        while let Some(last) = self.parts.last_mut().filter(|_| more > 0) {
            let left = last.bytes().saturating_sub(more);
            // SAFETY: it is no file's, becomes shorter, and nobody looks into it.
            let is_shorter = left > 0
                && unsafe { last.0.remap(usize::try_from(left).unwrap_or(0), RemapOptions::new()) }.is_ok();
            if is_shorter {
                break;
            }
            more = more.saturating_sub(last.bytes());
            self.parts.pop();
        }
        if self.parts.is_empty()
            && let Some(before) = self.before.take()
        {
            let _ = fs::write(OOM, before);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(Part::bytes).sum()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 256 << 10;

    /// Bytes of this process that are locked.
    fn locked() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Flags of the mappings that are locked, and bytes of them that are there.
    fn flags() -> (Vec<String>, u64) {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut all, mut there, mut rss) = (Vec::new(), 0, 0);
        for line in smaps.lines() {
            match line.split_once(':') {
                Some(("Rss", kib)) => rss = kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10,
                Some(("VmFlags", flags)) if flags.contains(" lo") => {
                    all.push(flags.to_owned());
                    there += rss;
                }
                _ => {}
            }
        }
        (all, there)
    }

    #[test]
    fn what_is_held_is_locked_there_and_nobody_else_s_and_becomes_less_by_pages() {
        let adj = || fs::read_to_string(OOM).unwrap();
        let (before, usual) = (locked(), adj());
        let mut held = Held::default();
        for parts in 1..=3 {
            held.add(Part::take(PART).expect("it takes a ulimit -l of 1 MiB"));
            assert_eq!(locked() - before, parts * PART);
        }
        let (flags, there) = flags();
        assert!(there >= 3 * PART && !flags.is_empty());
        // Not inherited, not in core dumps, not KSM's.
        assert!(
            flags.iter().all(|of| of.contains(" dc") && of.contains(" dd") && !of.contains(" mg")),
            "{flags:?}"
        );
        assert_eq!(adj().trim(), FIRST);
        for left in [3 * PART, 2 * PART + 4096, 2 * PART, PART - 8192, 4096] {
            held.keep(left);
            assert_eq!((locked() - before, held.bytes()), (left, left));
        }
        held.keep(0);
        assert_eq!((locked(), held.bytes()), (before, 0));
        // Only who may raise it back may: root.
        assert!(adj() == usual || adj().trim() == FIRST);
        held.add(Part::take(PART).unwrap());
        drop(held);
        assert_eq!(locked(), before);
    }
}
