//! The soak itself: batch after batch, and what to do when a kernel was harmed.

use crate::batch::{Action, Batch, Place};
use crate::bisect::{Found, bisect};
use crate::error::{At, Error};
use crate::guest::{self, Guest, Setup, Sick, Stop};
use crate::population::Population;
use crate::signs;
use crate::state::{Death, State};
use crate::weave::{Done, Weaver, Woven};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xweave_interrupt as interrupt;

/// So many functions that a dying kernel named are tried before its whole batch is bisected: as many as may harm
/// only together, by calling one another.
const SUSPECTS: usize = 16;
/// Tests that bisecting may take besides those that one culprit takes.
const SPARE_TESTS: usize = 16;
/// A part so small is tried this often: what harms only now and then must not pass as harmless.
const FEW: (usize, usize) = (4, 2);
/// How often parts of a batch are tried that fail for reasons which are not their own.
const TRIES: usize = 4;
/// Batches are not made smaller than this, for such reasons.
const SMALLEST: usize = 16;
/// The actions, in the order in which a culprit is tried alone.
const ALONE: [Action; 2] = [Action::Store, Action::Flow];

/// What to soak, and for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// The guest.
    pub setup: Setup,
    /// Where everything is kept.
    pub folder: PathBuf,
    /// The state file.
    pub state: PathBuf,
    /// When to begin no further batch.
    pub until: Instant,
    /// Functions a batch.
    pub size: usize,
    /// Only functions with these names, in which `%` stands for any characters; all if there are none.
    pub only: Vec<String>,
    /// Of a soak that begins.
    pub seed: u64,
}

/// A soak at work.
pub struct Soak<'o> {
    options: &'o Options,
    state: State,
    guest: Option<Guest>,
    /// Woven before what the seed draws: a culprit's other place.
    first: Vec<Batch>,
    /// Functions a batch: as many as were asked for, or as the machine bears.
    size: usize,
    begun: Instant,
    /// What the state had before.
    seconds: u64,
}

impl<'o> Soak<'o> {
    /// Goes on with the state that there is, or begins.
    pub fn open(options: &'o Options) -> Result<Self, Error> {
        fs::create_dir_all(&options.folder).at("create", &options.folder)?;
        let known = State::load(&options.state)?;
        let begun = Instant::now();
        let mut soak = Self {
            options,
            state: State::default(),
            guest: None,
            first: Vec::new(),
            size: options.size,
            begun,
            seconds: 0,
        };
        let guest = soak.guest()?;
        let release = guest.release().to_owned();
        match known {
            Some(state) if state.kernel == release => (soak.seconds, soak.state) = (state.seconds, state),
            Some(state) => {
                let (path, of) = (options.state.clone(), state.kernel);
                return Err(Error::OtherKernel { path, of, now: release });
            }
            None => soak.begin(release)?,
        }
        Ok(soak)
    }

    fn begin(&mut self, release: String) -> Result<(), Error> {
        let (xweave, folder) = (&self.options.setup.xweave, &self.options.folder);
        let guest = self.guest.as_mut().ok_or(Error::Interrupted)?;
        let mut population = Population::of(guest, xweave, folder).map_err(|stop| match stop {
            Stop::Error(error) => error,
            Stop::Sick(sick) => {
                let said = format!("{}: {}\n{}", sick.kind, sick.evidence, guest.processors());
                Error::Failed { doing: "asking a new guest".into(), said }
            }
        })?;
        if !self.options.only.is_empty() {
            population.keep(&self.options.only);
        }
        self.state = State { kernel: release, seed: self.options.seed, ..State::default() };
        self.state.untraceable = population.untraceable;
        self.state.only.clone_from(&self.options.only);
        self.state.running = population.running;
        for place in Place::ALL {
            let progress = self.state.at_mut(place);
            progress.pending = population.hookable.remove(&place).unwrap_or_default();
            progress.refused = population.refused.remove(&place).unwrap_or_default();
        }
        self.save()
    }

