//! The places where image and process run: this machine, an emulator on it, a machine with KVM or Xen.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use xweave_interrupt as interrupt;
use xweave_lab::{Accelerator, Command, Event, Kind as WorldKind, Options as WorldOptions, Progress, World};

use crate::counted::{self, Counted};
use crate::environment::{Environment, Options};
use crate::error::{Error, Result};
use crate::{IMAGE, PROCESS, process};

/// What a script takes besides its own limit.
const MARGIN: Duration = Duration::from_secs(10);
/// How long bringing the image there may take.
const PUSH: Duration = Duration::from_secs(60);
/// How often it is looked whether one is to stop.
const POLL: Duration = Duration::from_millis(100);
/// Of the image's machine, in MiB.
const MEMORY: &str = "256";

/// Of what was printed instead of a trace, as much is told.
const SAID_MOST: usize = 600;
/// xentrace's mask of events: TRC_PV (Xen 4.17, xen/include/public/trace.h).
const XEN_PV_EVENTS: &str = "0x20f000";

/// What QEMU is given besides the accelerator: the debug port is the console, and the image ends it.
const QEMU: &str = "-nodefaults -no-user-config -display none -no-reboot -debugcon stdio \
                    -device isa-debug-exit,iobase=0xf4";

/// Where an environment's image or process runs.
pub enum Place {
    /// The process, on this processor.
    Process {
        /// Its number.
        cpu: usize,
    },
    /// QEMU's software emulation on this machine; the image lies in memory.
    Emulator {
        /// The image.
        image: File,
    },
    /// A machine with KVM or Xen.
    Host(Host),
}

/// A machine with KVM or Xen that boots the image.
pub struct Host {
    environment: Environment,
    /// A world of the lab, or (`None`) this machine.
    world: Option<World>,
    /// Whether the world was brought up for this, and is to be ended.
    own: bool,
    /// The folder there that has the image.
    folder: String,
}

impl Place {
    /// Gets an environment ready.
    pub fn of(environment: Environment, options: &Options, progress: Progress<'_>) -> Result<Self> {
        let kind = match environment {
            Environment::Native => return Ok(Self::Process { cpu: options.cpu }),
            Environment::Bare => return Err(Error::NotFromHere),
            Environment::Tcg => return Ok(Self::Emulator { image: process::in_memory(IMAGE)? }),
            Environment::Kvm => WorldKind::Kvm,
            Environment::XenPv => WorldKind::Xen,
        };
        let (world, own) = match &options.world {
            _ if options.this_host => (None, false),
            Some(name) => {
                let world = World::find(name)?;
                if world.description().kind != kind {
                    return Err(Error::OtherKind { name: name.clone(), kind: kind.name() });
                }
                (Some(world), false)
            }
            None => {
                let name = format!("cost-{}", std::process::id());
                // One CPU: of two, QEMU 11.1.3 ends by an assertion of its own where exits are measured.
                let processors = Some(1);
                let options = WorldOptions { name, guests: 0, processors, ..WorldOptions::new(kind)? };
                (Some(World::up(&options, progress)?), true)
            }
        };
        let mut host = Host { environment, world, own, folder: String::new() };
        match host.push() {
            Ok(folder) => {
                host.folder = folder;
                Ok(Self::Host(host))
            }
            Err(error) => {
                host.leave()?;
                Err(error)
            }
        }
    }

    /// How it is made, for people.
    pub fn how(&self) -> String {
        match self {
            Self::Process { cpu } => format!("a process, unprivileged, pinned to CPU {cpu}"),
            Self::Emulator { .. } => "QEMU's software emulation".into(),
            Self::Host(host) => host.how(),
        }
    }

    /// Whether its instructions are emulated.
    pub fn emulated(&self) -> bool {
        match self {
            Self::Process { .. } => false,
            Self::Emulator { .. } => true,
            Self::Host(host) => host.emulated(),
        }
    }

