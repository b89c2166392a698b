//! What there is to weave: the functions of a kernel's type information that can be hooked.

use crate::batch::Place;
use crate::error::{At, Error};
use crate::guest::{Guest, Stop};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What `xweave check` is asked for all functions.
const ALL: &str = "advice execution execution(%) { STORE_DATA1(1); }\n\
                   advice returning returning(%) { STORE_DATA1(1); }\n";
/// Gives the kernel's type information as an archive. Files of sysfs say that they are of another size than they are.
const TYPES: &str = "rm -rf /tmp/btf && cp -r /sys/kernel/btf /tmp/btf && tar -C /tmp -c btf";

/// The functions of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Population {
    /// To be woven, by place.
    pub hookable: BTreeMap<Place, BTreeSet<String>>,
    /// Those that xweave refuses without asking the kernel, by place, with the reasons.
    pub refused: BTreeMap<Place, BTreeMap<String, String>>,
    /// Functions that the kernel's tracer does not know.
    pub untraceable: usize,
    /// Those that were seen to run under the load.
    pub running: BTreeSet<String>,
}

/// What `xweave check --json` prints, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Checked {
    advice: Vec<Advice>,
    skipped: Vec<Skipped>,
}

#[derive(Debug, Deserialize)]
struct Advice {
    name: String,
    functions: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Skipped {
    name: String,
    function: String,
    reason: String,
}

impl Population {
    /// Asks a guest for what it has, and xweave for what it would weave of it. `folder` holds what is asked about.
    pub fn of(guest: &mut Guest, xweave: &Path, folder: &Path) -> Result<Self, Stop> {
        let archive = guest.shell(TYPES)?;
        let traceable = guest.shell("cat /sys/kernel/tracing/available_filter_functions")?;
        let path = folder.join("btf.tar");
        std::fs::write(&path, archive).at("write", &path)?;
        run(Command::new("tar").arg("-C").arg(folder).arg("-xf").arg(&path), "unpacking types")?;
        let mut check = Command::new(xweave);
        check.args(["check", "--no-compile", "--json", "-e", ALL, "--domain"]);
        check.arg(format!("host={}", folder.join("btf").display()));
        let checked = run(&mut check, "`xweave check` of all functions")?;
        let checked: Checked = serde_json::from_slice(&checked)
            .map_err(|error| Error::by("reading what `xweave check` printed", error))?;
        let population = Self::sorted(checked, &String::from_utf8_lossy(&traceable));
        Ok(Self { running: guest.running()?, ..population })
    }

    fn sorted(checked: Checked, traceable: &str) -> Self {
        // `tcp_sendmsg`, or `bridge_fn [bridge]`.
        let traceable: BTreeSet<&str> =
            traceable.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let mut population = Self::default();
        let place = |name: &str| Place::ALL.into_iter().find(|place| place.pointcut() == name);
        for of in checked.skipped {
            if let Some(place) = place(&of.name) {
                population.refused.entry(place).or_default().insert(of.function, of.reason);
            }
        }
        let mut untraceable = BTreeSet::new();
        for advice in checked.advice {
            let Some(place) = place(&advice.name) else { continue };
            let (hookable, not): (BTreeSet<_>, BTreeSet<_>) =
                advice.functions.into_iter().partition(|function| traceable.contains(function.as_str()));
            untraceable.extend(not);
            population.hookable.insert(place, hookable);
        }
        population.untraceable = untraceable.len();
        population
    }

    /// Only functions with one of these names; `%` in them stands for any characters.
    pub fn keep(&mut self, only: &[String]) {
        let keep = |function: &str| only.iter().any(|pattern| xweave_text::matches(pattern, function));
        self.hookable.values_mut().for_each(|functions| functions.retain(|function| keep(function)));
        self.refused.values_mut().for_each(|functions| functions.retain(|function, _| keep(function)));
    }
}

fn run(command: &mut Command, doing: &str) -> Result<Vec<u8>, Error> {
    let output = command.output().map_err(|error| Error::by(doing, error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Failed { doing: doing.to_owned(), said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_hookable_refused_or_unknown_to_the_tracer() {
        let checked = serde_json::from_str(
            r#"{"advice": [{"name": "execution", "functions": ["a", "b", "c", "init"], "woven": 4},
                           {"name": "returning", "functions": ["a", "b", "init"], "woven": 3}],
                "skipped": [{"name": "returning", "function": "c", "reason": "it returns a structure"}],
                "warnings": [], "errors": []}"#,
        )
        .unwrap();
        let mut population = Population::sorted(checked, "a\nb [bridge]\nc\nasm_only\n");
        let names = |of: &Population, place| of.hookable[&place].iter().cloned().collect::<Vec<_>>();
        assert_eq!(names(&population, Place::Execution), ["a", "b", "c"]);
        assert_eq!(names(&population, Place::Returning), ["a", "b"]);
        assert_eq!(population.refused[&Place::Returning]["c"], "it returns a structure");
        assert_eq!(population.untraceable, 1);
        population.keep(&["b".to_owned(), "x%".to_owned()]);
        assert_eq!(names(&population, Place::Execution), ["b"]);
        assert!(population.refused[&Place::Returning].is_empty());
    }
}
