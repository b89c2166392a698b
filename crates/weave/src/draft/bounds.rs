//! What is taken of a draft that was made by somebody who may be anybody: as `xweave_wire::limits` does with agents.

use xweave_aspect::{Aspects, Diagnostic};
use xweave_text as text;
use xweave_wire::{
    limits,
    plan::{MAX_VARIABLES, PlanProgram},
};

use super::Draft;
use crate::item::Item;
use crate::program_object::Library;

/// Bytes of a path: `PATH_MAX` of Linux.
const PATH: usize = 4096;

/// Mistakes and warnings of one item in one domain.
pub(super) const DIAGNOSTICS: usize = 256;

/// Clauses and pieces of advice.
pub(super) const ITEMS: usize = 1 << 16;

/// Built-in probes, and what is said of them.
pub(super) const PROBES: usize = 256;

/// Headers that a program includes of those that it need not.
pub(super) const HEADERS: usize = 64;

/// Objects of the library that a domain's programs are from.
pub(super) const OBJECTS: usize = limits::OBJECTS;

/// Functions that are named of those that one is inlined into.
pub(super) const CALLERS: usize = 16;

/// Reasons to drop packets: a kernel has some hundred.
pub(crate) const DROP_REASONS: usize = 4096;

/// No program's context has more words: `struct pt_regs` has 21, arguments of functions that can be hooked 12.
const WORDS: u8 = 31;

/// Join points, programs, and what is skipped.
pub(super) const SITES: usize = limits::SITES;

/// What cannot be of a draft that another process made.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// It is of other aspects.
    #[error("a draft is of {drafted} items, and the aspects have {items}")]
    Items {
        /// How many it is of.
        drafted: usize,
        /// How many there are.
        items: usize,
    },
    /// It has a site of an item that there is not.
    #[error("a draft has a site of item {item}, and the aspects have {items}")]
    NoItem {
        /// The item's number.
        item: u32,
        /// How many there are.
        items: usize,
    },
    /// A probe's name is longer than names are.
    #[error("a draft has a probe with a name that is too long")]
    LongName,
    /// It has programs, and nothing to make them from.
    #[error("a draft has programs, and neither C nor an object of them")]
    ProgramsWithoutC,
    /// A program's arguments or object are not there, or not possible.
    #[error("a draft has a program with arguments or an object that cannot be")]
    Program,
    /// Places are not numbered as its sites are.
    #[error("a draft has places that are not its own sites'")]
    ForeignPlaces,
    /// There are more sites than places, or fewer.
    #[error("a draft has {sites} sites, and places for {places}")]
    SitesWithoutPlaces {
        /// How many sites.
        sites: usize,
        /// How many of them have places.
        places: u32,
    },
}

impl Draft {
    /// Bounds what it says, and makes its texts fit to be shown. Its sites are its own: numbered from 1, each in one
    /// place.
    ///
    /// # Errors
    ///
    /// [`DraftError`]
    pub fn checked(mut self, aspects: &Aspects, library: &Library<'_>) -> Result<Self, DraftError> {
        let items = Item::all(aspects).len();
        if self.items.len() != items {
            return Err(DraftError::Items { drafted: self.items.len(), items });
        }
        let is_item = |item: u32| usize::try_from(item).is_ok_and(|item| item < items);
        for item in &mut self.items {
            let said = std::mem::take(&mut item.diagnostics);
            item.diagnostics = said.into_iter().map(|said| fit(said, aspects)).collect();
            item.lacking = item.lacking.take().map(|said| fit(said, aspects));
            item.unmatched = item.unmatched.take().map(|said| fit(said, aspects));
            item.counts.clause.clear();
        }
        for site in &mut self.sites {
            line(&mut site.function, limits::FUNCTION);
            site.module.iter_mut().for_each(|module| line(module, PATH));
            site.file.iter_mut().for_each(|file| line(file, PATH));
        }
        for skipped in &mut self.skipped {
            line(&mut skipped.function, limits::FUNCTION);
            skipped.module.iter_mut().for_each(|module| line(module, PATH));
            line(&mut skipped.reason, limits::REASON);
        }
        self.absent.iter_mut().for_each(|absent| line(&mut absent.name, limits::FUNCTION));
        let callers = self.inlined.iter_mut().flat_map(|inlined| &mut inlined.into);
        callers.for_each(|function| line(function, limits::FUNCTION));
        let numbers = self.sites.iter().map(|site| site.item).chain(self.skipped.iter().map(|of| of.item));
        let mut numbers = numbers.chain(self.absent.iter().map(|of| of.item));
        if let Some(item) = numbers.find(|item| !is_item(*item)) {
            return Err(DraftError::NoItem { item, items });
        }
        self.drop_reasons.iter_mut().for_each(|reason| line(&mut reason.name, limits::NAME));
        self.check_places()?;
        for probe in &self.events.programs {
            if probe.name.len() > limits::FUNCTION || probe.function.len() > limits::FUNCTION {
                return Err(DraftError::LongName);
            }
        }
        self.events.left_out.iter_mut().for_each(|left| line(left, limits::REASON));
        self.unfit.iter_mut().for_each(|reason| line(reason, limits::REASON));
        let nothing = self.text.is_none() && self.ready.is_empty();
        if nothing && !self.programs.is_empty() && !super::has_errors(&self.items) {
            return Err(DraftError::ProgramsWithoutC);
        }
        let objects = self.ready.len().max(1);
        let has_object =
            |program: &PlanProgram| usize::try_from(program.object).is_ok_and(|nth| nth < objects);
        let is_known = |nth: &u32| usize::try_from(*nth).is_ok_and(|nth| nth < library.all_objects().count());
        if self.arguments.len() != self.programs.len()
            || self.arguments.iter().flatten().any(|word| *word > WORDS)
            || !self.programs.iter().all(has_object)
            || !self.ready.iter().all(is_known)
        {
            return Err(DraftError::Program);
        }
        Ok(self)
    }

