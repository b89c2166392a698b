//! How far a soak has come, in a file that is written after every batch: a soak is hours of work, in pieces.

use crate::batch::{Action, Batch, Place};
use crate::error::{At, Error};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A soak of one kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The kernel's release.
    pub kernel: String,
    /// What everything that is drawn is drawn from.
    pub seed: u64,
    /// Batches that were woven whole.
    pub batches: u64,
    /// How long it has been at work, boots and bisecting included.
    pub seconds: u64,
    /// What the functions were restricted to; empty for all.
    pub only: Vec<String>,
    /// Functions that were seen to run under the load. They come first.
    pub running: BTreeSet<String>,
    /// Functions of the kernel's type information that its tracer does not know: thrown away after booting, or
    /// not to be traced.
    pub untraceable: usize,
    /// Records that were written while the load ran.
    pub records: u64,
    /// Records and hits that were counted as lost.
    pub lost: u64,
    /// What became of each function's entry.
    pub execution: Progress,
    /// What became of each function's return.
    pub returning: Progress,
    /// Whenever a kernel died, hung or warned, but for those that bisecting killed on purpose.
    pub deaths: Vec<Death>,
    /// Kernels that were killed again while what had killed the first was looked for.
    pub killed_again: u64,
}

/// What became of functions at one place. Each is in one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Not yet woven.
    pub pending: BTreeSet<String>,
    /// Woven, with both actions, under load, and unwoven; the kernel stayed well.
    pub woven: BTreeSet<String>,
    /// xweave or the kernel refused, and why.
    pub refused: BTreeMap<String, String>,
    /// They harm the kernel.
    pub culprits: BTreeSet<String>,
    /// Woven when a kernel was harmed, and no part of them harms it again.
    pub unclear: BTreeSet<String>,
}

/// A kernel that was harmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// The batch's number.
    pub batch: u64,
    /// Its seed.
    pub seed: u64,
    /// Where the functions were hooked.
    pub place: Place,
    /// What happened: `hung`, `warned`, …
    pub kind: String,
    /// What was seen first of it.
    pub evidence: String,
    /// The smallest set found; with none the kernel was not harmed again.
    pub culprits: Vec<String>,
    /// The action that alone is enough for that; none where it takes both, or it was not found out.
    pub enough: Option<Action>,
    /// Kernels that it took to find them.
    pub tests: usize,
    /// The folder with console, aspect and the aspect of the smallest set.
    pub folder: String,
}

impl Progress {
    /// All.
    pub fn total(&self) -> usize {
        self.pending.len() + self.done()
    }

    /// Those of which something is known.
    pub fn done(&self) -> usize {
        self.woven.len() + self.refused.len() + self.culprits.len() + self.unclear.len()
    }

    /// A function was woven.
    pub fn weave(&mut self, function: &str) {
        if self.pending.remove(function) {
            self.woven.insert(function.to_owned());
        }
    }

    /// A function was refused.
    pub fn refuse(&mut self, function: &str, reason: &str) {
        if self.pending.remove(function) {
            self.refused.insert(function.to_owned(), reason.to_owned());
        }
    }

    /// A function harms the kernel.
    pub fn blame(&mut self, function: &str) {
        if self.pending.remove(function) {
            self.culprits.insert(function.to_owned());
        }
    }

    /// A function was there when the kernel was harmed, and nobody knows who did it.
    pub fn leave(&mut self, function: &str) {
        if self.pending.remove(function) {
            self.unclear.insert(function.to_owned());
        }
    }
}

impl State {
    /// What became of functions at a place.
    pub fn at(&self, place: Place) -> &Progress {
        match place {
            Place::Execution => &self.execution,
            Place::Returning => &self.returning,
        }
    }

    /// The same, to be changed.
    pub fn at_mut(&mut self, place: Place) -> &mut Progress {
        match place {
            Place::Execution => &mut self.execution,
            Place::Returning => &mut self.returning,
        }
    }

    /// The next batch: so many functions in the order that the seed draws, at the place of which less is done. A
    /// quarter of them are such as run under the load, as long as there are: they come first, but all at once they
    /// would stop the machine.
    pub fn next(&self, size: usize) -> Option<Batch> {
        let open = |place: &Place| !self.at(*place).pending.is_empty();
        let place = Place::ALL.into_iter().filter(open).min_by_key(|place| self.at(*place).done())?;
        let pending = &self.at(place).pending;
        // By a number of its own for each, so that one more or less does not change the order of the others.
        let drawn = |functions: Vec<&String>, count: usize| {
            let mut functions: Vec<String> = functions.into_iter().cloned().collect();
            functions.sort_by_key(|function| draw(self.seed, place, function));
            functions.truncate(count);
            functions
        };
        let (run, rest) = pending.iter().partition(|function| self.running.contains(*function));
        let mut functions = drawn(run, size.div_ceil(4));
        functions.extend(drawn(rest, size - functions.len()));
        Some(Batch { seed: self.seed, place, action: Action::Both, functions })
    }

