//! `xweave sites`: the instructions that touch a member of a structure.

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};
use xweave_access::{
    Binding, Coverage, Index, Keep, Named, Place, Reason, Site, Source, question, unknown_names,
};
use xweave_aspect::syntax::Pointcut;
use xweave_report::document::SCHEMA;
use xweave_text as text;

use crate::{confinement::Only, failure::Failure, shown};

/// List the instructions that access a structure member; attaches nothing
///
/// A pointcut combines access(STRUCT.MEMBER), access(STRUCT.MEMBER, read), within_function(NAME) and
/// within_file(NAME) with AND, OR and NOT; % matches any text. local_var(VARIABLE, NAME) selects where a local
/// variable or parameter is readable, and names its value; target(NAME) names the pointer that an access() goes
/// through. Without debug information the kernel's own type information (BTF) is used: file names and local
/// variables other than parameters are not known then.
///
/// The first query of a kernel takes seconds, because every function is analysed; the index is cached.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave sites 'access(sk_buff.len)' --live             in the running kernel (as root)
  xweave sites 'access(sk_buff.%, write) AND within_function(tcp_%)' --kernel vmlinux
  xweave sites 'access(sk_buff.len) AND target(skb) AND local_var(sk)' --kernel vmlinux
  xweave sites 'access(conn.state)' --program ./server  a program, by its DWARF
  xweave sites 'access(%.%)' --kernel vmlinux --jsonl   all, a JSON object a line
  xweave sites 'within_function(tcp_ack)' --kernel vmlinux --unresolved
  xweave sites 'access(sk_buff.len)' --kernel /boot/vmlinuz-6.12 --for-record")]
pub struct Args {
    /// The pointcut to look up
    #[arg(value_name = "POINTCUT")]
    pointcut: String,
    #[command(flatten)]
    source: Program,
    /// Ignore debug information: use what a stock kernel has
    #[arg(long)]
    btf_only: bool,
    /// The kernel image that a module (`--program MODULE.ko`) belongs to
    #[arg(long, value_name = "VMLINUX")]
    base: Option<PathBuf>,
    /// Only certain accesses, not possible ones
    #[arg(long)]
    certain: bool,
    /// List the memory instructions whose target is not known instead, with the reason
    #[arg(long)]
    unresolved: bool,
    /// Print a JSON document
    #[arg(long, conflicts_with = "jsonl")]
    json: bool,
    /// Print one JSON object per line, without the coverage
    #[arg(long)]
    jsonl: bool,
    /// Do not use or write the cached index
    #[arg(long, conflicts_with = "for_record")]
    no_cache: bool,
    /// Also cache the index for `record` on kernels with this build ID; only for files that you trust
    #[arg(long)]
    for_record: bool,
}

#[derive(clap::Args)]
#[group(multiple = false)]
struct Program {
    /// A kernel image: vmlinux or vmlinuz
    #[arg(long, value_name = "VMLINUX")]
    kernel: Option<PathBuf>,
    /// A program, library, object file or kernel module
    #[arg(long, value_name = "ELF")]
    program: Option<PathBuf>,
    /// The running kernel with its modules (the default)
    #[arg(long)]
    live: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let pointcut = question(&args.pointcut).map_err(Failure::usage)?;
    let file = args.source.kernel.or(args.source.program);
    if let Some(missing) = file.iter().chain(&args.base).find(|file| !file.exists()) {
        return Err(Failure::Usage(format!("{}: there is no such file", missing.display())));
    }
    let what = file.as_ref().map_or("the running kernel".into(), |file| file.display().to_string());
    let cache = if args.no_cache { None } else { Some(xweave_weave::cache_directory()) };
    let cache = cache.transpose().map_err(Failure::usage)?;
    // What a file says of itself must not become what kernels are woven by, but where the user says so.
    let (folder, keep): (_, fn(&Path) -> Keep<'_>) = if args.for_record {
        ("access", |path| Keep::OfBuild(path))
    } else {
        ("sites", |path| Keep::OfFile(path))
    };
    let cache = cache.map(|cache| cache.join(folder));
    if let Some(file) = &file {
        let only = Only::reading([Some(file), args.base.as_ref()].into_iter().flatten().map(|file| &**file));
        cache.iter().fold(only, |only, cache| only.writing_in(cache)).apply()?;
    }
    let source = Source { file, base: args.base, btf_only: args.btf_only };
    let mut bar = None;
    let index = source.index(cache.as_deref().map(keep), || bar = Some(progress(&what)));
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let index = index.map_err(Failure::usage)?;
    known(&pointcut, &index, &what)?;
    let mut names_files = false;
    pointcut.atoms(&mut |atom| names_files |= matches!(atom, Pointcut::WithinFile(_)));
    if names_files && !index.has_lines() {
        return Err(Failure::Usage(format!(
            "within_file needs debug information, and {what} has none, or it is left aside: use within_function, \
             or a file with DWARF"
        )));
    }

