//! Join points to programs, and programs to C.
//!
//! All that is woven at a join point goes into one program: the kernel would run several programs of
//! one function in an order that flows cannot rely on. Join points at which the same is woven, with
//! the variables in the same places, share a program.
//!
//! The user's C appears under `#line` directives and at its own column, so that the compiler's
//! messages, and the verifier's, are about the user's own text.

use std::collections::{BTreeSet, HashMap, HashSet, hash_map::Entry};
use std::fmt::Write;
use std::hash::Hash;
use std::ops::RangeFrom;

use xweave_aspect::syntax::Act;
use xweave_aspect::{Aspects, Code, Special};
use xweave_code::declare::{Declarations, declare};
use xweave_code::{Kernel, TypeRef};
use xweave_wire::message::DropReason;
use xweave_wire::plan::{Hook, PlanProgram, PlanSite};

use crate::bind::{RETURN, TARGET};
use crate::condition::Condition;
use crate::draft::{DROP_REASONS, Inlined, SiteDraft, Text as DraftText};
use crate::item::Item;
use crate::prelude::{self, Header};
use crate::program_object::ProgramKey;
use crate::resolve::{Applied, Point};
use crate::{Domain, lines, safe};

/// The name of the file with the programs.
pub(crate) const ADVICE: &str = "advice.c";

/// The name of the file with the kernel's types.
pub(crate) const KERNEL: &str = "kernel.h";

/// What the prelude calls the end of a flow that tells why.
const FLOW_DROP: &str = "flow_drop";

/// What a program's body gets: `xw_context` are the words that parameters are bound from.
const BODY_PARAMETERS: &str = "u64 *xw_context, u64 xw_pc_value, XW_RUNS";

/// Join points at which the same is woven: one at least.
pub(crate) struct Program<'a> {
    pub name: String,
    pub points: Vec<Point<'a>>,
}

impl<'a> Program<'a> {
    pub(crate) fn applied(&self) -> &[Applied<'a>] {
        &self.points[0].applied
    }

    fn hook(&self) -> Hook {
        self.points[0].at.hook
    }

    /// The words of its context in which its arguments are, in the order in which its code numbers them. At instructions
    /// a table says where variables are.
    pub(crate) fn words(&self) -> Vec<u8> {
        words(&self.points[0])
    }

    /// The name of the program that saves the arguments for this one.
    pub(crate) fn saver(&self) -> Option<String> {
        (self.hook() == Hook::ProbeReturn).then(|| format!("{}_in", self.name))
    }

    /// Whether it tells the verifier of pointers' types.
    pub(crate) fn casts(&self) -> bool {
        self.applied()
            .iter()
            .flat_map(|applied| &applied.bound.bindings)
            .any(|binding| binding.typed.is_some())
    }

    fn codes(&self) -> impl Iterator<Item = &'a Code> {
        self.applied()
            .iter()
            .flat_map(|applied| applied.condition.codes().into_iter().chain(applied.item.codes()))
    }

    fn attach_order(&self) -> u8 {
        let orders = || self.applied().iter().map(|applied| applied.item.attach_order());
        orders().find(|order| *order == 3).or(orders().min()).unwrap_or(0)
    }
}

/// As [`Program::words`], of a join point.
pub(crate) fn words(point: &Point<'_>) -> Vec<u8> {
    if point.at.hook == Hook::Instruction {
        return Vec::new();
    }
    let bindings = point.applied.iter().flat_map(|applied| &applied.bound.bindings);
    bindings.map(|binding| u8::try_from(binding.word).unwrap_or(u8::MAX)).collect()
}

/// What is compiled for a domain, besides what is the same for all.
pub(crate) struct Emitted {
    /// [`ADVICE`]
    pub advice: String,
    /// [`KERNEL`]
    pub types: Declarations,
    pub headers: Vec<Header>,
    /// Structures that the code names, and the kernel does not have.
    pub missing: Vec<String>,
    /// Enumerators that the code names, with their values in the kernel.
    pub enumerators: Vec<(String, u64)>,
}

