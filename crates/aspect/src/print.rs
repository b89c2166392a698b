//! The tree to text of the native form, with lines broken where people would.
//!
//! C is kept as it was written, but for its indentation.

use std::fmt::{self, Write};

use crate::code::{Code, TokenKind};
use crate::diagnostic::Span;
use crate::grammar::is_exact;
use crate::pointcut::is_thread_name;
use crate::syntax::{
    Act, Advice, Aspects, Clause, Exact, FunctionName, How, Ident, POINTCUTS, Pointcut, Renamed, When, Xflow,
};
use crate::trivia::{ItemTrivia, Trivia};

/// Lines are broken to be no longer, where they can be.
const WIDTH: usize = 110;
const INDENT: usize = 4;
/// Behind `transit `.
const CLAUSE_INDENT: usize = INDENT + 8;

/// Prints aspects with what stands around them.
pub(crate) fn print(aspects: &Aspects, margins: &Trivia) -> String {
    let mut items: Vec<(Span, bool, String)> = Vec::new();
    for xflow in &aspects.xflows {
        items.push((xflow.name.span, true, print_xflow(xflow, margins)));
    }
    for advice in &aspects.advice {
        let text = print_advice(advice);
        items.push((advice.name.span, text.contains('\n'), text));
    }
    // What was read in its place is printed there.
    for include in aspects.includes.iter().filter(|include| include.source.is_none()) {
        items.push((include.name.span, false, format!("include {};", include.name.text)));
    }
    if let Some(selection) = &aspects.selection {
        items.push((selection.span, false, selection.to_string()));
    }
    items.sort_by_cached_key(|(place, ..)| read_at(aspects, *place));
    let mut page = Page::default();
    let mut spacious = false;
    for (place, large, text) in items {
        page.item(margins.of(place), &text, 0, large || spacious);
        spacious = large;
    }
    page.lines(&margins.end, 0);
    page.text
}

/// Where something was read: its place, behind those of the `include` that its file was read for, outermost first.
fn read_at(aspects: &Aspects, place: Span) -> Vec<(usize, u32, u32)> {
    let by = aspects.includes.iter().find(|include| include.source == Some(place.file));
    let mut at = by.map_or_else(Vec::new, |include| read_at(aspects, include.name.span));
    at.push((place.file, place.line, place.column));
    at
}

/// Items one below the other.
#[derive(Default)]
struct Page {
    text: String,
    /// An empty line is due, unless nothing follows.
    gap: bool,
}

impl Page {
    /// Writes an item; `apart` if an empty line is before it in any case.
    fn item(&mut self, margin: Option<&ItemTrivia>, text: &str, indent: usize, apart: bool) {
        self.gap |= apart;
        if let Some(margin) = margin {
            self.lines(&margin.above, indent);
        }
        self.line(text, indent);
        if let Some(comment) = margin.and_then(|margin| margin.beside.as_ref()) {
            self.text.pop();
            let _ = writeln!(self.text, " {comment}");
        }
    }

    /// Writes comments and empty lines.
    fn lines(&mut self, lines: &[String], indent: usize) {
        for line in lines {
            match line.as_str() {
                "" => self.gap = true,
                comment => self.line(comment, indent),
            }
        }
    }

    fn line(&mut self, text: &str, indent: usize) {
        if self.gap && !self.text.is_empty() {
            self.text.push('\n');
        }
        self.gap = false;
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }
}

fn print_xflow(xflow: &Xflow, margins: &Trivia) -> String {
    let mut page = Page::default();
    for clause in &xflow.clauses {
        page.item(margins.of(clause.span), &print_clause(clause), INDENT, false);
    }
    if let Some(margin) = margins.of(xflow.name.span) {
        page.lines(&margin.below, INDENT);
    }
    format!("xflow {} {{\n{}}}", xflow.name.text, page.text)
}

