//! What each instruction, exit and hypercall costs under a hypervisor.
//!
//! One table of forms (`minios/forms.table`) is measured by the same machine code everywhere: by a process on
//! this machine, and by a tiny image of its own on emulators and hypervisors. The method is that of
//! "Performance evaluation of Xen using Mini-OS" (Eto, Iwamoto, Umeno), and a sounder one beside it.
//!
//! Modules: [`table`] reads the forms, [`assembly`] makes code of them (for the build script); [`mod@line`] reads what
//! image and process report, [`measured`] puts it together; [`counted`] reads the hypervisor's own trace; [`environment`] is where they run, and `measure` runs them
//! there, one after the other in a [`run`]; [`comparison`] holds environments beside each other, [`tables`] show it to people, with a [`summary`] around them; [`history`] remembers, [`exits`] by the reason of an exit; [`published`]
//! has others' figures, and [`microarchitecture`] tells whose; [`document`] is all of it as JSON.
//!
//! ```no_run
//! use xweave_cost::{Environment, Options, measure, reference};
//!
//! let options = Options::default();
//! let native = measure(Environment::Native, &options, reference(&options)?, &|_| {})?;
//! let add = xweave_cost::forms().iter().position(|form| form.name == "add r64, r64").unwrap();
//! println!("{:?}", native.cycles(add, xweave_cost::line::Kind::Latency));
//! # Ok::<(), xweave_cost::Error>(())
//! ```

pub mod assembly;
pub mod comparison;
pub mod counted;
pub mod document;
pub mod environment;
mod error;
pub mod exits;
pub mod history;
pub mod line;
mod measure;
pub mod measured;
pub mod microarchitecture;
mod place;
mod process;
pub mod published;
pub mod run;
pub mod summary;
pub mod table;
pub mod tables;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

pub use comparison::Comparison;
pub use environment::{Environment, Options};
pub use error::{Error, Result};
pub use measure::{measure, read};
pub use measured::Measured;

/// The image, an ELF file: multiboot2, PVH and Xen PV.
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image"));
/// The same measuring code as a static Linux program.
pub const PROCESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/process"));
/// The table that both were built from.
pub const TABLE: &str = include_str!("../../../minios/forms.table");

/// The forms; a form's number is its place.
pub fn forms() -> &'static [table::Form] {
    // The build script has read the very same text.
    static FORMS: LazyLock<Vec<table::Form>> = LazyLock::new(|| table::parse(TABLE).unwrap_or_default());
    &FORMS
}

/// The fingerprint of the table.
pub fn fingerprint() -> u32 {
    static FINGERPRINT: LazyLock<u32> = LazyLock::new(|| table::fingerprint(TABLE));
    *FINGERPRINT
}

/// TSC ticks in a second on this machine, measured against its clock.
pub fn tsc_hz() -> f64 {
    let now = || {
        // The counter is read between two looks at the clock; the closest pair of many is the best.
        let pairs = (0..50).map(|_| {
            let before = Instant::now();
            // SAFETY: reading the time stamp counter has no conditions on x86-64, and the crate is for nothing else.
            let ticks = unsafe { std::arch::x86_64::_rdtsc() };
            (before.elapsed(), before, ticks)
        });
        pairs.min_by_key(|(gap, ..)| *gap).map_or((Instant::now(), 0), |(_, at, ticks)| (at, ticks))
    };
    let (begun, first) = now();
    // Not a wait for anything: the longer the stretch, the more exact the quotient.
    std::thread::sleep(Duration::from_millis(100));
    let (ended, last) = now();
    (last - first) as f64 / (ended - begun).as_secs_f64()
}

/// The processor's name, as it gives it itself.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown CPU".to_owned(), |(_, name)| name.trim().to_owned())
}

/// TSC ticks of a core cycle on this machine, as a short native measurement tells it.
pub fn reference(options: &Options) -> Result<f64> {
    let words = ["to=4".to_owned(), "paper=0".to_owned(), "rounds=101".to_owned()];
    let said = process::run(PROCESS, options.cpu, &words, options.timeout)?;
    let mut collected = measured::Collected::default();
    collected.add(line::scan(&said));
    collected.ticks_per_cycle().ok_or_else(|| Error::Silent {
        seconds: options.timeout.as_secs(),
        said: format!("; it said: {}", String::from_utf8_lossy(&said).trim()),
    })
}