    /// Places have the sites' numbers, each once and in order.
    fn check_places(&mut self) -> Result<(), DraftError> {
        let mut next = 1u32;
        for program in &mut self.programs {
            line(&mut program.origin, limits::MESSAGE);
            line(&mut program.name, limits::FUNCTION + limits::NAME);
            program.saver.iter_mut().for_each(|saver| line(saver, limits::FUNCTION + limits::NAME));
            for place in &mut program.sites {
                if place.site != next || place.clauses == 0 || place.places.len() > MAX_VARIABLES {
                    return Err(DraftError::ForeignPlaces);
                }
                next = next.saturating_add(place.clauses);
                line(&mut place.function, limits::FUNCTION);
                place.module.iter_mut().for_each(|module| line(module, PATH));
            }
        }
        if u32::try_from(self.sites.len()) == Ok(next - 1) {
            Ok(())
        } else {
            Err(DraftError::SitesWithoutPlaces { sites: self.sites.len(), places: next - 1 })
        }
    }
}

/// A mistake, fit to be shown.
pub fn fit(mut said: Diagnostic, aspects: &Aspects) -> Diagnostic {
    if !aspects.sources.iter().any(|source| source.name == said.file) {
        (said.file, said.line, said.snippet) = (String::new(), 0, None);
    }
    said.message = lines(&said.message);
    said.help = said.help.as_deref().map(lines);
    // What the line is, is known here.
    let source = aspects.sources.iter().find(|source| source.name == said.file);
    let nth = usize::try_from(said.line).unwrap_or(0).checked_sub(1);
    let text = source.zip(nth).and_then(|(source, nth)| source.text.lines().nth(nth));
    said.snippet = text.zip(said.snippet).map(|(text, (_, length))| (text.to_owned(), length));
    said
}

fn line(text: &mut String, most: usize) {
    *text = text::printable_bytes(text.as_bytes(), most);
}

