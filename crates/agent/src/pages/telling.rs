//! Telling of files, in batches, until there is no more time, or no more may be told.

use std::time::{Duration, Instant};

use xweave_wire::{
    limits::FRAME,
    pages::{self, Amount, CachedFile, Files, LookedAt, Run},
};

use super::{
    frames::Frames,
    resident::{Contents, resident},
    walk::Found,
};
use crate::cancel::Cancel;

/// For how long files are looked at: a controller waits for two minutes.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes that are told at a time, about: batches of records are as long.
const BATCH: usize = FRAME as usize / 4;

/// Pages of one file that are told at a time.
const PIECE: u64 = 8192;

/// What was told, and is about to be.
pub(super) struct Telling<'t> {
    /// What is told of a file besides its pages: what they hold, and where they lie.
    contents: bool,
    frames: Option<Frames>,
    tell: &'t mut dyn FnMut(Vec<CachedFile>),
    cancel: &'t Cancel,
    over: Instant,
    /// All that is told, as who listens has it then.
    told: Amount,
    batch: Vec<CachedFile>,
    of_batch: Amount,
    looked_at: LookedAt,
}

impl<'t> Telling<'t> {
    /// To who has that much already.
    pub(super) fn new(
        files: &Files,
        told: Amount,
        cancel: &'t Cancel,
        tell: &'t mut dyn FnMut(Vec<CachedFile>),
    ) -> Result<Self, String> {
        let frames = files.frames.then(Frames::new).transpose().map_err(|error| {
            format!("where pages lie is not told: /proc/self/pagemap: {error} (it takes root)")
        })?;
        Ok(Self {
            contents: files.contents,
            frames,
            tell,
            cancel,
            over: Instant::now() + LIMIT,
            told,
            batch: Vec::new(),
            of_batch: Amount::default(),
            looked_at: LookedAt::default(),
        })
    }

    /// Whether one more file may be looked at.
    pub(super) fn may_look(&mut self) -> bool {
        let may = !self.is_over();
        self.looked_at.files += u64::from(may);
        may
    }

    fn is_over(&mut self) -> bool {
        let cut = &mut self.looked_at.cut;
        if cut.is_none() && (self.cancel.asked() || Instant::now() >= self.over) {
            *cut = Some(format!("it took longer than {} s", LIMIT.as_secs()));
        }
        cut.is_some()
    }

    /// Tells which pages of a file are there. Gives how much was told.
    pub(super) fn file(&mut self, found: &Found) -> Amount {
        let mut of_file = Amount::default();
        let mut contents = self.contents.then(|| Contents::of(&found.file));
        let Ok(runs) = resident(&found.file, found.size) else { return of_file };
        for runs in pieces(runs) {
            let contents = contents.as_mut().map(|of| of.hashes(&runs)).unwrap_or_default();
            let frames = self.frames.as_ref().map(|of| of.of(&found.file).all(&runs)).unwrap_or_default();
            let piece = CachedFile {
                path: found.path.clone(),
                size: found.size,
                modified_ns: found.modified_ns,
                inode: found.inode.number,
                runs,
                contents,
                frames,
            };
            if self.is_over() {
                break;
            }
            let amount = Amount::of(&piece);
            if !self.told.plus(amount).is_within(pages::MOST) {
                self.looked_at.cut = Some("there are more of them than can be told".to_owned());
                break;
            }
            (self.told, of_file) = (self.told.plus(amount), of_file.plus(amount));
            self.push(piece, amount);
        }
        of_file
    }

    /// Tells that no page of a file is there any more.
    pub(super) fn gone(&mut self, path: String) {
        let file = CachedFile { path, ..CachedFile::default() };
        let amount = Amount::of(&file);
        self.push(file, amount);
    }

    /// That much of what was told before is told anew, or has gone.
    pub(super) fn forget(&mut self, amount: Amount) {
        self.told = self.told.minus(amount);
    }

    fn push(&mut self, file: CachedFile, amount: Amount) {
        self.batch.push(file);
        self.of_batch = self.of_batch.plus(amount);
        if self.of_batch.bytes() >= BATCH {
            (self.tell)(std::mem::take(&mut self.batch));
            self.of_batch = Amount::default();
        }
    }

    /// Tells the rest. Gives what was looked at; whether that is all there is, who told it knows.
    pub(super) fn end(self, whole: bool) -> LookedAt {
        if !self.batch.is_empty() {
            (self.tell)(self.batch);
        }
        LookedAt { whole, ..self.looked_at }
    }
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
    use super::*;

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
}