/// A clause, without the indentation of its first line.
fn print_clause(clause: &Clause) -> String {
    let exact = match clause.exact {
        Exact::Every => String::new(),
        exact => format!("{} ", exact.word()),
    };
    let head = format!("{:<7} {exact}", clause.kind.word());
    let flat = clause.pointcut.to_string();
    let gap = if matches!(clause.act, Act::SelectTarget) { "" } else { " " };
    let act = print_act(&clause.act);
    let whole = format!("{head}{flat}{gap}{act}");
    let broken_block = matches!(clause.act, Act::Action(_)) && act.contains('\n');
    let first_line = if broken_block { whole.lines().next().unwrap_or_default() } else { &whole };
    if fits(first_line, INDENT) && fits(&flat, 0) {
        return whole;
    }
    let pointcut = broken(&clause.pointcut, INDENT + width(&head), CLAUSE_INDENT);
    match clause.act {
        Act::SelectTarget => format!("{head}{pointcut};"),
        _ => format!("{head}{pointcut}\n{:CLAUSE_INDENT$}{act}", ""),
    }
}

fn print_act(act: &Act) -> String {
    let way = |copy: &bool| if *copy { "copy" } else { "move" };
    let key = |code: &Code| expression(code, CLAUSE_INDENT + INDENT);
    let hand = |word: &str, from: &Code, to: &Code| {
        // The word `from` is needed where a longer expression begins with it.
        let mut words = from.words();
        let unclear = words.next().is_some_and(|first| first.text == "from") && words.next().is_some();
        format!("{word} {}{} to {};", if unclear { "from " } else { "" }, key(from), key(to))
    };
    match act {
        Act::Select(code) => format!("select {};", key(code)),
        Act::SelectTarget => ";".to_owned(),
        Act::Hand { copy, from, to } => hand(way(copy), from, to),
        Act::Split { from, to } => hand("split", from, to),
        Act::Merge { from, to } => hand("merge", from, to),
        Act::Xin { copy, carrier, from, key: of } => {
            format!("xin_{} {} from {} to {};", way(copy), carrier.text, key(from), key(of))
        }
        Act::Xout { copy, carrier, key: of, to } => {
            format!("xout_{} {} from {} to {};", way(copy), carrier.text, key(of), key(to))
        }
        Act::Action(code) => format!("action {}", block(code, CLAUSE_INDENT + "action ".len(), INDENT)),
    }
}

fn print_advice(advice: &Advice) -> String {
    let name = if advice.named { advice.name.text.as_str() } else { "" };
    // Where a name could be taken for something else, how exact it is must stand between.
    let unclear = is_exact(name) || POINTCUTS.contains(&name);
    let exact = match advice.exact {
        Exact::Every if !unclear => String::new(),
        exact => format!("{} ", exact.word()),
    };
    let when = match advice.when {
        When::Before => " ",
        When::After => " after ",
    };
    let flat = advice.pointcut.to_string();
    // Whether what is behind `column` fits, where the body is one line of its own or begins there.
    let large = block(&advice.body, 0, 0).contains('\n');
    let fits = |head: &str, column: usize| {
        let body = if large { "{".to_owned() } else { format!("{{ {} }}", advice.body) };
        fits(&format!("{head}{body}"), column)
    };
    let lead = if advice.named { format!("advice {name} ") } else { String::new() };
    let head = format!("{lead}{exact}{flat}{when}");
    if fits(&head, 0) {
        return head.clone() + &block(&advice.body, width(&head), 0);
    }
    let (lead, start) =
        if advice.named { (format!("advice {name}\n{:INDENT$}", ""), INDENT) } else { (lead, 0) };
    let head = format!("{exact}{flat}{when}");
    let pointcut =
        if fits(&head, start) { flat } else { split(&advice.pointcut, start + width(&exact), INDENT) };
    // The column behind the pointcut, which may have become several lines.
    let mut lines = pointcut.lines();
    let first = lines.next().map_or(0, |line| start + width(&exact) + width(line));
    let last = lines.last().map_or(first, width) + width(when);
    format!("{lead}{exact}{pointcut}{when}{}", block(&advice.body, last, 0))
}

