//! `xweave sites`: the instructions that touch a member of a structure.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::Serialize;
use xweave_access::{IndexCache, Keep, Source, Unanswerable, question};
use xweave_report::{View, document, sites};

use crate::{confinement::Only, failure::Failure, indexing::Indexing, shown};

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
    if let Some(folder) = file.iter().find(|file| file.is_dir()) {
        return Err(Failure::Usage(format!("{} is a directory: name a file in it", folder.display())));
    }
    let what = file.as_ref().map_or("the running kernel".into(), |file| file.display().to_string());
    let cache = if args.no_cache { None } else { Some(xweave_weave::cache_directory()) };
    let cache = cache.transpose().map_err(Failure::usage)?;
    let (folder, keep) = kept(file.is_some(), args.for_record);
    let cache = cache.map(|cache| cache.join(folder));
    if let Some(file) = &file {
        let only = Only::reading([Some(file), args.base.as_ref()].into_iter().flatten().map(|file| &**file));
        let only = only.opening_by_name();
        cache.iter().fold(only, |only, cache| only.writing_in(cache)).apply()?;
    }
    let source = Source { file, base: args.base, btf_only: args.btf_only };
    let indexing = Indexing::new(&what);
    let tell = |done, of| indexing.go_on(done, of);
    let index = source.index(cache.as_deref().map(keep), || indexing.begin(), &tell);
    indexing.end();
    let index = index.map_err(Failure::usage)?;
    index.can_answer(&pointcut, &what).map_err(no_answer)?;

    // What is cut out of a pipe's lines is in all of them.
    let view = View::of_stdout(u16::MAX);
    let coverage = index.coverage();
    let query = index.query(&pointcut, |_| true);
    if args.unresolved {
        let unresolved = query.unresolved();
        return shown::only(|out| match (args.jsonl, args.json) {
            (true, _) => lines(out, unresolved.iter().map(document::sites::build_unresolved)),
            (false, true) => {
                document::write(out, &document::sites::build_all_unresolved(coverage, &unresolved))
            }
            (false, false) => sites::unresolved(out, &unresolved, coverage, view),
        });
    }
    let mut found = query.sites();
    if let Some(why) = found.is_empty().then(|| index.why_nothing(&pointcut, &what)).flatten() {
        return Err(no_answer(why));
    }
    found.retain(|site| site.certain || !args.certain);
    shown::only(|out| match (args.jsonl, args.json) {
        (true, _) => lines(out, found.iter().map(document::sites::build_site)),
        (false, true) => document::write(out, &document::sites::build(coverage, &found)),
        (false, false) => sites::table(out, &found, coverage, view),
    })
}

/// The folder of the cache that an index is kept in, and by what. What a file says of itself must not become what kernels
/// are woven by, but where the user says so.
fn kept(of_file: bool, for_record: bool) -> (&'static str, fn(&Path) -> Keep<'_>) {
    match (of_file, for_record) {
        (true, true) => ("access", |path| Keep::OfBuild(path)),
        (true, false) => ("sites", |path| Keep::OfFile(path)),
        (false, _) => (IndexCache::LIVE, |path| Keep::OfFile(path)),
    }
}

/// A name that is not there is a question with no answer; what cannot be asked is a matter of usage.
fn no_answer(why: Unanswerable) -> Failure {
    match why {
        Unanswerable::Name { .. } => Failure::Failed(why.to_string()),
        _ => Failure::usage(why),
    }
}

/// A JSON object a line.
fn lines(out: &mut impl Write, mut found: impl Iterator<Item = impl Serialize>) -> io::Result<()> {
    found.try_for_each(|one| document::write_line(out, &one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_a_file_keeps_nothing_where_the_running_kernels_index_is() {
        let folder = |of_file, for_record| kept(of_file, for_record).0;
        assert_eq!([folder(true, false), folder(true, true)], ["sites", "access"]);
        assert_eq!([folder(false, false), folder(false, true)], [IndexCache::LIVE; 2]);
    }
}
