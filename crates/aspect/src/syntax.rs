//! The syntax tree. Displays as canonical text of the native form, which `print` makes.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Source, Span};
use crate::filter::Where;

/// Everything that a set of files says.
#[derive(Clone, Debug, Default)]
pub struct Aspects {
    /// The files; those that they include come after them.
    pub sources: Vec<Source>,
    /// What is included of the library, in the order of reading: not what was there already.
    pub includes: Vec<Include>,
    /// The flows, in the order of the files.
    pub xflows: Vec<Xflow>,
    /// The advice, in the order of the files.
    pub advice: Vec<Advice>,
    /// Which frames are followed, if not all are.
    pub selection: Option<Where>,
    /// What the user should know of, though it can be woven.
    pub warnings: Vec<Diagnostic>,
}

impl Aspects {
    /// An error at a place in the sources.
    pub fn error(&self, span: Span, message: impl Into<String>) -> Diagnostic {
        match self.sources.get(span.file) {
            Some(source) => Diagnostic::at(source, span, message),
            None => Diagnostic::general(message),
        }
    }
}

/// `include name;`
#[derive(Clone, Debug)]
pub struct Include {
    /// The name.
    pub name: Ident,
    /// The source that was read in this place; none if what is included was not to be read.
    pub source: Option<usize>,
}

/// A name that the aspect gives to something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The name.
    pub text: String,
    /// Where it is.
    pub span: Span,
}

impl Ident {
    /// What advice without a name is called: the file, and the line.
    pub(crate) fn unnamed(source: &Source, place: Span) -> Self {
        let file = source.name.rsplit('/').next().unwrap_or(&source.name);
        Self { text: format!("{file}:{}", place.line), span: place }
    }
}

/// The definition of a flow.
#[derive(Clone, Debug)]
pub struct Xflow {
    /// What pointcuts call it.
    pub name: Ident,
    /// In the order of the file.
    pub clauses: Vec<Clause>,
}

impl Xflow {
    /// Adds a clause, and names it.
    pub(crate) fn push(&mut self, mut clause: Clause) {
        let same = self.clauses.iter().filter(|other| other.kind == clause.kind).count();
        clause.name = format!("{}.{}{}", self.name.text, clause.kind.word(), same + 1);
        self.clauses.push(clause);
    }
}

/// One point on the way of a flow.
#[derive(Clone, Debug)]
pub struct Clause {
    /// Beginning, middle or end.
    pub kind: ClauseKind,
    /// The flow's name, the kind, and a number among those of the kind from 1: `packet.transit3`.
    pub name: String,
    /// Where it is: its first word.
    pub span: Span,
    /// At which join points.
    pub pointcut: Pointcut,
    /// At how many of them.
    pub exact: Exact,
    /// What happens to the flow there.
    pub act: Act,
}

/// Which part of a flow's way a clause is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, strum::EnumString, strum::IntoStaticStr, strum::VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum ClauseKind {
    /// The flow begins.
    Start,
    /// The flow goes on in another shape, thread or domain.
    Transit,
    /// The flow ends.
    Quit,
}

impl ClauseKind {
    /// As it is written.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// What a clause does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Begins or ends (according to the clause's kind) the flow of this key.
    Select(Code),
    /// The same, with the address of the structure that `access` selects as the key.
    SelectTarget,
    /// A key hands its flow to another, and keeps it if it is a copy.
    Hand {
        /// Whether `from` keeps the flow.
        copy: bool,
        /// The key that has the flow.
        from: Code,
        /// The key that gets it.
        to: Code,
    },
    /// A part of the data of a key goes on as a flow of its own, which names its parent.
    Split {
        /// The key that has the flow, and keeps it.
        from: Code,
        /// The key of the part.
        to: Code,
    },
    /// The data of a key becomes part of another's: a new flow, which names both as its parents.
    Merge {
        /// The key whose data is taken in.
        from: Code,
        /// The key that takes it in.
        to: Code,
    },
    /// A key's flow is put on a carrier.
    Xin {
        /// Whether `from` keeps the flow.
        copy: bool,
        /// What `xout` calls the carrier.
        carrier: Ident,
        /// The key that has the flow.
        from: Code,
        /// The carrier's key, a `struct xw_key`.
        key: Code,
    },
    /// A flow comes off a carrier.
    Xout {
        /// As it was written; it makes no difference, since nothing is written to the carrier.
        copy: bool,
        /// What `xin` calls the carrier.
        carrier: Ident,
        /// The carrier's key, a `struct xw_key`.
        key: Code,
        /// The key that gets the flow.
        to: Code,
    },
    /// Does what this C code does.
    Action(Code),
}

