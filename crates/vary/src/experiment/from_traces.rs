//! Evaluating a stored experiment by the traces of its blocks.

use std::path::{Path, PathBuf};

use xweave_model::{DefaultSpec, Spec, SpecError};
use xweave_trace::Trace;

use crate::usual;

use super::{
    evaluate::{Evaluation, evaluate},
    measure::{Measured, measure},
    stored::{Block, Experiment, StoreError, trace_name},
};

/// Why an experiment cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The experiment cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The experiment names a kind of transactions that does not exist.
    #[error(transparent)]
    Transaction(#[from] SpecError),
    /// No round has two blocks to compare.
    #[error(
        "{}: no round has a block of the first setting and one of another that could be measured{reason}",
        folder.display()
    )]
    NothingToCompare {
        /// The experiment's folder.
        folder: PathBuf,
        /// The first block that could not be measured and why, or why the experiment ended: `: …`; may be empty.
        reason: String,
    },
}

/// Measures the blocks of the experiment in `folder`, and compares its settings, by these transactions; or else by those that the
/// experiment names; or else by those that are usual of its first block that has any. If `forced`, the traces may be another
/// user's.
///
/// # Errors
/// [`EvaluateError`].
pub fn evaluate_traces(
    folder: &Path,
    transaction: Option<Spec>,
    forced: bool,
) -> Result<Evaluation, EvaluateError> {
    let experiment = Experiment::open(folder, forced)?;
    let chosen = match (transaction, &experiment.transaction) {
        (Some(spec), _) => spec.into(),
        (None, Some(named)) => named.parse::<Spec>()?.into(),
        (None, None) => choose(folder, &experiment, forced),
    };
    let spec = chosen.spec.clone();
    let evaluation = evaluate(experiment, chosen, |block| measure_block(folder, block, &spec, forced));
    match evaluation.effects.is_empty() {
        true => {
            let (folder, reason) = (folder.to_owned(), reason(&evaluation));
            Err(EvaluateError::NothingToCompare { folder, reason })
        }
        false => Ok(evaluation),
    }
}

/// Chooses the transactions that are usual of the first block that has any. The load is the same in all of them, so that
/// another would hardly choose others; and all have to be compared by the same.
fn choose(folder: &Path, experiment: &Experiment, forced: bool) -> DefaultSpec {
    let counted = experiment.blocks.iter().filter(|block| block.failed.is_none());
    let mut usual = counted.filter_map(|block| usual(&open_block(folder, block, forced).ok()?, 1));
    usual.next().unwrap_or_else(|| Spec::Request(None, None).into())
}

fn open_block(folder: &Path, block: &Block, forced: bool) -> Result<Trace, String> {
    let dir = folder.join(trace_name(block.number));
    let open = if forced { Trace::open_forced } else { Trace::open };
    open(&dir).map_err(|error| error.to_string())
}

/// The first block that could not be measured, or else why the experiment ended.
fn reason(evaluation: &Evaluation) -> String {
    let failed = evaluation.blocks.iter().find_map(|looked| {
        Some(format!(": block {}: {}", looked.block.number, looked.measured.as_ref().err()?))
    });
    let ended = || Some(format!(": {}", evaluation.experiment.ended.as_ref()?));
    failed.or_else(ended).unwrap_or_default()
}

fn measure_block(folder: &Path, block: &Block, spec: &Spec, forced: bool) -> Result<Measured, String> {
    let trace = open_block(folder, block, forced)?;
    let measured = measure(&trace, spec);
    match measured.requests {
        0 => Err(format!("it has no transactions of the kind {spec} that began and ended in it")),
        _ => Ok(measured),
    }
}

#[cfg(test)]
mod tests {
    use xweave_guard::private::Dir;

    use super::*;
    use crate::experiment::stored::Setting;

    /// Evaluates an experiment of two settings with these blocks, whose traces are missing.
    fn evaluate_blocks(
        transaction: Option<&str>,
        failed: &[Option<&str>],
        ended: Option<&str>,
    ) -> EvaluateError {
        let folder = tempfile::tempdir().unwrap();
        let block = |(number, failed): (u32, &Option<&str>)| Block {
            number,
            round: 1,
            setting: number - 1,
            failed: failed.map(str::to_owned),
            read: Vec::new(),
        };
        let experiment = Experiment {
            settings: vec![Setting { values: Vec::new() }; 2],
            blocks: (1..).zip(failed).map(block).collect(),
            ended: ended.map(str::to_owned),
            ..Experiment::new(transaction.map(str::to_owned), Vec::new(), 7, 1)
        };
        experiment.store(&Dir::create(folder.path()).unwrap()).unwrap();
        evaluate_traces(folder.path(), None, false).unwrap_err()
    }

    #[test]
    fn first_block_that_was_not_measured_is_the_reason() {
        let error = evaluate_blocks(None, &[Some("the load failed"), None], Some("it was interrupted"));
        let text = error.to_string();
        assert!(text.ends_with("that could be measured: block 1: the load failed"), "{text}");
        let error = evaluate_blocks(None, &[None], None).to_string();
        assert!(error.contains(": block 1: ") && error.contains("block-1"), "{error}");
    }

    #[test]
    fn end_of_an_experiment_without_blocks_is_the_reason() {
        let error = evaluate_blocks(None, &[], Some("it was interrupted")).to_string();
        assert!(error.ends_with("that could be measured: it was interrupted"), "{error}");
    }

    #[test]
    fn unknown_transactions_are_an_error() {
        let error = evaluate_blocks(Some("no such kind"), &[], None);
        assert!(matches!(error, EvaluateError::Transaction(_)), "{error}");
    }
}
