//! Commands that read files, which anybody may have made, give up everything but those files first.

use std::path::{Path, PathBuf};

use xweave_guard::{
    broker::{self, Root},
    confine::{Confinement, Limits, User},
    private::{Dir, parent},
};

use crate::{failure::Failure, memory};

/// What a command goes on with: to be applied when it knows which files these are, and before it opens any.
///
/// Root's commands are divided in two: what reads is another user, for whom the other opens the files ([`broker`]). An
/// ordinary user's, and those that start programs or read the running kernel, give up what they can as the user that they
/// are, and open files by their names.
pub struct Only {
    roots: Vec<Root>,
    /// What it may do besides, as the same user.
    besides: Confinement,
    by_name: bool,
}

impl Only {
    /// These files and folders, to be read.
    pub fn reading<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Self {
        let roots = paths.into_iter().map(|path| Root::Read(path.to_owned())).collect();
        Self { roots, besides: Confinement::new(User::Same), by_name: false }
    }

    /// This folder besides, to be written in; it is made if it is not there. The command that needs it says why it
    /// cannot be.
    pub fn writing_in(mut self, folder: &Path) -> Self {
        // Before one that is only read: a path is looked for from the first.
        self.roots.insert(0, Root::Folder(folder.to_owned()));
        self
    }

    /// A file besides, to be written; or what is there and is no file, but a pipe or a link to one (`/dev/stdout`).
    pub fn writing(mut self, file: &Path) -> Self {
        self.roots.insert(0, Root::File(file.to_owned()));
        self
    }

    /// Programs of the system besides, and this one.
    pub fn starting(mut self, program: Option<PathBuf>) -> Self {
        self.besides = self.besides.programs(program);
        self.opening_by_name()
    }

    /// The running kernel besides.
    pub fn and_this_kernel(mut self) -> Self {
        self.besides = self.besides.this_kernel();
        self.opening_by_name()
    }

    /// It opens files by their names itself, as libbpf does.
    pub fn opening_by_name(mut self) -> Self {
        self.by_name = true;
        self
    }

    /// Gives up everything else.
    pub fn apply(self) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
        Limits::of_command().set().map_err(|error| failed(&error))?;
        let confinement = if broker::is_needed() && !self.by_name {
            let descriptor = broker::divide(self.roots).map_err(|error| {
                Failure::Failed(format!("no process of another user can be made to read files: {error}"))
            })?;
            Confinement::new(User::Nobody).broker(descriptor)
        } else {
            self.of_same_user()
        };
        confinement.apply().map_err(|error| failed(&error))?;
        memory::keep_freed(Limits::memory_now());
        Ok(())
    }

    fn of_same_user(self) -> Confinement {
        self.roots.into_iter().fold(self.besides, |confinement, root| match root {
            Root::Read(path) => confinement.read(path),
            Root::Folder(path) => {
                // Its parents stay out of reach, so that it must be there before.
                let _ = Dir::create(&path);
                let parent = parent(&path).to_owned();
                confinement.write(path).remove_folders(parent)
            }
            Root::File(path) => {
                let kind = path.symlink_metadata().map(|there| there.file_type());
                let is_other = kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir());
                confinement.write(if is_other { &path } else { parent(&path) })
            }
        })
    }
}