impl Emitted {
    pub(crate) fn text(self) -> DraftText {
        let headers = self.headers.iter().map(|header| header.name.to_owned()).collect();
        DraftText { programs: self.advice, types: self.types.text, headers }
    }
}

/// Groups join points into programs, in the order in which these are to be attached.
pub(crate) fn programs(points: Vec<Point<'_>>) -> Vec<Program<'_>> {
    grouped(points, |point| {
        let mut key = format!("{:?}", point.at.hook);
        if point.at.hook == Hook::Tracepoint {
            // The program finds its cookie by its number.
            let _ = write!(key, " {:?}", point.at.place());
        }
        for applied in &point.applied {
            let _ = write!(key, "\n{} {}", applied.item.name(), applied.condition.key());
            for binding in &applied.bound.bindings {
                let _ = write!(key, "\n{} = {} {:?}", binding.declaration, binding.word, binding.typed);
            }
        }
        key
    })
}

/// Makes a program of each function, so that each can have its arguments in other words: for an object that is to fit
/// several kernels. Instructions share one, since a table says where their variables are; and so do functions of the same
/// name, of a kernel and a module.
pub(crate) fn programs_by_function<'a>(sources: &[[u8; 32]], points: Vec<Point<'a>>) -> Vec<Program<'a>> {
    grouped(points, |point| ProgramKey::new(sources, point))
}

