//! Whether hardware virtualization really works on this machine: else software does its work.

use crate::accelerator::Accelerator;
use crate::cache::{Cache, Recipe};
use crate::emulator::QEMU;
use crate::error::{At, Error, Result};
use crate::images::Images;
use crate::process::{Identity, start_daemon};
use crate::progress::{Progress, step};
use xweave_interrupt as interrupt;

use crate::initrd;
use std::path::Path;
use std::time::{Duration, Instant};

/// A stock kernel is up within two seconds on hardware; one that takes longer is not usable.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

impl Accelerator {
    /// Finds out by booting the kernel with a tiny program that looks for `/dev/kvm` inside.
    ///
    /// That a machine has `/dev/kvm` proves nothing: some can open it and cannot run a stock kernel.
    /// The answer is kept until the machine is rebooted or kernel or QEMU change.
    pub fn detect(cache: &Cache, images: &Images, progress: Progress<'_>) -> Result<Self> {
        if !Path::new("/dev/kvm").exists() {
            return Ok(Self::Tcg);
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // SAFETY: geteuid takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        let key = Recipe::default()
            .with("qemu", &images.emulator.version)
            .with("kernel", &images.kernel.kernel.version)
            .with("probe", initrd::probe_ingredients())
            .with("user", user.to_string())
            .key();
        let prefix = format!("accel-{}-", boot.trim());
        let entry = cache.entry(
            &format!("accel-{}", boot.trim()),
            &key,
            || (),
            |work| {
                let answer =
                    step(progress, "checking whether hardware virtualization runs a stock kernel", || {
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
    let mut command = images.emulator.command();
    command.args(Accelerator::Kvm.arguments(true)).args(Accelerator::Kvm.nesting_processor());
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
    command.arg("-kernel").arg(&images.kernel.vmlinuz).arg("-initrd").arg(&images.probe_initrd);
    command.args(["-append", "console=ttyS0 quiet panic=-1"]);
    let begun = Instant::now();
    let mut child = start_daemon(&mut command, &log, &pid)?;
    let identity = Identity::read(&pid)?;
    let ended = loop {
        if child.try_wait().at("wait for", QEMU)?.is_some() {
            break true;
        }
        if begun.elapsed() > PROBE_LIMIT || interrupt::pending() {
            break false;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if !ended {
        if let Some(identity) = identity {
            identity.end(Duration::from_secs(1))?;
        }
        let _ = child.wait();
        if interrupt::pending() {
            return Err(Error::Interrupted);
        }
    }
    let text = std::fs::read(&console).unwrap_or_default();
    let works = String::from_utf8_lossy(&text).contains("xweave-probe nested=yes");
    Ok(if works { Accelerator::Kvm } else { Accelerator::Tcg })
}
