//! Aspects with the programs that they were compiled to elsewhere: `xweave check --compile` writes such a file, and
//! recording takes it where it takes an aspect.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use xweave_aspect::{Source, Unreadable};
use xweave_guard::private;

use crate::prelude;
use crate::program_object::ProgramObject;

/// What such a file begins with.
const MAGIC: &[u8; 16] = b"xweave programs\n";

/// Bytes of a file.
const MOST: u64 = 256 << 20;

/// What aspects are recorded with.
#[derive(Clone, Debug, Default)]
pub struct AspectInput {
    /// Their texts.
    pub sources: Vec<Source>,
    /// Programs that some of them were compiled to before.
    pub objects: Vec<ProgramObject>,
}

/// Why aspects cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// An aspect's text cannot.
    #[error(transparent)]
    Aspect(#[from] Unreadable),
    /// A file with compiled programs cannot.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: BundleError,
    },
}

/// Why a file with compiled programs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It has more than any.
    #[error("it has more than {} MiB", MOST >> 20)]
    Large,
    /// It was cut off or changed.
    #[error("it is damaged: compile it again (xweave check ASPECT --compile FILE)")]
    Damaged,
    /// Its programs were compiled for another version of what loads them.
    #[error(
        "it was compiled by another version of xweave: compile it again (xweave check ASPECT --compile FILE)"
    )]
    OtherVersion,
}

/// Aspects and their programs, as they are in a file: [`MAGIC`], the hash of all that follows, and this.
#[derive(Serialize, Deserialize)]
struct Bundle {
    /// What the programs rely on: [`prelude::fingerprint`].
    prelude: [u8; 32],
    sources: Vec<(String, String)>,
    objects: Vec<ProgramObject>,
}

/// Reads aspects as [`xweave_aspect::read`] does; a file among them may be one with compiled programs.
///
/// # Errors
///
/// The first that cannot be read.
pub fn read_aspects(
    files: &[PathBuf],
    expressions: &[String],
    filter: Option<&str>,
) -> Result<AspectInput, InputError> {
    let (mut texts, mut input) = (Vec::new(), AspectInput::default());
    for path in files {
        let of_file = |source| InputError::Bundle { path: path.clone(), source };
        match read_bundle(path).map_err(of_file)? {
            None => texts.push(path.clone()),
            Some(bundle) => {
                input.sources.extend(bundle.sources.into_iter().map(|(name, text)| Source { name, text }));
                input.objects.extend(bundle.objects);
            }
        }
    }
    input.sources.extend(xweave_aspect::read(&texts, expressions, filter)?);
    Ok(input)
}

/// Writes aspects with their programs into a file, whole or not at all.
///
/// # Errors
///
/// Why it cannot be written.
pub fn write_bundle(path: &Path, input: AspectInput) -> Result<(), private::Error> {
    let sources = input.sources.into_iter().map(|source| (source.name, source.text)).collect();
    let bundle = Bundle { prelude: prelude::fingerprint(), sources, objects: input.objects };
    // Nothing in it has a form that cannot be written.
    let content = postcard::to_stdvec(&bundle).unwrap_or_default();
    private::write_file(path, &[&MAGIC[..], &Sha256::digest(&content), &content].concat())
}

/// The content of such a file; `None` if it is another, or there is none.
fn read_bundle(path: &Path) -> Result<Option<Bundle>, BundleError> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut begin = Vec::new();
    if file.take(MAGIC.len() as u64).read_to_end(&mut begin).is_err() || begin != MAGIC {
        return Ok(None);
    }
    if fs::metadata(path)?.len() > MOST {
        return Err(BundleError::Large);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    let rest = bytes.get(MAGIC.len()..).unwrap_or_default();
    let (hash, content) = rest.split_at_checked(32).ok_or(BundleError::Damaged)?;
    if Sha256::digest(content)[..] != *hash {
        return Err(BundleError::Damaged);
    }
    // The first that is in it, whatever else other versions have.
    let other = content.get(..32).is_some_and(|prelude| prelude != prelude::fingerprint());
    if other {
        return Err(BundleError::OtherVersion);
    }
    postcard::from_bytes(content).map(Some).map_err(|_| BundleError::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> AspectInput {
        let source = Source { name: "own.aspect".into(), text: "advice a execution(vfs_read) {}".into() };
        let object = ProgramObject { elf: vec![7; 100], ..ProgramObject::default() };
        AspectInput { sources: vec![source], objects: vec![object] }
    }

    #[test]
    fn what_is_written_is_read_beside_aspects_of_other_kinds() {
        let folder = tempfile::tempdir().unwrap();
        let (compiled, plain) = (folder.path().join("own.programs"), folder.path().join("x.aspect"));
        write_bundle(&compiled, input()).unwrap();
        fs::write(&plain, "advice b execution(vfs_write) {}").unwrap();
        let files = [compiled, plain, "sched".into()];
        let read = read_aspects(&files, &["c".into()], None).unwrap();
        let names: Vec<_> = read.sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["own.aspect", files[1].to_str().unwrap(), "sched.aspect", "-e"]);
        assert_eq!(read.objects, input().objects);
    }

    #[test]
    fn damage_and_other_versions_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.programs");
        write_bundle(&path, input()).unwrap();
        let good = fs::read(&path).unwrap();
        let said = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read_aspects(std::slice::from_ref(&path), &[], None).unwrap_err().to_string()
        };
        for length in [MAGIC.len(), MAGIC.len() + 7, good.len() - 1] {
            assert!(said(&good[..length]).contains("damaged"), "{length}");
        }
        let mut changed = good.clone();
        changed[100] ^= 1;
        assert!(said(&changed).contains("damaged"));
        let content = &good[MAGIC.len() + 32..];
        let other: Vec<u8> = content.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 3)).collect();
        let other = [&MAGIC[..], &Sha256::digest(&other), &other].concat();
        assert!(said(&other).contains("another version"), "{}", said(&other));
    }
}