impl Act {
    /// All C fragments in it.
    pub fn codes(&self) -> Vec<&Code> {
        match self {
            Self::SelectTarget => Vec::new(),
            Self::Select(code) | Self::Action(code) => vec![code],
            Self::Hand { from, to, .. } | Self::Split { from, to } | Self::Merge { from, to } => {
                vec![from, to]
            }
            Self::Xin { from, key, .. } => vec![from, key],
            Self::Xout { key, to, .. } => vec![key, to],
        }
    }
}

/// Code to run at join points.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Its name; without one, the file's name and the line: `net.aspect:12`.
    pub name: Ident,
    /// Whether the name was written.
    pub named: bool,
    /// At which join points.
    pub pointcut: Pointcut,
    /// At how many of them.
    pub exact: Exact,
    /// When.
    pub when: When,
    /// What runs.
    pub body: Code,
}

/// When advice runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum When {
    /// Right before the join point.
    #[default]
    Before,
    /// After it: for `execution`, the same as before `returning`.
    After,
}

/// At how many of the instructions that `access` selects something is woven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Exact {
    /// At each.
    #[default]
    Every,
    /// At the first on a path: not where another that touches the same structure, by the same pointer, has
    /// always come before.
    First,
    /// Once per call of a function with such an instruction: at its entry where the structure is a
    /// parameter, else as [`Exact::First`].
    Function,
}

impl Exact {
    /// As it is written.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// An expression over join points.
#[derive(Clone, Debug)]
pub enum Pointcut {
    /// All of them.
    And(Vec<Pointcut>),
    /// Any of them.
    Or(Vec<Pointcut>),
    /// Not that one.
    Not(Box<Pointcut>),
    /// The entry of one of these functions.
    Execution(Vec<FunctionName>),
    /// The return from one of these functions.
    Returning(Vec<FunctionName>),
    /// The instructions that touch a member of a structure.
    Access(Access),
    /// A static tracepoint of the kernel.
    Tracepoint(Tracepoint),
    /// The entry of functions of a program in the domain: by `after`, the return from them.
    User(UserFunction),
    /// Only what is in one of these functions.
    WithinFunction(Vec<FunctionName>),
    /// Only what is in one of these source files: paths or ends of paths, in which `%` and `...` stand for
    /// anything.
    WithinFile(Vec<FunctionName>),
    /// Gives the address of the structure that `access` selects a name.
    Target(Ident),
    /// Only where a local variable (or parameter) has a value; and gives that another name.
    LocalVar(Renamed),
    /// Gives an argument, by its name or its number from 0, another name.
    Arg(Renamed),
    /// Whether data belongs to a flow.
    Xflow(XflowTest),
    /// Whether a C expression is not 0.
    If(Code),
    /// Whether the running process is this one.
    Pid(u32, Span),
    /// Whether the running thread has this name; `%` stands for any characters at its end.
    Comm(Ident),
}

/// The names of all kinds of pointcuts, for messages.
pub const POINTCUTS: [&str; 14] = [
    "execution",
    "returning",
    "access",
    "tracepoint",
    "user",
    "within_function",
    "within_file",
    "target",
    "local_var",
    "arg",
    "xflow",
    "if",
    "pid",
    "comm",
];

impl Pointcut {
    /// Where it is, if it is neither AND nor OR nor NOT.
    pub fn place(&self) -> Span {
        match self {
            Self::And(_) | Self::Or(_) | Self::Not(_) => Span::default(),
            Self::Execution(names)
            | Self::Returning(names)
            | Self::WithinFunction(names)
            | Self::WithinFile(names) => names.first().map_or(Span::default(), |name| name.span),
            Self::Access(access) => access.span,
            Self::Tracepoint(tracepoint) => tracepoint.span,
            Self::User(function) => function.span,
            Self::Target(name) | Self::Comm(name) => name.span,
            Self::LocalVar(renamed) | Self::Arg(renamed) => renamed.of.span,
            Self::Xflow(test) => test.flow.span,
            Self::If(code) => code.span,
            Self::Pid(_, span) => *span,
        }
    }

