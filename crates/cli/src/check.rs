//! `xweave check`: what would be woven where, without weaving it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use xweave_access::IndexCache;
use xweave_aspect::{Aspects, Diagnostic, Source};
use xweave_code::Kernel;
use xweave_report::{check, document};
use xweave_weave::{
    AspectInput, CodeIndex, Compiler, Domain, EventChoice, KernelFiles, Library, Options, PayloadKey, Peer,
    PortableText, Role, Weaving, unseen_calls,
};

use crate::{
    arguments::{Groups, something_named},
    confinement::Only,
    failure::Failure,
    shown,
};

/// Check aspects: where they would attach, and what is wrong with them; attaches nothing
///
/// Parses the aspects, finds the join points in each domain's kernel, those of the probes of events
/// (--events), and compiles. KERNEL is `live` (the
/// running kernel), a file with type information (vmlinux, or raw BTF) followed by module files after commas,
/// or a directory laid out like /sys/kernel/btf. A domain named host or dom0 is a host, any other a guest.
/// Without --domain, the running kernel is checked as the host's.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave check virtio-net --domain host=live --domain vm1=vmlinux,virtio_net.ko
  xweave check -e 'advice reads execution(vfs_read) { STORE_DATA1(count); }'
  xweave check my.aspect --domain host=BTF --domain vm1=BTF --compile my.programs
  xweave check --events all")]
pub struct Args {
    /// Aspect files, or names of aspects of the library
    #[arg(value_name = "ASPECT")]
    aspects: Vec<PathBuf>,
    /// Aspect text given on the command line
    #[arg(short, long, value_name = "TEXT")]
    expression: Vec<String>,
    /// Which frames are followed, in tcpdump's words: 'tcp port 80'
    #[arg(long = "where", value_name = "FILTER")]
    filter: Option<String>,
    /// Event groups, or `all`: which of their probes the kernels have no place for
    #[arg(long, value_name = "GROUP,…", value_parser = Groups::parse)]
    events: Option<Groups>,
    /// The key of messages that the events are to tell, as `record` takes it
    #[arg(long, value_name = "KEY")]
    key: Option<PayloadKey>,
    /// A domain and its kernel
    #[arg(long, value_name = "NAME=KERNEL")]
    domain: Vec<String>,
    /// Do not compile: needs no clang, and does not check C code
    #[arg(long)]
    no_compile: bool,
    /// Write the aspects and their compiled programs into a file, which `record` takes as an aspect: it needs no clang
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_compile", "filter", "events", "key"])]
    compile: Option<PathBuf>,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    something_named("check", &args.aspects, &args.expression, args.events.as_ref())?;
    let input = xweave_weave::read_aspects(&args.aspects, &args.expression, args.filter.as_deref());
    let AspectInput { sources, objects } = input.map_err(Failure::usage)?;
    let library = Library { own: &objects, ..xweave_programs::library() };
    let cache = Cache::new()?;
    let domains = if args.domain.is_empty() { vec!["host=live".to_owned()] } else { args.domain };
    let domains = domains.iter().map(|text| Named::parse(text)).collect::<Result<Vec<_>, _>>()?;
    confine(&domains, &cache, args.compile.as_deref())?;
    let kernels = domains.iter().map(Named::kernel).collect::<Result<Vec<_>, _>>()?;
    let (found, errors) = match xweave_aspect::parse(sources.clone()) {
        Err(errors) => (Weaving::default(), errors),
        Ok(aspects) => {
            let checked = Checked { aspects: &aspects, named: &domains, kernels: &kernels, cache: &cache };
            let found = checked.find(&library, args.no_compile)?;
            if let Some(file) = args.compile.as_deref().filter(|_| found.1.is_empty()) {
                checked.compile(file, sources)?;
            }
            found
        }
    };
    let wanted = EventChoice::new(args.events.map_or(Vec::new(), |groups| groups.0), args.key);
    let mut events = Vec::new();
    for (of, kernel) in domains.iter().zip(&kernels).filter(|_| !wanted.is_empty()) {
        // The size has no influence on what is found.
        let found = xweave_weave::events(kernel, &wanted, 4096, library.events);
        events.push((of.name.as_str(), found.map_err(|error| Failure::Failed(error.to_string()))?));
    }
    if args.json {
        shown::print(|out| document::write(out, &document::check::build(&found, &events, &errors)))?;
    } else {
        for diagnostic in found.warnings.iter().chain(&errors) {
            eprintln!("{}\n", shown::diagnostic(diagnostic));
        }
        let closing = if errors.is_empty() { check::closing(&found, &events) } else { String::new() };
        let (table, events) = (check::table(&found), check::table_of_events(&events));
        shown::print(|out| write!(out, "{table}{events}{closing}"))?;
    }
    match errors.len() {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(Failure::Failed("1 mistake: nothing can be woven".to_owned())),
        n => Err(Failure::Failed(format!("{n} mistakes: nothing can be woven"))),
    }
}

/// What is checked.
struct Checked<'a> {
    aspects: &'a Aspects,
    named: &'a [Named<'a>],
    kernels: &'a [Kernel],
    cache: &'a Cache,
}

