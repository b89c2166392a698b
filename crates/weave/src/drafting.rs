//! The way from aspects to a domain's draft, and from the drafts of all domains to what is woven.

use std::collections::BTreeSet;

use xweave_aspect::{Aspects, Diagnostic, Severity};
use xweave_wire::plan::{EventPlan, Plan};

use crate::draft::{Draft, Files, Inlined, SiteDraft, Text, has_errors};
use crate::error::Error;
use crate::item::Item;
use crate::{Counts, Domain, EventChoice, Options, Peer, SiteInfo, Skipped, Woven};
use crate::{compile, emit, events, prelude, resolve};

/// Finds the join points of a domain, and writes the C that runs there. `peers` are all domains of the recording, this
/// one among them.
pub fn draft(aspects: &Aspects, peers: &[Peer], domain: &Domain<'_>, wanted: &EventChoice) -> Draft {
    let resolved = resolve::resolve(aspects, peers, domain);
    let programs = emit::programs(resolved.points);
    let (sites, plan) = emit::number(aspects, domain, &programs);
    let inlined = emit::inlined(domain, &programs, &plan);
    let drop_reasons = emit::drop_reasons(domain.kernel, &programs);
    let failed = has_errors(&resolved.items);
    let text = (!failed && !programs.is_empty())
        .then(|| emit::emit(aspects, domain.kernel, &programs))
        .map(|emitted| emitted.text());
    let events = events::draft(domain.kernel, wanted);
    Draft {
        items: resolved.items,
        sites,
        programs: plan,
        skipped: resolved.skipped,
        inlined,
        drop_reasons,
        text,
        events,
    }
}

/// What the compiler's `log` says about the user's code in a draft's text: errors if it `failed`, else warnings.
pub fn complaints(
    aspects: &Aspects,
    peers: &[Peer],
    domain: &Domain<'_>,
    log: &str,
    failed: bool,
) -> Vec<Diagnostic> {
    let programs = emit::programs(resolve::resolve(aspects, peers, domain).points);
    let emitted = emit::emit(aspects, domain.kernel, &programs);
    let messages = compile::Messages { aspects, domain, programs: &programs, emitted: &emitted };
    if failed { messages.errors(log) } else { messages.warnings(log) }
}

/// What all drafts together say of the aspects. `peers` are their domains, in the same order.
///
/// # Errors
///
/// All mistakes that were found: then nothing of this can be woven.
pub fn judge(
    aspects: &Aspects,
    peers: &[Peer],
    drafts: &mut [Draft],
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let mut said = Vec::new();
    for (nth, item) in Item::all(aspects).into_iter().enumerate() {
        let mut of_item: Vec<_> = drafts.iter_mut().filter_map(|draft| draft.items.get_mut(nth)).collect();
        let selected = of_item.iter().any(|of| of.selected);
        let before = said.len();
        of_item.iter_mut().for_each(|of| said.append(&mut of.diagnostics));
        if !selected && said.len() == before {
            // Where one domain has the places, that another has none is not what is wrong.
            let lacking = of_item.iter().find_map(|of| of.lacking.clone());
            let unmatched = || of_item.iter().find_map(|of| of.unmatched.clone());
            let why = lacking.or_else(unmatched);
            said.extend(resolve::nowhere(aspects, peers, item).map(|nowhere| why.unwrap_or(nowhere)));
        }
    }
    let (warnings, errors): (Vec<_>, Vec<_>) =
        said.into_iter().partition(|diagnostic| diagnostic.severity == Severity::Warning);
    if errors.is_empty() { Ok(each_once(warnings)) } else { Err(each_once(errors)) }
}

/// Two domains with the same kernel have the same mistakes, and a function that a kernel lacks may be meant by many clauses
/// of a file: the first is told, with the lines of the others.
pub fn each_once(diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut seen: Vec<(Diagnostic, BTreeSet<u32>)> = Vec::new();
    for diagnostic in diagnostics {
        let is_same = |known: &Diagnostic| {
            (known.severity, &known.file, &known.message)
                == (diagnostic.severity, &diagnostic.file, &diagnostic.message)
        };
        match seen.iter_mut().find(|(known, _)| is_same(known)) {
            Some((known, _)) if known.line == diagnostic.line => {}
            Some((_, lines)) => _ = lines.insert(diagnostic.line),
            None => seen.push((diagnostic, BTreeSet::new())),
        }
    }
    seen.into_iter().map(|(diagnostic, lines)| with_lines(diagnostic, &lines)).collect()
}

