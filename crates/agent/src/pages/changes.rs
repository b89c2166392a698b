//! Files whose cached pages have changed, as the kernel tells them (`bpf/page-cache.c`).

use std::{
    cell::RefCell,
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::ffi::OsStringExt},
    path::PathBuf,
    rc::Rc,
};

use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder};
use xweave_bytes::read_le;

use super::walk::Inode;
use crate::libbpf_log::Log;
use crate::load::{program_info, section};

/// Bytes before a file's names: `struct told` of the program.
const HEAD: usize = 24;

/// Bytes of a `struct file_key`.
const KEY: usize = 16;

/// A file of which pages came, went, moved or were written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) inode: Inode,
    /// Another one where the inode's number is given again.
    generation: u32,
    /// Its path from the root of its file system on, as it was then; none if that is not known.
    pub(super) path: Option<PathBuf>,
    /// Whether nothing but that pages have gone is known.
    pub(super) gone: bool,
}

/// What has changed since the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) files: Vec<Change>,
    /// Whether there are others, which there was no room to tell of.
    pub(super) lost: bool,
    /// Whether folders were renamed, and so all that is in them.
    pub(super) moved: bool,
}

/// What the programs count, and the kernel of them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    lost: u64,
    /// How often it has left one out, as it was running on that CPU.
    missed: u64,
    moved: u64,
}

/// Programs that tell of changes. Dropping them takes them away.
pub(super) struct Changes {
    ring: RingBuffer<'static>,
    told: Rc<RefCell<Vec<Change>>>,
    /// As counted the last time.
    before: Counted,
    /// Held, so that the kernel keeps the programs where they are.
    _links: Vec<Link>,
    object: Object,
}

impl Changes {
    /// On no file system yet.
    pub(super) fn watch(object: &[u8]) -> Result<Self, String> {
        let log = Log::capture();
        Self::load(object).map_err(|error| {
            let said = log.take();
            let last = said.lines().last().map_or(String::new(), |line| format!(" ({line})"));
            format!("{error}{last}")
        })
    }

    /// Those of these file systems as well, from now on.
    pub(super) fn of(&self, devices: impl Iterator<Item = u64>) -> Result<(), String> {
        for device in devices {
            let device = kernel_device(device).to_ne_bytes();
            let watched = self.map("xw_watched").and_then(|map| map.update(&device, &[1], MapFlags::ANY));
            watched.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn load(object: &[u8]) -> Result<Self, libbpf_rs::Error> {
        let object = ObjectBuilder::default().name("xw_pages")?.open_memory(object)?.load()?;
        let told = Rc::new(RefCell::new(Vec::new()));
        let (ring, to) = (map(&object, "xw_told")?, Rc::clone(&told));
        let mut builder = RingBufferBuilder::new();
        builder.add(&ring, move |bytes| {
            to.borrow_mut().extend(change(bytes));
            0
        })?;
        let ring = builder.build()?;
        let links = object.progs_mut().map(|program| program.attach()).collect::<Result<Vec<Link>, _>>()?;
        Ok(Self { ring, told, before: Counted::default(), _links: links, object })
    }

    fn map(&self, name: &str) -> Result<Map<'_>, libbpf_rs::Error> {
        map(&self.object, name)
    }

    /// Takes what was told since the last time: from now on, these files are told again. Whoever looks at them afterwards
    /// misses nothing.
    pub(super) fn take(&mut self) -> Result<Changed, libbpf_rs::Error> {
        self.ring.consume()?;
        let files = std::mem::take(&mut *self.told.borrow_mut());
        let marked = self.map("xw_marked")?;
        for change in &files {
            // Who has no mark is told already.
            let _ = marked.delete(&change.key());
        }
        let now = self.counted()?;
        let lost = (now.lost, now.missed) != (self.before.lost, self.before.missed);
        if lost {
            // A file that there was no room to tell of has its mark.
            let keys: Vec<Vec<u8>> = marked.keys().collect();
            for key in keys {
                let _ = marked.delete(&key);
            }
        }
        let moved = now.moved != self.before.moved;
        self.before = now;
        Ok(Changed { files, lost, moved })
    }

    fn counted(&self) -> Result<Counted, libbpf_rs::Error> {
        let count = |name: &str| {
            let count = self.map(name)?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
            Ok::<u64, libbpf_rs::Error>(read_le(&count, 0).unwrap_or(0))
        };
        let misses = |of: libbpf_rs::Program<'_>| program_info(of.as_fd()).map(|info| info.recursion_misses);
        let missed = self.object.progs().map(misses).sum::<Result<_, _>>()?;
        Ok(Counted { lost: count(".bss.lost")?, missed, moved: count(".bss.moved")? })
    }
}

fn map<'o>(object: &'o Object, name: &str) -> Result<Map<'o>, libbpf_rs::Error> {
    section(object, name).ok_or_else(|| io::Error::other(format!("no map {name}")).into())
}

/// A device's number as the kernel has it (include/linux/kdev_t.h).
fn kernel_device(device: u64) -> u32 {
    libc::major(device) << 20 | libc::minor(device)
}

impl Change {
    /// Its mark.
    fn key(&self) -> [u8; KEY] {
        let mut key = [0; KEY];
        key[..8].copy_from_slice(&self.inode.number.to_ne_bytes());
        key[8..12].copy_from_slice(&kernel_device(self.inode.device).to_ne_bytes());
        key[12..].copy_from_slice(&self.generation.to_ne_bytes());
        key
    }
}

/// What the program told of a file.
fn change(told: &[u8]) -> Option<Change> {
    let (head, names) = told.split_first_chunk::<HEAD>()?;
    let half = |at: usize| read_le::<u32>(head, at).unwrap_or(0);
    let number = read_le(head, 0)?;
    let device = libc::makedev(half(8) >> 20, half(8) & 0xf_ffff);
    let bytes = usize::try_from(half(16)).unwrap_or(usize::MAX);
    let path = names.get(..bytes).filter(|names| !names.is_empty()).map(path);
    Some(Change { inode: Inode { device, number }, generation: half(12), path, gone: half(20) != 0 })
}

/// The names are there from the file up.
fn path(names: &[u8]) -> PathBuf {
    let names = names.strip_suffix(&[0]).unwrap_or(names);
    let mut path = PathBuf::from("/");
    for name in names.split(|byte| *byte == 0).rev() {
        path.push(OsString::from_vec(name.to_vec()));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(device: u32, gone: u32, names: &[u8]) -> Vec<u8> {
        let bytes = u32::try_from(names.len()).unwrap();
        let halves = [device, 5, bytes, gone].map(u32::to_ne_bytes).concat();
        [&7_u64.to_ne_bytes()[..], &halves, names].concat()
    }

    #[test]
    fn a_file_is_told_with_its_path() {
        let of = change(&told(254 << 20 | 3, 0, b"libc.so\0lib\0usr\0")).unwrap();
        let device = libc::makedev(254, 3);
        assert_eq!(of.inode, Inode { device, number: 7 });
        assert_eq!((of.path.clone(), of.gone), (Some("/usr/lib/libc.so".into()), false));
        assert_eq!(of.key(), told(254 << 20 | 3, 0, b"")[..KEY]);
        let of = change(&told(1, 1, b"")).unwrap();
        assert_eq!((of.path, of.gone), (None, true));
        assert_eq!(change(&told(1, 1, b"")[1..]), None);
    }
}
