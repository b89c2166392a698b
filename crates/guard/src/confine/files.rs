//! Landlock: which files and folders a process may still reach by their names.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::{Confinement, Error};

/// Where programs and what they need are installed, but for `/opt` and homes, which have data too.
pub(super) const SYSTEM: [&str; 8] =
    ["/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/nix/store", "/gnu/store"];

/// Where the running kernel shows what it is.
pub(super) const OF_KERNEL: [&str; 6] = [
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/modules",
    "/proc/sys/kernel",
    "/sys/kernel/btf",
    "/sys/kernel/notes",
];

/// What programs open to be quiet, or to have something to read.
const NOTHING: &str = "/dev/null";

/// The newest interface of which all is wanted: 6.15. Of an older kernel's, what there is:
/// 1 (5.13) files, 2 moving between folders, 3 (6.2) truncating, 4 (6.7) TCP, 5 (6.10) device ioctls, 6 (6.12) signals
/// and abstract sockets.
const WANTED: ABI = ABI::V7;

/// A program that is not the system's lies in a folder, with its libraries in `lib` beside that.
pub(super) fn installation(program: &Path) -> Vec<PathBuf> {
    let Ok(program) = std::fs::canonicalize(program) else { return Vec::new() };
    let Some(folder) = program.parent() else { return Vec::new() };
    let beside = folder.parent().map(|parent| parent.join("lib"));
    [Some(folder.to_owned()), beside].into_iter().flatten().collect()
}

/// What may be reached, opened already.
pub(super) struct Files(RulesetCreated);

impl Files {
    pub(super) fn open(may: &Confinement) -> Result<Self, Error> {
        let Confinement { reads, writes, emptied, programs, .. } = may;
        let failed = |error: RulesetError| Error::new("Landlock", error);
        let created = Ruleset::default()
            .handle_access(AccessFs::from_all(WANTED))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(WANTED)))
            .and_then(|rules| rules.scope(Scope::from_all(WANTED)))
            .and_then(Ruleset::create)
            .map_err(failed)?;
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        // Neither devices, nor sockets, nor pipes are made.
        let made = AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::RemoveFile | AccessFs::RemoveDir;
        let write = made | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::Refer | read;
        let all = reads
            .iter()
            .map(|path| (path.as_path(), read))
            .chain(writes.iter().map(|path| (path.as_path(), write)))
            .chain(emptied.iter().map(|path| (path.as_path(), AccessFs::RemoveDir.into())))
            .chain(programs.iter().map(|path| (path.as_path(), read | AccessFs::Execute)))
            .chain((!programs.is_empty()).then_some((Path::new(NOTHING), read | AccessFs::WriteFile)));
        let mut files = created;
        for (path, access) in all {
            // What is not there now cannot be named here; whoever opens it is told that it is not there.
            let Ok(opened) = PathFd::new(path) else { continue };
            let access = if path.is_dir() { access } else { access & of_files() };
            files = files.add_rule(PathBeneath::new(opened, access)).map_err(failed)?;
        }
        Ok(Self(files))
    }

    /// From now on nothing else. Gives the version of the interface; none where the kernel has it not.
    pub(super) fn restrict(self) -> Result<Option<u32>, Error> {
        let status = self.0.restrict_self().map_err(|error| Error::new("Landlock", error))?;
        match (status.landlock, status.ruleset) {
            (_, RulesetStatus::NotEnforced) => Ok(None),
            (LandlockStatus::Available { effective_abi, .. }, _) => Ok(Some(effective_abi as u32)),
            (status, _) => Err(Error::new("Landlock", format!("it says {status:?}"))),
        }
    }
}

/// What can be allowed of a single file.
fn of_files() -> BitFlags<AccessFs> {
    AccessFs::from_file(WANTED)
}