    /// Weaves until the time is over, all is done, or Ctrl-C.
    pub fn run(&mut self) -> Result<(), Error> {
        while Instant::now() < self.options.until && !interrupt::pending() {
            let Some(batch) = self.first.pop().or_else(|| self.state.next(self.size)) else { break };
            let (begun, worked) = (Instant::now(), self.guest()?.worked());
            let before = self.state.at(batch.place).done();
            self.batch(&batch)?;
            self.save()?;
            let progress = self.state.at(batch.place);
            // On a machine with other work the second figure says more than the first; of a guest that was
            // booted anew it says nothing.
            let worked = self.guest.as_ref().and_then(|guest| guest.worked().checked_sub(worked));
            eprintln!(
                "{}: {} in {} s, {} of them at work; {} of {} done, {} kernels died or warned",
                batch.place.pointcut(),
                progress.done() - before,
                begun.elapsed().as_secs(),
                worked.unwrap_or_default().as_secs(),
                progress.done(),
                progress.total(),
                self.state.deaths.len()
            );
        }
        Ok(())
    }

    /// Ends the guest, whatever it is doing, and gives the state as it was saved.
    pub fn end(mut self) -> Result<State, Error> {
        self.save()?;
        match self.guest.take() {
            Some(guest) => guest.end()?,
            None => guest::down(&self.options.setup.world)?,
        }
        Ok(self.state)
    }

    fn save(&mut self) -> Result<(), Error> {
        self.state.seconds = self.seconds + self.begun.elapsed().as_secs();
        self.state.save(&self.options.state)
    }

    /// The guest, booted if there is none.
    fn guest(&mut self) -> Result<&mut Guest, Error> {
        match &mut self.guest {
            Some(guest) => Ok(guest),
            none => Ok(none.insert(Guest::boot(&self.options.setup)?)),
        }
    }

