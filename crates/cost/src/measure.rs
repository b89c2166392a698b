//! Measuring in one environment: the image is started until it has been heard to the end.

use std::path::Path;
use std::time::Instant;

use xweave_lab::Progress;

use crate::environment::{Environment, Options};
use crate::error::{Error, Result};
use crate::fingerprint;
use crate::line::scan;
use crate::measured::{Collected, Measured};
use crate::place::Place;

/// A machine that forms end again and again is given up.
const MOST_BOOTS: u32 = 12;
/// Of what an image said that is none of its lines, as much is told.
const SAID_MOST: usize = 600;

/// Reads what the image said on the console of a bare machine.
pub fn read(console: &Path) -> Result<Measured> {
    let said = std::fs::read(console).map_err(|source| Error::Io {
        what: "read",
        path: console.to_owned(),
        source,
    })?;
    let mut collected = Collected::default();
    collected.add(scan(&said));
    match collected.fingerprint {
        None => return Err(Error::NoConsole { path: console.to_owned() }),
        Some(of_image) if of_image != fingerprint() => return Err(Error::OtherTable),
        Some(_) => {}
    }
    if let Some(culprit) = collected.culprit().filter(|_| !collected.finished) {
        collected.ended_by(culprit);
    }
    Ok(Measured {
        environment: Environment::Bare,
        how: format!("the image on the bare machine, as {} has it", console.display()),
        emulated: false,
        ticks_per_cycle: collected.ticks_per_cycle().unwrap_or(1.0),
        seconds: 0.0,
        boots: 1,
        given_up: None,
        damaged: collected.damaged,
        outcomes: collected.outcomes(None),
        counted: Default::default(),
    })
}

/// Measures everything that can be measured in an environment; what was measured on the bare machine is [`read`].
///
/// `reference`: TSC ticks of a core cycle on this machine, for where instructions are emulated. A signal that
/// [`xweave_interrupt`] notes ends it, and what it started.
pub fn measure(
    environment: Environment,
    options: &Options,
    reference: f64,
    progress: Progress<'_>,
) -> Result<Measured> {
    let place = Place::of(environment, options, progress)?;
    let begun = Instant::now();
    let collected = collect(&place, options);
    let counted = if options.count { place.count(options) } else { Ok(Default::default()) };
    let (how, emulated) = (place.how(), place.emulated());
    let left = place.leave();
    let (collected, boots, given_up) = collected?;
    left?;
    let reference = emulated.then_some(reference);
    Ok(Measured {
        environment,
        how,
        emulated,
        ticks_per_cycle: reference.or(collected.ticks_per_cycle()).unwrap_or(1.0),
        seconds: begun.elapsed().as_secs_f64(),
        boots,
        given_up,
        damaged: collected.damaged,
        outcomes: collected.outcomes(reference),
        counted: counted?,
    })
}

/// Starts the image until it has been heard to the end: with the number of starts, and why it was given up before.
fn collect(place: &Place, options: &Options) -> Result<(Collected, u32, Option<String>)> {
    let mut collected = Collected::default();
    let mut from = 0;
    for boot in 1..=MOST_BOOTS {
        let console = match place.run(options, from) {
            Ok(console) => console,
            Err(interrupted @ Error::Lab(xweave_lab::Error::Interrupted)) => return Err(interrupted),
            // What was heard before is kept, though there is no machine any more that could go on.
            Err(error) if collected.fingerprint.is_some() => {
                return Ok((collected, boot, Some(error.to_string())));
            }
            Err(error) => return Err(error),
        };
        collected.add(scan(&console));
        match collected.fingerprint {
            None => return Err(silent(options, &console)),
            Some(of_image) if of_image != fingerprint() => return Err(Error::OtherTable),
            Some(_) => {}
        }
        if collected.finished {
            return Ok((collected, boot, None));
        }
        // It was not heard to the end: what was being measured is noted, and the next boot begins behind it.
        let Some(culprit) = collected.culprit() else { return Err(silent(options, &console)) };
        collected.ended_by(culprit);
        from = culprit + 1;
    }
    Ok((collected, MOST_BOOTS, Some(format!("it ended early {MOST_BOOTS} times"))))
}

fn silent(options: &Options, console: &[u8]) -> Error {
    let text = String::from_utf8_lossy(console);
    let text = text.trim();
    let skip = text.chars().count().saturating_sub(SAID_MOST);
    let last: String = text.chars().skip(skip).collect();
    let said = if last.is_empty() { last } else { format!("; it said: {last}") };
    Error::Silent { seconds: options.timeout.as_secs(), said }
}
