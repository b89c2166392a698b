//! The way from aspects to a domain's draft, and from the drafts of all domains to what is woven.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use xweave_aspect::{Aspects, Diagnostic, Severity};
use xweave_wire::plan::{Hook, Plan};

use crate::compile::Compiler;
use crate::draft::{Draft, Files, Inlined, SiteDraft, Text, has_errors};
use crate::emit::Program;
use crate::error::Error;
use crate::independent::Groups;
use crate::item::Item;
use crate::program_object::{Library, ObjectProgram, ProgramKey, ProgramObject, source_hashes};
use crate::resolve::Point;
use crate::{Absent, Counts, Domain, EventChoice, Options, Peer, SiteInfo, Skipped, Woven};
use crate::{compile, emit, events, prelude, program_object, resolve};

/// Finds the join points of a domain, and the library's programs for them; where there are none, or they do not fit its
/// kernel, writes the C of what runs there. `peers` are all domains of the recording, this one among them.
///
/// # Errors
///
/// An object of the library is damaged.
pub fn draft(
    aspects: &Aspects,
    peers: &[Peer],
    domain: &Domain<'_>,
    wanted: &EventChoice,
    library: &Library<'_>,
) -> Result<Draft, Error> {
    let resolved = resolve::resolve(aspects, peers, domain);
    let failed = has_errors(&resolved.items);
    let mut draft = Draft {
        items: resolved.items,
        skipped: resolved.skipped,
        absent: resolved.absent,
        events: events::draft(domain.kernel, wanted, library.events)?,
        ..Draft::default()
    };
    let sources = source_hashes(aspects);
    let groups = Groups::of(aspects);
    match library.find(&sources, &groups, &resolved.points) {
        Ok(found) if !failed && !found.is_empty() => {
            draft.unfit = library.unfit(&found, domain.kernel)?;
            if let Some(function) = passed_differently(&resolved.points) {
                draft.unfit.push(format!("it has two functions `{function}` with arguments in other places"));
            }
            if draft.unfit.is_empty() {
                let points = groups.split(resolved.points);
                draft.take_ready(aspects, domain, &sources, points, library);
                return Ok(draft);
            }
        }
        Ok(_) => {}
        Err(missing) => {
            let reason = |function| format!("no compiled program fits its `{function}`");
            draft.unfit = missing.into_iter().map(reason).collect();
        }
    }
    let types = emit::types_of(&resolved.points);
    let programs = emit::programs(resolved.points);
    draft.take_programs(aspects, domain, &programs);
    if !failed && !programs.is_empty() {
        draft.text = Some(emit::emit(aspects, &[(domain.kernel, types)], &programs).text());
    }
    Ok(draft)
}

/// A function of which a kernel and a module have one each, with one program, and pass their arguments in different words.
fn passed_differently<'p>(points: &'p [Point<'_>]) -> Option<&'p str> {
    let mut words: HashMap<(&str, Hook), Vec<u8>> = HashMap::new();
    let differs = |point: &&'p Point<'_>| {
        let own = emit::words(point);
        *words.entry((point.at.name(), point.at.hook)).or_insert_with(|| own.clone()) != own
    };
    points.iter().find(differs).map(|point| point.at.name())
}

impl Draft {
    /// The programs of a library that were found for all join points.
    fn take_ready(
        &mut self,
        aspects: &Aspects,
        domain: &Domain<'_>,
        sources: &[[u8; 32]],
        points: Vec<Point<'_>>,
        library: &Library<'_>,
    ) {
        let programs = emit::programs_by_function(sources, points);
        let first_points: Vec<_> = programs.iter().map(|program| &program.points[0]).collect();
        let found = first_points.iter().filter_map(|point| library.program(ProgramKey::new(sources, point)));
        let found: Vec<_> = found.collect();
        self.take_programs(aspects, domain, &programs);
        for (program, found) in self.programs.iter_mut().zip(found) {
            let number = u32::try_from(found.object).unwrap_or(u32::MAX);
            let known = self.ready.iter().position(|known| *known == number);
            let place = known.unwrap_or_else(|| {
                self.ready.push(number);
                self.ready.len() - 1
            });
            program.object = u32::try_from(place).unwrap_or(u32::MAX);
            program.name.clone_from(&found.program.name);
            program.saver.clone_from(&found.program.saver);
            program.tracepoint = found.program.tracepoint;
        }
    }

    /// What a domain is to weave, in the programs' order.
    fn take_programs(&mut self, aspects: &Aspects, domain: &Domain<'_>, programs: &[Program<'_>]) {
        (self.sites, self.programs) = emit::number(aspects, domain, programs);
        self.arguments = programs.iter().map(Program::words).collect();
        self.inlined = emit::inlined(domain, programs, &self.programs);
        self.drop_reasons = emit::drop_reasons(domain.kernel, programs);
    }
}

/// The C of an object that is to fit more kernels than one, and what its programs are known by.
pub struct PortableText {
    text: Text,
    programs: Vec<ObjectProgram>,
    sources: Vec<[u8; 32]>,
    enumerators: Vec<(String, u64)>,
}