    /// Weaves a batch once. An ill guest is not used again.
    fn weave(&mut self, batch: &Batch) -> Result<Result<Woven, Sick>, Error> {
        let weaver = Weaver { xweave: &self.options.setup.xweave, folder: &self.options.folder };
        match weaver.weave(self.guest()?, batch) {
            Ok(woven) => Ok(Ok(woven)),
            Err(Stop::Sick(sick)) => Ok(Err(sick)),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// Weaves a batch, and the parts of it where some of it is refused; finds out what harms.
    fn batch(&mut self, batch: &Batch) -> Result<(), Error> {
        let mut work = vec![batch.clone()];
        let mut tries = TRIES;
        while let Some(batch) = work.pop() {
            match self.weave(&batch)? {
                Ok(Woven::Well(done)) => self.well(&batch, &done),
                Ok(Woven::Refused(said)) if batch.functions.len() == 1 => {
                    self.state.at_mut(batch.place).refuse(&batch.functions[0], essence(&said));
                }
                Ok(Woven::Refused(said)) => {
                    work.extend(apart(&batch.functions, &said).iter().rev().map(|part| batch.of(part)));
                }
                Ok(Woven::Failed(said)) if tries == 0 => return Err(weaving_fails(said)),
                // Nearly always too much for a machine that has much else to do: what follows is smaller, too.
                Ok(Woven::Failed(said)) => {
                    eprintln!("  smaller batches from now on: {said}");
                    tries -= 1;
                    self.size = self.size.div_ceil(2).max(SMALLEST);
                    work.extend(batch.functions.rchunks(self.size).map(|part| batch.of(part)));
                }
                Err(sick) => return self.investigate(&batch, &sick),
            }
            if interrupt::pending() {
                break;
            }
        }
        Ok(())
    }

    fn well(&mut self, batch: &Batch, done: &Done) {
        self.state.batches += 1;
        self.state.records += done.records;
        self.state.lost += done.lost;
        let progress = self.state.at_mut(batch.place);
        for function in &batch.functions {
            if done.hooked.contains(function) {
                progress.weave(function);
            } else {
                progress.refuse(function, reason(&done.why_not));
            }
        }
    }

    /// A batch has harmed the kernel: keeps what is known, and finds the culprits.
    fn investigate(&mut self, batch: &Batch, sick: &Sick) -> Result<(), Error> {
        let number = self.state.deaths.len() + 1;
        let folder = self.options.folder.join(format!("death-{number}"));
        fs::create_dir_all(&folder).at("create", &folder)?;
        eprintln!("{}: {}; looking for what did it ({})", sick.kind, sick.evidence, folder.display());
        self.state.deaths.push(Death {
            batch: self.state.batches + 1,
            seed: batch.seed,
            place: batch.place,
            kind: sick.kind.to_owned(),
            evidence: sick.evidence.clone(),
            culprits: Vec::new(),
            enough: None,
            tests: 0,
            // As whoever runs it finds it: the state is published, and where it was made means nothing elsewhere.
            folder: self
                .options
                .state
                .with_extension("")
                .join(format!("death-{number}"))
                .display()
                .to_string(),
        });
        self.save()?;
        let console = self.bury(&folder)?;
        write(&folder.join("batch.aspect"), &batch.aspect())?;
        // What the console said before this batch has nothing to do with it, but names nothing of it either.
        let suspects = signs::named(&format!("{}\n{console}", sick.evidence), &batch.functions);
        let suspects: Vec<String> = suspects.into_iter().take(SUSPECTS).cloned().collect();
        let mut tests = 0;
        let found = self.find(batch, &suspects, &mut tests)?;
        let culprits = match found {
            Found::Minimal(culprits) => {
                culprits.iter().for_each(|function| self.state.at_mut(batch.place).blame(function));
                culprits
            }
            Found::Smallest(part) => {
                part.iter().for_each(|function| self.state.at_mut(batch.place).leave(function));
                part
            }
            Found::Nothing => {
                // The whole of it was woven again, and the kernel stayed well.
                batch.functions.iter().for_each(|function| self.state.at_mut(batch.place).weave(function));
                Vec::new()
            }
        };
        if let Some(death) = self.state.deaths.last_mut() {
            (death.culprits, death.tests) = (culprits.clone(), tests);
        }
        let mut enough = None;
        if let [one] = &culprits[..] {
            // Known as a culprit at its other place, it is known with what.
            if Place::ALL
                .iter()
                .all(|place| *place == batch.place || !self.state.at(*place).culprits.contains(one))
            {
                enough = self.enough(&batch.of(&culprits), &mut tests)?;
            }
            self.other_place(batch, one);
        }
        if !culprits.is_empty() {
            write(&folder.join("minimal.aspect"), &batch.of(&culprits).aspect())?;
            eprintln!("culprits: {} (found in {tests} tests)", culprits.join(", "));
        }
        if let Some(death) = self.state.deaths.last_mut() {
            (death.enough, death.tests) = (enough, tests);
        }
        self.save()
    }

    /// The one action that is enough to harm the kernel: none where it takes both.
    fn enough(&mut self, batch: &Batch, tests: &mut usize) -> Result<Option<Action>, Error> {
        for action in ALONE {
            if self.harms(&Batch { action, ..batch.clone() }, tests)? {
                return Ok(Some(action));
            }
        }
        Ok(None)
    }

    /// What harms at one place may at the other: alone, it need not be bisected.
    fn other_place(&mut self, batch: &Batch, function: &str) {
        for place in Place::ALL {
            if self.state.at(place).pending.contains(function) {
                let functions = vec![function.to_owned()];
                self.first.push(Batch { place, functions, ..batch.clone() });
            }
        }
    }

    /// Searches for what harms: among those that the kernel named as it died, if they do; else in the whole batch.
    fn find(
        &mut self,
        batch: &Batch,
        suspects: &[String],
        tests: &mut usize,
    ) -> Result<Found<String>, Error> {
        if let [_] = &batch.functions[..] {
            return Ok(Found::Minimal(batch.functions.clone()));
        }
        let named = !suspects.is_empty() && self.harms(&batch.of(suspects), tests)?;
        let among = if named { suspects } else { &batch.functions };
        let halvings = usize::try_from(among.len().max(1).ilog2()).unwrap_or(0) + 1;
        bisect(among, 3 * halvings + SPARE_TESTS, |part| self.harms(&batch.of(part), tests))
    }

    /// Whether a batch harms the kernel.
    fn harms(&mut self, batch: &Batch, tests: &mut usize) -> Result<bool, Error> {
        let mut times = if batch.functions.len() <= FEW.0 { FEW.1 } else { 1 };
        let mut tries = TRIES;
        while times > 0 {
            let begun = Instant::now();
            let woven = self.weave(batch)?;
            let outcome = match &woven {
                Ok(Woven::Well(_)) => "well",
                Ok(Woven::Refused(_)) => "refused",
                Ok(Woven::Failed(said)) if tries == 0 => return Err(weaving_fails(said.clone())),
                Ok(Woven::Failed(said)) => {
                    eprintln!("  once more: {said}");
                    tries -= 1;
                    continue;
                }
                Err(sick) => sick.kind,
            };
            (*tests, times) = (*tests + 1, times - 1);
            let seconds = begun.elapsed().as_secs();
            eprintln!("  test {tests}: {} functions: {outcome} ({seconds} s)", batch.functions.len());
            if woven.is_err() {
                self.state.killed_again += 1;
                let folder = self.options.folder.join("test");
                fs::create_dir_all(&folder).at("create", &folder)?;
                self.bury(&folder)?;
                return Ok(true);
            }
            if interrupt::pending() {
                return Err(Error::Interrupted);
            }
        }
        Ok(false)
    }

    /// Saves what can be seen of the guest from outside, and ends it. Gives where its processors were, and its console.
    fn bury(&mut self, folder: &Path) -> Result<String, Error> {
        let Some(guest) = self.guest.take() else { return Ok(String::new()) };
        let (console, processors) = (guest.console(), guest.processors());
        write(&folder.join("console.log"), &console)?;
        write(&folder.join("processors.txt"), &processors)?;
        // Where the program that recorded had something to say, it is of interest too.
        let _ = fs::copy(self.options.folder.join("record.log"), folder.join("record.log"));
        guest.end()?;
        Ok(processors + &console)
    }
}

fn weaving_fails(said: String) -> Error {
    Error::Failed { doing: "weaving a batch, again and again,".into(), said }
}

/// The parts to weave instead of functions of which xweave refused some: those that it named, one by one, and the
/// rest; or two halves.
fn apart(functions: &[String], said: &str) -> Vec<Vec<String>> {
    let named = signs::named(said, functions);
    if named.is_empty() || named.len() == functions.len() {
        let (first, second) = functions.split_at(functions.len() / 2);
        return vec![first.to_vec(), second.to_vec()];
    }
    let rest: Vec<String> = functions.iter().filter(|function| !named.contains(function)).cloned().collect();
    named.into_iter().map(|one| vec![one.clone()]).chain([rest]).collect()
}

/// The line with the reason, of what `xweave record` said when it refused.
fn essence(said: &str) -> &str {
    let mut lines = said.lines();
    let first = lines.next().unwrap_or_default();
    // What the verifier has to say comes behind what libbpf has.
    lines
        .find(|line| !line.starts_with("libbpf: ") && !line.starts_with("processed "))
        .unwrap_or(first)
        .trim()
}

/// `host: stored is not woven at 1 of 50 places: REASON (the first: vfs_read+0x0)`
fn reason(warning: &str) -> &str {
    let reason = warning.split_once(" places: ").map_or(warning, |(_, reason)| reason);
    reason.split_once(" (the first: ").map_or(reason, |(reason, _)| reason)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).at("write", path)
}

/// Puts minutes from now into a time.
pub fn deadline(minutes: u64) -> Instant {
    Instant::now() + Duration::from_secs(60 * minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_was_refused_by_name_is_tried_alone_and_else_by_halves() {
        let functions = names(&["a", "migrate_disable", "b", "c"]);
        let said =
            "the kernel refused the program of stored for migrate_disable: Invalid argument (os error 22)";
        assert_eq!(apart(&functions, said), [names(&["migrate_disable"]), names(&["a", "b", "c"])]);
        assert_eq!(
            apart(&functions, "out of memory"),
            [names(&["a", "migrate_disable"]), names(&["b", "c"])]
        );
        let two = names(&["a", "b"]);
        assert_eq!(apart(&two, "neither a nor b"), [names(&["a"]), names(&["b"])]);
    }

    #[test]
    fn the_verifiers_reason_is_kept_of_many_lines() {
        let said = "xweave: domain host: could not load the compiled aspects: Invalid argument (os error 22)\n\
            libbpf: prog 'xw0_hv_map_interrupt': -- BEGIN PROG LOAD LOG --\n\
            The function hv_map_interrupt arg0 type UNION is unsupported.\n\
            processed 0 insns (limit 1000000) max_states_per_insn 0\n-- END PROG LOAD LOG --\n";
        assert_eq!(essence(said), "The function hv_map_interrupt arg0 type UNION is unsupported.");
        assert_eq!(essence("xweave: no memory"), "xweave: no memory");
    }

    #[test]
    fn a_warning_of_the_recorder_has_the_reason_in_it() {
        let warning = "host: stored is not woven at 1 of 50 places: the kernel allows no probe there (the first: f+0x0)";
        assert_eq!(reason(warning), "the kernel allows no probe there");
        assert_eq!(reason("something else"), "something else");
    }
}
