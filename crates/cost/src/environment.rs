//! Where is measured, and how one gets there.

use std::fmt;
use std::path::Path;

use std::process::Command as Process;
use std::time::{Duration, Instant};

use xweave_lab::{Command, Kind as World, Options as WorldOptions, Progress, World as Running};

use crate::error::{Error, Result};
use crate::line::scan;
use crate::measured::{Collected, Measured};
use crate::{IMAGE, PROCESS, fingerprint, process};

/// An environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Environment {
    /// A process on this machine, unprivileged, pinned to one processor.
    Native,
    /// QEMU's software emulation, on this machine.
    Tcg,
    /// The image on the bare machine, read from what its console said.
    Bare,
    /// A KVM guest: on this machine's own KVM, or in the lab's emulated host.
    Kvm,
    /// A paravirtual guest of Xen in the lab's emulated machine, or of the dom0 that this is.
    XenPv,
}

impl Environment {
    /// Its name, as it is given and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Tcg => "tcg",
            Self::Bare => "bare",
            Self::Kvm => "kvm",
            Self::XenPv => "xen-pv",
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The processor that the process is pinned to.
    pub cpu: usize,
    /// Rounds of each form; `None`: as many as suit the environment.
    pub rounds: Option<u32>,
    /// Whether a small body in a loop is measured besides.
    pub looped: bool,
    /// The world of the lab to measure in; `None`: one that is brought up for it, and ended.
    pub world: Option<String>,
    /// Not in the lab: this machine has KVM, or is a dom0, itself.
    pub here: bool,
    /// How long one boot may take to report everything.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpu: 0,
            rounds: None,
            looped: false,
            world: None,
            here: false,
            timeout: Duration::from_secs(120),
        }
    }
}

/// A machine that forms end again and again is given up.
const MOST_BOOTS: u32 = 12;

/// Reads what the image said on the console of a bare machine.
pub fn read(console: &Path) -> Result<Measured> {
    let said = std::fs::read(console).map_err(|source| Error::Io {
        what: "read",
        path: console.to_owned(),
        source,
    })?;
    let mut collected = Collected::default();
    collected.add(scan(&said));
    match collected.fingerprint {
        None => return Err(Error::NoConsole { path: console.to_owned() }),
        Some(of_image) if of_image != fingerprint() => {
            return Err(Error::OtherTable { environment: Environment::Bare.name() });
        }
        Some(_) => {}
    }
    if let Some(culprit) = collected.culprit().filter(|_| !collected.finished) {
        collected.ended_by(culprit);
    }
    Ok(Measured {
        environment: Environment::Bare,
        how: format!("the image on the bare machine, as {} has it", console.display()),
        emulated: false,
        ticks_per_cycle: collected.ticks_per_cycle().unwrap_or(1.0),
        seconds: 0.0,
        boots: 1,
        damaged: collected.damaged,
        outcomes: collected.outcomes(None),
    })
}

