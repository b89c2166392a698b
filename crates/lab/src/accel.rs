//! How the emulated host is run: by hardware virtualization where that really works, else in software.

use crate::cache::Cache;
use crate::error::{At, Result};
use crate::images::Images;
use crate::process::{Identity, run, start_daemon};
use crate::progress::{Progress, step};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The program that emulates machines.
pub const QEMU: &str = "qemu-system-x86_64";
/// A stock kernel is up within two seconds on hardware; one that takes longer is not usable.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// What executes the emulated host's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// Hardware virtualization, with nesting for the guests.
    Kvm,
    /// QEMU's software emulation: real events, unreal times.
    Tcg,
}

impl Accelerator {
    /// QEMU's arguments for a machine with so many processors.
    ///
    /// Several emulated processors take turns in one thread. What the kernel does between them is what it does
    /// on a real machine (locks are held and waited for, interrupts are sent, text is patched under the feet of
    /// the others), at the speed of one; in threads of their own, kernels die: see [`Self::processors`].
    pub fn arguments(self, processors: u32) -> &'static [&'static str] {
        match (self, processors) {
            (Self::Kvm, _) => &["-accel", "kvm"],
            (Self::Tcg, 0 | 1) => &["-accel", "tcg,thread=multi"],
            (Self::Tcg, _) => &["-accel", "tcg,thread=single"],
        }
    }

    /// A processor for a host that runs guests by hardware virtualization.
    pub fn nesting_processor(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["-cpu", "host"],
            // AMD's SVM is the virtualization that software emulation can nest.
            Self::Tcg => &["-cpu", "EPYC-Rome,+svm,+npt"],
        }
    }

    /// How many processors the emulated host has unless it is said.
    ///
    /// In software, one: with two, kernels died of it, in about one run of the tests in three; of thirty
    /// runs with one, in none (QEMU 7.2 and 10.0). The likely cause: one processor translates code while the
    /// other is patching it, as attaching probes and static keys do, and the outdated translation stays. In
    /// 10.0's source, whether a page holds code is looked up outside the lock in `tlb_set_page_full`, and
    /// pages are marked only after they were translated. Two worlds at once use two processors as well.
    pub fn processors(self) -> u32 {
        match self {
            Self::Kvm => 2,
            Self::Tcg => 1,
        }
    }

    /// Kernel arguments that make time steady.
    pub fn kernel_arguments(self) -> String {
        match self {
            Self::Kvm => String::new(),
            // The emulated TSC is the machine's own, and steady; but a kernel that compares it with emulated
            // timers on a busy machine gets its speed wrong or doubts it, and KVM then shifts the guests'
            // clocks at every switch. Told the speed, it need not measure.
            //
            // Emulated SVM loses a timer interrupt once in a while. A timer that is armed anew at each
            // interrupt then never fires again on that processor (seen: "rcu_preempt kthread timer
            // wakeup didn't happen", for minutes); a periodic one loses a tick.
            Self::Tcg => {
                let khz = tsc_khz();
                let lpj = khz * 1000 / KERNEL_HZ;
                format!("tsc=reliable tsc_early_khz={khz} lpj={lpj} no_timer_check nohz=off highres=off")
            }
        }
    }

    /// Finds out by booting the kernel with a tiny program that looks for `/dev/kvm` inside.
    ///
    /// That a machine has `/dev/kvm` proves nothing: some can open it and cannot run a stock kernel.
    /// The answer is kept until the machine is rebooted or kernel or QEMU change.
    pub fn detect(cache: &Cache, images: &Images, progress: Progress<'_>) -> Result<Self> {
        let version = run(Command::new(QEMU).arg("--version"), "asking for QEMU's version")?;
        if !Path::new("/dev/kvm").exists() {
            return Ok(Self::Tcg);
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // SAFETY: geteuid takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        let key = crate::cache::Recipe::default()
            .with("qemu", version)
            .with("kernel", &images.kernel.version)
            .with("probe", crate::initrd::probe_ingredients())
            .with("user", user.to_string())
            .key();
        let prefix = format!("accel-{}-", boot.trim());
        let entry = cache.entry(
            &format!("accel-{}", boot.trim()),
            &key,
            || (),
            |work| {
                let answer = step(progress, "does hardware virtualization run a stock kernel?", || {
                    probe(images, work)
                })?;
                let path = work.join("answer.json");
                let text = serde_json::to_vec(&answer).unwrap_or_default();
                std::fs::write(&path, text).at("write", path)
            },
        )?;
        forget_other_boots(cache, &prefix);
        let answer = std::fs::read(entry.join("answer.json")).at("read", &entry)?;
        Ok(serde_json::from_slice(&answer).unwrap_or(Self::Tcg))
    }
}

