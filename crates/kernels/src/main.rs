//! `make kernels`: on which kernels what of xweave works, without booting them.

mod error;
mod known;
mod load;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xweave_lab::{Cache, Kernels, Phase};

use crate::error::Error;

/// On which kernels what of xweave works
#[derive(Parser)]
struct Args {
    /// The project's folder
    #[arg(long, default_value = ".")]
    root: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Fetch the mirror's kernels, and write their type information, pruned to what the library uses, into bpf/kernels
    Fetch,
    /// Write the table of docs/kernels.md, from bpf/kernels and the library as it was compiled
    Table,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.what {
        What::Fetch => fetch(&args.root),
        What::Table => table::write(&args.root),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernels: {error}");
            ExitCode::FAILURE
        }
    }
}

fn fetch(root: &Path) -> Result<(), Error> {
    let progress = |phase: Phase<'_>| {
        if let Phase::End(what, _) | Phase::Note(what) = phase {
            eprintln!("{what}");
        }
    };
    let cache = Cache::open()?;
    let kernels = Kernels::open(&cache)?;
    let mut folder = known::Folder::new(root)?;
    load::load_all(&kernels, &progress, &mut |kernel| {
        eprintln!("{}", kernel.release());
        folder.keep(&kernel)
    })?;
    folder.finish()
}
