//! `make soak`: weaves every function of a kernel that can be hooked, at its entry and its return, with
//! `STORE_DATA` and with flow operations, in random batches under load; and finds what harms the kernel.
//!
//! The guest is a world of the lab's with several processors. Weaving is controlled from this machine, so that
//! only loading and attaching are emulated. docs/soak.md says what it shows, and what it does not.
//!
//! Modules, in the order of imports: `signs` has the messages of ill kernels; `bisect` finds minimal sets; `batch` is what is
//! woven at a time; `state` how far it has come; `stack` where processors hang; `guest` the machine; `emulator` tests what
//! emulates it; `population` its functions; `weave` weaves one batch; `soak` all of them; `summary` is a soak in figures,
//! and `report` prints them.

mod batch;
mod bisect;
mod emulator;
mod error;
mod guest;
mod population;
mod report;
mod signs;
mod soak;
mod stack;
mod state;
mod summary;
mod weave;

use crate::error::{At, Error};
use crate::soak::{Options, Soak};
use crate::state::State;
use crate::summary::Summary;
use clap::Parser;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xweave_interrupt as interrupt;

/// Rounds of the test of the emulator with which a soak begins.
const ROUNDS_FIRST: u32 = 3;

/// Weaves every function of a kernel that can be hooked, and finds those that harm it
#[derive(Parser)]
#[command(after_help = "Exits with 1 if a kernel died or warned, now or earlier in this soak.")]
struct Args {
    /// The xweave program
    xweave: PathBuf,
    /// The kernel series
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// Begin no batch after so many minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Functions woven at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4096))]
    batch: u64,
    /// What everything random is drawn from; that of the state, if there is one
    #[arg(long)]
    seed: Option<u64>,
    /// Begin anew, and forget what is known of this kernel
    #[arg(long)]
    fresh: bool,
    /// Only these functions (% stands for any characters), in a soak of their own
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<String>,
    /// Only tell how far the soak has come
    #[arg(long)]
    report: bool,
    /// With --report: as one JSON document
    #[arg(long, requires = "report")]
    json: bool,
    /// Test the emulator only: patch the kernel's code while all its processors run it, in so many boots, one after the other
    #[arg(long, value_name = "BOOTS", conflicts_with_all = ["report", "only", "fresh"])]
    emulator: Option<u32>,
    /// Rounds of patching in each boot
    #[arg(long, default_value_t = 30, requires = "emulator")]
    rounds: u32,
    /// Where states and consoles are kept
    #[arg(long, default_value = "target/soak")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(Failure::Usage(message)) => {
            eprintln!("soak: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Error(error)) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

enum Failure {
    Usage(String),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let name = if args.only.is_empty() { args.kernel.clone() } else { format!("{}-only", args.kernel) };
    let state = args.folder.join(format!("{name}.json"));
    if args.report {
        let known = State::load(&state)?;
        let Some(known) = known else {
            return Err(Failure::Usage(format!("there is no soak of {name} in {}", args.folder.display())));
        };
        if args.json {
            let failed = |error: serde_json::Error| Failure::Usage(error.to_string());
            println!("{}", serde_json::to_string_pretty(&Summary::of(&known)).map_err(failed)?);
            return Ok(ExitCode::SUCCESS);
        }
        return Ok(tell(&known));
    }
    let folder = args.folder.join(&name);
    fs::create_dir_all(&folder).at("create", &folder)?;
    let folder = folder.canonicalize().at("find", &folder)?;
    let Some(_lock) = lock(&folder)? else {
        return Err(Failure::Usage(format!(
            "another soak of {name} is at work in {}",
            args.folder.display()
        )));
    };
    let others = State::load(&state)?.is_some_and(|known| known.only != args.only);
    if args.fresh || others {
        forget(&state, &folder)?;
    }
    interrupt::install(interrupt::Again::Waits, interrupt::Blocked::Returns);
    if let Some(boots) = args.emulator {
        let is_fit = test_emulator(&setup(args, &name)?, &folder, boots, args.rounds)?;
        return Ok(if is_fit { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let known = State::load(&state)?.map(|known| known.seed);
    let seed = match (args.seed, known) {
        (Some(wanted), Some(known)) if wanted != known => {
            return Err(Failure::Usage(format!(
                "the soak in {} has the seed {known}: go on without SEED, or begin anew with FRESH=1",
                state.display()
            )));
        }
        (Some(seed), _) | (None, Some(seed)) => seed,
        (None, None) => fastrand::u64(..1_000_000_000),
    };
    let setup = setup(args, &name)?;
    // A kernel that the emulator harms says nothing of what is woven.
    if known.is_none() && !test_emulator(&setup, &folder, 1, ROUNDS_FIRST)? {
        return Ok(ExitCode::FAILURE);
    }
    let options = Options {
        setup,
        folder,
        state,
        until: soak::deadline(args.minutes),
        size: usize::try_from(args.batch).unwrap_or(usize::MAX),
        only: args.only.clone(),
        seed,
    };
    Ok(work(&options)?)
}

/// Makes the description of the guest of a soak with this name.
fn setup(args: &Args, name: &str) -> Result<guest::Setup, Error> {
    let xweave = args.xweave.canonicalize().at("find", &args.xweave)?;
    let world = format!("soak-{}", name.replace('.', "-"));
    Ok(guest::Setup { xweave, kernel: args.kernel.clone(), world })
}

/// Tests the emulator in a number of boots, prints a line for each, and reports whether all kernels are well. Keeps the
/// console of one that failed.
fn test_emulator(setup: &guest::Setup, folder: &Path, boots: u32, rounds: u32) -> Result<bool, Error> {
    let mut is_fit = true;
    for boot in 1..=boots {
        let trial = emulator::test_emulator(setup, rounds);
        if trial.is_err() {
            guest::down(&setup.world)?;
        }
        let trial = trial?;
        print!("{}", report::report_trial(boot, boots, rounds, &trial));
        if trial.sick.is_some() {
            is_fit = false;
            let path = folder.join(format!("emulator-{boot}.console"));
            fs::write(&path, &trial.console).at("write", &path)?;
            println!("    its console: {}", path.display());
        }
    }
    Ok(is_fit)
}

fn work(options: &Options) -> Result<ExitCode, Error> {
    let ended = Soak::open(options).and_then(|mut soak| {
        let ran = soak.run();
        let ended = soak.end();
        ran.and(ended)
    });
    match ended {
        Ok(state) => Ok(tell(&state)),
        Err(error) => {
            guest::down(&options.setup.world)?;
            let interrupted =
                matches!(error, Error::Interrupted | Error::Lab(xweave_lab::Error::Interrupted));
            match State::load(&options.state)? {
                Some(state) if interrupted => Ok(tell(&state)),
                _ => Err(error),
            }
        }
    }
}

fn tell(state: &State) -> ExitCode {
    print!("{}", report::report(&Summary::of(state)));
    if state.deaths.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Removes a soak's state and folder.
fn forget(state: &Path, folder: &Path) -> Result<(), Error> {
    match fs::remove_file(state) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).at("remove", state),
        _ => {}
    }
    for entry in fs::read_dir(folder).at("read", folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("death-") {
            fs::remove_dir_all(entry.path()).at("remove", entry.path())?;
        }
    }
    Ok(())
}

/// Two soaks of one kernel would end each other's guests. None if there is one at work.
fn lock(folder: &Path) -> Result<Option<File>, Error> {
    let path = folder.join("lock");
    let file = File::create(&path).at("create", &path)?;
    // SAFETY: flock takes a descriptor that `file` keeps open.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
    Ok(locked.then_some(file))
}
