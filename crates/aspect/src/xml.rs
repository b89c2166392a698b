//! The XML front end: the form that the paper on XenLASY (Yanagisawa, Kourai, Chiba) writes aspects in.
//!
//! Elements make the same tree as the native form; their texts and attributes are read by its parser. What
//! people write that is no XML is seen to in `text`.

mod text;

use std::ops::Range;

use roxmltree::{Document, Node, NodeType};
use strum::VariantNames as _;

use crate::code::Code;
use crate::diagnostic::{Source, Span};
use crate::grammar::{END_ACTS, Parsed, Parser, TRANSIT_ACTS, expected, is_operator};
use crate::lexer::{Lexer, SyntaxError};
use crate::parse_state::{ParseState, suggest};
use crate::syntax::{Act, Advice, Clause, ClauseKind, Exact, Ident, When, Xflow};
use text::{Decoded, Strict};

/// What the strict reader's text is put into, since a file may have several elements side by side.
const ROOT: &str = "aspects";
/// What stands at the top of a file.
const ITEMS: [&str; 6] = ["advice", "xflow", "start", "transit", "quit", "aspect"];

type Element<'a> = Node<'a, 'a>;

/// Reads one source.
pub(crate) fn file(source: &Source, file: usize, reading: &mut ParseState) {
    let strict = Strict::of(&source.text);
    let mut reader = Reader { source, file, reading, fields: false };
    if let Some(tag) = strict.unclosed {
        let place = reader.place(tag);
        return reader.reading.error(SyntaxError::new(place, "this element is never closed"));
    }
    for slip in strict.slips {
        let place = reader.place(slip);
        let message = "this closes nothing: the <xin_move/> above is closed already, and spelt with an i";
        reader.reading.warn(SyntaxError::new(place, message).with_help("leave this tag out"));
    }
    let text = format!("<{ROOT}>{}</{ROOT}>", strict.text);
    match Document::parse(&text) {
        Ok(document) => reader.items(document.root_element(), &ITEMS, Vec::new()),
        Err(error) => {
            let bad = reader.malformed(&error);
            reader.reading.error(bad);
        }
    }
}

/// What is in the file, of what is in the strict reader's text.
fn own(range: Range<usize>) -> Range<usize> {
    let shift = ROOT.len() + 2;
    range.start.saturating_sub(shift)..range.end.saturating_sub(shift)
}

fn name<'a>(element: Element<'a>) -> &'a str {
    element.tag_name().name()
}

struct Reader<'a> {
    source: &'a Source,
    file: usize,
    reading: &'a mut ParseState,
    /// Whether a `<field>` was met.
    fields: bool,
}