    /// One boot, or one process, that begins with a form: what it said.
    pub fn run(&self, options: &Options, from: usize) -> Result<Vec<u8>> {
        let words = self.words(options, from);
        match self {
            Self::Process { cpu } => process::run(PROCESS, *cpu, &words, options.timeout),
            Self::Emulator { image } => {
                let mut command = Process::new("qemu-system-x86_64");
                command.args(["-accel", "tcg", "-cpu", "max", "-m", MEMORY]).args(QEMU.split_whitespace());
                command.arg("-kernel").arg(format!("/proc/self/fd/{}", image.as_raw_fd()));
                command.arg("-append").arg(words.join(" "));
                process::output(
                    &mut command,
                    b"",
                    options.timeout,
                    "install the Debian package qemu-system-x86",
                )
            }
            Self::Host(host) => host.shell(&host.script(&words, options.timeout), b"", options.timeout),
        }
    }

    /// What the hypervisor counts of each form, by one start of its own.
    pub fn count(&self, options: &Options) -> Result<BTreeMap<usize, Counted>> {
        let Self::Host(host) = self else { return Ok(BTreeMap::new()) };
        let words = ["count=1".to_owned()];
        let said = host.shell(&host.counting_script(&words, options.timeout), b"", options.timeout)?;
        let counted = match host.environment {
            Environment::XenPv => counted::xen(&said),
            _ => counted::kvm(&String::from_utf8_lossy(&said)),
        };
        if counted.is_empty() {
            let text = String::from_utf8_lossy(&said);
            let said: String = text.chars().take(SAID_MOST).filter(|c| !c.is_control()).collect();
            return Err(Error::NotCounted { said });
        }
        Ok(counted)
    }

    /// The image's options.
    fn words(&self, options: &Options, from: usize) -> Vec<String> {
        // Where instructions are emulated their times vary by far more than rounds could settle.
        let (rounds, target, patience) =
            if self.emulated() { (11, 4000, 0) } else { (61, 10_000, 5_000_000) };
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

    /// Leaves nothing behind.
    pub fn leave(self) -> Result<()> {
        match self {
            Self::Process { .. } | Self::Emulator { .. } => Ok(()),
            Self::Host(host) => host.leave(),
        }
    }
}

impl Host {
    fn how(&self) -> String {
        let guest = match self.environment {
            Environment::XenPv => "a paravirtual guest of Xen",
            _ => "a KVM guest",
        };
        match &self.world {
            None => format!("{guest} on this machine"),
            Some(world) => {
                let machine = if self.emulated() { "emulated machine" } else { "machine" };
                format!("{guest} in the lab's {machine} ({})", world.description().kernel)
            }
        }
    }

    fn emulated(&self) -> bool {
        self.world.as_ref().is_some_and(|world| world.description().accelerator == Accelerator::Tcg)
    }

    /// Brings the image there, and gives its folder.
    fn push(&self) -> Result<String> {
        let script =
            "folder=$(mktemp -d /tmp/xweave-cost-XXXXXX) && cat >\"$folder/image\" && echo \"$folder\"";
        let said = self.shell(script, IMAGE, PUSH)?;
        let folder = String::from_utf8_lossy(&said).trim().to_owned();
        if folder.starts_with("/tmp/xweave-cost-") && !folder.contains(char::is_whitespace) {
            Ok(folder)
        } else {
            Err(Error::Silent { seconds: PUSH.as_secs(), said: format!("; it said: {folder}") })
        }
    }

    /// Runs a script there, and returns what it printed; where it printed nothing, its errors.
    fn shell(&self, script: &str, input: &[u8], timeout: Duration) -> Result<Vec<u8>> {
        let Some(world) = &self.world else {
            let mut command = Process::new("sh");
            command.args(["-c", script]);
            return process::output(&mut command, input, timeout + MARGIN, "sh is part of every system");
        };
        let mut child = world.exec(world.host(), &Command::new(["sh", "-c", script]))?;
        let mut stdin = child.stdin();
        let input = input.to_vec();
        std::thread::spawn(move || {
            // A script need not read its input.
            let _ = stdin.write_all(&input);
        });
        let (mut said, mut errors) = (Vec::new(), Vec::new());
        let deadline = Instant::now() + timeout + MARGIN;
        loop {
            match child.next(POLL) {
                Some(Event::Stdout(data)) => said.extend(data),
                Some(Event::Stderr(data)) => errors.extend(data),
                Some(Event::Exit(_)) => break,
                // The machine ended: what it said before counts.
                Some(Event::Broken(why)) => {
                    errors.extend(why.into_bytes());
                    break;
                }
                None if interrupt::pending() => return Err(xweave_lab::Error::Interrupted.into()),
                None if Instant::now() >= deadline => break,
                None => {}
            }
        }
        Ok(if said.is_empty() { errors } else { said })
    }