impl PortableText {
    /// Writes the C of what a domain weaves, whichever of several kernels it has: `domains` are that domain with each of
    /// them, the oldest first. Returns `None` if nothing is woven there.
    ///
    /// # Errors
    ///
    /// Mistakes in the aspects.
    pub fn new(
        aspects: &Aspects,
        peers: &[Peer],
        domains: &[Domain<'_>],
    ) -> Result<Option<Self>, Vec<Diagnostic>> {
        let (mut points, mut types, mut mistakes) = (Vec::new(), Vec::new(), Vec::new());
        for domain in domains {
            let resolved = resolve::resolve(aspects, peers, domain);
            let said = resolved.items.into_iter().flat_map(|item| item.diagnostics);
            mistakes.extend(said.filter(|said| said.severity == Severity::Error));
            types.push((domain.kernel, emit::types_of(&resolved.points)));
            points.extend(resolved.points);
        }
        if !mistakes.is_empty() {
            return Err(each_once(mistakes));
        }
        if points.is_empty() {
            return Ok(None);
        }
        let sources = source_hashes(aspects);
        points = Groups::of(aspects).split(points);
        // A function that several kernels have has one program: that of the oldest, which can do what all can.
        let mut seen = HashSet::new();
        points.retain(|point| seen.insert(ProgramKey::new(&sources, point)));
        let programs = emit::programs_by_function(&sources, points);
        // Structures are as in the newest.
        types.reverse();
        let emitted = emit::emit(aspects, &types, &programs);
        if let [first, ..] = &emitted.types.fixed[..] {
            let message = format!("a bit-field of `{first}` is read, which cannot be relocated");
            return Err(vec![Diagnostic::general(message)]);
        }
        let enumerators = emitted.enumerators.clone();
        let of_object =
            programs.iter().zip(emit::tracepoints(&programs)).map(|(program, tracepoint)| ObjectProgram {
                key: ProgramKey::new(&sources, &program.points[0]),
                name: program.name.clone(),
                saver: program.saver(),
                tracepoint,
                casts: program.casts(),
            });
        Ok(Some(Self { programs: of_object.collect(), text: emitted.text(), sources, enumerators }))
    }

    /// Has the compiler make the object. `cache` is a folder for its work, where the result is kept as well.
    ///
    /// # Errors
    ///
    /// The compiler cannot be run, or refuses the text.
    pub fn compile(
        self,
        aspects: &Aspects,
        compiler: &Compiler,
        cache: &Path,
    ) -> Result<ProgramObject, Error> {
        let compiled = compiler.compile(&self.text.files(aspects)?, cache, &mut Vec::new())?;
        let elf = compiled.object.ok_or(Error::C(compiled.log))?;
        let Self { programs, sources, enumerators, .. } = self;
        Ok(ProgramObject { elf, programs, sources, enumerators })
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
    let points = resolve::resolve(aspects, peers, domain).points;
    let types = emit::types_of(&points);
    let programs = emit::programs(points);
    let emitted = emit::emit(aspects, &[(domain.kernel, types)], &programs);
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

impl Draft {
    /// What is wrong with the aspects in this domain, before they are [judged](judge) together.
    pub fn errors(&self) -> Vec<Diagnostic> {
        let all = self.items.iter().flat_map(|item| &item.diagnostics);
        all.filter(|diagnostic| diagnostic.severity != Severity::Warning).cloned().collect()
    }
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

impl Draft {
    /// Makes it what is woven into a domain. Its sites have numbers from `next` on, which is moved behind them. `compiled`
    /// is what its text was compiled to, if it has one.
    ///
    /// # Errors
    ///
    /// An object does not have what it should.
    pub fn woven(
        self,
        aspects: &Aspects,
        domain: (&str, u8),
        compiled: Option<Vec<u8>>,
        library: &Library<'_>,
        options: &Options,
        next: &mut u32,
    ) -> Result<Woven, Error> {
        let of_library = |nth: &u32| library.all_objects().nth(usize::try_from(*nth).ok()?);
        let ready: Vec<_> = self.ready.iter().filter_map(of_library).collect();
        let own = || (0..aspects.sources.len()).map(Some).collect();
        let (elves, sources): (Vec<_>, Vec<_>) = match compiled {
            Some(elf) => (vec![elf], vec![own()]),
            None => ready.iter().map(|object| (object.elf.clone(), object.sources_in(aspects))).unzip(),
        };
        let mut objects = Vec::new();
        for (nth, elf) in (0..).zip(elves) {
            let arguments = self.programs.iter().zip(&self.arguments).filter(|(of, _)| of.object == nth);
            let arguments = arguments.map(|(program, words)| (program.name.as_str(), words.as_slice()));
            objects.push(program_object::fitted(elf, arguments, aspects)?);
        }
        let events = self.events.plan(library.events, options.key.as_ref(), options.buffer)?;
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
        let skipped = self.skipped.into_iter().map(|skipped| Skipped {
            clause: name(skipped.item),
            function: skipped.function,
            module: skipped.module,
            offset: skipped.offset,
            reason: skipped.reason,
        });
        let absent = self.absent.into_iter().map(|of| Absent { clause: name(of.item), name: of.name });
        let counts = (0..).zip(self.items).map(|(nth, item)| Counts { clause: name(nth), ..item.counts });
        let inlined = self.inlined.into_iter();
        let inlined = inlined.map(|of| Inlined { site: of.site.saturating_add(added), ..of });
        Ok(Woven {
            domain: domain.0.to_owned(),
            line_sources: sources,
            plan: Plan {
                domain: domain.1,
                objects,
                programs,
                buffer: options.buffer,
                flow_table: options.flow_table,
                serial_attach: options.serial_attach,
                events,
            },
            sites,
            drop_reasons: self.drop_reasons,
            skipped: skipped.collect(),
            absent: absent.collect(),
            counts: counts.collect(),
            inlined: inlined.collect(),
        })
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

    pub(crate) fn own(&self) -> Files<'_> {
        let mut files: Files<'_> = prelude::files();
        files.push((emit::ADVICE.to_owned(), &self.programs));
        files.push((emit::KERNEL.to_owned(), &self.types));
        files
    }
}
