//! `xweave confined`: what other commands start to read what guests and strangers sent. Not for people.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use xweave_guard::confine::attempt::{self, Role};
use xweave_interrupt as interrupt;

use crate::{called, confinement::Only, failure::Failure};

/// Do a job without rights: other commands start this
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    work: Work,
}

#[derive(clap::Subcommand)]
enum Work {
    /// Tell how far this machine lets a process be confined
    Layers,
    /// Try something forbidden, as a process that was taken over would
    Attempt {
        /// What
        name: String,
        /// As a reader, a compiler or a command
        #[arg(value_parser = role)]
        role: Role,
    },
    /// Have all of that tried, and tell what came of it
    Probe,
    /// Make a plan of what a domain sent
    Read,
    /// Compile C
    Compile,
    /// Make a file of xentrace part of a trace
    Place {
        /// The file
        file: PathBuf,
        /// The trace
        dir: PathBuf,
        /// The domain of the trace that is dom0
        dom0: String,
    },
    /// Analyse a file
    Index {
        /// The kernel, or program
        file: PathBuf,
        /// The number under which the file is open that the index is written to
        #[arg(long)]
        to: i32,
        /// The number under which is open what says how far it is
        #[arg(long)]
        meter: i32,
    },
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    // Started as /proc/self/exe, it would be called `exe`.
    called::this_process("xweave");
    match &args.work {
        Work::Layers => {
            let layers = attempt::confine(Role::Reader).map_err(fell_short)?;
            println!("{}", layers.encode());
        }
        Work::Attempt { name, role } => {
            attempt::confine(*role).map_err(fell_short)?;
            println!("{}", attempt::tell(name));
        }
        Work::Probe => return probe(),
        Work::Read => xweave_record::confined::read().map_err(fell_short)?,
        Work::Compile => xweave_record::confined::compile().map_err(fell_short)?,
        Work::Place { file, dir, dom0 } => {
            interrupt::install(interrupt::Again::Waits, interrupt::Blocked::GoesOn);
            Only::reading([&**file]).writing_in(dir).apply()?;
            let answer = xweave_record::place_file(file, dir, dom0).map_err(Failure::Failed)?;
            io::stdout().write_all(&answer).map_err(fell_short)?;
        }
        Work::Index { file, to, meter } => {
            xweave_record::confined::index(file, *to, *meter).map_err(fell_short)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn probe() -> Result<ExitCode, Failure> {
    interrupt::install(interrupt::Again::Waits, interrupt::Blocked::Returns);
    let outcomes = attempt::probe(&mut || !interrupt::pending()).map_err(fell_short)?;
    if interrupt::take().is_some() {
        return Err(Failure::Interrupted("interrupted".to_owned()));
    }
    let mut succeeded = 0;
    for outcome in &outcomes {
        let by = outcome.role.name();
        succeeded += usize::from(!outcome.refused);
        let told = format!("{}  {}", if outcome.refused { "refused" } else { "NOT REFUSED" }, outcome.told);
        println!("{by:<9} {:<16} {}", outcome.name, told.trim());
    }
    match succeeded {
        0 => Ok(ExitCode::SUCCESS),
        n => Err(Failure::Failed(format!("{n} of {} attempts were not refused", outcomes.len()))),
    }
}

fn role(name: &str) -> Result<Role, String> {
    Role::named(name).ok_or_else(|| "it is reader, compiler or command".to_owned())
}

fn fell_short(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}