/// Makes a program of all join points with the same key.
fn grouped<'a, K: Hash + Eq>(points: Vec<Point<'a>>, key: impl Fn(&Point<'a>) -> K) -> Vec<Program<'a>> {
    let mut programs: Vec<Program<'a>> = Vec::new();
    let mut by_key: HashMap<K, usize> = HashMap::new();
    for point in points {
        match by_key.entry(key(&point)) {
            Entry::Occupied(known) => programs[*known.get()].points.push(point),
            Entry::Vacant(new) => {
                new.insert(programs.len());
                programs.push(Program { name: String::new(), points: vec![point] });
            }
        }
    }
    named(programs)
}

/// Gives programs their names, in the order in which they are to be attached.
fn named(mut programs: Vec<Program<'_>>) -> Vec<Program<'_>> {
    programs.sort_by_key(Program::attach_order);
    for (nth, program) in programs.iter_mut().enumerate() {
        // The kernel shows 15 characters of it.
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let of = program.points[0].at.name().chars().map(plain);
        program.name = format!("xw{nth}_{}", of.collect::<String>());
    }
    programs
}

/// The numbers by which programs at tracepoints find their cookies, and 0 for others.
pub(crate) fn tracepoints<'p>(programs: &'p [Program<'_>]) -> impl Iterator<Item = u32> + 'p {
    let mut next = 0..;
    programs.iter().map(move |program| match program.hook() {
        Hook::Tracepoint => next.next().unwrap_or(0),
        _ => 0,
    })
}

/// Why the kernel drops packets, in its own words, if any program asks it.
pub(crate) fn drop_reasons(kernel: &Kernel, programs: &[Program<'_>]) -> Vec<DropReason> {
    let asks =
        programs.iter().flat_map(Program::codes).any(|code| code.names().any(|name| name == FLOW_DROP));
    let reason = |(name, value): (&str, u64)| DropReason {
        value,
        name: name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name).to_owned(),
    };
    let reasons = asks.then(|| kernel.enumerators("skb_drop_reason").map(reason));
    reasons.into_iter().flatten().take(DROP_REASONS).collect()
}

/// Numbers the sites of a domain, from 1.
pub(crate) fn number(
    aspects: &Aspects,
    domain: &Domain<'_>,
    programs: &[Program<'_>],
) -> (Vec<SiteDraft>, Vec<PlanProgram>) {
    let kernel = domain.kernel;
    let file = |item: &Item<'_>| aspects.sources.get(item.span().file).map_or("", |source| &source.name);
    let (mut sites, mut plan) = (Vec::new(), Vec::new());
    let mut next = 1u32;
    for (program, tracepoint) in programs.iter().zip(tracepoints(programs)) {
        let mut places = Vec::new();
        for point in &program.points {
            let first = next;
            let line = point.at.line(domain.code);
            for applied in &point.applied {
                sites.push(SiteDraft {
                    item: applied.number,
                    hook: point.at.hook,
                    function: point.at.name().to_owned(),
                    module: point.at.module().map(str::to_owned),
                    offset: point.at.offset(),
                    file: line.map(|(file, _)| file.to_owned()),
                    line: line.map(|(_, line)| line),
                });
                next = next.saturating_add(1);
            }
            places.push(PlanSite {
                site: first,
                clauses: next - first,
                function: point.at.told().0.to_owned(),
                module: point.at.module().map(str::to_owned),
                btf_id: point.at.btf_id(),
                offset: point.at.told().1,
                places: point.places.clone(),
                optional: !point.needed,
                arguments: point.at.argument_registers(kernel),
            });
        }
        let origin = program.applied().iter().map(|applied| {
            format!("{}:{} {}", file(&applied.item), applied.item.span().line, applied.item.name())
        });
        plan.push(PlanProgram {
            object: 0,
            name: program.name.clone(),
            hook: program.hook(),
            saver: program.saver(),
            tracepoint,
            sites: places,
            origin: origin.collect::<Vec<_>>().join(", "),
        });
    }
    (sites, plan)
}

/// What is inlined of the functions whose calls are woven, each of them once. `plan` is that of the programs.
pub(crate) fn inlined(domain: &Domain<'_>, programs: &[Program<'_>], plan: &[PlanProgram]) -> Vec<Inlined> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let points = programs.iter().flat_map(|program| &program.points);
    for (point, numbered) in points.zip(plan.iter().flat_map(|program| &program.sites)) {
        let of_calls = point.applied.iter().any(|applied| applied.of_calls);
        if of_calls && seen.insert((point.at.name(), point.at.module())) {
            all.extend(point.at.inlined(domain.code).map(|of| Inlined {
                site: numbered.site,
                calls: of.calls,
                functions: of.functions,
                into: of.into.into_iter().map(str::to_owned).collect(),
            }));
        }
    }
    all
}

/// The name under which a source is known to the compiler: it finds the text there, and puts the
/// lines into the object for the verifier's messages.
pub(crate) fn source_file(aspects: &Aspects, file: usize) -> String {
    let name = aspects.sources.get(file).map_or("", |source| &source.name);
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
    let last = name.rsplit('/').next().unwrap_or_default();
    format!("aspect{file}/{}", last.chars().map(plain).collect::<String>())
}

/// The types of the variables that the code at join points uses: what is declared for them.
pub(crate) fn types_of(points: &[Point<'_>]) -> Vec<TypeRef> {
    let applied = points.iter().flat_map(|point| &point.applied);
    applied.flat_map(|applied| &applied.bound.types).copied().collect()
}

/// Writes the C of a domain. `kernels` are those whose types it is written with, the first that has one of a name; with
/// each those of [`types_of`].
pub(crate) fn emit(
    aspects: &Aspects,
    kernels: &[(&Kernel, Vec<TypeRef>)],
    programs: &[Program<'_>],
) -> Emitted {
    let codes: Vec<&Code> = programs.iter().flat_map(Program::codes).collect();
    let requests = programs.iter().flat_map(Program::applied).filter_map(|applied| applied.item.request());
    let headers =
        prelude::headers(codes.iter().flat_map(|code| code.names()).chain(requests.map(|(_, word)| word)));
    let all = || codes.iter().copied().chain(headers.iter().map(|header| &header.code));
    let macros = prelude::macros();
    let identifiers: HashSet<&str> =
        all().flat_map(Code::names).filter(|name| !macros.contains(*name)).collect();

    let tags: BTreeSet<&str> = all().flat_map(Code::tags).collect();
    let tagged = |kernel: &Kernel| tags.iter().flat_map(|tag| kernel.tagged(tag)).collect::<Vec<_>>();
    let roots: Vec<_> = kernels
        .iter()
        .map(|(kernel, types)| (*kernel, [tagged(kernel).as_slice(), types].concat()))
        .collect();
    let has = |tag: &str| kernels.iter().any(|(kernel, _)| !kernel.tagged(tag).is_empty());
    let missing = tags.iter().filter(|tag| !tag.starts_with("xw_") && !has(tag));
    let missing = missing.map(|tag| (*tag).to_owned()).collect();

    let mut text = Text::new(aspects);
    let _ = writeln!(text.out, "#include \"{}\"", prelude::TYPES.0);
    let _ = writeln!(text.out, "#include \"{KERNEL}\"");
    let _ = writeln!(text.out, "#include \"{}\"", prelude::PRELUDE.0);
    for header in &headers {
        let _ = writeln!(text.out, "#include \"{}\"", header.name);
    }
    let flows = aspects.xflows.iter().map(|xflow| xflow.name.text.as_str());
    for flow in flows.filter(|flow| uses_flow(programs, flow)) {
        let _ = writeln!(text.out, "\nXW_FLOW({flow});");
    }
    for (program, tracepoint) in programs.iter().zip(tracepoints(programs)) {
        text.program(program, tracepoint);
    }
    let roots: Vec<_> = roots.iter().map(|(kernel, roots)| (*kernel, roots.as_slice())).collect();
    let types = declare(&roots, &identifiers);
    let enumerators =
        kernels.first().map_or(Vec::new(), |(kernel, _)| kernel.enumerators_among(&identifiers));
    Emitted { advice: text.out, types, headers, missing, enumerators }
}

fn uses_flow(programs: &[Program<'_>], flow: &str) -> bool {
    programs.iter().flat_map(Program::applied).any(|applied| {
        matches!(applied.item, Item::Clause(xflow, _) if xflow.name.text == flow)
            || applied.condition.tests().iter().any(|test| test.flow.text == flow)
    }) || programs.iter().flat_map(Program::codes).any(|code| code.names().any(|name| name == flow))
}

struct Text<'a> {
    aspects: &'a Aspects,
    out: String,
    /// Whether the verifier must not be left alone with pointers: see [`safe`].
    safe: bool,
}

impl<'a> Text<'a> {
    fn new(aspects: &'a Aspects) -> Self {
        Self { aspects, out: String::new(), safe: false }
    }

    /// `tracepoint` is the program's number among those at tracepoints.
    fn program(&mut self, program: &Program<'_>, tracepoint: u32) {
        let variables = program.points[0].places.len();
        let (section, words, pc) = match program.hook() {
            Hook::Entry => ("fentry", "ctx", "xw_pc"),
            Hook::Return => ("fexit", "ctx", "xw_pc"),
            Hook::Probe => ("kprobe", "ctx", "xw_pc"),
            Hook::ProbeReturn => ("kretprobe", "xw_words", "xw_pc"),
            Hook::Instruction if variables == 0 => ("kprobe", "ctx", "xw_pc_instruction"),
            Hook::Instruction => ("kprobe", "xw_words", "xw_pc_instruction"),
            Hook::Tracepoint => ("tp_btf", "ctx", "0"),
            Hook::User => ("uprobe", "ctx", "xw_pc_user"),
            Hook::UserReturn => ("uretprobe", "ctx", "xw_pc_user"),
        };
        let name = &program.name;
        // A function of its own, which a kprobe's words and a trampoline's can be given to; and from which the
        // user's code may return without leaving the program, which has a guard to free.
        let _ = write!(self.out, "\nstatic __always_inline int {name}_body({BODY_PARAMETERS})\n{{\n");
        self.safe = program.applied().iter().any(|applied| applied.bound.unverified_type);
        let argument = match program.hook() {
            // In the program's own order: a table says where they are.
            Hook::Instruction => "",
            Hook::ProbeReturn => "XW_SAVED_ARGUMENT",
            _ => "XW_ARGUMENT",
        };
        let mut arguments = 0..;
        for (nth, applied) in program.applied().iter().enumerate() {
            let _ = write!(self.out, "\t{{ /* {} */\n\t\tXW_CLAUSE({nth});\n", applied.item.name());
            self.applied(applied, argument, &mut arguments);
            self.out += "\t}\n";
        }
        self.out += "\treturn 0;\n}\n";
        if let Some(saver) = program.saver() {
            let (nested, save) = ("xw_calls_drop(ctx[19])", "xw_save(ctx, xw_first)");
            self.entry("kprobe", &saver, "XW_COOKIE", nested, save);
        }
        let mut body = format!("{name}_body({words}, {pc}, XW_RUNS_NOW)");
        let mut nested = "";
        let mut cookie = "XW_COOKIE".to_owned();
        match program.hook() {
            Hook::Tracepoint => cookie = format!("xw_tracepoint_cookie({tracepoint})"),
            Hook::ProbeReturn => {
                body = format!("u64 xw_words[7]; if (xw_saved(ctx, xw_words)) {body}");
                nested = "xw_calls_drop(ctx[19] - 8)";
            }
            Hook::Instruction if variables > 0 => {
                let read = format!("xw_read_variables(ctx, xw_words, {variables}, xw_first)");
                body = format!("u64 xw_words[{variables}]; if ({read}) {body}");
            }
            _ => {}
        }
        self.entry(section, name, &cookie, nested, &body);
    }

    /// The function that the kernel calls.
    fn entry(&mut self, section: &str, name: &str, cookie: &str, nested: &str, body: &str) {
        let run = format!("XW_RUN({cookie}, {nested}, {body})");
        let _ = write!(self.out, "SEC(\"{section}\")\nint {name}(u64 *ctx)\n{{\n\t{run};\n}}\n");
    }

    /// `argument` is the macro that gives an argument by its number, `arguments` are the numbers from this clause's on.
    fn applied(&mut self, applied: &Applied<'_>, argument: &str, arguments: &mut RangeFrom<usize>) {
        for (binding, nth) in applied.bound.bindings.iter().zip(arguments) {
            let word = match argument {
                "" => format!("xw_context[{}]", binding.word),
                _ => format!("{argument}({nth})"),
            };
            // The bits beyond a value's width are undefined; only to _Bool they would matter.
            let word = if let Some(type_) = &binding.typed {
                format!("XW_TYPED({type_}, {word})")
            } else if binding.declaration.starts_with("_Bool ") {
                format!("(u8){word}")
            } else {
                let name = binding.declaration.rsplit(['*', ' ']).next().unwrap_or_default();
                format!("(__typeof__({name})){word}")
            };
            let _ = writeln!(self.out, "\t\t{} = {word};", binding.declaration);
        }
        let ids: BTreeSet<_> = applied
            .condition
            .tests()
            .into_iter()
            .filter_map(|test| test.id.as_ref())
            .map(|id| &id.text)
            .collect();
        for id in ids {
            let _ = writeln!(self.out, "\t\tu64 {id} = 0;");
        }
        if !matches!(applied.condition, Condition::Known(_)) {
            self.out += "\t\tif (";
            self.condition(&applied.condition);
            self.out += ")\n";
        }
        self.out += "\t\t{\n";
        self.act(applied.item);
        self.out += "\n\t\t}\n";
    }

    fn condition(&mut self, condition: &Condition<'_>) {
        match condition {
            Condition::Known(known) => self.out += if *known { "1" } else { "0" },
            Condition::If(code) => self.pieces(&[Piece::Text("("), Piece::Code(code), Piece::Text(")")]),
            Condition::Xflow(test) => {
                let id = test.id.as_ref().map_or(String::new(), |id| format!("{} = ", id.text));
                let begin = format!("({id}xw_flow = XW_FLOW_OF({}, (", test.flow.text);
                self.pieces(&[Piece::Text(&begin), Piece::Code(&test.key), Piece::Text(")))")]);
            }
            Condition::Pid(pid) => {
                let _ = write!(self.out, "(bpf_get_current_pid_tgid() >> 32 == {pid})");
            }
            Condition::Comm(name) => {
                // The kernel keeps 15 characters.
                let whole = !name.text.ends_with('%');
                let text: String = name.text.trim_end_matches('%').chars().take(15).collect();
                let length = text.len();
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                let _ = write!(self.out, "xw_comm_is(\"{text}\", {length}, {whole})");
            }
            Condition::Not(part) => {
                self.out += "!(";
                self.condition(part);
                self.out += ")";
            }
            Condition::All(parts) | Condition::Any(parts) => {
                let operator = if matches!(condition, Condition::All(_)) { " && " } else { " || " };
                for (nth, part) in parts.iter().enumerate() {
                    self.out += if nth == 0 { "(" } else { operator };
                    self.condition(part);
                }
                self.out += ")";
            }
        }
    }

    fn act(&mut self, item: Item<'_>) {
        let (flow, act) = match item {
            Item::Advice(advice) => return self.pieces(&[Piece::Code(&advice.body)]),
            Item::Clause(xflow, clause) => (&xflow.name.text, &clause.act),
        };
        let (word, arguments): (_, &[&Code]) = match act {
            Act::Action(code) => return self.pieces(&[Piece::Code(code)]),
            Act::SelectTarget => {
                let word = match item.action() {
                    crate::Action::Quit => "XW_FLOW_QUIT",
                    _ => "XW_FLOW_START",
                };
                return self.pieces(&[Piece::Text(&format!("{word}({flow}, {TARGET});"))]);
            }
            Act::Split { from, to } => ("XW_FLOW_SPLIT", &[from, to]),
            Act::Merge { from, to } => ("XW_FLOW_MERGE", &[from, to]),
            Act::Select(key) => match item.action() {
                crate::Action::Quit => ("XW_FLOW_QUIT", &[key]),
                _ => ("XW_FLOW_START", &[key]),
            },
            Act::Hand { copy: true, from, to } => ("XW_FLOW_COPY", &[from, to]),
            Act::Hand { copy: false, from, to } => ("XW_FLOW_MOVE", &[from, to]),
            Act::Xin { copy: true, from, key, .. } => ("XW_XIN_COPY", &[from, key]),
            Act::Xin { copy: false, from, key, .. } => ("XW_XIN_MOVE", &[from, key]),
            Act::Xout { key, to, .. } => ("XW_XOUT", &[key, to]),
        };
        let begin = format!("{word}({flow}");
        let mut pieces = vec![Piece::Text(&begin)];
        for argument in arguments {
            let request = item.request().filter(|(key, _)| std::ptr::eq(*key, *argument));
            let of = request.map_or("", |(_, word)| word);
            pieces.extend([Piece::Text(", "), Piece::Text(of), Piece::Text("(")]);
            pieces.extend([Piece::Code(argument), Piece::Text(")")]);
        }
        pieces.push(Piece::Text(");"));
        self.pieces(&pieces);
    }

    /// Writes text of ours and of the user's, each under the number of its line.
    fn pieces(&mut self, pieces: &[Piece<'_>]) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.out += text,
                Piece::Code(code) => {
                    let file = source_file(self.aspects, code.span.file);
                    let indent = usize::try_from(code.span.column).unwrap_or(1).saturating_sub(1);
                    let special = |special| match special {
                        Special::Return => RETURN,
                        Special::Thread => "xw_thread()",
                        Special::Pc => "xw_pc_value",
                    };
                    let text = if self.safe { safe::render(code, special) } else { code.render(special) };
                    let _ = write!(
                        self.out,
                        "\n#line {} \"{file}\"\n{:indent$}{text}\n",
                        lines::number(code.span),
                        ""
                    );
                    // The line after the directive is one further than the directive's own.
                    let own = self.out.bytes().filter(|byte| *byte == b'\n').count() + 2;
                    let _ = writeln!(self.out, "#line {own} \"{ADVICE}\"");
                }
            }
        }
    }
}

enum Piece<'a> {
    Text(&'a str),
    Code(&'a Code),
}
