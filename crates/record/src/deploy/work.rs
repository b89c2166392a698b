//! What the confined processes do: `xweave confined read`, `compile` and `index`.
//!
//! Each gives up its rights before it looks at what it is passed.

use std::{
    collections::HashSet,
    env,
    io::{self, Read as _, Write},
    path::{Path, PathBuf},
    thread,
};

use serde::Serialize;
use xweave_access::{Index, Source};
use xweave_code::{Kernel, image::LiveCode, types::KernelTypes};
use xweave_guard::confine::{Confinement, User};
use xweave_weave::{CodeIndex, Domain, complaints, draft};

use super::parcel::{self, Code, Read, Reading};

/// Threads that analyse code side by side: each needs memory.
const THREADS: usize = 16;

/// How many processes and threads there are besides.
const OTHERS: u64 = 8;

/// Processes that compiling takes: clang, and what it starts.
const COMPILERS: u64 = 16;

/// How many threads a reader has.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get().min(THREADS))
}

/// Reads what a domain sent: the parcel on standard input. Answers on standard output.
///
/// # Errors
///
/// When it cannot be confined; when it is passed nothing that it understands.
pub fn read() -> Result<(), String> {
    let processes = threads() as u64 + OTHERS;
    confined(&Confinement::new(User::Nobody).processes(processes))?;
    let parcel = parcel()?;
    let (reading, rest) = parcel::unpack::<Reading>(&parcel)?;
    answer(&read_parcel(reading, rest).unwrap_or_else(Read::Unusable))
}

/// Compiles the C files on standard input, in the folder where it is. Answers on standard output.
///
/// # Errors
///
/// When it cannot be confined; when there is no compiler.
pub fn compile() -> Result<(), String> {
    let clang = xweave_weave::find_clang().ok_or("there is no clang in the path: apt install clang")?;
    let may = Confinement::new(User::Nobody).write(".").programs(Some(clang.clone())).processes(COMPILERS);
    confined(&may)?;
    let parcel = parcel()?;
    let (files, _) = parcel::unpack::<Vec<(String, String)>>(&parcel)?;
    let files = files.iter().map(|(name, text)| (name.clone(), text.as_str())).collect();
    answer(&xweave_weave::compile_in(&clang, &files, Path::new("."))?)
}

/// Analyses a file of this machine, and writes its index to a file that is open under the number `to`.
///
/// # Errors
///
/// When it cannot be confined; when nothing can be made of the file.
pub fn index(file: PathBuf, to: i32) -> Result<(), String> {
    confined(&Confinement::new(User::Same).read(&file).processes(threads() as u64 + OTHERS))?;
    let source = Source { file: Some(file), base: None, btf_only: false };
    let index = source.make().map_err(|error| error.to_string())?;
    write(&mut parcel::handed(to), index.bytes())
}

fn confined(may: &Confinement) -> Result<(), String> {
    may.apply().map(|_| ()).map_err(|error| error.to_string())
}

fn parcel() -> Result<Vec<u8>, String> {
    let mut parcel = Vec::new();
    io::stdin().read_to_end(&mut parcel).map_err(|error| error.to_string())?;
    Ok(parcel)
}

fn answer<T: Serialize>(answer: &T) -> Result<(), String> {
    write(&mut io::stdout(), &postcard::to_stdvec(answer).map_err(|error| error.to_string())?)
}

fn write(to: &mut impl Write, bytes: &[u8]) -> Result<(), String> {
    to.write_all(bytes).and_then(|()| to.flush()).map_err(|error| error.to_string())
}

fn read_parcel(reading: Reading, mut rest: &[u8]) -> Result<Read, String> {
    let said = |error: xweave_code::Error| error.to_string();
    let aspects = xweave_aspect::parse(reading.aspects)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let mut kernel: Option<Kernel> = None;
    for (module, length) in &reading.types {
        let btf = parcel::cut(&mut rest, *length)?;
        match (&mut kernel, module) {
            (None, _) => kernel = Some(Kernel::new(reading.release.clone(), btf).map_err(said)?),
            (Some(kernel), Some(module)) => kernel.add_module(module, btf).map_err(said)?,
            (Some(_), None) => return Err("it has two kernels".to_owned()),
        }
    }
    let kernel = kernel.ok_or("it has no kernel")?;
    let mut code = Vec::new();
    for (module, number) in reading.indices {
        let what = module.clone().unwrap_or_else(|| "the kernel".to_owned());
        match Index::of_file(Path::new(&what), &parcel::handed(number)) {
            Ok(index) => code.push(CodeIndex { module, index }),
            Err(_) => return Ok(Read::DamagedIndex(module)),
        }
    }
    let mut indexed = Vec::new();
    if let Some(Code { length, wanted }) = reading.code {
        let live = LiveCode::unpack(parcel::cut(&mut rest, length)?).map_err(said)?;
        let types = KernelTypes::new(&kernel);
        let there: HashSet<&str> = live.modules().collect();
        let sent = |module: &Option<String>| module.as_deref().is_none_or(|module| there.contains(module));
        for (module, number) in wanted.into_iter().filter(|(module, _)| sent(module)) {
            let index = Index::new(&live.image(module.as_deref()), &types, None);
            write(&mut parcel::handed(number), index.bytes())?;
            indexed.push(module.clone());
            code.push(CodeIndex { module, index });
        }
    }
    code.sort_by(|a, b| a.module.cmp(&b.module));
    let peer = reading.peers.get(reading.domain).ok_or("it is none of the domains")?;
    let domain = Domain {
        name: peer.name.clone(),
        role: peer.role,
        number: reading.number,
        kernel: &kernel,
        code: &code,
    };
    Ok(match reading.log {
        Some((log, failed)) => Read::Complaints(complaints(&aspects, &reading.peers, &domain, &log, failed)),
        None => Read::Draft(Box::new(draft(&aspects, &reading.peers, &domain, &reading.events)), indexed),
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