    let query = index.query(&pointcut, |_| true);
    let mut out = BufWriter::new(io::stdout().lock());
    let printed = if args.unresolved {
        let unresolved = query.unresolved();
        print(
            &mut out,
            args.json,
            args.jsonl,
            index.coverage(),
            "unresolved",
            &unresolved,
            Print {
                json: |unresolved| {
                    json!({"function": unresolved.function, "offset": unresolved.offset,
                "address": unresolved.address, "reason": unresolved.reason.name()})
                },
                row: |unresolved| {
                    vec![place(unresolved.function, unresolved.offset), unresolved.reason.name().into()]
                },
                headings: &["Instruction", "Why it is not known"],
            },
        )
    } else {
        let mut sites = query.sites();
        sites.retain(|site| site.certain || !args.certain);
        print(
            &mut out,
            args.json,
            args.jsonl,
            index.coverage(),
            "sites",
            &sites,
            Print {
                json: site_json,
                row: site_row,
                headings: &["Instruction", "Access", "Member", "", "Base", "Bindings", "Source"],
            },
        )
    };
    match printed.and_then(|()| out.flush()) {
        // Whoever reads has seen enough (`| head`).
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("cannot write to standard output: {e}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn progress(what: &str) -> indicatif::ProgressBar {
    if !io::stderr().is_terminal() {
        eprintln!("indexing {what} …");
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new_spinner().with_message(format!("indexing {what}"));
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}

/// Names that nothing has are most likely mistyped.
fn known(pointcut: &Pointcut, index: &Index, what: &str) -> Result<(), Failure> {
    let Some(unknown) = unknown_names(pointcut, |_| true, [index].into_iter()).into_iter().next() else {
        return Ok(());
    };
    let help = match (&unknown.near[..], &unknown.what) {
        ([], Named::Variable) => {
            "without debug information, only parameters are known, by the names they are declared with".into()
        }
        ([], _) => "`access(%.%)` shows all that is touched".into(),
        (near, _) => format!("did you mean {}?", near.join(", ")),
    };
    Err(Failure::Usage(format!("{what}: {unknown}; {help}")))
}

/// How one kind of result is printed.
struct Print<'a, T> {
    json: fn(&T) -> Value,
    row: fn(&T) -> Vec<String>,
    headings: &'a [&'a str],
}

fn print<T>(
    out: &mut impl Write,
    json: bool,
    jsonl: bool,
    coverage: Coverage,
    name: &str,
    found: &[T],
    how: Print<'_, T>,
) -> io::Result<()> {
    if jsonl {
        for one in found {
            writeln!(out, "{}", shown::json(&(how.json)(one)))?;
        }
        return Ok(());
    }
    if json {
        let found: Vec<Value> = found.iter().map(how.json).collect();
        let document = json!({"schema": SCHEMA, "coverage": coverage_json(coverage), name: found});
        return writeln!(out, "{}", shown::json(&document));
    }
    // Names are those of functions, files and variables of a program that anybody may have made.
    let fit = |row: Vec<String>| row.iter().map(|cell| text::printable(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = found.iter().map(how.row).map(fit).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([how.headings[column].chars().count()]).max().unwrap_or(0)
    };
    // A column in which nothing is, is left out.
    let filled =
        |column: &usize| rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()));
    let columns: Vec<_> =
        (0..how.headings.len()).filter(filled).map(|column| (column, width(column))).collect();
    let headings: Vec<String> = how.headings.iter().map(|heading| (*heading).to_owned()).collect();
    for row in [&headings].into_iter().chain(&rows).filter(|_| !rows.is_empty()) {
        let cells = columns.iter().map(|(column, width)| format!("{:<width$}", row[*column]));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    let typed = 100.0 * coverage.typed as f64 / coverage.memory_instructions.max(1) as f64;
    writeln!(
        out,
        "{}{} of them; of the program's {} instructions that touch memory, {typed:.1} % are typed",
        if rows.is_empty() { "" } else { "\n" },
        rows.len(),
        coverage.memory_instructions,
    )
}

fn coverage_json(coverage: Coverage) -> Value {
    let reasons: serde_json::Map<_, _> = Reason::ALL
        .iter()
        .zip(coverage.unresolved)
        .map(|(reason, count)| (reason.name().to_owned(), count.into()))
        .collect();
    json!({
        "instructions": coverage.instructions,
        "memory_instructions": coverage.memory_instructions,
        "typed": coverage.typed,
        "unresolved": coverage.unresolved(),
        "reasons": reasons,
    })
}

fn access(site: &Site<'_>) -> &'static str {
    match (site.reads, site.writes) {
        (true, true) => "both",
        (false, true) => "write",
        _ => "read",
    }
}

fn site_json(site: &Site<'_>) -> Value {
    let levels: Vec<Value> = site
        .path
        .levels
        .iter()
        .map(|level| {
            json!({"type": level.type_, "start": level.start, "end": level.end, "overlay": level.overlay})
        })
        .collect();
    json!({
        "function": site.function,
        "module": site.module,
        "offset": site.offset,
        "address": site.address,
        "struct": site.path.structure(),
        "member": site.path.member(),
        "access": access(site),
        "certain": site.certain,
        "levels": levels,
        "base": site.base.map(|(register, add)| json!({"register": register, "add": add})),
        "file": site.line.map(|(file, _)| file),
        "line": site.line.map(|(_, line)| line),
        "bindings": site.bindings.iter().map(binding_json).collect::<Vec<_>>(),
    })
}

fn binding_json(binding: &Binding<'_>) -> Value {
    let place = match binding.place {
        Place::Register { register, add } => json!({"register": register, "add": add, "dereference": false}),
        Place::Memory { register, add } => json!({"register": register, "add": add, "dereference": true}),
        Place::Constant(constant) => json!({"constant": constant}),
    };
    json!({"name": binding.name, "type": binding.type_, "place": place})
}

fn binding_text(binding: &Binding<'_>) -> String {
    let name = binding.name;
    match binding.place {
        Place::Register { register, add } => format!("{name} = {}", sum(register, add)),
        Place::Memory { register, add } => format!("{name} = *({})", sum(register, add)),
        Place::Constant(constant) => match i32::try_from(constant.cast_signed()) {
            Ok(small) => format!("{name} = {small}"),
            Err(_) => format!("{name} = {constant:#x}"),
        },
    }
}

fn sum(register: &str, add: i32) -> String {
    match add {
        0 => register.to_owned(),
        add => format!("{register}{add:+}"),
    }
}

fn place(function: &str, offset: u32) -> String {
    format!("{function}+{offset:#x}")
}

fn site_row(site: &Site<'_>) -> Vec<String> {
    vec![
        place(site.function, site.offset),
        access(site).to_owned(),
        format!("{}.{}", site.path.structure(), site.path.member()),
        if site.certain { "" } else { "possible" }.to_owned(),
        site.base.map_or_else(String::new, |(register, add)| sum(register, add)),
        site.bindings.iter().map(binding_text).collect::<Vec<_>>().join(", "),
        site.line.map_or_else(String::new, |(file, line)| format!("{file}:{line}")),
    ]
}