/// With the lines in which the same is wrong.
fn with_lines(mut diagnostic: Diagnostic, lines: &BTreeSet<u32>) -> Diagnostic {
    if !lines.is_empty() {
        let all: Vec<String> = lines.iter().map(u32::to_string).collect();
        let also = format!("the same in line{} {}", if all.len() > 1 { "s" } else { "" }, all.join(", "));
        diagnostic.help = Some(match diagnostic.help {
            Some(help) => format!("{help}; {also}"),
            None => also,
        });
    }
    diagnostic
}

/// What a draft was compiled to.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Of [`Draft::text`]; empty where there is none.
    pub advice: Vec<u8>,
    /// Of [`crate::EventsDraft::text`].
    pub events: Vec<u8>,
}

impl Draft {
    /// Makes it what is woven into a domain. Its sites have numbers from `next` on, which is moved behind them.
    pub fn woven(
        self,
        aspects: &Aspects,
        domain: (&str, u8),
        objects: Objects,
        options: &Options,
        next: &mut u32,
    ) -> Woven {
        let items = Item::all(aspects);
        let of = |nth: u32| usize::try_from(nth).ok().and_then(|nth| items.get(nth));
        let name = |nth| of(nth).map_or(String::new(), |item| item.name().to_owned());
        let added = *next - 1;
        let numbered = self
            .sites
            .into_iter()
            .zip(*next..)
            .filter_map(|(site, number)| Some(site_info(aspects, of(site.item)?, number, site)));
        let sites: Vec<SiteInfo> = numbered.collect();
        *next = next.saturating_add(u32::try_from(sites.len()).unwrap_or(u32::MAX));
        let mut programs = self.programs;
        let places = programs.iter_mut().flat_map(|program| &mut program.sites);
        places.for_each(|place| place.site = place.site.saturating_add(added));
        let events = (!self.events.programs.is_empty()).then_some(EventPlan {
            object: objects.events,
            programs: self.events.programs,
            buffer: options.buffer,
        });
        let skipped = self.skipped.into_iter().map(|skipped| Skipped {
            clause: name(skipped.item),
            function: skipped.function,
            module: skipped.module,
            offset: skipped.offset,
            reason: skipped.reason,
        });
        let counts = (0..).zip(self.items).map(|(nth, item)| Counts { clause: name(nth), ..item.counts });
        let inlined = self.inlined.into_iter();
        let inlined = inlined.map(|of| Inlined { site: of.site.saturating_add(added), ..of });
        Woven {
            domain: domain.0.to_owned(),
            plan: Plan {
                domain: domain.1,
                object: objects.advice,
                programs,
                buffer: options.buffer,
                flow_table: options.flow_table,
                serial_attach: options.serial_attach,
                events,
            },
            sites,
            drop_reasons: self.drop_reasons,
            skipped: skipped.collect(),
            counts: counts.collect(),
            inlined: inlined.collect(),
        }
    }
}

fn site_info(aspects: &Aspects, item: &Item<'_>, number: u32, site: SiteDraft) -> SiteInfo {
    let source = aspects.sources.get(item.span().file);
    SiteInfo {
        site: number,
        aspect: source.map_or(String::new(), |source| source.name.clone()),
        aspect_line: item.span().line,
        clause: item.name().to_owned(),
        action: item.action(),
        hook: site.hook,
        function: site.function,
        module: site.module,
        offset: site.offset,
        file: site.file,
        line: site.line,
        xflow: item.xflow().map(str::to_owned),
        carrier: item.carrier().map(str::to_owned),
        values: item.stored(),
    }
}

impl Text {
    /// What is compiled, where it is that of aspects: theirs is among it.
    ///
    /// # Errors
    ///
    /// [`Error::NoHeader`]
    pub fn files<'a>(&'a self, aspects: &'a Aspects) -> Result<Files<'a>, Error> {
        let mut files = self.own();
        for name in &self.headers {
            let text = prelude::header(name).ok_or_else(|| Error::NoHeader(name.clone()))?;
            files.push((name.clone(), text));
        }
        for (file, source) in aspects.sources.iter().enumerate() {
            files.push((emit::source_file(aspects, file), &source.text));
        }
        Ok(files)
    }

    /// What is compiled, where it is that of the built-in probes.
    pub fn files_of_events(&self) -> Files<'_> {
        let mut files = self.own();
        files.extend(events::SOURCES.map(|(name, text)| (name.to_owned(), text)));
        files
    }

    fn own(&self) -> Files<'_> {
        let mut files: Files<'_> = prelude::files();
        files.push((emit::ADVICE.to_owned(), &self.programs));
        files.push((emit::KERNEL.to_owned(), &self.types));
        files
    }
}
