//! The page cache: which pages of which files this domain's kernel holds.
//!
//! Files are found by their names (`walk`), and their pages by `mincore` of a mapping that nobody touches (`resident`), so
//! that asking changes nothing but which names the kernel keeps in mind. Where they lie (`frames`) only their mapping tells.

mod frames;
mod resident;
mod walk;

use std::time::{Duration, Instant};

use xweave_wire::{
    limits::FRAME,
    pages::{self, Amount, CachedFile, Files, LookedAt, Run},
};

use self::{
    frames::Frames,
    resident::{Contents, resident},
    walk::Walk,
};
use crate::cancel::Cancel;

/// For how long files are looked at: a controller waits for two minutes.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes that are told at a time, about: batches of records are as long.
const BATCH: usize = FRAME as usize / 4;

/// Pages of one file that are told at a time.
const PIECE: u64 = 8192;

/// Tells of these files, in batches, until all are looked at.
pub(crate) fn cached(
    files: &Files,
    cancel: &Cancel,
    tell: &mut dyn FnMut(Vec<CachedFile>),
) -> Result<LookedAt, String> {
    let over = Instant::now() + LIMIT;
    let (mut told, mut batch, mut of_batch) = (Amount::default(), Vec::new(), Amount::default());
    let mut looked_at = LookedAt::default();
    let cut = || {
        let gone = cancel.asked() || Instant::now() >= over;
        gone.then(|| format!("it took longer than {} s", LIMIT.as_secs()))
    };
    let frames = files.frames.then(Frames::new).transpose().map_err(|error| {
        format!("where pages lie is not told: /proc/self/pagemap: {error} (it takes root)")
    })?;
    'files: for found in Walk::new(files)? {
        looked_at.cut = cut();
        if looked_at.cut.is_some() {
            break;
        }
        looked_at.files += 1;
        let mut contents = files.contents.then(|| Contents::of(&found.file));
        let frames = frames.as_ref().map(|of| of.of(&found.file));
        let Ok(runs) = resident(&found.file, found.size) else { continue };
        for runs in pieces(runs) {
            let contents = contents.as_mut().map(|of| of.hashes(&runs)).unwrap_or_default();
            let (path, size) = (found.path.clone(), found.size);
            let (modified_ns, inode) = (found.modified_ns, found.inode);
            let frames = frames.as_ref().map(|of| of.all(&runs)).unwrap_or_default();
            let piece = CachedFile { path, size, modified_ns, inode, runs, contents, frames };
            looked_at.cut = cut();
            if !told.and(&piece).is_within(pages::MOST) {
                looked_at.cut = Some("there are more of them than can be told".to_owned());
            }
            if looked_at.cut.is_some() {
                break 'files;
            }
            (told, of_batch) = (told.and(&piece), of_batch.and(&piece));
            batch.push(piece);
            if of_batch.bytes() >= BATCH {
                tell(std::mem::take(&mut batch));
                of_batch = Amount::default();
            }
        }
    }
    if !batch.is_empty() {
        tell(batch);
    }
    Ok(looked_at)
}

/// Runs in pieces of no more pages than are told at a time.
fn pieces(runs: Vec<Run>) -> Vec<Vec<Run>> {
    let (mut pieces, mut piece, mut room) = (Vec::new(), Vec::new(), PIECE);
    for Run { mut first, pages } in runs {
        let mut left = u64::from(pages);
        while left > 0 {
            let taken = left.min(room);
            piece.push(Run { first, pages: u32::try_from(taken).unwrap_or(u32::MAX) });
            (first, left, room) = (first + taken, left - taken, room - taken);
            if room == 0 {
                pieces.push(std::mem::take(&mut piece));
                room = PIECE;
            }
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, path::Path};

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
        assert_eq!(looked_at, LookedAt { files: 2, cut: None });
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
    fn a_large_file_comes_in_pieces_that_make_up_the_whole() {
        let runs = vec![
            Run { first: 3, pages: 5 },
            Run { first: 100, pages: 20_000 },
            Run { first: 30_000, pages: 1 },
        ];
        let pieces = pieces(runs);
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[0], [Run { first: 3, pages: 5 }, Run { first: 100, pages: 8187 }]);
        assert_eq!(pieces[1], [Run { first: 8287, pages: 8192 }]);
        let sum = |piece: &Vec<Run>| piece.iter().map(|run| u64::from(run.pages)).sum::<u64>();
        assert_eq!(pieces.iter().map(sum).sum::<u64>(), 20_006);
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