    /// Reads a state; none if there is none yet.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or is no state.
    pub fn load(path: &Path) -> Result<Option<Self>, Error> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|source| Error::State { path: path.to_owned(), source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).at("read", path),
        }
    }

    /// Writes it: whoever reads, and whoever pulls the plug, has the old one or the new one.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|source| Error::State { path: path.to_owned(), source })?;
        let new = path.with_extension("json.new");
        let mut file = File::create(&new).at("create", &new)?;
        file.write_all(&text).and_then(|()| file.sync_all()).at("write", &new)?;
        fs::rename(&new, path).at("replace", path)
    }
}

fn draw(seed: u64, place: Place, function: &str) -> u64 {
    let hash = crate::batch::hash(place.pointcut()) ^ crate::batch::hash(function).rotate_left(1);
    fastrand::Rng::with_seed(seed ^ hash).u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(functions: usize) -> State {
        let pending: BTreeSet<String> = (0..functions).map(|n| format!("function_{n}")).collect();
        let progress = Progress { pending, ..Progress::default() };
        State { seed: 42, execution: progress.clone(), returning: progress, ..State::default() }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("6.12.json");
        assert_eq!(State::load(&path).unwrap(), None);
        let mut state = state(10);
        state.execution.weave("function_1");
        state.execution.refuse("function_2", "the kernel allows no probe there");
        state.returning.blame("function_3");
        state.returning.leave("function_4");
        state.deaths.push(Death {
            batch: 1,
            seed: 42,
            place: Place::Returning,
            kind: "hung".into(),
            evidence: "nothing was heard for 45 s".into(),
            culprits: vec!["function_3".into()],
            enough: Some(Action::Store),
            tests: 7,
            folder: "target/soak/6.12/death-1".into(),
        });
        state.save(&path).unwrap();
        assert_eq!(State::load(&path).unwrap(), Some(state.clone()));
        state.batches += 1;
        state.save(&path).unwrap();
        assert_eq!(State::load(&path).unwrap(), Some(state));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        fs::write(&path, "{").unwrap();
        assert!(matches!(State::load(&path), Err(Error::State { .. })));
    }

    #[test]
    fn batches_take_every_function_at_both_places_once() {
        let mut state = state(100);
        let mut seen = BTreeSet::new();
        while let Some(batch) = state.next(16) {
            assert!(batch.functions.len() <= 16);
            for function in &batch.functions {
                assert!(seen.insert((batch.place, function.clone())), "{function} came twice");
                state.at_mut(batch.place).weave(function);
            }
        }
        assert_eq!(seen.len(), 200);
        assert_eq!((state.execution.woven.len(), state.returning.total()), (100, 100));
    }

    #[test]
    fn the_same_seed_draws_the_same_batches() {
        let (first, second) = (state(100), state(100));
        assert_eq!(first.next(16), second.next(16));
        let other = State { seed: 43, ..state(100) };
        assert_ne!(first.next(16), other.next(16));
        // One function less changes nothing but its own place.
        let batch = first.next(16).unwrap();
        let mut less = state(100);
        less.at_mut(batch.place).pending.remove(&batch.functions[0]);
        assert_eq!(less.next(15).unwrap().functions, batch.functions[1..]);
    }

    #[test]
    fn what_runs_under_the_load_comes_first() {
        let running: BTreeSet<String> = (0..10).map(|n| format!("function_{n}")).collect();
        let mut state = State { running: running.clone(), ..state(100) };
        for wanted in [4, 4, 2, 0] {
            state.returning = Progress::default();
            let batch = state.next(16).unwrap();
            let run = batch.functions.iter().filter(|function| running.contains(*function)).count();
            assert_eq!((run, batch.functions.len()), (wanted, 16));
            batch.functions.iter().for_each(|function| state.execution.weave(function));
        }
    }

    #[test]
    fn a_function_has_one_fate_at_a_place() {
        let mut progress = state(3).execution;
        progress.blame("function_0");
        progress.weave("function_0");
        progress.refuse("function_0", "late");
        assert_eq!((progress.culprits.len(), progress.done(), progress.total()), (1, 1, 3));
    }
}
