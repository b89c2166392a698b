//! `xweave check`: what would be woven where, without weaving it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use xweave_report::{check, document};
use xweave_weave::{
    AspectInput, EventChoice, KernelFiles, Library, PayloadKey, Weaving,
    check::{Check, CheckCaches, CheckError, NamedKernel},
};

use crate::{
    arguments::{Groups, something_named},
    confinement::Only,
    failure::Failure,
    shown, told,
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
    /// Packet filter, as tcpdump takes it: 'tcp port 80'
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
    let caches = CheckCaches::new(&xweave_weave::cache_directory().map_err(Failure::usage)?);
    let domains = if args.domain.is_empty() { vec!["host=live".to_owned()] } else { args.domain };
    let domains = domains.iter().map(|text| NamedKernel::parse(text)).collect::<Result<Vec<_>, _>>()?;
    confine(&domains, &caches, args.compile.as_deref())?;
    let kernels = domains.iter().map(NamedKernel::read).collect::<Result<Vec<_>, _>>()?;
    let (found, errors) = match xweave_aspect::parse(sources.clone()) {
        Err(errors) => (Weaving::default(), errors),
        Ok(aspects) => {
            let check = Check {
                aspects: &aspects,
                named: &domains,
                kernels: &kernels,
                caches: &caches,
                indexing: &|what| told::write_line(format_args!("indexing {what} …")),
            };
            let found = check.find((!args.no_compile).then_some(&library))?;
            if let Some(file) = args.compile.as_deref().filter(|_| found.1.is_empty()) {
                let bundle = check.compile(sources)?;
                xweave_weave::write_bundle(file, bundle)
                    .map_err(|error| Failure::Failed(error.to_string()))?;
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
            told::write_line(format_args!("{}\n", shown::diagnostic(diagnostic)));
        }
        let closing = if errors.is_empty() { check::closing(&found, &events) } else { String::new() };
        let (table, events) = (check::table(&found), check::table_of_events(&events));
        shown::print(|out| write!(out, "{table}{events}{closing}"))?;
    }
    match errors.len() {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(Failure::Failed("1 error: nothing can be attached".to_owned())),
        n => Err(Failure::Failed(format!("{n} errors: nothing can be attached"))),
    }
}

/// Gives up what these domains, the compiler and the caches are not.
fn confine(domains: &[NamedKernel], caches: &CheckCaches, written: Option<&Path>) -> Result<(), Failure> {
    let live = domains.iter().any(|of| of.files == KernelFiles::Live);
    let files = domains.iter().flat_map(|of| of.files.paths());
    let only = Only::reading(files.chain(live.then_some(&*caches.live).filter(|live| live.exists())));
    let only = only.starting(xweave_weave::find_clang());
    let only = only.writing_in(&caches.objects).writing_in(&caches.indices);
    let only = written.into_iter().fold(only, Only::writing);
    if live { only.and_this_kernel() } else { only }.apply()
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Syntax(_) | CheckError::Kernel(..) | CheckError::Code(..) => Self::usage(error),
            CheckError::NotPortable(_) | CheckError::Compile(_) => Self::Failed(error.to_string()),
        }
    }
}
