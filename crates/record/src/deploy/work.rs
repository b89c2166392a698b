//! What the confined processes do: `xweave confined read`, `compile` and `index`.
//!
//! Each gives up its rights before it looks at what it is passed.

use std::{
    collections::HashSet,
    env,
    fs::File,
    io::{self, Read as _, Write},
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use serde::Serialize;
use xweave_access::Index;
use xweave_aspect::Diagnostic;
use xweave_code::{Kernel, image::LiveCode, types::KernelTypes};
use xweave_guard::confine::{self, Confinement, User};
use xweave_weave::{CodeIndex, Domain, complaints, draft};

use crate::error::{Cause, lines};
use crate::recording::library;

pub use super::parcel::Unreadable;
use super::{
    meter::Pointer,
    parcel::{self, Code, Read, Reading},
};

/// Threads that analyse code side by side: each needs memory.
const THREADS: usize = 16;

/// How many processes and threads there are besides.
const OTHERS: u64 = 8;

/// Processes that compiling takes: clang, and what it starts.
const COMPILERS: u64 = 16;

/// Why a confined process has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not give up its rights.
    #[error("{0}")]
    Confinement(#[from] confine::Error),
    /// It cannot read what it is passed, or write what came of it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is passed what it does not understand.
    #[error("{0}")]
    Parcel(#[from] Unreadable),
    /// Its answer cannot be encoded.
    #[error("{0}")]
    Answer(#[source] postcard::Error),
    /// There is nothing to compile with.
    #[error("there is no clang in the path: apt install clang")]
    NoCompiler,
    /// The compiler cannot be started or does not do its work.
    #[error("{0}")]
    Compiler(#[source] Cause),
    /// Nothing can be made of a file.
    #[error("{0}")]
    File(#[from] xweave_access::Error),
    /// Nothing can be made of types or code.
    #[error("{0}")]
    Code(#[from] xweave_code::Error),
    /// The aspects, which were understood before, are not.
    #[error("{}", lines(.0))]
    Aspects(Vec<Diagnostic>),
    /// Programs that were compiled before cannot be used.
    #[error("{0}")]
    Objects(#[source] Cause),
    /// It is passed the types of two kernels.
    #[error("it has two kernels")]
    TwoKernels,
    /// It is passed the types of none.
    #[error("it has no kernel")]
    NoKernel,
    /// What it is passed is of no domain.
    #[error("it is none of the domains")]
    NoDomain,
}

/// How many threads a reader has.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get().min(THREADS))
}

/// What a reader may do: compute on what it has open.
fn reader() -> Confinement {
    Confinement::new(User::Nobody).processes(threads() as u64 + OTHERS)
}

/// What may be done to compile: writing into the folder where it is, and starting the compiler.
fn compiler(clang: &Path) -> Confinement {
    Confinement::new(User::Nobody).write(".").programs(Some(clang.to_owned())).processes(COMPILERS)
}

/// Reads what a domain sent: the parcel on standard input. Answers on standard output.
///
/// # Errors
///
/// When it cannot be confined; when it is passed nothing that it understands.
pub fn read() -> Result<(), Error> {
    confined(&reader())?;
    let parcel = parcel()?;
    let (reading, rest) = parcel::unpack::<Reading>(&parcel)?;
    answer(&read_parcel(reading, rest).unwrap_or_else(|error| Read::Unusable(error.to_string())))
}

/// Compiles the C files on standard input, in the folder where it is. Answers on standard output.
///
/// # Errors
///
/// When it cannot be confined; when there is no compiler.
pub fn compile() -> Result<(), Error> {
    let clang = xweave_weave::find_clang().ok_or(Error::NoCompiler)?;
    confined(&compiler(&clang))?;
    let parcel = parcel()?;
    let (files, _) = parcel::unpack::<Vec<(String, String)>>(&parcel)?;
    let files = files.iter().map(|(name, text)| (name.clone(), text.as_str())).collect();
    answer(
        &xweave_weave::compile_in(&clang, &files, Path::new("."))
            .map_err(|error| Error::Compiler(error.into()))?,
    )
}

/// Analyses a file of this machine, and writes its index to a file that is open under the number `to`; says how far it
/// is under `meter`.
///
/// # Errors
///
/// When it cannot be confined; when nothing can be made of the file.
pub fn index(path: &Path, to: i32, meter: i32) -> Result<(), Error> {
    let what = path.display().to_string();
    // With the rights to it, and not looked into before they are gone.
    let file = File::open(path).map_err(|reason| xweave_code::Error::Read { path: what.clone(), reason })?;
    confined(&reader())?;
    let pointer = Pointer::new(meter);
    let index = xweave_access::index_kernel_file(&what, &file, &|done, total| pointer.tell(done, total))?;
    write(&mut parcel::handed(to), index.bytes())
}

fn confined(may: &Confinement) -> Result<(), Error> {
    may.apply()?;
    Ok(())
}

fn parcel() -> Result<Vec<u8>, Error> {
    let mut parcel = Vec::new();
    io::stdin().read_to_end(&mut parcel)?;
    Ok(parcel)
}

fn answer<T: Serialize>(answer: &T) -> Result<(), Error> {
    write(&mut io::stdout(), &postcard::to_stdvec(answer).map_err(Error::Answer)?)
}

fn write(to: &mut impl Write, bytes: &[u8]) -> Result<(), Error> {
    to.write_all(bytes)?;
    to.flush()?;
    Ok(())
}

fn read_parcel(reading: Reading, mut rest: &[u8]) -> Result<Read, Error> {
    let aspects = xweave_aspect::parse(reading.aspects).map_err(Error::Aspects)?;
    let library = library(&reading.objects, reading.compile_here);
    let mut kernel: Option<Kernel> = None;
    for (module, length) in &reading.types {
        let btf = parcel::cut(&mut rest, *length)?;
        match (&mut kernel, module) {
            (None, _) => kernel = Some(Kernel::new(reading.release.clone(), btf)?),
            (Some(kernel), Some(module)) => kernel.add_module(module, btf)?,
            (Some(_), None) => return Err(Error::TwoKernels),
        }
    }
    let kernel = kernel.ok_or(Error::NoKernel)?;
    let mut code = Vec::new();
    for (module, number) in reading.indices {
        let what = module.clone().unwrap_or_else(|| "the kernel".to_owned());
        match Index::of_file(Path::new(&what), &parcel::handed(number)) {
            Ok(index) => code.push(CodeIndex { module, index }),
            Err(_) => return Ok(Read::DamagedIndex(module)),
        }
    }
    let mut indexed = Vec::new();
    if let Some(Code { length, wanted, meter }) = reading.code {
        let pointer = Pointer::new(meter);
        let live = LiveCode::unpack(parcel::cut(&mut rest, length)?)?;
        let types = KernelTypes::new(&kernel);
        let there: HashSet<&str> = live.modules().collect();
        let sent = |module: &Option<String>| module.as_deref().is_none_or(|module| there.contains(module));
        let mut before = 0u32;
        for (module, number) in wanted.into_iter().filter(|(module, _)| sent(module)) {
            let functions = AtomicU32::new(0);
            let tell = |done: u32, total: u32| {
                functions.store(total, Ordering::Relaxed);
                pointer.tell(before.saturating_add(done), before.saturating_add(total));
            };
            let index = Index::telling(&live.image(module.as_deref()), &types, None, &tell);
            before = before.saturating_add(functions.into_inner());
            write(&mut parcel::handed(number), index.bytes())?;
            indexed.push(module.clone());
            code.push(CodeIndex { module, index });
        }
        pointer.end();
    }
    code.sort_by(|a, b| a.module.cmp(&b.module));
    let peer = reading.peers.get(reading.domain).ok_or(Error::NoDomain)?;
    let domain = Domain {
        name: peer.name.clone(),
        role: peer.role,
        number: reading.number,
        kernel: &kernel,
        code: &code,
    };
    Ok(match reading.log {
        Some((log, failed)) => Read::Complaints(complaints(&aspects, &reading.peers, &domain, &log, failed)),
        None => {
            let draft = draft(&aspects, &reading.peers, &domain, &reading.events, &library);
            Read::Draft(Box::new(draft.map_err(|error| Error::Objects(error.into()))?), indexed)
        }
    })
}

/// What a confined process is told of the world.
pub(crate) fn environment() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let passed =
        ["PATH", "XWEAVE_CLANG"].into_iter().filter_map(|name| Some((name.into(), env::var_os(name)?)));
    let set = [
        ("LC_ALL", "C".to_owned()),
        ("TMPDIR", ".".to_owned()),
        ("RAYON_NUM_THREADS", threads().to_string()),
    ];
    passed.chain(set.into_iter().map(|(name, value)| (name.into(), value.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/confinement.md.
    #[test]
    fn readers_and_compilers_are_no_more_processes_than_documented() {
        let is_at_most = |may: &Confinement, most: usize| {
            let told = format!("{may:?}");
            assert!(told.contains(&format!("processes: Some({most})")), "{told}");
        };
        let processors = thread::available_parallelism().map_or(1, |n| n.get());
        // 24 where there are 16 processors or more.
        is_at_most(&reader(), processors.min(16) + 8);
        assert_eq!(THREADS as u64 + OTHERS, 24);
        is_at_most(&compiler(Path::new("/usr/bin/clang")), 16);
        let told = environment().into_iter().find(|(name, _)| name == "RAYON_NUM_THREADS");
        assert!(told.is_some_and(|(_, threads)| *threads == *processors.min(16).to_string()));
    }
}
