//! Where the folders that are asked for lie in their file systems, as the kernel's own names of files begin there.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Component, Path, PathBuf},
};

use super::walk::Found;

/// File systems whose pages are told as another's, or not at all: of an overlay the layers' own inodes have them, and those in
/// memory give pages to files by themselves (mm/shmem.c, `shmem_add_to_page_cache`); the first one is of these (init/do_mounts.c).
const UNTOLD: [&str; 5] = ["overlay", "tmpfs", "devtmpfs", "rootfs", "hugetlbfs"];

/// A folder in its file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// As `stat` has it.
    pub(super) device: u64,
    /// Its path here, without links.
    pub(super) folder: PathBuf,
    /// Its path from the root of the file system on.
    within: PathBuf,
}

impl Place {
    /// Of a folder that is no link, by the lines of `/proc/self/mountinfo`.
    pub(super) fn of(folder: &Path, device: u64, mounts: &[u8]) -> Result<Self, String> {
        let mounted = mounts.split(|byte| *byte == b'\n').filter_map(Mount::of);
        // Of two at the same place, the last one covers the other.
        let mount = mounted
            .filter(|mount| folder.starts_with(&mount.at))
            .max_by_key(|mount| mount.at.components().count())
            .ok_or_else(|| format!("{} is on no file system that is mounted", folder.display()))?;
        if UNTOLD.contains(&&*mount.kind) {
            return Err(format!("{} is of {}", folder.display(), mount.kind));
        }
        // Those of btrfs and others have a number that their files have not.
        if mount.device != device {
            return Err(format!("files of {} ({}) are on several devices", folder.display(), mount.kind));
        }
        let below = folder.strip_prefix(&mount.at).unwrap_or(Path::new(""));
        Ok(Self { device, folder: folder.to_owned(), within: mount.root.join(below) })
    }

    /// Whether a file is in it.
    pub(super) fn has(&self, file: &Found) -> bool {
        file.inode.device == self.device && file.at.starts_with(&self.folder)
    }

    /// What a path from the file system's root on is called here, if it is in the folder.
    pub(super) fn path_of(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.within).ok()?;
        // Names that were read while they changed may be anything.
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain
            .then(|| if below.as_os_str().is_empty() { self.folder.clone() } else { self.folder.join(below) })
    }
}

/// What is mounted (`proc_pid_mountinfo(5)`).
struct Mount {
    device: u64,
    root: PathBuf,
    at: PathBuf,
    kind: String,
}

impl Mount {
    fn of(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let (major, minor) = std::str::from_utf8(fields.next()?).ok()?.split_once(':')?;
        let device = libc::makedev(major.parse().ok()?, minor.parse().ok()?);
        let (root, at) = (unescaped(fields.next()?), unescaped(fields.next()?));
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        Some(Self { device, root, at, kind: String::from_utf8_lossy(kind).into_owned() })
    }
}

/// Blanks and backslashes are there by their numbers: `\040`.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let digits = after.get(..3).filter(|_| *first == b'\\').map(OsStr::from_bytes);
        let byte = digits.and_then(OsStr::to_str).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
        30 22 254:2 /sub /usr rw - ext4 /dev/vda2 rw\n\
        31 22 0:25 / /tmp rw - tmpfs tmpfs rw\n\
        32 22 0:40 /@ /data rw - btrfs /dev/vdb rw\n\
        33 22 254:3 / /mnt/a\\040b rw - xfs /dev/vdc rw\n";

    fn place(folder: &str, major: u32, minor: u32) -> Result<Place, String> {
        Place::of(Path::new(folder), libc::makedev(major, minor), MOUNTS.as_bytes())
    }

    fn path_of(place: &Place, path: &str) -> Option<String> {
        place.path_of(Path::new(path)).map(|path| path.to_str().unwrap().to_owned())
    }

    #[test]
    fn files_are_called_as_the_mount_has_them() {
        let boot = place("/boot", 254, 1).unwrap();
        assert_eq!(path_of(&boot, "/boot/vmlinuz").as_deref(), Some("/boot/vmlinuz"));
        assert_eq!((path_of(&boot, "/boots"), path_of(&boot, "/etc/passwd")), (None, None));
        assert_eq!(path_of(&boot, "/boot").as_deref(), Some("/boot"));
        assert_eq!(path_of(&boot, "/boot/../etc"), None);
        // A part of a file system is mounted.
        let lib = place("/usr/lib", 254, 2).unwrap();
        assert_eq!(path_of(&lib, "/sub/lib/libc.so").as_deref(), Some("/usr/lib/libc.so"));
        assert_eq!(path_of(&lib, "/usr/lib/libc.so"), None);
        let blank = place("/mnt/a b", 254, 3).unwrap();
        assert_eq!(path_of(&blank, "/x").as_deref(), Some("/mnt/a b/x"));
        let all = place("/", 254, 1).unwrap();
        assert_eq!(path_of(&all, "/etc/passwd").as_deref(), Some("/etc/passwd"));
    }

    #[test]
    fn file_systems_whose_pages_are_not_told_as_theirs_are_refused() {
        assert_eq!(place("/tmp/x", 0, 25).unwrap_err(), "/tmp/x is of tmpfs");
        assert!(place("/data", 0, 41).unwrap_err().contains("btrfs"));
        assert!(Place::of(Path::new("/x"), 0, b"").unwrap_err().contains("no file system"));
    }
}
