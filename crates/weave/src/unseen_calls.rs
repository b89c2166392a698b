//! Functions that are not entered by all of their calls: some are inlined, or go to clones.
//!
//! A clone's arguments are not its function's, so that no code that uses any could run there; and the kernel has no
//! typed hook for what its type information lacks. A `.part` is no clone of the whole: whoever calls it has run the
//! function's beginning, and that may be the function itself.

use std::collections::{BTreeMap, BTreeSet};

use xweave_aspect::Diagnostic;
use xweave_code::{clone_of, is_part};
use xweave_wire::plan::Hook;

use crate::{Inlined, SiteInfo, Woven};

/// Clones of one function that are named.
pub(crate) const NAMED: usize = 4;

/// Functions of a domain of which it is told.
const TOLD: usize = 32;

/// Where the calls of one function are that do not enter it.
#[derive(Default)]
struct Unseen<'a> {
    inlined: Option<&'a Inlined>,
    clones: BTreeSet<&'a str>,
    parts: BTreeSet<&'a str>,
}

/// What is to be told of a domain: `clones` are sites, and what the compiler made besides of the functions there.
pub fn warnings<'a>(woven: &'a Woven, clones: impl Iterator<Item = (u32, &'a str)>) -> Vec<String> {
    let sites: BTreeMap<u32, &SiteInfo> = woven.sites.iter().map(|info| (info.site, info)).collect();
    let mut functions: BTreeMap<&str, Unseen<'_>> = BTreeMap::new();
    for (site, clone) in clones {
        if let Some(info) = sites.get(&site).filter(|info| clone_of(clone) == Some(&info.function)) {
            let unseen = functions.entry(&info.function).or_default();
            if is_part(clone) {
                unseen.parts.insert(clone)
            } else {
                unseen.clones.insert(clone)
            };
        }
    }
    for inlined in &woven.inlined {
        if let Some(info) = sites.get(&inlined.site) {
            functions.entry(&info.function).or_default().inlined = Some(inlined);
        }
    }
    let told = |(function, unseen): (&&str, &Unseen<'_>)| {
        format!("{}: not all calls of {function} are seen: {}", woven.domain, unseen.told())
    };
    let mut warnings: Vec<String> = functions.iter().take(TOLD).map(told).collect();
    if let Some(others) = functions.len().checked_sub(TOLD).filter(|others| *others > 0) {
        warnings.push(format!("{}: nor are those of {others} other functions", woven.domain));
    }
    warnings
}

/// The same of what a kernel's symbols are called.
pub fn diagnostics<'a>(woven: &'a Woven, symbols: impl Iterator<Item = &'a str>) -> Vec<Diagnostic> {
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

impl Unseen<'_> {
    fn told(&self) -> String {
        let inlined = self.inlined.map(|inlined| {
            let verb = if inlined.calls == 1 { "is" } else { "are" };
            format!("{} {verb} inlined into {}", inlined.calls, into(inlined))
        });
        let clones =
            (!self.clones.is_empty()).then(|| format!("the compiler has some go to {}", names(&self.clones)));
        let parts = (!self.parts.is_empty()).then(|| {
            format!("of some only the beginning may be inlined, which calls {}", names(&self.parts))
        });
        inlined.into_iter().chain(clones).chain(parts).collect::<Vec<_>>().join("; ")
    }
}

fn names(clones: &BTreeSet<&str>) -> String {
    let names: Vec<_> = clones.iter().copied().take(NAMED).collect();
    let more = if clones.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

/// The functions that calls are inlined into: `a, b and 7 other functions`.
fn into(inlined: &Inlined) -> String {
    let (named, all) = (&inlined.into, inlined.functions);
    let others = all.saturating_sub(u32::try_from(named.len()).unwrap_or(u32::MAX));
    let plural = if others == 1 { "" } else { "s" };
    match (&named[..], others) {
        ([], _) => format!("{all} function{}", if all == 1 { "" } else { "s" }),
        ([only], 0) => only.clone(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {others} other function{plural}", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_and_the_rest_counted() {
        let told = |functions, named: &[&str]| {
            let named = named.iter().map(|name| (*name).to_owned()).collect();
            into(&Inlined { site: 1, calls: 9, functions, into: named })
        };
        assert_eq!(told(1, &["a"]), "a");
        assert_eq!(told(3, &["a", "b", "c"]), "a, b and c");
        assert_eq!(told(2, &["a"]), "a and 1 other function");
        assert_eq!(told(9, &["a", "b"]), "a, b and 7 other functions");
        // Of an index that is damaged.
        assert_eq!((told(1, &[]), told(2, &[])), ("1 function".to_owned(), "2 functions".to_owned()));
        assert_eq!(told(0, &["a", "b"]), "a and b");
    }
}