    fn script(&self, words: &[String], timeout: Duration) -> String {
        match self.environment {
            Environment::XenPv => self.xen_script(words, timeout),
            _ => self.kvm_script(words, timeout),
        }
    }

    fn kvm_script(&self, words: &[String], timeout: Duration) -> String {
        let folder = &self.folder;
        let qemu = format!(
            "timeout {} qemu-system-x86_64 -accel kvm -cpu host -m {MEMORY} {QEMU} -kernel {folder}/image -append '{}",
            timeout.as_secs(),
            words.join(" ")
        );
        if !self.emulated() {
            return format!("exec {qemu}' </dev/null");
        }
        // Where a hypervisor is emulated, each byte to a console costs a tenth of a millisecond. The image leaves
        // its lines in its memory, at 32 MiB, and its memory is a file.
        format!(
            "{qemu} log=1' -object memory-backend-file,id=ram,size={MEMORY}M,mem-path={folder}/ram,share=on \
             -machine pc,memory-backend=ram </dev/null\n\
             dd if={folder}/ram bs=1M skip=32 count=1 2>/dev/null | tr -d '\\000'\nrm -f {folder}/ram"
        )
    }

    /// The same with the hypervisor's trace on, which is all that is printed.
    fn counting_script(&self, words: &[String], timeout: Duration) -> String {
        let guest = self.script(words, timeout);
        let folder = &self.folder;
        match self.environment {
            Environment::XenPv => format!(
                "xentrace -D -e {XEN_PV_EVENTS} {folder}/trace >&2 &\ntracer=$!\nsleep 1\n\
                 ({guest}) >/dev/null\nkill -INT $tracer; wait $tracer 2>/dev/null\n\
                 cat {folder}/trace; rm -f {folder}/trace"
            ),
            // In an instance of its own, and only of what this shell starts: other guests may run.
            _ => format!(
                "trace=/sys/kernel/tracing/instances/$(basename {folder})\n\
                 mkdir $trace || exit 1\necho 16384 >$trace/buffer_size_kb\n\
                 echo 1 >$trace/options/event-fork\necho $$ >$trace/set_event_pid\n\
                 echo 1 >$trace/events/kvm/kvm_exit/enable\necho 1 >$trace/events/kvm/kvm_pio/enable\n\
                 ({guest}) >/dev/null\n\
                 echo 0 >$trace/events/enable\ncat $trace/trace\nrmdir $trace"
            ),
        }
    }

    /// The guest's console is the file that xenconsoled writes; the guest ends by itself, or is ended.
    fn xen_script(&self, words: &[String], timeout: Duration) -> String {
        let folder = &self.folder;
        format!(
            "name=$(basename {folder})\n\
             cat >{folder}/config <<END\n\
             name = \"$name\"\ntype = \"pv\"\nkernel = \"{folder}/image\"\nextra = \"{}\"\nmemory = 64\nvcpus = 1\n\
             tsc_mode = \"native\"\non_poweroff = \"destroy\"\non_reboot = \"destroy\"\non_crash = \"destroy\"\nEND\n\
             log=/var/log/xen/console/guest-$name.log; rm -f $log\n\
             xl create -q {folder}/config >&2 || exit 1\n\
             limit=$(($(date +%s) + {}))\n\
             while xl domid $name >/dev/null 2>&1 && [ $(date +%s) -lt $limit ]; do sleep 0.2; done\n\
             xl destroy $name 2>/dev/null\n\
             cat $log; rm -f $log",
            words.join(" "),
            timeout.as_secs()
        )
    }

    fn leave(self) -> Result<()> {
        match self.world {
            Some(world) if self.own => Ok(world.down()?),
            _ if self.folder.is_empty() => Ok(()),
            _ => {
                // A machine that has ended has nothing left to be removed.
                let _ = self.shell(&format!("rm -rf {}", self.folder), b"", MARGIN);
                Ok(())
            }
        }
    }
}
