//! A run: each environment is measured in turn, and those that fail do not end it.

use std::{path::PathBuf, thread};

use crate::{
    Comparison, Environment, Error, Measured, Options,
    comparison::{Method, Row},
    forms, measure, read, reference,
};

/// What is measured in a run.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The environments; one that is named twice is measured once.
    pub environments: Vec<Environment>,
    /// Console output of the bare machine, whose figures are added.
    pub bare: Option<PathBuf>,
    /// How it is measured.
    pub options: Options,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// What was measured, the bare machine first.
    pub measured: Vec<Measured>,
    /// Environments that could not be measured, and why.
    pub failed: Vec<(Environment, Error)>,
    /// Whether Ctrl-C ended the run. What was measured before is kept.
    pub interrupted: bool,
}

/// Why nothing is measured.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The console output of the bare machine cannot be read.
    #[error(transparent)]
    Bare(Error),
    /// The length of a core cycle cannot be measured.
    #[error(transparent)]
    Reference(Error),
}

/// Measures the environments of a request. `show` is called for each step of long work.
///
/// # Errors
/// [`RunError`]; an environment that fails is in [`Run::failed`].
pub fn run(request: &Request, show: xweave_lab::Progress<'_>) -> Result<Run, RunError> {
    let mut run = Run::default();
    if let Some(console) = &request.bare {
        run.measured.push(read(console).map_err(RunError::Bare)?);
    }
    let reference = reference(&request.options).map_err(RunError::Reference)?;
    let measure = |environment| measure(environment, &request.options, reference, show);
    Ok(run_each(&request.environments, run, measure))
}

/// Measures each environment once; Ctrl-C ends that.
fn run_each(
    environments: &[Environment],
    mut run: Run,
    mut measure: impl FnMut(Environment) -> Result<Measured, Error>,
) -> Run {
    for (at, environment) in environments.iter().enumerate() {
        if environments[..at].contains(environment) {
            continue;
        }
        match measure(*environment) {
            Ok(measured) => run.measured.push(measured),
            Err(Error::Lab(xweave_lab::Error::Interrupted)) => {
                run.interrupted = true;
                break;
            }
            Err(error) => run.failed.push((*environment, error)),
        }
    }
    run
}

/// The number of the last CPU of this machine.
pub fn last_cpu() -> usize {
    thread::available_parallelism().map_or(0, |count| count.get() - 1)
}

/// Which forms are shown.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Groups of forms; empty: all.
    pub groups: Vec<String>,
    /// Pattern of forms' names, in which % matches any text.
    pub form: Option<String>,
}

/// A group that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no group `{group}`; there are {}", known.join(", "))]
pub struct UnknownGroup {
    group: String,
    known: Vec<String>,
}

impl Selection {
    /// Checks that all groups exist.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), UnknownGroup> {
        let mut known: Vec<String> = forms().iter().map(|form| form.group.clone()).collect();
        known.dedup();
        match self.groups.iter().find(|group| !known.contains(group)) {
            None => Ok(()),
            Some(group) => Err(UnknownGroup { group: group.clone(), known }),
        }
    }

    /// Whether all forms are selected.
    pub fn is_all(&self) -> bool {
        self.groups.is_empty() && self.form.is_none()
    }

    /// The selected rows of a comparison.
    pub fn rows(&self, comparison: &Comparison, method: Method) -> Vec<Row> {
        let mut rows = comparison.rows(method);
        rows.retain(|row| self.contains(row));
        rows
    }

    fn contains(&self, row: &Row) -> bool {
        let form = &forms()[row.form];
        let has_name = self.form.as_ref().is_none_or(|pattern| xweave_text::matches(pattern, &form.name));
        has_name && (self.groups.is_empty() || self.groups.contains(&form.group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_group_is_named_with_the_known_ones() {
        let selection = |group: &str| Selection { groups: vec![group.to_owned()], form: None };
        selection("arithmetic").check().unwrap();
        let error = selection("arithmetics").check().unwrap_err().to_string();
        assert!(error.starts_with("there is no group `arithmetics`; there are arithmetic, logic"), "{error}");
    }

    #[test]
    fn failed_environments_do_not_end_a_run_and_interrupts_do() {
        use Environment::{Kvm, Native, Tcg, XenPv};
        let mut tried = Vec::new();
        let run = run_each(&[Native, Tcg, Native, Kvm, XenPv], Run::default(), |environment| {
            tried.push(environment);
            Err(match environment {
                Kvm => Error::Lab(xweave_lab::Error::Interrupted),
                _ => Error::OtherTable,
            })
        });
        assert_eq!(tried, [Native, Tcg, Kvm]);
        assert_eq!(run.failed.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [Native, Tcg]);
        assert!(run.interrupted && run.measured.is_empty());
    }
}
