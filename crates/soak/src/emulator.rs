//! Test of the machine that emulates the kernel: does it run code as it is after another processor has patched it?
//!
//! All that traces a running kernel patches it. An emulator that runs patched code as it was before kills the kernel, and
//! no batch of a soak would say anything about xweave.

use crate::error::Error;
use crate::guest::{Guest, Setup, Sick, Stop};
use std::time::{Duration, Instant};

/// Patches and unpatches the kernel's code.
const PATCH: &str = include_str!("../guest/patch.sh");
/// Start of the line on the console after a round.
const ROUND: &str = "xweave-soak: ";

/// One boot under test.
#[derive(Debug)]
pub struct Trial {
    /// Version of the emulator, as it prints it.
    pub emulator: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Processors.
    pub processors: u32,
    /// Rounds that were over.
    pub rounds: u32,
    /// Time that they took.
    pub took: Duration,
    /// Failure of the kernel. `None` if it came through all rounds.
    pub sick: Option<Sick>,
    /// The kernel's console.
    pub console: String,
}

/// Boots a guest and patches its kernel in a number of rounds. Leaves the guest behind if it fails.
pub fn test_emulator(setup: &Setup, rounds: u32) -> Result<Trial, Error> {
    let mut guest = Guest::boot(setup)?;
    let begun = Instant::now();
    let sick = match guest.shell(&format!("set -- {rounds}\n{PATCH}")) {
        Ok(_) => None,
        Err(Stop::Sick(sick)) => Some(sick),
        Err(Stop::Error(error)) => return Err(error),
    };
    let (description, console) = (guest.description(), guest.console());
    let trial = Trial {
        emulator: description.emulator.clone(),
        kernel: description.kernel.clone(),
        processors: description.processors,
        rounds: count_rounds(&console),
        took: begun.elapsed(),
        sick,
        console,
    };
    guest.end()?;
    Ok(trial)
}

/// Counts the rounds that a console has.
fn count_rounds(console: &str) -> u32 {
    let rounds = console.lines().filter_map(|line| {
        let (_, rest) = line.split_once(ROUND)?;
        rest.split_once(" of ")?.0.parse().ok()
    });
    rounds.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_counted_on_the_console() {
        assert_eq!(count_rounds(""), 0);
        let console =
            "[   12.1] xweave-soak: 1 of 30 rounds\n[   13.4] xweave-soak: 2 of 30 rounds\nBUG: xweave";
        assert_eq!(count_rounds(console), 2);
        assert_eq!(count_rounds("xweave-soak: x of 30 rounds"), 0);
    }
}
