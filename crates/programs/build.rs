//! Compiles the library's programs, for the kernels whose types are in `bpf/kernels`.

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{env, io::Write};

use flate2::{Compression, write::ZlibEncoder};
use xweave_code::Kernel;
use xweave_weave::{CompiledLibrary, Compiler};

include!("src/compiled_for.rs");

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo tells no OUT_DIR")?);
    // What the library is made of is in the programs that this is built with, which cargo builds anew when it changes.
    println!("cargo::rerun-if-env-changed=XWEAVE_CLANG");
    for part in FILES.iter().copied().chain(["kernels"]) {
        println!("cargo::rerun-if-changed={}", root.join("bpf").join(part).display());
    }
    let kernels = kernels(&root.join("bpf/kernels"))?;
    let kernels: Vec<_> = kernels.iter().collect();
    let mut files = Vec::new();
    for name in FILES {
        files.push((name, fs::read_to_string(root.join("bpf").join(name))?));
    }
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let compiled = CompiledLibrary::compile(&kernels, &files, &Compiler::find()?, &out.join("compiled"))?;
    let mut packed = ZlibEncoder::new(File::create(out.join("library"))?, Compression::best());
    packed.write_all(&postcard::to_stdvec(&compiled)?)?;
    packed.finish()?;
    Ok(())
}

/// Of the folder's kernels, the generic one of each series that the library is compiled for.
fn kernels(folder: &Path) -> Result<Vec<Kernel>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    let mut found = Vec::new();
    for series in COMPILED_FOR {
        let is_of_it = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let rest = name.strip_prefix(series).and_then(|rest| rest.strip_suffix("-amd64.btf"));
            rest.is_some_and(|rest| {
                rest.starts_with('.') && !rest.ends_with("-cloud") && !rest.ends_with("-rt")
            })
        };
        let path = files
            .iter()
            .find(is_of_it)
            .ok_or_else(|| format!("bpf/kernels has no generic kernel {series}"))?;
        found.push(Kernel::new(series, &fs::read(path)?)?);
    }
    Ok(found)
}