/// Measures everything that can be measured in an environment; what was measured on the bare machine is [`read`].
///
/// `reference`: TSC ticks of a core cycle on this machine, for where instructions are emulated.
pub fn measure(
    environment: Environment,
    options: &Options,
    reference: f64,
    progress: Progress<'_>,
) -> Result<Measured> {
    let place = Place::of(environment, options, progress)?;
    let begun = Instant::now();
    let mut collected = Collected::default();
    let mut boots = 0;
    let mut from = 0;
    loop {
        boots += 1;
        let words = place.words(options, from);
        let console = place.run(&words, options.timeout)?;
        collected.add(scan(&console));
        match collected.fingerprint {
            None => return Err(silent(environment, options, &console)),
            Some(of_image) if of_image != fingerprint() => {
                return Err(Error::OtherTable { environment: environment.name() });
            }
            Some(_) => {}
        }
        if collected.finished || boots == MOST_BOOTS {
            break;
        }
        // It was not heard to the end: what was being measured is noted, and the next boot begins behind it.
        let Some(culprit) = collected.culprit() else { return Err(silent(environment, options, &console)) };
        collected.ended_by(culprit);
        from = culprit + 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let emulated = place.emulated();
    let reference = emulated.then_some(reference);
    let measured = Measured {
        environment,
        how: place.how(),
        emulated,
        ticks_per_cycle: reference.or(collected.ticks_per_cycle()).unwrap_or(1.0),
        seconds,
        boots,
        damaged: collected.damaged,
        outcomes: collected.outcomes(reference),
    };
    place.leave()?;
    Ok(measured)
}

fn silent(environment: Environment, options: &Options, console: &[u8]) -> Error {
    let text = String::from_utf8_lossy(console);
    let said = match text.trim() {
        "" => String::new(),
        text => format!(
            "; it said: {}",
            text.chars().rev().take(600).collect::<String>().chars().rev().collect::<String>()
        ),
    };
    Error::Silent { environment: environment.name(), seconds: options.timeout.as_secs(), said }
}

/// Where an environment's image or process runs.
enum Place {
    Process {
        cpu: usize,
    },
    Emulator,
    /// A machine with KVM or Xen: a world of the lab, or (`None`) this one.
    Host {
        environment: Environment,
        world: Option<Running>,
        own: bool,
    },
}

impl Place {
    fn of(environment: Environment, options: &Options, progress: Progress<'_>) -> Result<Self> {
        let kind = match environment {
            Environment::Native => return Ok(Self::Process { cpu: options.cpu }),
            Environment::Bare => return Err(Error::NotFromHere),
            Environment::Tcg => return Ok(Self::Emulator),
            Environment::Kvm => World::Kvm,
            Environment::XenPv => World::Xen,
        };
        if options.here {
            let place = Self::Host { environment, world: None, own: false };
            place.push()?;
            return Ok(place);
        }
        let (world, own) = match &options.world {
            Some(name) => {
                let world = Running::find(name)?;
                if world.description().kind != kind {
                    return Err(Error::OtherKind { name: name.clone(), kind: kind.name() });
                }
                (world, false)
            }
            None => {
                let name = format!("cost-{}", std::process::id());
                let options = WorldOptions { name, guests: 0, ..WorldOptions::new(kind)? };
                (Running::up(&options, progress)?, true)
            }
        };
        let place = Self::Host { environment, world: Some(world), own };
        match place.push() {
            Ok(()) => Ok(place),
            Err(error) => {
                place.leave()?;
                Err(error)
            }
        }
    }

    fn how(&self) -> String {
        match self {
            Self::Process { cpu } => format!("a process, unprivileged, pinned to processor {cpu}"),
            Self::Emulator => "QEMU's software emulation".into(),
            Self::Host { environment, world, .. } => {
                let guest = match environment {
                    Environment::XenPv => "a paravirtual guest of Xen",
                    _ => "a KVM guest",
                };
                match world {
                    None => format!("{guest} on this machine"),
                    Some(world) if self.emulated() => {
                        format!("{guest} in the lab's emulated machine ({})", world.description().kernel)
                    }
                    Some(world) => format!("{guest} in the lab's machine ({})", world.description().kernel),
                }
            }
        }
    }

    fn emulated(&self) -> bool {
        match self {
            Self::Process { .. } => false,
            Self::Emulator => true,
            Self::Host { world, .. } => world
                .as_ref()
                .is_some_and(|world| world.description().accelerator == xweave_lab::Accelerator::Tcg),
        }
    }

    /// The image's options.
    fn words(&self, options: &Options, from: usize) -> Vec<String> {
        // Where instructions are emulated their times vary by far more than rounds could settle.
        let (rounds, target, patience) =
            if self.emulated() { (11, 4000, 0) } else { (41, 20_000, 5_000_000) };
        let rounds = options.rounds.unwrap_or(rounds);
        let looped = u8::from(options.looped);
        vec![
            format!("rounds={rounds}"),
            format!("target={target}"),
            format!("patience={patience}"),
            format!("looped={looped}"),
            format!("from={from}"),
        ]
    }

    /// Brings the image to the machine that is to boot it.
    fn push(&self) -> Result<()> {
        match self {
            Self::Process { .. } | Self::Emulator => Ok(()),
            Self::Host { .. } => {
                self.shell(&format!("umask 077; cat >{REMOTE}"), IMAGE, Duration::from_secs(60)).map(|_| ())
            }
        }
    }

    /// One boot, or one process: what it said.
    fn run(&self, words: &[String], timeout: Duration) -> Result<Vec<u8>> {
        match self {
            Self::Process { cpu } => process::run(PROCESS, *cpu, words, timeout),
            Self::Emulator => emulator(words, timeout),
            Self::Host { environment: Environment::XenPv, .. } => {
                self.shell(&xen_script(words, timeout), b"", timeout)
            }
            Self::Host { .. } => self.shell(&kvm_script(words, timeout, self.emulated()), b"", timeout),
        }
    }

    /// Runs a script on the machine that boots the image, and returns what it printed.
    fn shell(&self, script: &str, input: &[u8], timeout: Duration) -> Result<Vec<u8>> {
        let Self::Host { world: Some(world), .. } = self else {
            let mut command = Process::new("sh");
            command.args(["-c", script]);
            return process::output(&mut command, input, timeout + MARGIN, "sh is part of every system");
        };
        let command = Command::new(["sh", "-c", script]);
        let output = world.exec(world.host(), &command)?.output(input)?;
        let mut said = output.stdout;
        if !output.status.success() && said.is_empty() {
            said = output.stderr;
        }
        Ok(said)
    }

    fn leave(self) -> Result<()> {
        match self {
            Self::Host { world: Some(world), own: true, .. } => Ok(world.down()?),
            Self::Host { .. } => self.shell(&format!("rm -f {REMOTE} {REMOTE}.xl"), b"", MARGIN).map(|_| ()),
            _ => Ok(()),
        }
    }
}

/// The image on the machine that boots it.
const REMOTE: &str = "/tmp/xweave-cost.image";
/// What a script takes besides its own limit.
const MARGIN: Duration = Duration::from_secs(10);
/// Of the image's machine, in MiB.
const MEMORY: &str = "256";

/// What QEMU is given besides the accelerator: the debug port is the console, and the image ends it.
const QEMU: &str = "-nodefaults -no-user-config -display none -no-reboot -debugcon stdio \
                    -device isa-debug-exit,iobase=0xf4";

fn emulator(words: &[String], timeout: Duration) -> Result<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("xweave-cost-{}.image", std::process::id()));
    std::fs::write(&folder, IMAGE).map_err(|source| Error::Io {
        what: "write",
        path: folder.clone(),
        source,
    })?;
    let mut command = Process::new("qemu-system-x86_64");
    command.args(["-accel", "tcg", "-cpu", "max", "-m", MEMORY]).args(QEMU.split_whitespace());
    command.arg("-kernel").arg(&folder).arg("-append").arg(words.join(" "));
    let said = process::output(&mut command, b"", timeout, "install the Debian package qemu-system-x86");
    // The next boot writes it anew.
    let _ = std::fs::remove_file(&folder);
    said
}