    /// Whether a join point is selected. `atom` says so of each part that is neither AND nor OR nor NOT, as far as
    /// it is known; none where what is not known decides.
    pub fn decide<'a>(&'a self, atom: &impl Fn(&'a Pointcut) -> Option<bool>) -> Option<bool> {
        let first = |parts: &'a [Self], decides: bool| {
            let mut decided = Some(!decides);
            for part in parts {
                match part.decide(atom) {
                    Some(is) if is == decides => return Some(decides),
                    Some(_) => {}
                    None => decided = None,
                }
            }
            decided
        };
        match self {
            Self::And(parts) => first(parts, false),
            Self::Or(parts) => first(parts, true),
            Self::Not(part) => part.decide(atom).map(|is| !is),
            part => atom(part),
        }
    }

    /// Calls `visit` for each part that is neither AND nor OR nor NOT.
    pub fn atoms<'a>(&'a self, visit: &mut impl FnMut(&'a Pointcut)) {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.atoms(visit)),
            Self::Not(part) => part.atoms(visit),
            _ => visit(self),
        }
    }

    /// As [`Pointcut::atoms`], without those below NOT: what they name need not be anywhere.
    pub fn wanted_atoms<'a>(&'a self, visit: &mut impl FnMut(&'a Pointcut)) {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.wanted_atoms(visit)),
            Self::Not(_) => {}
            _ => visit(self),
        }
    }

    /// All C fragments in it.
    pub fn codes(&self) -> Vec<&Code> {
        let mut codes = Vec::new();
        self.atoms(&mut |atom| match atom {
            Self::Xflow(test) => codes.push(&test.key),
            Self::If(code) => codes.push(code),
            _ => {}
        });
        codes
    }
}

/// A function, or functions, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// The name; `%` stands for any characters.
    pub pattern: String,
    /// What it is called on other kernels: the first that a kernel has is meant where it has no function `pattern`.
    pub alternatives: Vec<String>,
    /// The name or role of the domains that are meant; all if none.
    pub domain: Option<Ident>,
    /// Whether a kernel may lack it.
    pub optional: bool,
    /// Where it is.
    pub span: Span,
}

impl FunctionName {
    /// The name and its alternatives, in the order in which a kernel is asked for them.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        [&self.pattern].into_iter().chain(&self.alternatives).map(String::as_str)
    }

    /// The pattern of a path: there `...` stands for any characters as well.
    pub fn path(&self) -> String {
        self.pattern.replace("...", "%")
    }
}

/// `access(sk_buff.len, read)@guest`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The structure's, union's or typedef's name; `%` stands for any characters.
    pub structure: String,
    /// Names of members with dots between, or the first ones of them; `%` stands for any.
    pub member: String,
    /// Only what reads (or also reads), or writes.
    pub how: Option<How>,
    /// The name or role of the domains that are meant; all if none.
    pub domain: Option<Ident>,
    /// Where it is.
    pub span: Span,
}

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// `tracepoint(sched:sched_switch)@host`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// What the kernel lists it under: `sched`.
    pub category: String,
    /// Its name.
    pub name: String,
    /// The name or role of the domains that are meant; all if none.
    pub domain: Option<Ident>,
    /// Whether a kernel may lack it.
    pub optional: bool,
    /// Where it is.
    pub span: Span,
}

/// `user(/usr/sbin/nginx:ngx_http_handler)@vm1`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFunction {
    /// The program's or library's absolute path in the domain.
    pub path: String,
    /// The function's name in its symbol table.
    pub function: String,
    /// The name or role of the domains that are meant; all if none.
    pub domain: Option<Ident>,
    /// Whether a domain may lack it.
    pub optional: bool,
    /// Where it is.
    pub span: Span,
}

/// `local_var(sk, s)`, `arg(0, message)`: something of the join point's, and the name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// What it is called there.
    pub of: Ident,
    /// What the code calls it; the same if none.
    pub name: Option<Ident>,
}

impl Renamed {
    /// The name that the code has for it.
    pub fn given(&self) -> &Ident {
        self.name.as_ref().unwrap_or(&self.of)
    }
}

/// `xflow(flow, key, id)`
#[derive(Clone, Debug)]
pub struct XflowTest {
    /// The flow's name.
    pub flow: Ident,
    /// The key that must carry the flow.
    pub key: Code,
    /// The variable that holds the flow's ID for the code.
    pub id: Option<Ident>,
}