/// C in braces: on one line if it fits behind `column`, else on lines of its own.
fn block(code: &Code, column: usize, indent: usize) -> String {
    let text = code.to_string();
    let commented = code.tokens.last().is_some_and(|token| token.text.starts_with("//"));
    let line = if text.is_empty() { "{ }".to_owned() } else { format!("{{ {text} }}") };
    if !commented && fits(&line, column) {
        return line;
    }
    let inside = indent + INDENT;
    let later = code.tokens.iter().filter(|token| token.is_blank());
    let later = later.filter_map(|token| Some(width(token.text.rsplit_once('\n')?.1)));
    let first = usize::try_from(code.span.column).unwrap_or(1).saturating_sub(1);
    let base = later.min().map_or(first, |later| later.min(first));
    let mut out = format!("{{\n{:inside$}", "");
    for token in &code.tokens {
        let mut lines = token.text.split('\n');
        if token.kind == TokenKind::Space && token.text.starts_with("//") {
            out += token.text.trim_end();
        } else if token.kind != TokenKind::Space || !token.text.contains('\n') {
            out += &token.text;
        } else if token.is_blank() {
            let last = lines.next_back().unwrap_or_default();
            out += if lines.count() > 1 { "\n\n" } else { "\n" };
            let _ = write!(out, "{:inside$}{}", "", last.chars().skip(base).collect::<String>());
        } else {
            out += lines.next().unwrap_or_default();
            for line in lines {
                let blanks = line.chars().take(base).take_while(|c| c.is_whitespace()).count();
                let rest: String = line.chars().skip(blanks).collect();
                let indent = if rest.trim().is_empty() { 0 } else { inside };
                let _ = write!(out, "\n{:indent$}{}", "", rest.trim_end());
            }
        }
    }
    let _ = write!(out, "\n{:indent$}}}", "");
    out
}

/// C with its lines, of which those after the first are indented.
fn expression(code: &Code, indent: usize) -> String {
    let mut out = String::new();
    for token in &code.tokens {
        if token.is_blank() && token.text.contains('\n') {
            let _ = write!(out, "\n{:indent$}", "");
        } else {
            out += &token.text;
        }
    }
    out
}

/// A pointcut that begins at `column`, on several lines if it must be.
fn broken(pointcut: &Pointcut, column: usize, indent: usize) -> String {
    let flat = pointcut.to_string();
    if fits(&flat, column) { flat } else { split(pointcut, column, indent) }
}

/// A pointcut on several lines if there is a place to break it, of which those after the first are indented.
fn split(pointcut: &Pointcut, column: usize, indent: usize) -> String {
    let (parts, word) = match pointcut {
        Pointcut::And(parts) => (parts, "AND "),
        Pointcut::Or(parts) => (parts, "OR "),
        Pointcut::Not(part) => {
            return format!("NOT {}", bracketed(part, column + 4, |part, at| broken(part, at, at)));
        }
        Pointcut::If(code) => return format!("if({})", expression(code, indent + INDENT)),
        Pointcut::Xflow(test) => {
            let id = test.id.as_ref().map_or(String::new(), |id| format!(", {}", id.text));
            return format!("xflow({}, {}{id})", test.flow.text, expression(&test.key, indent + INDENT));
        }
        Pointcut::Execution(names)
        | Pointcut::Returning(names)
        | Pointcut::WithinFunction(names)
        | Pointcut::WithinFile(names) => return filled(names, kind(pointcut), column),
        _ => return pointcut.to_string(),
    };
    let mut out = String::new();
    for (nth, part) in parts.iter().enumerate() {
        let (lead, at) = if nth == 0 { ("", column) } else { (word, indent + word.len()) };
        if nth > 0 {
            let _ = write!(out, "\n{:indent$}", "");
        }
        let loose = matches!(pointcut, Pointcut::Or(_)) && matches!(part, Pointcut::And(_));
        let text =
            if loose { broken(part, at, at) } else { bracketed(part, at, |part, at| broken(part, at, at)) };
        let _ = write!(out, "{lead}{text}");
    }
    out
}

/// A part of a pointcut at `column`: in parentheses, if it has parts itself.
fn bracketed(part: &Pointcut, column: usize, show: impl Fn(&Pointcut, usize) -> String) -> String {
    match part {
        Pointcut::And(_) | Pointcut::Or(_) => format!("({})", show(part, column + 1)),
        _ => show(part, column),
    }
}

