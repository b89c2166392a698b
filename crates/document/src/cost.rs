//! The documents of `xweave cost`. They can be read as well: the page is made from one that anybody may have written.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Characters of a text that are read; the rest is cut off.
pub const TEXT: usize = 300;

/// A text. Of one that is read, only the first [`TEXT`] characters are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(transparent)]
#[cfg_attr(test, schemars(inline))]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(String::deserialize(deserializer)?.chars().take(TEXT).collect()))
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// Figures by the names of environments.
pub type Figures = BTreeMap<Text, f64>;

/// The document.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Cost {
    /// Method, processor and environments.
    #[serde(flatten)]
    pub run: CostRun,
    /// Environments.
    pub environments: Vec<MeasuredEnvironment>,
    /// Forms of instructions, each with its figures of one kind.
    pub rows: Vec<MeasuredRow>,
    /// With `--published`, figures compared with published ones; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Vec<PublishedFigure>>,
    /// With `--history`, changes since the last run; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<CostChange>>,
}

/// Method and processor.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CostRun {
    /// Method: `sound`, `paper` or `both`.
    pub method: Text,
    /// Name of the processor.
    pub processor: Text,
    /// Microarchitecture of the processor.
    pub microarchitecture: Microarchitecture,
    /// TSC ticks per second.
    pub tsc_hz: f64,
}

/// Microarchitecture of a processor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Microarchitecture {
    /// Name.
    pub name: Text,
    /// Certainty of the name, in words.
    pub certainty: Text,
    /// What it was identified by, in words.
    #[serde(default)]
    pub evidence: Text,
}

/// An environment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MeasuredEnvironment {
    /// Name.
    pub name: Text,
    /// What was measured; absent if nothing could be.
    #[serde(flatten)]
    pub measured: Option<EnvironmentFigures>,
    /// Reason why nothing could be measured; absent if something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// What was measured in an environment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct EnvironmentFigures {
    /// Environment that its ratios refer to.
    pub base: Text,
    /// Way in which it was made, in words.
    pub how: Text,
    /// Whether instructions were emulated.
    pub emulated: bool,
    /// TSC ticks per core cycle.
    pub ticks_per_cycle: f64,
    /// Time from start to end, in seconds.
    pub seconds: f64,
    /// Number of boots.
    pub boots: u64,
    /// Reason why it was not measured to the end; null if it was.
    pub abort_reason: Option<Text>,
    /// Lines of its output that were damaged.
    pub damaged_lines: u64,
    /// Rounds that were repeated, because the core's sibling thread was busy.
    pub discarded_rounds: u64,
    /// Forms that were measured.
    pub measured: usize,
    /// Forms that raised an exception.
    pub faults: usize,
    /// Forms after which nothing was heard of the environment.
    pub ended: usize,
}

/// A form of an instruction, with what was measured of it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MeasuredRow {
    /// Form and figures.
    #[serde(flatten)]
    pub row: CostRow,
    /// With `--count`, events of the hypervisor per instruction, by environment and event.
    pub counted: BTreeMap<Text, BTreeMap<String, f64>>,
    /// Distribution over the rounds, by environment.
    pub spread: BTreeMap<Text, CostSpread>,
}

/// A form's figures of one kind, by the names of environments.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CostRow {
    /// Group of the form.
    pub group: Text,
    /// Name of the form.
    pub name: Text,
    /// Kind of the figures: `latency`, `throughput`, `looped`, `cost` or `paper`.
    pub kind: Text,
    /// Core cycles per instruction.
    pub cycles: Figures,
    /// Ratio to the environment's base.
    pub ratio: Figures,
    /// Environments whose ratio is unexpected.
    #[serde(default)]
    pub unexpected: Vec<Text>,
    /// Environments whose figure is less than any processor takes.
    #[serde(default)]
    pub impossible: Vec<Text>,
    /// Environments in which the hypervisor's count contradicts the cost.
    #[serde(default)]
    pub contradicted: Vec<Text>,
    /// Exception, or reason why there is no figure, by environment.
    #[serde(default)]
    pub note: BTreeMap<Text, Text>,
    /// What the hypervisor did, by environment.
    #[serde(default)]
    pub hypervisor_action: BTreeMap<Text, Text>,
}

/// Distribution over the rounds, in core cycles.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CostSpread {
    /// Minimum.
    pub min: f64,
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// Maximum.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Number of rounds.
    pub rounds: u64,
    /// Rounds that took a quarter longer than the median.
    pub outliers: u64,
    /// Rounds that were repeated, because the core's sibling thread was busy.
    pub discarded: u64,
    /// Median in picoseconds.
    pub ps: f64,
}

/// A figure compared with a published one, in core cycles.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PublishedFigure {
    /// Name of the form.
    pub name: String,
    /// Kind of the figure.
    pub kind: &'static str,
    /// Measured figure.
    pub measured: f64,
    /// Published figure.
    pub published: f64,
    /// Whether the two agree.
    pub agrees: bool,
    /// Name of the form where it was published.
    pub published_name: String,
    /// Explanation of a known difference; null if there is none.
    pub remark: Option<String>,
}

/// A figure that differs from the last run's.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CostChange {
    /// Environment.
    pub environment: String,
    /// Form and kind.
    pub form: String,
    /// Core cycles before and now.
    pub cycles: [f64; 2],
}

/// The document of `--forms`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Forms<'a> {
    /// All forms.
    pub forms: Vec<FormCode<'a>>,
}

/// A form with its code.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FormCode<'a> {
    /// Group.
    pub group: &'a str,
    /// Name.
    pub name: &'a str,
    /// Features that it needs.
    pub needs: &'a [String],
    /// Code that runs once before.
    pub setup: &'a str,
    /// Code that measures throughput, and the number of instructions in it; null if there is none.
    pub throughput: Option<(String, usize)>,
    /// Code that measures latency, and the number of instructions in it; null if there is none.
    pub latency: Option<(String, usize)>,
    /// Instructions of the form in the latency's chain.
    pub counts: u32,
}
