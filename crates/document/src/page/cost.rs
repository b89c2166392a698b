//! What instructions cost: what `xweave cost` prints with `--json`, as far as the page shows it.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    cost::{CostRow, CostRun, Figures, Text},
    value::Cut,
};

/// Costs of instructions.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageCost {
    /// Method and processor.
    #[serde(flatten)]
    pub run: CostRun,
    /// Environments.
    pub environments: Cut<CostEnvironment>,
    /// Number of rows with an impossible figure.
    pub impossible: usize,
    /// Number of other rows that are marked.
    pub marked: usize,
    /// Groups of forms, in the order of the rows.
    pub groups: Cut<CostGroup>,
    /// Forms of instructions, each with its figures of one kind.
    pub rows: Cut<CostRow>,
}

/// An environment, as far as the page shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CostEnvironment {
    /// Name.
    pub name: Text,
    /// Environment that its ratios refer to; null if nothing could be measured.
    pub base: Option<Text>,
    /// Way in which it was made, in words; null if nothing could be measured.
    pub how: Option<Text>,
    /// Whether instructions were emulated.
    #[serde(default)]
    pub emulated: bool,
    /// Reason why it was not measured to the end; null if it was.
    pub abort_reason: Option<Text>,
    /// Reason why nothing could be measured; null if something was.
    pub error: Option<Text>,
}

/// Medians of a group's figures of one kind, without the impossible ones.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CostGroup {
    /// Name.
    pub group: Text,
    /// Kind of the figures.
    pub kind: Text,
    /// Number of figures.
    pub figures: usize,
    /// Number of figures that are marked.
    pub marked: usize,
    /// Core cycles per instruction, by environment.
    pub cycles: Figures,
    /// Ratio to the environment's base, by environment.
    pub ratio: Figures,
}
