//! The folder `bpf/kernels`: pruned type information (raw BTF) of each known kernel, in a file named after its release.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use xweave_aspect::Aspects;
use xweave_code::Kernel;
use xweave_programs::{COMPILED_FOR, FILES, coverage};
use xweave_weave::Coverage;

use crate::error::{At as _, Error};

/// The folder, in the project's.
const FOLDER: &str = "bpf/kernels";

/// Writer of the folder.
pub struct Folder {
    path: PathBuf,
    library: Vec<(&'static str, Aspects)>,
    programs: Vec<String>,
    written: BTreeSet<String>,
}

impl Folder {
    /// Parses the library, which decides what the files contain.
    pub fn new(root: &Path) -> Result<Self, Error> {
        let read = |name| {
            let path = root.join("bpf").join(name);
            fs::read_to_string(&path).at(&path)
        };
        let programs = FILES.into_iter().map(read).collect::<Result<_, _>>()?;
        let library = xweave_weave::library_aspects()?;
        Ok(Self { path: root.join(FOLDER), library, programs, written: BTreeSet::new() })
    }

    /// Writes the pruned type information of a kernel, and checks that it gives the same coverage as the full one.
    pub fn keep(&mut self, kernel: &Kernel) -> Result<(), Error> {
        let library: Vec<_> = self.library.iter().map(|(_, aspects)| aspects).collect();
        let programs: Vec<_> = self.programs.iter().map(String::as_str).collect();
        let path = self.path.join(format!("{}.btf", kernel.release()));
        let pruned = xweave_weave::prune(kernel, &library, &programs).at(&path)?;
        let part = Kernel::new(kernel.release(), &pruned)?;
        // Reasons differ: only the full one knows modules.
        let differs = |(whole, part): &(Coverage, Coverage)| whole.verdict.word() != part.verdict.word();
        let differs = coverage(kernel)?.into_iter().zip(coverage(&part)?).find(differs);
        if let Some((whole, part)) = differs {
            let (whole, part) = (Box::new(whole), Box::new(part));
            return Err(Error::Pruned { kernel: kernel.release().to_owned(), whole, part });
        }
        fs::create_dir_all(&self.path).at(&self.path)?;
        fs::write(&path, pruned).at(&path)?;
        self.written.insert(kernel.release().to_owned());
        Ok(())
    }

    /// Removes the kernels that the mirror no longer has.
    pub fn finish(self) -> Result<(), Error> {
        for series in COMPILED_FOR {
            if !self.written.iter().any(|release| xweave_lab::series_of(release) == series) {
                return Err(Error::NoLongerOffered(series));
            }
        }
        for (release, path) in list(&self.path)? {
            if !self.written.contains(&release) {
                fs::remove_file(&path).at(&path)?;
            }
        }
        Ok(())
    }
}

/// The known kernels, the oldest first; of a version the one with the shortest name, which is the generic one, first.
pub fn read(root: &Path) -> Result<Vec<Kernel>, Error> {
    let load = |(release, path): (String, PathBuf)| Ok(Kernel::new(release, &fs::read(&path).at(&path)?)?);
    list(&root.join(FOLDER))?.into_iter().map(load).collect()
}

fn list(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let paths = fs::read_dir(folder).and_then(|found| found.collect::<io::Result<Vec<_>>>()).at(folder)?;
    let mut found = Vec::new();
    for path in paths.into_iter().map(|entry| entry.path()) {
        let release = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.extension().is_some_and(|of| of == "btf") {
            found.push((release, path));
        }
    }
    found.sort_by_key(|(release, _)| (version(release), release.len()));
    Ok(found)
}

/// The numbers that a release begins with.
fn version(release: &str) -> Vec<u32> {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    release[..end].split('.').filter_map(|number| number.parse().ok()).collect()
}