fn kvm_script(words: &[String], timeout: Duration, emulated: bool) -> String {
    let qemu = format!(
        "timeout {} qemu-system-x86_64 -accel kvm -cpu host -m {MEMORY} {QEMU} -kernel {REMOTE} -append '{}",
        timeout.as_secs(),
        words.join(" ")
    );
    if !emulated {
        return format!("exec {qemu}' </dev/null");
    }
    // Where a hypervisor is emulated, each byte to a console costs a tenth of a millisecond. The image leaves its
    // lines in its memory, at 32 MiB, and its memory is a file.
    format!(
        "{qemu} log=1' -object memory-backend-file,id=ram,size={MEMORY}M,mem-path={REMOTE}.ram,share=on \
         -machine pc,memory-backend=ram </dev/null\n\
         dd if={REMOTE}.ram bs=1M skip=32 count=1 2>/dev/null | tr -d '\\000'\nrm -f {REMOTE}.ram"
    )
}

/// The guest's console is the file that xenconsoled writes; it ends by itself, or is ended.
fn xen_script(words: &[String], timeout: Duration) -> String {
    format!(
        "cat >{REMOTE}.xl <<'END'\n\
         name = \"xweave-cost\"\ntype = \"pv\"\nkernel = \"{REMOTE}\"\nextra = \"{}\"\nmemory = 64\nvcpus = 1\n\
         tsc_mode = \"native\"\non_poweroff = \"destroy\"\non_reboot = \"destroy\"\non_crash = \"destroy\"\nEND\n\
         log=/var/log/xen/console/guest-xweave-cost.log; rm -f $log\n\
         xl destroy xweave-cost 2>/dev/null\n\
         xl create -q {REMOTE}.xl >&2 || exit 1\n\
         limit=$(($(date +%s) + {}))\n\
         while xl domid xweave-cost >/dev/null 2>&1 && [ $(date +%s) -lt $limit ]; do sleep 0.2; done\n\
         xl destroy xweave-cost 2>/dev/null\n\
         cat $log",
        words.join(" "),
        timeout.as_secs()
    )
}
