//! What became of the plans that were woven.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap, HashSet},
};

use xweave_aspect::Aspects;
use xweave_trace::{Site, Uncounted};
use xweave_weave::{SiteInfo, Woven, unseen_calls};
use xweave_wire::{message, plan::Hook};

use crate::{Error, kernels, session::Session};

/// From then on kernels count the kprobes that they leave out: of programs (6.7), and of probes themselves (6.8).
const COUNTS_PROBES: (u32, u32) = (6, 8);

/// Reasons that are told of why a clause is not woven everywhere in a domain.
const REASONS: usize = 32;

/// What has been woven in all domains.
#[derive(Default)]
pub(crate) struct There {
    woven: message::Woven,
    /// Probes of events that kernels did not let us run, for people.
    left_out: Vec<String>,
}

impl There {
    /// Adds what a domain's agent says.
    pub(crate) fn add(&mut self, domain: &str, answer: message::Woven) {
        self.woven.sites.extend(answer.sites);
        self.woven.skipped.extend(answer.skipped);
        self.woven.clones.extend(answer.clones);
        self.left_out.extend(answer.left_out.into_iter().map(|left| {
            let (kind, function, reason) = (left.kind, left.function, left.reason);
            format!("{domain}: events {kind} are recorded without those of {function}: {reason}")
        }));
    }
}

/// Whether anything is followed from one domain to another.
pub(crate) fn has_carriers(woven: &[Woven]) -> bool {
    woven.iter().flat_map(|woven| &woven.sites).any(|site| site.carrier.is_some())
}

/// What whoever reads the trace must know besides the losses.
pub(crate) fn warnings(sessions: &[Session], woven: &[Woven], there: &There) -> Vec<String> {
    let mut warnings = there.left_out.clone();
    for (session, woven) in sessions.iter().zip(woven) {
        let domain = &woven.domain;
        let probed = uncounted_sites(session, woven);
        if probed > 0 {
            warnings.push(format!(
                "{domain}: kernel {} does not count how often it leaves out a probe because another runs on \
                 that CPU: what is lost at {probed} sites is not known",
                session.facts.kernel
            ));
        }
        let clones = there.woven.clones.iter().map(|clone| (clone.site, clone.name.as_str()));
        warnings.extend(unseen_calls::warnings(woven, clones));
        let sites: HashMap<u32, &SiteInfo> = woven.sites.iter().map(|info| (info.site, info)).collect();
        let mut groups: BTreeMap<(&str, &str), Vec<&SiteInfo>> = BTreeMap::new();
        for skipped in &there.woven.skipped {
            if let Some(info) = sites.get(&skipped.site) {
                groups.entry((&info.clause, &skipped.reason)).or_default().push(info);
            }
        }
        let mut of_clause: HashMap<&str, usize> = HashMap::new();
        woven.sites.iter().for_each(|info| *of_clause.entry(&info.clause).or_default() += 1);
        let mut reasons: HashMap<&str, usize> = HashMap::new();
        for ((clause, reason), infos) in groups {
            let of = of_clause.get(clause).copied().unwrap_or(0);
            let nth = reasons.entry(clause).or_default();
            *nth += 1;
            // The reasons are the domain's words, and there may be as many as there are places.
            match (*nth).cmp(&REASONS) {
                Ordering::Less => {}
                Ordering::Equal => {
                    warnings
                        .push(format!("{domain}: {clause} is not woven at other places for other reasons"));
                    continue;
                }
                Ordering::Greater => continue,
            }
            let first = infos.first().map(|info| format!("{}+{:#x}", info.function, info.offset));
            warnings.push(format!(
                "{domain}: {clause} is not woven at {} of {of} places: {reason} (the first: {})",
                infos.len(),
                first.unwrap_or_default()
            ));
        }
    }
    warnings
}

/// Domains whose kernels leave out probes without counting it.
pub(crate) fn uncounted(sessions: &[Session], woven: &[Woven]) -> Vec<Uncounted> {
    let of_domain = |(session, woven): (&Session, &Woven)| {
        let sites = u32::try_from(uncounted_sites(session, woven)).unwrap_or(u32::MAX);
        (sites > 0).then(|| Uncounted { domain: woven.domain.clone(), sites })
    };
    sessions.iter().zip(woven).filter_map(of_domain).collect()
}

fn uncounted_sites(session: &Session, woven: &Woven) -> usize {
    if kernels::is_at_least(&session.facts.kernel, COUNTS_PROBES) {
        return 0;
    }
    let probes = |hook| {
        matches!(hook, Hook::Instruction | Hook::Probe | Hook::ProbeReturn | Hook::User | Hook::UserReturn)
    };
    woven.sites.iter().filter(|info| probes(info.hook)).count()
}

/// As the table of sites calls it.
fn called(hook: Hook) -> &'static str {
    match hook {
        Hook::Entry => "fentry",
        Hook::Return => "fexit",
        Hook::Tracepoint => "tracepoint",
        Hook::Probe | Hook::Instruction => "kprobe",
        Hook::ProbeReturn => "kretprobe",
        Hook::User => "uprobe",
        Hook::UserReturn => "uretprobe",
    }
}

/// Lines of a verifier's log that are shown beside the mistake.
const LOG: usize = 6;

/// A refusal of the verifier, in terms of the aspect; any other error as it is.
pub(crate) fn explained(error: Error, aspects: &Aspects, woven: &Woven, release: &str) -> Error {
    let Error::Agent { domain, message } = error else { return error };
    let Some(mistake) = xweave_weave::refusal(aspects, woven, release, &message) else {
        return Error::Agent { domain, message };
    };
    let of_verifier = |line: &&str| !line.starts_with("libbpf:") && !line.starts_with("-- ");
    let said: Vec<_> = message.lines().skip(1).filter(of_verifier).collect();
    let log = said[said.len().saturating_sub(LOG)..].join("\n");
    Error::Refused { domain, mistake: Box::new(mistake), log }
}

/// What is woven, for the trace.
pub(crate) fn sites(woven: &[Woven], there: &There) -> Vec<Site> {
    let addresses: HashMap<u32, u64> =
        there.woven.sites.iter().map(|site| (site.site, site.address)).collect();
    let skipped: HashSet<u32> = there.woven.skipped.iter().map(|skipped| skipped.site).collect();
    let of_domain = |woven: &Woven| {
        let domain = woven.domain.clone();
        let there = woven.sites.iter().filter(|info| !skipped.contains(&info.site));
        there
            .map(|info| Site {
                site: info.site,
                domain: domain.clone(),
                aspect: info.aspect.clone(),
                advice: info.clause.clone(),
                function: info.function.clone(),
                offset: info.offset.into(),
                address: addresses.get(&info.site).copied().unwrap_or(0),
                module: info.module.clone(),
                file: info.file.clone(),
                line: info.line,
                action: info.action.name().to_owned(),
                xflow: info.xflow.clone(),
                carrier: info.carrier.clone(),
                hook: Some(called(info.hook).to_owned()),
                values: info.values.clone(),
            })
            .collect::<Vec<_>>()
    };
    woven.iter().flat_map(of_domain).collect()
}
