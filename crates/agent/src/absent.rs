//! Functions that the kernel's type information has and its symbols do not.
//!
//! The compiler may have inlined every call of a function, or made clones of it alone (`f.constprop.0`), and pahole
//! writes the function into the type information all the same (seen in Linux 7.3). The kernel refuses programs for such
//! functions, and one that is refused keeps all others of its object from being loaded.

use std::borrow::Cow;

use xweave_wire::{message::SkippedSite, plan::Plan};

use crate::{addresses::Addresses, error::Error};

/// A plan without the sites whose functions have no symbol, and what is left out.
///
/// # Errors
///
/// [`Error::Absent`] if such a site may not be left out.
pub(crate) fn without_absent<'p>(
    plan: &'p Plan,
    addresses: &Addresses<'p>,
) -> Result<(Cow<'p, Plan>, Vec<SkippedSite>), Error> {
    let mut skipped = Vec::new();
    let mut kept = Cow::Borrowed(plan);
    for (nth, program) in plan.programs.iter().enumerate() {
        let absent = |site: &&_| addresses.is_absent(program, site);
        for site in program.sites.iter().filter(absent) {
            let clones = addresses.clones_of(program, site);
            let reason = match clones {
                [] => {
                    "it has type information and no symbol: the compiler inlined all calls of it".to_owned()
                }
                _ => format!("the compiler made {} of it, and no function of its name", clones.join(", ")),
            };
            if !site.optional {
                let (origin, function) = (program.origin.clone(), site.function.clone());
                return Err(Error::Absent { origin, function, reason });
            }
            let sites = site.site..site.site.saturating_add(site.clauses);
            skipped.extend(sites.map(|site| SkippedSite { site, reason: reason.clone() }));
        }
        if program.sites.iter().any(|site| addresses.is_absent(program, site)) {
            kept.to_mut().programs[nth].sites.retain(|site| !addresses.is_absent(program, site));
        }
    }
    if let Cow::Owned(plan) = &mut kept {
        plan.programs.retain(|program| !program.sites.is_empty());
    }
    Ok((kept, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xweave_wire::plan::{Hook, PlanProgram, PlanSite};

    fn plan(optional: bool) -> Plan {
        let site = |site, function: &str| PlanSite {
            site,
            clauses: 2,
            function: function.into(),
            module: None,
            btf_id: 0,
            offset: 0,
            places: Vec::new(),
            optional,
            arguments: 0,
        };
        let program = |sites| PlanProgram {
            object: 0,
            name: String::new(),
            hook: Hook::Entry,
            saver: None,
            tracepoint: 0,
            sites,
            origin: "x.aspect:1 sent".into(),
        };
        let programs =
            vec![program(vec![site(1, "there"), site(3, "inlined")]), program(vec![site(5, "cloned")])];
        Plan { programs, ..Plan::default() }
    }

    const SYMBOLS: &str = "ffffffff81000000 t there\nffffffff81000010 t cloned.constprop.0\n";

    #[test]
    fn sites_without_symbol_are_left_out_with_the_reason() {
        let plan = plan(true);
        let addresses = Addresses::among(&plan, SYMBOLS);
        let (kept, skipped) = without_absent(&plan, &addresses).unwrap();
        let left: Vec<_> =
            kept.programs.iter().flat_map(|program| &program.sites).map(|site| site.site).collect();
        assert_eq!(left, [1]);
        assert_eq!(skipped.iter().map(|of| of.site).collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert!(skipped[0].reason.contains("inlined"), "{}", skipped[0].reason);
        assert!(skipped[2].reason.contains("cloned.constprop.0"), "{}", skipped[2].reason);
        // Where kallsyms hides addresses, nothing is known of any.
        let hidden = SYMBOLS.replace("ffffffff81000", "0000000000000");
        let addresses = Addresses::among(&plan, &hidden.replace("0000000000000010", "0000000000000000"));
        assert!(
            matches!(without_absent(&plan, &addresses), Ok((Cow::Borrowed(_), skipped)) if skipped.is_empty())
        );
    }

    #[test]
    fn site_that_is_needed_is_an_error() {
        let plan = plan(false);
        let addresses = Addresses::among(&plan, SYMBOLS);
        let error = without_absent(&plan, &addresses).unwrap_err().to_string();
        assert!(error.contains("inlined") && error.contains("x.aspect:1 sent"), "{error}");
    }
}
