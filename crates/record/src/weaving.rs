//! Weaving from the controller's side: what the plans are made of, how they are woven, what became of them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::mpsc,
    thread,
};

use xweave_aspect::Aspects;
use xweave_code::Kernel;
use xweave_trace::Site;
use xweave_weave::{CodeIndex, SiteInfo, Weaving, Woven};
use xweave_wire::{message, plan::Hook};

use crate::{Error, Options, Phase, codes::codes, kernels, recording::Member};

/// From then on kernels count the kprobes that they leave out: of programs (6.7), and of probes themselves (6.8).
const COUNTS_PROBES: (u32, u32) = (6, 8);

/// What instructions touch, in all domains; nothing where no aspect asks for it.
pub(crate) fn indices(
    aspects: &Aspects,
    members: &mut [Member],
    kernels: &[Kernel],
    options: &Options,
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<Vec<Vec<CodeIndex>>, Error> {
    let known = |name: &str| members.iter().any(|member| member.link.spec.name == name);
    if let Some((domain, _)) = options.symbols.iter().find(|(domain, _)| !known(domain)) {
        let names: Vec<_> = members.iter().map(|member| member.link.spec.name.as_str()).collect();
        return Err(Error::SymbolsDomain { domain: domain.clone(), domains: names.join(", ") });
    }
    if !xweave_weave::needs_code(aspects) {
        return Ok(members.iter().map(|_| Vec::new()).collect());
    }
    let cache = options.cache.join("access");
    let mut indices = Vec::new();
    for (member, kernel) in members.iter_mut().zip(kernels) {
        let name = member.link.spec.name.clone();
        progress(Phase::Indexing { domain: &name });
        let named = options.symbols.iter().find(|(domain, _)| *domain == name);
        let file = named.map(|(_, file)| Path::new(file));
        indices.push(codes(&mut member.link, &member.facts, kernel, file, &cache)?);
    }
    Ok(indices)
}

/// Resolves pointcuts and compiles advice.
pub(crate) fn compile(
    aspects: &Aspects,
    members: &[Member],
    kernels: &[Kernel],
    codes: &[Vec<CodeIndex>],
    options: &Options,
) -> Result<Weaving, Error> {
    let domains: Vec<_> = members
        .iter()
        .zip(kernels)
        .zip(codes)
        .map(|((member, kernel), code)| xweave_weave::Domain {
            name: member.link.spec.name.clone(),
            role: member.link.spec.role(),
            number: member.number,
            kernel,
            code,
        })
        .collect();
    let options = xweave_weave::Options {
        first_site: 1,
        buffer: options.buffer,
        flow_table: options.flow_table,
        gently: options.gently,
        cache: options.cache.join("advice"),
    };
    xweave_weave::weave(aspects, &domains, &options).map_err(Error::Aspects)
}

/// Adds the probes of events to the plans. Gives what kernels have no place for.
pub(crate) fn add_events(
    woven: &mut [Woven],
    members: &[Member],
    kernels: &[Kernel],
    options: &Options,
) -> Result<Vec<String>, Error> {
    let mut left_out = Vec::new();
    if options.events.is_empty() {
        return Ok(left_out);
    }
    let cache = options.cache.join("advice");
    for ((woven, member), kernel) in woven.iter_mut().zip(members).zip(kernels) {
        let domain = member.link.spec.name.clone();
        let events = xweave_weave::events(kernel, &options.events, options.buffer, &cache)
            .map_err(|reason| Error::Events { domain: domain.clone(), reason })?;
        woven.plan.events = events.plan;
        left_out.extend(events.left_out.into_iter().map(|what| format!("{domain}: {what}")));
    }
    let nothing = |woven: &Woven| woven.plan.programs.is_empty() && woven.plan.events.is_none();
    if woven.iter().all(nothing) {
        return Err(Error::NoEvents(left_out.join("; ")));
    }
    Ok(left_out)
}

/// What has been woven in all domains.
#[derive(Default)]
pub(crate) struct There {
    woven: message::Woven,
    /// Probes of events that kernels did not let us run, for people.
    left_out: Vec<String>,
}

/// Loads and attaches in all domains at once: most of the time is spent in the kernels, waiting.
pub(crate) fn weave(
    members: &mut [Member],
    woven: &[Woven],
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<There, Error> {
    let (teller, told) = mpsc::channel();
    let answers: Vec<_> = thread::scope(|scope| {
        let asked: Vec<_> = members
            .iter_mut()
            .zip(woven)
            .filter(|(_, woven)| !woven.plan.programs.is_empty() || woven.plan.events.is_some())
            .map(|(member, woven)| {
                let teller = teller.clone();
                scope.spawn(move || {
                    member.woven = true;
                    // Nobody listens only where nobody waits any more.
                    let tell = |done, total| teller.send((&woven.domain, done, total)).unwrap_or(());
                    member.link.weave(woven.plan.clone(), tell).map(|answer| (&woven.domain, answer))
                })
            })
            .collect();
        drop(teller);
        for (domain, done, total) in told {
            progress(Phase::Attaching { domain, done, total });
        }
        asked.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut there = There::default();
    for answer in answers {
        let (domain, answer) = answer?;
        there.woven.sites.extend(answer.sites);
        there.woven.skipped.extend(answer.skipped);
        there.left_out.extend(answer.left_out.into_iter().map(|left| {
            let (kind, function, reason) = (left.kind, left.function, left.reason);
            format!("{domain}: events {kind} are recorded without those of {function}: {reason}")
        }));
    }
    Ok(there)
}

/// What whoever reads the trace must know besides the losses.
pub(crate) fn warnings(members: &[Member], woven: &[Woven], there: &There) -> Vec<String> {
    let mut warnings = there.left_out.clone();
    for (member, woven) in members.iter().zip(woven) {
        let domain = &woven.domain;
        let probes = |hook| {
            matches!(
                hook,
                Hook::Instruction | Hook::Probe | Hook::ProbeReturn | Hook::User | Hook::UserReturn
            )
        };
        let probed = woven.sites.iter().filter(|info| probes(info.hook)).count();
        if probed > 0 && !kernels::is_at_least(&member.facts.kernel, COUNTS_PROBES) {
            warnings.push(format!(
                "{domain}: kernel {} does not count how often it leaves out a probe because another runs on \
                 that processor: what is lost at {probed} sites is not known",
                member.facts.kernel
            ));
        }
        let sites: HashMap<u32, &SiteInfo> = woven.sites.iter().map(|info| (info.site, info)).collect();
        let mut groups: BTreeMap<(&str, &str), Vec<&SiteInfo>> = BTreeMap::new();
        for skipped in &there.woven.skipped {
            if let Some(info) = sites.get(&skipped.site) {
                groups.entry((&info.clause, &skipped.reason)).or_default().push(info);
            }
        }
        for ((clause, reason), infos) in groups {
            let of = woven.sites.iter().filter(|info| info.clause == clause).count();
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
            })
            .collect::<Vec<_>>()
    };
    woven.iter().flat_map(of_domain).collect()
}
