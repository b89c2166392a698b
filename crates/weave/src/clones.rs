//! Functions that do not take all of their calls: the compiler made clones of them, which are not woven.
//!
//! A clone's arguments are not its function's, so that no code that uses any could run there; and the kernel has no
//! typed hook for what its type information lacks.

use std::collections::{BTreeMap, BTreeSet};

use xweave_aspect::Diagnostic;
use xweave_code::clone_of;
use xweave_wire::plan::Hook;

use crate::{SiteInfo, Woven};

/// Clones of one function that are named.
const NAMED: usize = 4;

/// Functions of a domain of which it is told.
const TOLD: usize = 32;

/// What is to be told of a domain: `clones` are sites, and what the compiler made besides of the functions there.
pub fn warnings<'a>(woven: &Woven, clones: impl Iterator<Item = (u32, &'a str)>) -> Vec<String> {
    let sites: BTreeMap<u32, &SiteInfo> = woven.sites.iter().map(|info| (info.site, info)).collect();
    let mut functions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (site, clone) in clones {
        if let Some(info) = sites.get(&site).filter(|info| clone_of(clone) == Some(&info.function)) {
            functions.entry(&info.function).or_default().insert(clone);
        }
    }
    let told = |(function, clones): (&&str, &BTreeSet<&str>)| {
        let names: Vec<_> = clones.iter().copied().take(NAMED).collect();
        let more = if clones.len() > NAMED { ", …" } else { "" };
        format!(
            "{}: not all calls of {function} are seen: the compiler has some go to {}{more}",
            woven.domain,
            names.join(", ")
        )
    };
    let mut warnings: Vec<String> = functions.iter().take(TOLD).map(told).collect();
    if let Some(others) = functions.len().checked_sub(TOLD).filter(|others| *others > 0) {
        warnings.push(format!("{}: nor are those of {others} other functions", woven.domain));
    }
    warnings
}

/// The same of what a kernel's symbols are called.
pub fn diagnostics<'a>(woven: &Woven, symbols: impl Iterator<Item = &'a str>) -> Vec<Diagnostic> {
    let mut hooked: BTreeMap<&str, u32> = BTreeMap::new();
    let function =
        |info: &&SiteInfo| matches!(info.hook, Hook::Entry | Hook::Return | Hook::Probe | Hook::ProbeReturn);
    for info in woven.sites.iter().filter(function) {
        hooked.entry(&info.function).or_insert(info.site);
    }
    let clones = symbols.filter_map(|symbol| Some((*hooked.get(clone_of(symbol)?)?, symbol)));
    let warnings = warnings(woven, clones).into_iter();
    warnings.map(|message| Diagnostic::general(message).as_warning()).collect()
}
