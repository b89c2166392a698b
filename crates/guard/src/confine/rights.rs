//! Users, capabilities and namespaces.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use caps::{CapSet, Capability};

use super::{Confinement, Error, User};

/// Users from here on, up to the largest process ID behind it, are nobody's: systemd's "Users, Groups, UIDs and GIDs"
/// lists 1879048192 to 2147483647 as unused. One for each process: what two guests sent never meets, and the limit on
/// processes counts this one's alone.
const FIRST_USER: u32 = 0x7000_0000;

/// Where the others are not mapped: in a container.
const NOBODY: u32 = 65534;

/// A network without devices, no System V objects, a name of its own. Says whether it has them: an ordinary user may
/// not, nor root in many containers. Sockets are refused in any case.
pub(super) fn own_namespaces() -> bool {
    // SAFETY: takes an integer.
    unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS) == 0 }
}

/// Gives up all capabilities, for good, and the user if that is wanted. Says whether it is a user of its own now.
pub(super) fn drop(may: &Confinement) -> Result<bool, Error> {
    let (user, writes) = (may.user, &may.writes);
    let mut kept = match user {
        User::Nobody => HashSet::new(),
        User::Same => needed(&may.reads, writes),
    };
    if may.this_kernel {
        // Of symbols' addresses, and of /proc/kcore (kernel/ksyms_common.c, fs/proc/kcore.c, 6.12).
        kept.extend([Capability::CAP_SYSLOG, Capability::CAP_SYS_RAWIO]);
    }
    drop_bounding(&kept)?;
    let changed = user == User::Nobody && become_nobody(writes);
    let failed = |error| Error::new("capabilities", error);
    // Absent in user namespaces of some containers, where the other sets are empty as well.
    let held = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let kept: HashSet<Capability> = kept.intersection(&held).copied().collect();
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable).map_err(failed)?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed)?;
    let left = caps::read(None, CapSet::Permitted).map_err(failed)?;
    if left != kept {
        return Err(Error::new("capabilities", format!("{left:?} cannot be dropped")));
    }
    Ok(changed)
}

/// So that no program which it starts gets any back. Without the right to do so it has none to lose: no_new_privs
/// keeps programs from bringing some.
fn drop_bounding(kept: &HashSet<Capability>) -> Result<(), Error> {
    let may = caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP);
    if !may.map_err(|error| Error::new("capabilities", error))? {
        return Ok(());
    }
    // By number, since a kernel may have more than are known here; it says EINVAL behind the last.
    for number in
        (0..64).filter(|number| !kept.iter().any(|kept| libc::c_ulong::from(kept.index()) == *number))
    {
        // SAFETY: takes integers.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) } != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(Error::new("capabilities", error));
            }
            break;
        }
    }
    Ok(())
}

/// Says whether it is a user of its own now, and not one whom other processes may be as well.
fn become_nobody(writes: &[PathBuf]) -> bool {
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        return false;
    }
    let own = FIRST_USER.saturating_add(std::process::id());
    let became = |id| {
        // Made for it, and empty.
        for folder in writes {
            let _ = std::os::unix::fs::chown(folder, Some(id), Some(id));
        }
        // SAFETY: an empty list of groups, and integers. In a process with one thread.
        unsafe {
            libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(id, id, id) == 0
                && libc::setresuid(id, id, id) == 0
        }
    };
    became(own) || {
        became(NOBODY);
        false
    }
}

/// What root needs to open these by their names: nothing where they are root's. Another user's traces
/// (`--force`), or a page that is to be written into another user's folder, are reached by the capability alone; what
/// is reached is Landlock's to say.
fn needed(reads: &[PathBuf], writes: &[PathBuf]) -> HashSet<Capability> {
    // SAFETY: takes nothing.
    let user = unsafe { libc::geteuid() };
    let mut needed = HashSet::new();
    if user == 0 {
        if reads.iter().chain(writes).any(|path| !is_reached(path, user)) {
            needed.insert(Capability::CAP_DAC_READ_SEARCH);
        }
        if writes.iter().any(|path| fs::metadata(path).is_ok_and(|there| there.uid() != user)) {
            needed.insert(Capability::CAP_DAC_OVERRIDE);
        }
    }
    needed
}

/// Whether a user without capabilities gets there and may read it: by owning it, or as everyone may.
fn is_reached(path: &Path, user: u32) -> bool {
    let Ok(path) = fs::canonicalize(path) else { return true };
    let may = |path: &Path, mode: u32| {
        fs::metadata(path).is_ok_and(|there| there.uid() == user || there.permissions().mode() & mode == mode)
    };
    let is_folder = path.is_dir();
    let own = if is_folder { 0o5 } else { 0o4 };
    may(&path, own)
        && path.ancestors().skip(1).all(|folder| may(folder, 0o1))
        // What lies in a trace has one owner.
        && (!is_folder || all_inside(&path, |entry| may(entry, 0o4)))
}

fn all_inside(folder: &Path, holds: impl Fn(&Path) -> bool) -> bool {
    fs::read_dir(folder).is_ok_and(|inside| inside.flatten().all(|entry| holds(&entry.path())))
}
