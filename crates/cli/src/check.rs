//! `xweave check`: what would be woven where, without weaving it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};
use xweave_aspect::{Aspects, Diagnostic};
use xweave_code::Kernel;
use xweave_report::document::SCHEMA;
use xweave_text as text;
use xweave_weave::{CodeIndex, Counts, Domain, Options, Peer, Role, SiteInfo, Skipped};
use xweave_wire::plan::Hook;

use crate::{confinement::Only, failure::Failure, shown};

/// Check aspects: where they would attach, and what is wrong with them; attaches nothing
///
/// Parses the aspects, finds the join points in each domain's kernel, and compiles. KERNEL is `live` (the
/// running kernel), a file with type information (vmlinux, or raw BTF) followed by module files after commas,
/// or a directory laid out like /sys/kernel/btf. A domain named host or dom0 is a host, any other a guest.
/// Without --domain, the running kernel is checked as the host's.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave check virtio-net --domain host=live --domain vm1=vmlinux,virtio_net.ko
  xweave check -e 'advice reads execution(vfs_read) { STORE_DATA1(count); }'")]
pub struct Args {
    /// Aspect files, or names of aspects of the library
    #[arg(value_name = "ASPECT", required_unless_present = "expression")]
    aspects: Vec<PathBuf>,
    /// Aspect text given on the command line
    #[arg(short, long, value_name = "TEXT")]
    expression: Vec<String>,
    /// A domain and its kernel
    #[arg(long, value_name = "NAME=KERNEL")]
    domain: Vec<String>,
    /// Do not compile: needs no clang, and does not check C code
    #[arg(long)]
    no_compile: bool,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// What was found in the domains.
#[derive(Default)]
struct Found {
    sites: Vec<(String, Vec<SiteInfo>)>,
    skipped: Vec<(String, Vec<Skipped>)>,
    warnings: Vec<Diagnostic>,
    /// By domain and clause.
    counts: BTreeMap<(String, String), Counts>,
}

impl Found {
    fn counts(&self, domain: &str, clause: &str) -> Counts {
        self.counts.get(&(domain.to_owned(), clause.to_owned())).cloned().unwrap_or_default()
    }
}

pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let sources = xweave_aspect::read(&args.aspects, &args.expression).map_err(Failure::usage)?;
    let host = ["host=live".to_owned()];
    let given = if args.domain.is_empty() { &host[..] } else { &args.domain };
    let cache = Cache::new()?;
    confine(given, &cache)?;
    let given = given.iter().map(|text| kernel(text)).collect::<Result<Vec<_>, _>>()?;
    let (found, errors) = match xweave_aspect::parse(sources) {
        Err(errors) => (Found::default(), errors),
        Ok(aspects) => {
            let peers: Vec<_> =
                given.iter().map(|of| Peer { name: of.name.clone(), role: Role::of(&of.name) }).collect();
            let mut code = Vec::new();
            for (of, peer) in given.iter().zip(&peers) {
                let needed = xweave_weave::needs_code(&aspects, &peers, peer);
                code.push(if needed { of.code(&cache)? } else { Vec::new() });
            }
            let parts = (1..=u8::MAX).zip(peers).zip(given.iter().zip(&code));
            let domains: Vec<_> = parts
                .map(|((number, Peer { name, role }), (of, code))| Domain {
                    name,
                    role,
                    number,
                    kernel: &of.kernel,
                    code,
                })
                .collect();
            match check(&aspects, &domains, args.no_compile, &cache) {
                Ok(mut found) => {
                    found.warnings.splice(0..0, aspects.warnings);
                    (found, Vec::new())
                }
                Err(errors) => (Found { warnings: aspects.warnings, ..Found::default() }, errors),
            }
        }
    };
    if args.json {
        print_json(&found, &errors);
    } else {
        print(&found, &errors);
    }
    match errors.len() {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(Failure::Failed("1 mistake: nothing can be woven".to_owned())),
        n => Err(Failure::Failed(format!("{n} mistakes: nothing can be woven"))),
    }
}