/// Debian's CONFIG_HZ.
const KERNEL_HZ: u64 = 250;

/// The speed of this machine's time stamp counter, measured against its clock.
fn tsc_khz() -> u64 {
    let sample = || {
        // The counter is read between two looks at the clock; the closest pair of many is the best.
        (0..50)
            .map(|_| {
                let before = Instant::now();
                // SAFETY: reading the time stamp counter has no conditions on x86-64, and the lab runs on nothing else.
                let counter = unsafe { std::arch::x86_64::_rdtsc() };
                (before.elapsed(), before, counter)
            })
            .min_by_key(|(gap, ..)| *gap)
            .map_or((Instant::now(), 0), |(_, at, counter)| (at, counter))
    };
    let (begun, first) = sample();
    // Not a wait for anything: the longer the stretch, the more exact the quotient.
    std::thread::sleep(Duration::from_millis(100));
    let (ended, last) = sample();
    let nanoseconds = (ended - begun).as_nanos().max(1);
    u64::try_from(u128::from(last - first) * 1_000_000 / nanoseconds).unwrap_or(0)
}

fn forget_other_boots(cache: &Cache, keep: &str) {
    let Ok(entries) = std::fs::read_dir(cache.root()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("accel-") && !name.starts_with(keep) {
            // Small and harmless: whoever cannot remove it leaves it.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn probe(images: &Images, work: &Path) -> Result<Accelerator> {
    let (log, console, pid) = (work.join("qemu.log"), work.join("console.log"), work.join("qemu.pid"));
    let mut command = Command::new(QEMU);
    command.args(Accelerator::Kvm.arguments(2)).args(Accelerator::Kvm.nesting_processor());
    command.args([
        "-smp",
        "2",
        "-m",
        "512",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
    command.arg("-serial").arg(format!("file:{}", console.display()));
    command.arg("-kernel").arg(&images.vmlinuz).arg("-initrd").arg(&images.probe_initrd);
    command.args(["-append", "console=ttyS0 quiet panic=-1"]);
    let begun = Instant::now();
    let mut child = start_daemon(&mut command, &log, &pid)?;
    let identity = Identity::read(&pid)?;
    let ended = loop {
        if child.try_wait().at("wait for", QEMU)?.is_some() {
            break true;
        }
        if begun.elapsed() > PROBE_LIMIT || crate::interrupt::pending() {
            break false;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if !ended {
        if let Some(identity) = identity {
            identity.end(Duration::from_secs(1))?;
        }
        let _ = child.wait();
        if crate::interrupt::pending() {
            return Err(crate::Error::Interrupted);
        }
    }
    let text = std::fs::read(&console).unwrap_or_default();
    let works = String::from_utf8_lossy(&text).contains("xweave-probe nested=yes");
    Ok(if works { Accelerator::Kvm } else { Accelerator::Tcg })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_emulated_processors_take_turns_in_one_thread() {
        assert_eq!(Accelerator::Tcg.arguments(1), ["-accel", "tcg,thread=multi"]);
        assert_eq!(Accelerator::Tcg.arguments(2), ["-accel", "tcg,thread=single"]);
        assert_eq!(Accelerator::Kvm.arguments(4), ["-accel", "kvm"]);
    }
}
