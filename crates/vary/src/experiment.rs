//! Experiments: a load under each of several settings, in blocks whose order is drawn anew in each round, and what the
//! settings changed.
//!
//! Requests depend on each other, and machines drift; so the unit is the block, and what is compared are blocks of one
//! round. Modules, in the order of the work: [`tries`] is what the user asks for, held against what the domains have;
//! [`mod@prepare`] asks the domains; [`order`] which block comes when; [`run`] makes them, and checks that settings were
//! [`restored`]; [`stored`] is what is known of an experiment beside its traces; [`measure`] is what one block's trace says;
//! [`shift`] what a number of differences say of their middle; [`mod@evaluate`] compares, [`from_traces`] by the traces of a
//! stored experiment.

pub mod evaluate;
pub mod from_traces;
pub mod measure;
pub mod order;
pub mod prepare;
pub mod restored;
pub mod run;
pub mod shift;
pub mod stored;
pub mod tries;

pub use evaluate::{Evaluation, evaluate};
pub use from_traces::{EvaluateError, evaluate_traces};
pub use prepare::{Request, prepare};
pub use shift::Shift;
pub use stored::Experiment;
pub use tries::{Plan, Try, TryError};
