//! The page cache: which pages of which files this domain's kernel holds.
//!
//! Files are found by their names (`walk`), and their pages by `mincore` of a mapping that nobody touches (`resident`), so
//! that asking changes nothing but which names the kernel keeps in mind. Where they lie (`frames`) only their mapping tells.
//! Who asks again is told what has changed (`watching`): the kernel says of which files (`changes`).

mod changes;
mod frames;
mod places;
mod resident;
mod telling;
mod walk;
mod watching;

use xweave_wire::pages::{Amount, CachedFile, Files, LookedAt};

pub(crate) use self::watching::Watching;
use self::{telling::Telling, walk::Walk};
use crate::cancel::Cancel;

/// Tells of these files, in batches, until all are looked at.
pub(crate) fn cached(
    files: &Files,
    cancel: &Cancel,
    tell: &mut dyn FnMut(Vec<CachedFile>),
) -> Result<LookedAt, String> {
    let mut telling = Telling::new(files, Amount::default(), cancel, tell)?;
    for found in Walk::new(files)? {
        if !telling.may_look() {
            break;
        }
        telling.file(&found);
    }
    Ok(telling.end(true))
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, path::Path};

    use xweave_wire::pages::Run;

    use super::*;

    /// What is told of these files.
    fn told(files: &Files) -> (Vec<CachedFile>, LookedAt) {
        let mut all = Vec::new();
        let looked_at = cached(files, &Cancel::default(), &mut |batch| all.extend(batch)).unwrap();
        (all, looked_at)
    }

    fn below(folder: &Path) -> Files {
        Files { include: vec![folder.to_str().unwrap().to_owned()], ..Files::default() }
    }

    /// A file that was just written: all of it is cached.
    fn write(path: &Path, bytes: usize) {
        let mut file = fs::File::create(path).unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
    }

    #[test]
    fn files_come_once_with_the_pages_that_are_cached() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir(dir.join("b")).unwrap();
        write(&dir.join("b/one"), 10_000);
        fs::hard_link(dir.join("b/one"), dir.join("c")).unwrap();
        write(&dir.join("a"), 4096);
        write(&dir.join("empty"), 0);
        std::os::unix::fs::symlink(dir.join("a"), dir.join("z")).unwrap();
        let (files, looked_at) = told(&below(&dir));
        let said: Vec<_> =
            files.iter().map(|file| (&file.path[dir.as_os_str().len()..], file.size)).collect();
        assert_eq!(said, [("/a", 4096), ("/b/one", 10_000)]);
        assert_eq!(looked_at, LookedAt { files: 2, whole: true, cut: None });
        assert_eq!(files[1].runs, [Run { first: 0, pages: 3 }]);
        assert!(files.iter().all(|file| file.contents.is_empty() && file.modified_ns > 0 && file.inode > 0));
    }

    #[test]
    fn what_is_excluded_is_left_out_and_what_is_not_there_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir(dir.join("no")).unwrap();
        write(&dir.join("no/a"), 1);
        write(&dir.join("not"), 1);
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let mut files = below(&dir);
        files.include.push(path("missing"));
        files.exclude.push(path("no"));
        let (told, _) = told(&files);
        assert_eq!(told.iter().map(|file| &file.path).collect::<Vec<_>>(), [&path("not")]);
        let wrong = Files { include: vec!["usr".into()], ..Files::default() };
        assert!(cached(&wrong, &Cancel::default(), &mut |_| {}).unwrap_err().contains("absolute"));
    }

    #[test]
    fn equal_pages_have_equal_hashes_and_others_do_not() {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a", [1_u8, 2, 1]), ("b", [2, 2, 3])] {
            let pages: Vec<u8> = bytes.iter().flat_map(|byte| vec![*byte; 4096]).collect();
            fs::write(dir.path().join(name), pages).unwrap();
        }
        let (files, _) = told(&Files { contents: true, ..below(dir.path()) });
        let [a, b] = &files[..] else { panic!("{files:?}") };
        let [one, two, again] = a.contents[..] else { panic!("{a:?}") };
        assert!(one == again && one != two && two == b.contents[0] && two == b.contents[1]);
        assert!(b.contents[2] != one && b.contents[2] != two && !a.contents.contains(&0));
    }

    #[test]
    fn nothing_is_looked_at_for_a_controller_that_has_gone() {
        let cancel = Cancel::default();
        cancel.ask();
        let mut told = 0;
        let looked_at = cached(&below(Path::new("/")), &cancel, &mut |_| told += 1).unwrap();
        assert!(looked_at.files == 0 && told == 0 && looked_at.cut.is_some());
    }
}
