//! What was resolved, by clause: for people.

use std::collections::BTreeMap;

use xweave_wire::plan::Hook;

use crate::{Action, Counts, SiteInfo, Weaving, Woven};

/// A clause in a domain, with its join points.
#[derive(Clone, Debug)]
pub struct Clause<'a> {
    /// The name of the file that it is in.
    pub file: &'a str,
    /// Its line there.
    pub line: u32,
    /// Its name, as in [`SiteInfo::clause`].
    pub name: &'a str,
    /// The domain.
    pub domain: &'a str,
    /// What it does.
    pub action: Action,
    /// How many join points each choice of how exact to be would have.
    pub counts: Counts,
    /// The join points: at least one.
    pub sites: Vec<&'a SiteInfo>,
}

impl Weaving {
    /// The clauses that have join points, in the order of the files and their lines, and of the domains' names.
    pub fn clauses(&self) -> Vec<Clause<'_>> {
        let mut clauses: BTreeMap<_, Clause<'_>> = BTreeMap::new();
        for domain in &self.domains {
            for site in &domain.sites {
                let key = (&*site.aspect, site.aspect_line, &*site.clause, &*domain.domain);
                let clause = clauses.entry(key).or_insert_with(|| Clause {
                    file: &site.aspect,
                    line: site.aspect_line,
                    name: &site.clause,
                    domain: &domain.domain,
                    action: site.action,
                    counts: domain.counts_of(&site.clause),
                    sites: Vec::new(),
                });
                clause.sites.push(site);
            }
        }
        clauses.into_values().collect()
    }
}

impl Woven {
    fn counts_of(&self, clause: &str) -> Counts {
        self.counts.iter().rfind(|counts| counts.clause == clause).cloned().unwrap_or_default()
    }
}

impl SiteInfo {
    /// Whether an instruction is hooked, and not a function.
    pub fn is_instruction(&self) -> bool {
        self.hook == Hook::Instruction
    }

    /// `tcp_sendmsg`, or `tcp_sendmsg+0x1f` where it is an instruction.
    pub fn place(&self) -> String {
        xweave_text::location(&self.function, self.offset.into())
    }
}