fn check(
    aspects: &Aspects,
    domains: &[Domain<'_>],
    no_compile: bool,
    cache: &Cache,
) -> Result<Found, Vec<Diagnostic>> {
    let mut found = Found::default();
    let mut add = |domain: String, sites, skipped, counts: Vec<Counts>| {
        found
            .counts
            .extend(counts.into_iter().map(|counts| ((domain.clone(), counts.clause.clone()), counts)));
        found.sites.push((domain.clone(), sites));
        found.skipped.push((domain, skipped));
    };
    found.warnings = if no_compile {
        let resolution = xweave_weave::resolve(aspects, domains, 1)?;
        resolution.domains.into_iter().for_each(|of| add(of.domain, of.sites, of.skipped, of.counts));
        resolution.warnings
    } else {
        // The sizes have no influence on what is compiled.
        let cache = cache.objects.clone();
        let options = Options { first_site: 1, buffer: 4096, flow_table: 1, serial_attach: false, cache };
        let weaving = xweave_weave::weave(aspects, domains, &options)?;
        weaving.domains.into_iter().for_each(|of| add(of.domain, of.sites, of.skipped, of.counts));
        weaving.warnings
    };
    Ok(found)
}

/// Where what is made is kept.
struct Cache {
    /// Not where `record` has its own: what reads a file that somebody made must not write what is loaded into kernels, nor
    /// what kernels are woven by.
    objects: PathBuf,
    indices: PathBuf,
}

impl Cache {
    fn new() -> Result<Self, Failure> {
        let folder = xweave_weave::cache_directory().map_err(Failure::usage)?;
        Ok(Self { objects: folder.join("check"), indices: folder.join("sites") })
    }
}

/// What `--domain` names.
struct Given {
    name: String,
    kernel: Kernel,
    /// Its files: the image, then modules; none for the running kernel.
    files: Vec<PathBuf>,
}

impl Given {
    /// What its instructions touch. The indices are kept.
    fn code(&self, cache: &Cache) -> Result<Vec<CodeIndex>, Failure> {
        let index = |file: Option<&PathBuf>, base: Option<&PathBuf>| {
            let what = file.map_or("the running kernel".into(), |file| file.display().to_string());
            let source = xweave_access::Source { file: file.cloned(), base: base.cloned(), btf_only: false };
            let index = source
                .index(Some(xweave_access::Keep::OfFile(&cache.indices)), || eprintln!("indexing {what} …"));
            index.map_err(|error| Failure::Usage(format!("--domain {}: {error}", self.name)))
        };
        let Some((image, modules)) = self.files.split_first() else {
            return Ok(vec![CodeIndex { module: None, index: index(None, None)? }]);
        };
        if image.is_dir() {
            return Err(Failure::Usage(format!(
                "--domain {}: {} has types and no machine code, in which access() and within_file() look: name \
                 the kernel's vmlinux instead, with its modules after commas",
                self.name,
                image.display()
            )));
        }
        let mut code = vec![CodeIndex { module: None, index: index(Some(image), None)? }];
        for module in modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = name.split('.').next().unwrap_or_default().replace('-', "_");
            code.push(CodeIndex { module: Some(name), index: index(Some(module), Some(image))? });
        }
        Ok(code)
    }
}

/// Gives up what these domains (`NAME=KERNEL`), the compiler and the caches are not.
fn confine(given: &[String], cache: &Cache) -> Result<(), Failure> {
    let kernels = || given.iter().filter_map(|text| text.split_once('=')).map(|(_, what)| what);
    let files = kernels().filter(|what| *what != LIVE).flat_map(|what| what.split(',')).map(Path::new);
    let only = Only::reading(files).starting(xweave_weave::find_clang());
    let only = only.writing_in(&cache.objects).writing_in(&cache.indices);
    if kernels().any(|what| what == LIVE) { only.and_this_kernel() } else { only }.apply()
}

/// The kernel of this machine, as one says it.
const LIVE: &str = "live";

/// `NAME=KERNEL`
fn kernel(text: &str) -> Result<Given, Failure> {
    let Some((name, what)) = text.split_once('=').filter(|(name, what)| !name.is_empty() && !what.is_empty())
    else {
        return Err(Failure::Usage(format!("--domain {text}: NAME=KERNEL is wanted, such as host=live")));
    };
    let kernel = if what == LIVE {
        Kernel::live()
    } else if Path::new(what).is_dir() {
        of_folder(Path::new(what))
    } else {
        let mut files = what.split(',').map(Path::new);
        let image = files.next().unwrap_or(Path::new(what));
        Kernel::from_file(image).and_then(|mut kernel| {
            files.try_for_each(|module| kernel.add_module_file(module))?;
            Ok(kernel)
        })
    };
    let kernel = kernel.map_err(|error| Failure::Usage(format!("--domain {text}: {error}")))?;
    let files = if what == LIVE { Vec::new() } else { what.split(',').map(PathBuf::from).collect() };
    Ok(Given { name: name.to_owned(), kernel, files })
}

