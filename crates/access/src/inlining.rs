//! Calls that are inlined: the entry of the function that is called does not see them.

use std::cmp::Reverse;
use std::collections::HashMap;

use rayon::prelude::*;
use xweave_code::dwarf::Debug;
use xweave_code::image::Image;

use crate::program_facts::Function;

/// Functions that are named of those that a function is inlined into.
pub(crate) const NAMED: usize = 4;

/// Where a linker puts code that is discarded once it has run.
const DISCARDED: &str = ".init.text";

/// What is inlined of a function that is entered, too.
pub(crate) struct Inlining {
    /// Its place among all functions.
    pub(crate) function: usize,
    pub(crate) calls: u32,
    /// How many functions have these calls.
    pub(crate) functions: u32,
    /// Some of these, those with most calls first.
    pub(crate) into: Vec<usize>,
}

/// The functions that are inlined somewhere, in their order.
pub(crate) fn inlining(image: &Image, debug: Option<&Debug>, functions: &[Function]) -> Vec<Inlining> {
    let Some(debug) = debug else { return Vec::new() };
    let entered = |function: &Function| function.pieces[0].start;
    let is_kept = |address| image.section_at(address).is_none_or(|of| !of.name.starts_with(DISCARDED));
    let kept: HashMap<u64, usize> =
        functions.iter().map(entered).zip(0..).filter(|(address, _)| is_kept(*address)).collect();
    let of_function = |(number, function): (usize, &Function)| {
        let definition = debug.function(entered(function))?.definition?;
        let inlined = debug.inlined(definition).iter();
        let mut into: Vec<(u32, usize)> =
            inlined.filter_map(|of| Some((of.calls, *kept.get(&of.into)?))).collect();
        let calls = into.iter().fold(0, |all: u32, (calls, _)| all.saturating_add(*calls));
        into.sort_unstable_by_key(|(calls, number)| (Reverse(*calls), *number));
        let functions = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let into = into.into_iter().map(|(_, number)| number).take(NAMED).collect();
        (calls > 0).then_some(Inlining { function: number, calls, functions, into })
    };
    functions.par_iter().enumerate().filter_map(of_function).collect()
}
