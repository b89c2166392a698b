//! What front ends fill, and the words that they suggest.

use std::collections::HashSet;

use crate::diagnostic::{Diagnostic, Source};
use crate::filter::Where;
use crate::lexer::SyntaxError;
use crate::library::{part, part_names};
use crate::syntax::{Aspects, Clause, Ident, Include, Xflow};
use crate::trivia::Trivia;

/// What is done about what a file includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Included {
    /// It is read as well.
    #[default]
    Read,
    /// Only that it is included is kept.
    Left,
}

/// What has been read of a set of files.
#[derive(Default)]
pub(crate) struct ParseState {
    pub aspects: Aspects,
    pub included: Included,
    /// The files that have been begun, and which of them include which.
    begun: HashSet<usize>,
    pairs: HashSet<(usize, usize)>,
    pub errors: Vec<Diagnostic>,
    pub trivia: Trivia,
    /// Clauses outside of flows, which the XML form has.
    pub strays: Vec<Clause>,
}

impl ParseState {
    pub(crate) fn error(&mut self, bad: SyntaxError) {
        let error = self.diagnostic(bad);
        self.errors.push(error);
    }

    pub(crate) fn warn(&mut self, bad: SyntaxError) {
        let warning = self.diagnostic(bad).as_warning();
        self.aspects.warnings.push(warning);
    }

    fn diagnostic(&self, bad: SyntaxError) -> Diagnostic {
        bad.diagnostic(|span, message| self.aspects.error(span, message))
    }

    pub(crate) fn of(sources: Vec<Source>, included: Included) -> Self {
        let aspects = Aspects { sources, ..Aspects::default() };
        Self { aspects, included, ..Self::default() }
    }

    /// Begins to read a file; false if it has been read.
    pub(crate) fn begin(&mut self, file: usize) -> bool {
        self.begun.insert(file)
    }

    /// A file includes something: gives the file that is to be read now, unless it has been. Aspects are read again, in
    /// other processes, from all of these files: an included one is found there.
    pub(crate) fn include(&mut self, name: Ident) -> Result<Option<usize>, SyntaxError> {
        let Some(source) = part(&name.text) else {
            let known: Vec<_> = part_names().collect();
            let help = suggest(&name.text, &known, |name| format!("`{name}`"));
            let message = format!("the library has nothing to include that is called `{}`", name.text);
            return Err(SyntaxError::new(name.span, message).with_help(help));
        };
        if self.included == Included::Left {
            self.aspects.includes.push(Include { name, source: None });
            return Ok(None);
        }
        let sources = &mut self.aspects.sources;
        let file = sources.iter().position(|known| *known == source).unwrap_or_else(|| {
            sources.push(source);
            sources.len() - 1
        });
        self.pairs.insert((name.span.file, file));
        if !self.begin(file) {
            return Ok(None);
        }
        self.aspects.includes.push(Include { name, source: Some(file) });
        Ok(Some(file))
    }

    /// Keeps a flow. That of a file which another includes goes on there.
    pub(crate) fn define(&mut self, xflow: Xflow) {
        let file = xflow.name.span.file;
        let goes_on = |known: &&mut Xflow| {
            known.name.text == xflow.name.text && self.pairs.contains(&(file, known.name.span.file))
        };
        match self.aspects.xflows.iter_mut().find(goes_on) {
            Some(known) => xflow.clauses.into_iter().for_each(|clause| known.push(clause)),
            None => self.aspects.xflows.push(xflow),
        }
    }

    /// Keeps which frames are followed, which can be said once.
    pub(crate) fn select(&mut self, selection: Where) -> Result<(), SyntaxError> {
        let Where { span, .. } = selection;
        match &self.aspects.selection {
            None => self.aspects.selection = Some(selection),
            Some(Where { span: first, .. }) => {
                let file = self.aspects.sources.get(first.file).map_or("", |source| &source.name);
                let place = if first.file == span.file { String::new() } else { format!(" of {file}") };
                let message = format!("there is another `where`, in line {}{place}", first.line);
                let help = "one recording has one: join them by `and` or `or`";
                return Err(SyntaxError::new(span, message).with_help(help));
            }
        }
        Ok(())
    }

    /// Gives clauses outside of flows to the only flow that they can belong to.
    pub(crate) fn adopt(&mut self) {
        for clause in std::mem::take(&mut self.strays) {
            let flows = &mut self.aspects.xflows;
            let here = flows.iter().filter(|flow| flow.name.span.file == clause.span.file).count();
            let home = match here {
                1 => flows.iter_mut().find(|flow| flow.name.span.file == clause.span.file),
                _ if flows.len() == 1 => flows.first_mut(),
                _ => None,
            };
            let (span, word) = (clause.span, clause.kind.word());
            match home {
                Some(flow) => {
                    let name = flow.name.text.clone();
                    flow.push(clause);
                    let message = format!(
                        "this <{word}> is in no <xflow>: it is taken as one of `{name}`, the only flow"
                    );
                    self.warn(SyntaxError::new(span, message));
                }
                None => {
                    let message =
                        format!("this <{word}> is in no <xflow>, and which flow it belongs to is not clear");
                    self.error(SyntaxError::new(span, message).with_help("put it into `<xflow name=\"…\">`"));
                }
            }
        }
    }
}

/// What to do about a word that none of the known ones is: the nearest of them, or all.
pub(crate) fn suggest(word: &str, known: &[&str], show: impl Fn(&str) -> String) -> String {
    match xweave_text::nearest(word, known.iter().copied(), 1).first() {
        Some(name) => format!("did you mean {}?", show(name)),
        None => format!("there is {}", known.iter().map(|name| show(name)).collect::<Vec<_>>().join(", ")),
    }
}