/// As many names on a line as fit.
fn filled(names: &[FunctionName], kind: &str, column: usize) -> String {
    let mut out = format!("{kind}(");
    let indent = column + width(&out);
    let mut at = indent;
    for (nth, name) in names.iter().enumerate() {
        let name = name.to_string();
        if nth > 0 {
            out.push(',');
            // One more for the comma or parenthesis behind it.
            if at + width(&name) + 3 > WIDTH {
                let _ = write!(out, "\n{:indent$}", "");
                at = indent;
            } else {
                out.push(' ');
                at += 2;
            }
        }
        at += width(&name);
        out += &name;
    }
    out + ")"
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Whether it is one line that is short enough behind `column`.
fn fits(text: &str, column: usize) -> bool {
    !text.contains('\n') && column + width(text) <= WIDTH
}

/// The word that a pointcut begins with.
fn kind(pointcut: &Pointcut) -> &'static str {
    match pointcut {
        Pointcut::And(_) | Pointcut::Or(_) | Pointcut::Not(_) => "",
        Pointcut::Execution(_) => "execution",
        Pointcut::Returning(_) => "returning",
        Pointcut::Access(_) => "access",
        Pointcut::Tracepoint(_) => "tracepoint",
        Pointcut::User(_) => "user",
        Pointcut::WithinFunction(_) => "within_function",
        Pointcut::WithinFile(_) => "within_file",
        Pointcut::Target(_) => "target",
        Pointcut::LocalVar(_) => "local_var",
        Pointcut::Arg(_) => "arg",
        Pointcut::Xflow(_) => "xflow",
        Pointcut::If(_) => "if",
        Pointcut::Pid(..) => "pid",
        Pointcut::Comm(_) => "comm",
    }
}

impl fmt::Display for Aspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, &Trivia::default()))
    }
}

/// On one line, unless C in it has several.
impl fmt::Display for Pointcut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &Self| bracketed(part, 0, |part, _| part.to_string());
        write!(f, "{}", kind(self))?;
        match self {
            Self::And(parts) => f.write_str(&parts.iter().map(part).collect::<Vec<_>>().join(" AND ")),
            Self::Or(parts) => {
                let loose = |of: &Self| if matches!(of, Self::And(_)) { of.to_string() } else { part(of) };
                f.write_str(&parts.iter().map(loose).collect::<Vec<_>>().join(" OR "))
            }
            Self::Not(of) => write!(f, "NOT {}", part(of)),
            Self::Execution(names)
            | Self::Returning(names)
            | Self::WithinFunction(names)
            | Self::WithinFile(names) => {
                let names: Vec<_> = names.iter().map(ToString::to_string).collect();
                write!(f, "({})", names.join(", "))
            }
            Self::Access(access) => {
                let how = match access.how {
                    None => "",
                    Some(How::Read) => ", read",
                    Some(How::Write) => ", write",
                };
                let (structure, member) = (&access.structure, &access.member);
                write!(f, "({structure}.{member}{how}){}", At(access.domain.as_ref(), false))
            }
            Self::Tracepoint(of) => {
                write!(f, "({}:{}){}", of.category, of.name, At(of.domain.as_ref(), of.optional))
            }
            Self::User(of) => {
                write!(f, "({}:{}){}", of.path, of.function, At(of.domain.as_ref(), of.optional))
            }
            Self::Target(name) => write!(f, "({})", name.text),
            Self::LocalVar(renamed) | Self::Arg(renamed) => write!(f, "({renamed})"),
            Self::Xflow(test) => {
                write!(f, "({}, {}", test.flow.text, test.key)?;
                test.id.as_ref().map_or(Ok(()), |id| write!(f, ", {}", id.text))?;
                f.write_str(")")
            }
            Self::If(code) => write!(f, "({code})"),
            Self::Pid(pid, _) => write!(f, "({pid})"),
            Self::Comm(name) if !name.text.is_empty() && name.text.chars().all(is_thread_name) => {
                write!(f, "({})", name.text)
            }
            Self::Comm(name) => write!(f, "(\"{}\")", name.text.replace('\\', r"\\").replace('"', "\\\"")),
        }
    }
}

/// What follows the name of a place: its domain, and whether that may lack it.
struct At<'a>(Option<&'a Ident>, bool);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |domain| write!(f, "@{}", domain.text))?;
        f.write_str(if self.1 { "?" } else { "" })
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.patterns().collect();
        write!(f, "{}{}", names.join(" | "), At(self.domain.as_ref(), self.optional))
    }
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of.text)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, ", {}", name.text))
    }
}