fn lines(text: &str) -> String {
    text::lines_cut(text, limits::MESSAGE)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use xweave_aspect::{Source, parse};
    use xweave_code::Kernel;

    use super::*;
    use crate::{
        Compiler, Domain, EventChoice, EventObject, EventSource, Group, Inlined, Role, drafting::draft,
    };

    fn aspects() -> Aspects {
        let text = "advice a execution(vfs_read, vfs_write) { STORE_DATA1(count); }\n\
                    advice b returning(vfs_%) { STORE_DATA1(1); }";
        parse(vec![Source { name: "x.aspect".into(), text: text.into() }]).unwrap()
    }

    fn honest() -> Draft {
        let (aspects, kernel) = (aspects(), Kernel::live().unwrap());
        let domain = Domain { name: "vm1".into(), role: Role::Guest, number: 2, kernel: &kernel, code: &[] };
        let events = EventChoice::new(vec![Group::Sched], None);
        draft(&aspects, &[domain.peer()], &domain, &events, &library()).unwrap()
    }

    /// With probes of events, compiled for this kernel.
    fn library() -> Library<'static> {
        static EVENTS: LazyLock<EventObject> = LazyLock::new(|| {
            let (kernel, cache) = (Kernel::live().unwrap(), tempfile::tempdir().unwrap());
            let source = EventSource::new(&[&kernel]).unwrap();
            source.compile(&Compiler::find().unwrap(), cache.path()).unwrap()
        });
        Library { events: &EVENTS, ..Library::EMPTY }
    }

    fn inlined(into: &[&str]) -> Inlined {
        let into = into.iter().map(|name| (*name).to_owned()).collect();
        Inlined { site: 1, calls: 1, functions: 1, into }
    }

    /// As it comes from another process.
    fn received(draft: &Draft) -> Result<Draft, String> {
        let bytes = postcard::to_stdvec(draft).unwrap();
        let draft: Draft = postcard::from_bytes(&bytes).map_err(|error| error.to_string())?;
        draft.checked(&aspects(), &library()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_honest_draft_stays_as_it_is() {
        let draft = honest();
        assert!(draft.sites.len() > 20 && draft.text.is_some() && draft.events.programs.len() > 10);
        assert_eq!(format!("{:?}", received(&draft).unwrap()), format!("{draft:?}"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let honest = honest();
        type Change = fn(&mut Draft);
        let changes: [(&str, Change); 13] = [
            ("of 1 items", |draft| drop(draft.items.pop())),
            ("a site of item 7", |draft| draft.sites[3].item = 7),
            ("not its own sites'", |draft| draft.programs[0].sites[0].site = 9),
            ("not its own sites'", |draft| draft.programs[0].sites[0].clauses = 0),
            ("sites, and places for", |draft| drop(draft.sites.pop())),
            ("not its own sites'", |draft| {
                draft.programs[0].sites[0].places = vec![Default::default(); MAX_VARIABLES + 1];
            }),
            ("neither C nor an object", |draft| draft.text = None),
            ("arguments or an object", |draft| draft.ready = vec![7]),
            ("arguments or an object", |draft| draft.programs[0].object = 1),
            ("arguments or an object", |draft| draft.arguments[0].push(99)),
            ("arguments or an object", |draft| drop(draft.arguments.pop())),
            ("", |draft| draft.events.left_out = vec![String::new(); PROBES + 1]),
            ("", |draft| draft.inlined.push(inlined(&["f"; CALLERS + 1]))),
        ];
        for (told, change) in changes {
            let mut draft = honest.clone();
            change(&mut draft);
            let error = received(&draft).unwrap_err();
            assert!(error.contains(told), "{told}: {error}");
        }
    }

    #[test]
    fn texts_are_fit_to_be_shown_and_lines_are_the_sources_own() {
        let mut draft = honest();
        draft.inlined.push(inlined(&["\u{1b}[2J"]));
        draft.sites[0].function = format!("\u{1b}[2J{}", "f".repeat(5000));
        draft.items[0].diagnostics = vec![Diagnostic {
            file: "/etc/shadow".into(),
            snippet: Some(("\u{1b}]0;x\u{7}".into(), 4)),
            ..aspects().error(Item::all(&aspects())[0].span(), "no\u{1b}[2J")
        }];
        draft.items[1].diagnostics =
            vec![Diagnostic { snippet: Some(("\u{1b}".into(), 4)), ..draft.items[0].diagnostics[0].clone() }];
        draft.items[1].diagnostics[0].file = "x.aspect".into();
        let fit = received(&draft).unwrap();
        assert!(fit.sites[0].function.starts_with("\\u{1b}[2Jfff") && fit.sites[0].function.len() <= 512);
        assert_eq!(fit.inlined[0].into, ["\\u{1b}[2J"]);
        let said = &fit.items[0].diagnostics[0];
        assert_eq!((said.file.as_str(), said.line, &said.snippet), ("", 0, &None));
        assert_eq!(said.message, "no\\u{1b}[2J");
        let line = aspects().sources[0].text.lines().next().map(str::to_owned);
        assert_eq!(fit.items[1].diagnostics[0].snippet.as_ref().map(|(text, _)| text.clone()), line);
    }
}
