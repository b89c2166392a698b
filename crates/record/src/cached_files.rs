//! Files of a domain's page cache, as it tells them.

use xweave_wire::pages::{Amount, CachedFile, MOST};

use crate::violation::Violation;

/// What a domain has told of its page cache.
#[derive(Default)]
pub(crate) struct CachedFiles {
    files: Vec<CachedFile>,
    amount: Amount,
}

impl CachedFiles {
    /// Takes more of it: pieces of a large file come one after the other.
    pub(crate) fn take(&mut self, files: Vec<CachedFile>) -> Result<(), Violation> {
        for file in files {
            self.amount = self.amount.plus(Amount::of(&file));
            if !self.amount.is_within(MOST) {
                return Err(Violation::Cached);
            }
            match self.files.last_mut().filter(|last| goes_on(last, &file)) {
                Some(last) => {
                    last.runs.extend(file.runs);
                    last.contents.extend(file.contents);
                    last.frames.extend(file.frames);
                }
                None => self.files.push(file),
            }
        }
        Ok(())
    }

    /// All that it has told.
    pub(crate) fn all(self) -> Vec<CachedFile> {
        self.files
    }
}

/// Whether that is the next piece of the same file.
fn goes_on(file: &CachedFile, next: &CachedFile) -> bool {
    let is =
        |of: &CachedFile| (of.inode, of.size, of.modified_ns, of.contents.is_empty(), of.frames.is_empty());
    let behind = file.runs.last().map_or(0, |run| run.end());
    is(file) == is(next) && file.path == next.path && next.runs.first().is_some_and(|run| run.first >= behind)
}

#[cfg(test)]
mod tests {
    use xweave_wire::pages::Run;

    use super::*;

    fn file(path: &str, runs: &[(u64, u32)]) -> CachedFile {
        let runs: Vec<_> = runs.iter().map(|&(first, pages)| Run { first, pages }).collect();
        CachedFile { path: path.into(), runs, ..CachedFile::default() }
    }

    #[test]
    fn pieces_of_a_file_become_one_and_stay_in_order() {
        let mut told = CachedFiles::default();
        told.take(vec![file("/a", &[(0, 2)]), file("/a", &[(2, 1), (9, 1)])]).unwrap();
        told.take(vec![file("/a", &[(10, 5)]), file("/b", &[(0, 1)]), file("/b", &[(0, 1)])]).unwrap();
        let said: Vec<_> = told.files.iter().map(|file| (&*file.path, file.runs.len())).collect();
        assert_eq!(said, [("/a", 4), ("/b", 1), ("/b", 1)]);
    }

    #[test]
    fn no_domain_tells_more_than_may_be_however_small_the_pieces() {
        let mut told = CachedFiles::default();
        let batch = || vec![file("", &[(0, 1)]); MOST.files / 4];
        for _ in 0..4 {
            told.take(batch()).unwrap();
        }
        assert_eq!(told.take(batch()).unwrap_err(), Violation::Cached);
    }

    /// So many of something.
    type Of = fn(usize) -> Vec<CachedFile>;

    #[test]
    fn one_more_than_may_be_of_anything_is_refused() {
        let all: [(&str, usize, Of); 5] = [
            ("files", MOST.files, |files| vec![file("", &[]); files]),
            ("paths", MOST.paths, |bytes| vec![file(&"p".repeat(bytes), &[])]),
            ("runs", MOST.runs, |runs| vec![file("", &vec![(0, 1); runs])]),
            ("hashes", MOST.contents, |pages| vec![CachedFile { contents: vec![0; pages], ..file("", &[]) }]),
            ("frames", MOST.frames, |pages| vec![CachedFile { frames: vec![0; pages], ..file("", &[]) }]),
        ];
        for (what, most, of) in all {
            let mut told = CachedFiles::default();
            assert_eq!(told.take(of(most)), Ok(()), "{what}");
            assert_eq!(told.take(of(1)), Err(Violation::Cached), "{what}");
        }
    }
}