impl Reader<'_> {
    /// The items of a file or `<aspect>`, with what stands above the first of them.
    fn items(&mut self, parent: Element<'_>, known: &[&str], mut above: Vec<String>) {
        for element in self.elements(parent, known) {
            above.extend(comments(element.prev_sibling()));
            if name(element) == "aspect" {
                self.items(element, &ITEMS[..ITEMS.len() - 1], std::mem::take(&mut above));
                continue;
            }
            match self.item(element) {
                Ok(item) => self.reading.trivia.at(item).above = std::mem::take(&mut above),
                Err(bad) => self.reading.error(bad),
            }
        }
        above.extend(comments(parent.last_child()));
        self.reading.trivia.end.extend(above);
    }

    /// Gives the item's place.
    fn item(&mut self, element: Element<'_>) -> Parsed<Span> {
        match name(element) {
            "advice" => {
                let advice = self.advice(element)?;
                let place = advice.name.span;
                self.reading.aspects.advice.push(advice);
                Ok(place)
            }
            "xflow" => {
                let xflow = self.xflow(element)?;
                let place = xflow.name.span;
                self.reading.aspects.xflows.push(xflow);
                Ok(place)
            }
            _ => {
                let clause = self.clause(element)?;
                let place = clause.span;
                self.reading.strays.push(clause);
                Ok(place)
            }
        }
    }

    fn xflow(&mut self, element: Element<'_>) -> Parsed<Xflow> {
        self.attributes(element, &["name"])?;
        let name = self.attribute(element, "name", |parser| parser.ident("the flow's name"))?;
        let mut xflow = Xflow { name, clauses: Vec::new() };
        for element in self.elements(element, ClauseKind::VARIANTS) {
            match self.clause(element) {
                Ok(clause) => {
                    self.reading.trivia.at(clause.span).above = comments(element.prev_sibling());
                    xflow.push(clause);
                }
                Err(bad) => self.reading.error(bad),
            }
        }
        self.reading.trivia.at(xflow.name.span).below = comments(element.last_child());
        Ok(xflow)
    }

    /// A clause, still without its name.
    fn clause(&mut self, element: Element<'_>) -> Parsed<Clause> {
        let word = name(element);
        let kind = word.parse().unwrap_or(ClauseKind::Quit);
        self.attributes(element, &["exact"])?;
        let exact = self.exact(element)?;
        let acts: &[&str] = if kind == ClauseKind::Transit { &TRANSIT_ACTS } else { &END_ACTS };
        let parts = self.parts(element, &[&["pointcut", "field"], acts].concat())?;
        let pointcut = self.one(element, &parts, &["pointcut"])?;
        let pointcut = self.text(pointcut, |parser| parser.pointcut())?;
        let act = match kind {
            ClauseKind::Transit => self.act(self.one(element, &parts, acts)?)?,
            _ if parts.iter().all(|part| name(*part) == "pointcut") => Act::SelectTarget,
            _ => self.act(self.one(element, &parts, acts)?)?,
        };
        for field in parts.into_iter().filter(|part| name(*part) == "field") {
            if !matches!(act, Act::Xin { .. } | Act::Xout { .. }) {
                let message = "a <field> belongs to a carrier, and there is none";
                return Err(SyntaxError::new(self.at(field), message).with_help("put it into the <xin_move>"));
            }
            self.field(field)?;
        }
        Ok(Clause { kind, name: String::new(), span: self.at(element), pointcut, exact, act })
    }

    fn act(&mut self, element: Element<'_>) -> Parsed<Act> {
        let word = name(element);
        let copy = word.ends_with("copy");
        let (known, parts): (&[&str], &[&str]) = match word {
            "action" => return Ok(Act::Action(self.text(element, |parser| parser.lexer.c_rest())?)),
            "select" => (&["local_var"], &[]),
            "move" | "copy" | "split" | "merge" => (&["from", "to"], &[]),
            _ => (&["name", "from", "to"], &["field"]),
        };
        self.attributes(element, known)?;
        for field in self.parts(element, parts)? {
            self.field(field)?;
        }
        if word == "select" {
            return Ok(Act::Select(self.key(element, "local_var")?));
        }
        let (from, to) = (self.key(element, "from")?, self.key(element, "to")?);
        Ok(match word {
            "move" | "copy" => Act::Hand { copy, from, to },
            "split" => Act::Split { from, to },
            "merge" => Act::Merge { from, to },
            _ => {
                let carrier = self.attribute(element, "name", |parser| parser.ident("the carrier's name"))?;
                match word {
                    "xin_move" | "xin_copy" => Act::Xin { copy, carrier, from, key: to },
                    _ => Act::Xout { copy, carrier, key: from, to },
                }
            }
        })
    }

    fn field(&mut self, element: Element<'_>) -> Parsed<()> {
        self.attributes(element, &["name", "offset", "size"])?;
        self.parts(element, &[])?;
        if !std::mem::replace(&mut self.fields, true) {
            let message = "<field> has no effect: stock eBPF cannot write flows' numbers there, so the key of the \
                           carrier's ring takes its place";
            let place = self.at(element);
            self.reading.warn(SyntaxError::new(place, message));
        }
        Ok(())
    }

    fn advice(&mut self, element: Element<'_>) -> Parsed<Advice> {
        self.attributes(element, &["name", "exact"])?;
        let named = element.has_attribute("name");
        let name = if named {
            self.attribute(element, "name", |parser| {
                let next = parser.lexer.peek();
                let name = parser.ident("the advice's name")?;
                if is_operator(&name.text) { Err(expected("the advice's name", next)) } else { Ok(name) }
            })?
        } else {
            Ident::unnamed(self.source, self.at(element))
        };
        let exact = self.exact(element)?;
        let parts = self.parts(element, &["pointcut", "before", "after"])?;
        let pointcut = self.one(element, &parts, &["pointcut"])?;
        let pointcut = self.text(pointcut, |parser| parser.pointcut())?;
        let body = self.one(element, &parts, &["before", "after"])?;
        let when = if self::name(body) == "after" { When::After } else { When::Before };
        let body = self.text(body, |parser| parser.lexer.c_rest())?;
        Ok(Advice { name, named, pointcut, exact, when, body })
    }

    fn exact(&mut self, element: Element<'_>) -> Parsed<Exact> {
        if !element.has_attribute("exact") {
            return Ok(Exact::default());
        }
        self.attribute(element, "exact", |parser| {
            let word = parser.lexer.next();
            word.text.parse().map_err(|_| expected("`every`, `first` or `function`", word))
        })
    }

    fn key(&mut self, element: Element<'_>, attribute: &str) -> Parsed<Code> {
        self.attribute(element, attribute, |parser| parser.key())
    }
}