/// A copy of `/sys/kernel/btf`: `vmlinux`, and a file a module.
fn of_folder(folder: &Path) -> Result<Kernel, xweave_code::Error> {
    let mut kernel = Kernel::from_file(&folder.join("vmlinux"))?;
    let read = |reason| xweave_code::Error::Read { path: folder.display().to_string(), reason };
    let mut modules: Vec<_> =
        fs::read_dir(folder).map_err(read)?.flatten().map(|entry| entry.path()).collect();
    modules.retain(|module| !module.ends_with("vmlinux"));
    modules.sort();
    modules.iter().try_for_each(|module| kernel.add_module_file(module))?;
    Ok(kernel)
}

/// What it costs to pass an instruction's probe, in microseconds: made a jump by the kernel, and where that cannot
/// be, a breakpoint. Documentation/trace/kprobes.rst of Linux 6.12, "Optimized Probe Overhead", x86-64.
const PROBE_US: (f64, f64) = (0.06, 0.99);

/// `tcp_sendmsg`, or `tcp_sendmsg+0x1f` where it is an instruction.
fn place(site: &SiteInfo) -> String {
    match site.offset {
        0 => site.function.clone(),
        offset => format!("{}+{offset:#x}", site.function),
    }
}

/// How many of these are instructions.
fn probes(sites: &[&SiteInfo]) -> usize {
    sites.iter().filter(|site| site.hook == Hook::Instruction).count()
}

/// Of each clause in each domain, its sites.
fn by_clause(found: &Found) -> BTreeMap<(&str, u32, &str, &str), Vec<&SiteInfo>> {
    let mut clauses: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (domain, sites) in &found.sites {
        for site in sites {
            let key = (site.aspect.as_str(), site.aspect_line, site.clause.as_str(), domain.as_str());
            clauses.entry(key).or_default().push(site);
        }
    }
    clauses
}

fn print_json(found: &Found, errors: &[Diagnostic]) {
    let diagnostic = |of: &Diagnostic| {
        json!({
            "file": of.file, "line": of.line, "column": of.column, "message": of.message, "help": of.help,
        })
    };
    let advice = by_clause(found).into_iter().map(|((file, line, name, domain), sites)| {
        let counts = found.counts(domain, name);
        json!({
            "name": name, "domain": domain,
            "sites": { "every": counts.every, "first": counts.first, "function": counts.function },
            "woven": sites.len(),
            "probes": probes(&sites),
            "probe_us": [PROBE_US.0, PROBE_US.1],
            "file": file, "line": line, "action": sites[0].action.name(),
            "functions": sites.iter().map(|site| site.function.as_str()).collect::<Vec<_>>(),
            "places": sites.iter().map(|site| place(site)).collect::<Vec<_>>(),
        })
    });
    let skipped = found.skipped.iter().flat_map(|(domain, skipped)| {
        skipped.iter().map(move |of| {
            json!({ "name": of.clause, "domain": domain, "function": of.function, "reason": of.reason })
        })
    });
    let document = json!({
        "schema": SCHEMA,
        "advice": advice.collect::<Vec<Value>>(),
        "skipped": skipped.collect::<Vec<Value>>(),
        "warnings": found.warnings.iter().map(diagnostic).collect::<Vec<_>>(),
        "errors": errors.iter().map(diagnostic).collect::<Vec<_>>(),
    });
    println!("{}", shown::json(&document));
}

fn print(found: &Found, errors: &[Diagnostic]) {
    for diagnostic in found.warnings.iter().chain(errors) {
        eprintln!("{}\n", shown::diagnostic(diagnostic));
    }
    let mut total = 0;
    for ((file, line, name, domain), sites) in by_clause(found) {
        total += sites.len();
        let names: Vec<_> = sites.iter().take(4).map(|site| place(site)).collect();
        let more = sites.len().saturating_sub(names.len());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let action = sites[0].action.name();
        let line = format!("{domain:<10} {name:<24} {action:<7} {}{more}  ({file}:{line})", names.join(", "));
        println!("{}", text::printable(&line));
        let counts = found.counts(domain, name);
        if counts.every != counts.function {
            println!(
                "{:<10} {:<24} {:<7} {} join points: every {}, first {}, function {}",
                "",
                "",
                "",
                sites.len(),
                counts.every,
                counts.first,
                counts.function
            );
            let probes = probes(&sites);
            if probes > 0 {
                println!(
                    "{:<10} {:<24} {:<7} {probes} probes of instructions, {} to {} µs each time one is passed; \
                     functions' hooks are calls",
                    "", "", "", PROBE_US.0, PROBE_US.1
                );
            }
        }
    }
    for (domain, skipped) in &found.skipped {
        for of in skipped {
            let line = format!("{domain:<10} {:<24} skipped {}: {}", of.clause, of.function, of.reason);
            println!("{}", text::lines(&line));
        }
    }
    if errors.is_empty() {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        println!("{} in {}", count(total, "join point"), count(found.sites.len(), "domain"));
    }
}