impl Checked<'_> {
    fn peers(&self) -> Vec<Peer> {
        self.named.iter().map(|of| Peer { name: of.name.clone(), role: Role::of(&of.name) }).collect()
    }

    /// What is known of the instructions of each domain's kernel, where that matters.
    fn code(&self, peers: &[Peer]) -> Result<Vec<Vec<CodeIndex>>, Failure> {
        let code = |(of, peer): (&Named<'_>, &Peer)| {
            // Debug information tells lines, and which calls are inlined.
            let needed = xweave_weave::needs_code(self.aspects, peers, peer) || of.files.have_debug_info();
            if needed { of.code(self.cache) } else { Ok(Vec::new()) }
        };
        self.named.iter().zip(peers).map(code).collect()
    }

    fn domains<'d>(&'d self, code: &'d [Vec<CodeIndex>]) -> Vec<Domain<'d>> {
        let parts = (1..=u8::MAX).zip(self.peers()).zip(self.kernels.iter().zip(code));
        parts
            .map(|((number, Peer { name, role }), (kernel, code))| Domain {
                name,
                role,
                number,
                kernel,
                code,
            })
            .collect()
    }

    /// What would be woven, and mistakes: where there are any, nothing would.
    fn find(&self, library: &Library<'_>, no_compile: bool) -> Result<(Weaving, Vec<Diagnostic>), Failure> {
        let code = self.code(&self.peers())?;
        let domains = self.domains(&code);
        let found = if no_compile {
            xweave_weave::resolve(self.aspects, &domains, 1)
        } else {
            // The sizes have no influence on what is compiled.
            let cache = self.cache.objects.clone();
            let options = Options { first_site: 1, buffer: 4096, flow_table: 1, cache, ..Options::default() };
            xweave_weave::weave(self.aspects, &domains, &options, library)
        };
        let (mut found, errors) = match found {
            Ok(mut found) => {
                for (woven, of) in found.domains.iter().zip(self.named) {
                    let symbols = of.files.symbols();
                    let unseen = unseen_calls::diagnostics(woven, symbols.iter().map(String::as_str));
                    found.warnings.extend(unseen);
                }
                (found, Vec::new())
            }
            Err(errors) => (Weaving::default(), errors),
        };
        found.warnings.splice(0..0, self.aspects.warnings.iter().cloned());
        Ok((found, errors))
    }

    /// Writes the aspects, whose texts these are, and their programs into a file.
    fn compile(&self, file: &Path, sources: Vec<Source>) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
        let compiler = Compiler::find().map_err(|error| failed(&error))?;
        let peers = self.peers();
        let code = self.code(&peers)?;
        let mut objects = Vec::new();
        for domain in self.domains(&code) {
            let text = PortableText::new(self.aspects, &peers, &[domain]);
            let text = text.map_err(|said| {
                let said: Vec<_> = said.iter().map(shown::diagnostic).collect();
                Failure::Failed(said.join("\n"))
            })?;
            let Some(text) = text else { continue };
            let object = text.compile(self.aspects, &compiler, &self.cache.objects);
            let object = object.map_err(|error| failed(&error))?;
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        xweave_weave::write_bundle(file, AspectInput { sources, objects }).map_err(|error| failed(&error))
    }
}

/// Where what is made is kept.
struct Cache {
    /// Not where `record` has its own: what reads a file that somebody made must not write what is loaded into kernels, nor
    /// what kernels are woven by.
    objects: PathBuf,
    /// For the same reason, that of the running kernel, too, is kept here, and not where `sites --live` keeps it.
    indices: PathBuf,
    /// Where that is: it is only read.
    live: PathBuf,
}

impl Cache {
    fn new() -> Result<Self, Failure> {
        let folder = xweave_weave::cache_directory().map_err(Failure::usage)?;
        Ok(Self {
            objects: folder.join("check"),
            indices: folder.join("sites"),
            live: folder.join(IndexCache::LIVE),
        })
    }
}

/// What `--domain NAME=KERNEL` names.
struct Named<'a> {
    argument: &'a str,
    name: String,
    files: KernelFiles,
}

impl<'a> Named<'a> {
    fn parse(argument: &'a str) -> Result<Self, Failure> {
        let split = argument.split_once('=').filter(|(name, what)| !name.is_empty() && !what.is_empty());
        let (name, what) = split.ok_or_else(|| {
            Failure::Usage(format!("--domain {argument}: NAME=KERNEL is wanted, such as host=live"))
        })?;
        Ok(Self { argument, name: name.to_owned(), files: KernelFiles::named(what) })
    }

    fn kernel(&self) -> Result<Kernel, Failure> {
        let kernel = self.files.kernel();
        kernel.map_err(|error| Failure::Usage(format!("--domain {}: {error}", self.argument)))
    }

    /// What its instructions touch. The indices are kept.
    fn code(&self, cache: &Cache) -> Result<Vec<CodeIndex>, Failure> {
        let code = self.files.code(&cache.indices, &cache.live, &|what| eprintln!("indexing {what} …"));
        code.map_err(|error| Failure::Usage(format!("--domain {}: {error}", self.name)))
    }
}

/// Gives up what these domains, the compiler and the caches are not.
fn confine(domains: &[Named<'_>], cache: &Cache, written: Option<&Path>) -> Result<(), Failure> {
    let live = domains.iter().any(|of| of.files == KernelFiles::Live);
    let files = domains.iter().flat_map(|of| of.files.paths());
    let only = Only::reading(files.chain(live.then_some(&*cache.live).filter(|live| live.exists())));
    let only = only.starting(xweave_weave::find_clang());
    let only = only.writing_in(&cache.objects).writing_in(&cache.indices);
    let only = written.into_iter().fold(only, Only::writing);
    if live { only.and_this_kernel() } else { only }.apply()
}