/// The document, and places in it.
impl Reader<'_> {
    /// The place of a part of the file.
    fn place(&self, range: Range<usize>) -> Span {
        let text = &self.source.text;
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let before = &text[..range.start];
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        let length = text[range].lines().next().map_or(1, |line| line.chars().count().max(1));
        Span {
            file: self.file,
            line: count(before.matches('\n').count() + 1),
            column: count(before[line..].chars().count() + 1),
            length: count(length),
        }
    }

    /// The place of an element's name.
    fn at(&self, element: Element<'_>) -> Span {
        let start = own(element.range()).start;
        self.place(start..start + 1 + name(element).len())
    }

    fn malformed(&self, error: &roxmltree::Error) -> SyntaxError {
        let pos = error.pos();
        let shift = if pos.row == 1 { u32::try_from(ROOT.len() + 2).unwrap_or(0) } else { 0 };
        let column = pos.col.saturating_sub(shift).max(1);
        let message = match error {
            roxmltree::Error::UnexpectedCloseTag(open, close, _) if close == ROOT => {
                format!("<{open}> is never closed")
            }
            _ => error.to_string().trim_end_matches(&format!(" at {pos}")).to_owned(),
        };
        let place = Span { file: self.file, line: pos.row, column, length: 1 };
        SyntaxError::new(place, format!("this is not well-formed XML: {message}"))
    }

    /// The elements in an element. Of what else is there, tells.
    fn elements<'n>(&mut self, parent: Element<'n>, known: &[&str]) -> Vec<Element<'n>> {
        let mut elements = Vec::new();
        for child in parent.children() {
            match self.element(child, known) {
                Ok(element) => elements.extend(element),
                Err(bad) => self.reading.error(bad),
            }
        }
        elements
    }

    /// The elements in an element that is read as a whole: comments between them have no place.
    fn parts<'n>(&mut self, parent: Element<'n>, known: &[&str]) -> Parsed<Vec<Element<'n>>> {
        if let Some(comment) = parent.children().find(Node::is_comment) {
            let place = self.place(own(comment.range()));
            self.reading.trivia.lose(Some(place));
        }
        let parts = parent.children().map(|child| self.element(child, known));
        Ok(parts.collect::<Parsed<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// An element with one of these names; none if it is but space, or a comment.
    fn element<'n>(&self, child: Element<'n>, known: &[&str]) -> Parsed<Option<Element<'n>>> {
        match child.node_type() {
            NodeType::Element if known.contains(&name(child)) => Ok(Some(child)),
            NodeType::Element if known.is_empty() => {
                Err(SyntaxError::new(self.at(child), "no element can be here"))
            }
            NodeType::Element => {
                let message = format!("<{}> is not known here", name(child));
                let help = suggest(name(child), known, |name| format!("<{name}>"));
                Err(SyntaxError::new(self.at(child), message).with_help(help))
            }
            NodeType::Text => {
                let Range { start, end } = own(child.range());
                let text = &self.source.text[start..end];
                let blank = text.len() - text.trim_start().len();
                if child.text().is_none_or(|text| text.trim().is_empty()) {
                    return Ok(None);
                }
                let place = self.place(start + blank..end);
                Err(SyntaxError::new(place, "there is text where only elements can be"))
            }
            _ => Ok(None),
        }
    }

    /// The only one of these with one of these names.
    fn one<'n>(&self, parent: Element<'n>, parts: &[Element<'n>], names: &[&str]) -> Parsed<Element<'n>> {
        let mut found = parts.iter().filter(|part| names.contains(&name(**part)));
        let shown: Vec<_> = names.iter().map(|name| format!("<{name}>")).collect();
        let Some(first) = found.next() else {
            let message = format!("<{}> has no {}", name(parent), shown.join(", "));
            return Err(SyntaxError::new(self.at(parent), message));
        };
        match found.next() {
            None => Ok(*first),
            Some(second) => {
                let message = format!("<{}> can have only one of {}", name(parent), shown.join(", "));
                let help = format!("write another <{}> for this", name(parent));
                Err(SyntaxError::new(self.at(*second), message).with_help(help))
            }
        }
    }

    fn attributes(&self, element: Element<'_>, known: &[&str]) -> Parsed<()> {
        match element.attributes().find(|attribute| !known.contains(&attribute.name())) {
            None => Ok(()),
            Some(unknown) => {
                let message = format!("<{}> has no attribute `{}`", name(element), unknown.name());
                let help = suggest(unknown.name(), known, |name| format!("`{name}`"));
                Err(SyntaxError::new(self.place(own(unknown.range_qname())), message).with_help(help))
            }
        }
    }

    fn attribute<T>(
        &mut self,
        element: Element<'_>,
        attribute: &str,
        read: impl FnOnce(&mut Parser<'_>) -> Parsed<T>,
    ) -> Parsed<T> {
        match element.attribute_node(attribute) {
            Some(attribute) => self.read(own(attribute.range_value()), read),
            None => {
                let message = format!("<{}> lacks the attribute `{attribute}`", name(element));
                Err(SyntaxError::new(self.at(element), message))
            }
        }
    }

    /// Reads an element's text.
    fn text<T>(
        &mut self,
        element: Element<'_>,
        read: impl FnOnce(&mut Parser<'_>) -> Parsed<T>,
    ) -> Parsed<T> {
        self.attributes(element, &[])?;
        let start = text::tag_end(&self.source.text, own(element.range()).start);
        let end = element.last_child().map_or(start, |last| own(last.range()).end);
        self.read(start..end, read)
    }

    /// Reads a part of the file with the native form's parser.
    fn read<T>(&mut self, range: Range<usize>, read: impl FnOnce(&mut Parser<'_>) -> Parsed<T>) -> Parsed<T> {
        let decoded = Decoded::of(&self.source.text[range.clone()]);
        let place = self.place(range.start..range.start);
        let mut parser = Parser::new(Lexer::inside(&decoded.text, place, &decoded.gaps));
        let value = read(&mut parser)?;
        let end = parser.lexer.next();
        if !end.text.is_empty() {
            let bad = expected("the end of this text", end);
            let to = end.text == "to";
            return Err(if to { bad.with_help("a variable called `to` is written `(to)`") } else { bad });
        }
        let comment = decoded.comment.map(|at| range.start + at);
        let comment = comment.map(|at| self.place(at..at + "<!--".len()));
        self.reading.trivia.lose(parser.lexer.lost.or(comment));
        Ok(value)
    }
}

/// The comments from here back to the element before.
fn comments(last: Option<Element<'_>>) -> Vec<String> {
    let before = std::iter::successors(last, Node::prev_sibling).take_while(|node| !node.is_element());
    let mut comments: Vec<_> = before.filter(Node::is_comment).collect();
    comments.reverse();
    let lines = comments.iter().flat_map(|comment| comment.text().unwrap_or_default().trim().lines());
    lines.map(|line| format!("# {}", line.trim()).trim_end().to_owned()).collect()
}
