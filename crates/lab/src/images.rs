//! The images that worlds boot from: a kernel with its modules, the initramfs images, the host's root.

use crate::apt::Apt;
use crate::cache::{Cache, Recipe};
use crate::emulator::Emulator;
use crate::error::{At, Error, Result};
use crate::initrd;
use crate::kernel::{KernelFiles, Kernels};
use crate::kind::{Kind, Qemu};
use crate::modules::Tree;
use crate::process::{add_sbin, run, start_error, tail};
use crate::progress::{Phase, Progress, step};
use crate::sources::Sources;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the root image leaves out: nobody reads manuals there.
const ROOT_LEFT_OUT: &[&str] =
    &["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"];
/// Sparse: only what is used takes room. Enough for long traces.
const ROOT_SIZE: &str = "8G";

/// Which kernels, and which QEMU for the guests, a world's images are made of.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The kind of world.
    pub kind: Kind,
    /// The QEMU that runs the guests of a KVM host.
    pub qemu: Qemu,
    /// The kernel series of the host, or `newest`.
    pub kernel: &'a str,
    /// That of the guests; `None` if it is the host's.
    pub guest_kernel: Option<&'a str>,
}

/// Paths of everything a world boots from. They are shared and never written to.
#[derive(Debug, Clone)]
pub struct Images {
    /// The host's kernel, with its modules.
    pub kernel: KernelFiles,
    /// The guests'.
    pub guest_kernel: KernelFiles,
    /// The QEMU that emulates the host.
    pub emulator: Emulator,
    /// The hypervisor, where it is not the host's kernel.
    pub hypervisor: Option<PathBuf>,
    /// ext4: the emulated host's root.
    pub root: PathBuf,
    /// The emulated host's initial file system, to be followed by a world's own archive.
    pub host_initrd: PathBuf,
    /// The acceleration probe's initial file system.
    pub probe_initrd: PathBuf,
}

impl Images {
    /// Builds what is missing of a world's images, and returns all paths.
    pub fn ensure(cache: &Cache, choice: Choice<'_>, progress: Progress<'_>) -> Result<Self> {
        let Choice { kind, qemu, .. } = choice;
        let spec = kind.spec();
        if (kind, qemu) == (Kind::Xen, Qemu::Backports) {
            let rule = "that is for KVM hosts, as Xen runs its guests without QEMU";
            return Err(Error::Name { what: "QEMU", name: "backports".into(), rule });
        }
        let kernels = Kernels::open(cache)?;
        let kernel = kernels.ensure(choice.kernel, spec.flavour, progress)?;
        let guest_kernel = match choice.guest_kernel {
            Some(series) => kernels.ensure(series, spec.flavour, progress)?,
            None => kernel.clone(),
        };
        let emulator = Emulator::ensure(cache, &kernels, progress)?;
        let waiting = || progress(Phase::Note("waiting for another xweave that is building this image"));

        let hypervisor = spec.hypervisor.map(|package| hypervisor(cache, package, progress)).transpose()?;

        let recipe = Recipe::default()
            .with("kernel", kernel.kernel.key())
            .with("guest kernel", guest_kernel.kernel.key())
            .with("init", initrd::ingredients(spec));
        let boot = cache.entry("boot", &recipe.key(), waiting, |work| {
            step(progress, "initramfs images", || {
                let archives = initrd::build(&Tree::open(&kernel)?, &Tree::open(&guest_kernel)?, spec)?;
                initrd::write(&work.join("host.cpio"), &[&archives.host])?;
                initrd::write(&work.join("probe.cpio"), &[&archives.probe])
            })
        })?;

        let sources = Sources::of_this_machine();
        let suite = sources.as_ref().map_or("bookworm", |s| &s.suite).to_owned();
        let packages = spec.packages(qemu, &suite);
        let recipe = Recipe::default()
            .with("layout", "1")
            .with("suite", &suite)
            .with("packages", &packages)
            .with("left out", ROOT_LEFT_OUT.join(" "))
            .with("size", ROOT_SIZE);
        let root = cache.entry("root", &recipe.key(), waiting, |work| {
            step(progress, "root file system of the host (mmdebstrap)", || {
                let sources = sources?;
                let list = sources.write(work, qemu == Qemu::Backports)?;
                build_root(&sources, &list, &packages, work, progress)
            })
        })?;

        Ok(Self {
            kernel,
            guest_kernel,
            emulator,
            hypervisor,
            root: root.join("root.ext4"),
            host_initrd: boot.join("host.cpio"),
            probe_initrd: boot.join("probe.cpio"),
        })
    }
}

/// The newest entry of the cache of a kind that `read` makes something of.
fn newest<T>(cache: &Cache, kind: &str, read: impl Fn(&Path) -> Option<T>) -> Option<T> {
    std::fs::read_dir(cache.root())
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{kind}-")))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, read(&entry.path())?)))
        .max_by_key(|(modified, _)| *modified)
        .map(|(_, found)| found)
}

/// The hypervisor of a package, decompressed: QEMU boots it as it is.
fn hypervisor(cache: &Cache, package: &str, progress: Progress<'_>) -> Result<PathBuf> {
    let image = |entry: &Path| entry.join("hypervisor.elf");
    let apt = Apt::machine();
    let version = match apt.version(package) {
        Ok(version) => version,
        // As with kernels, the one fetched before.
        Err(error) => {
            let kept = newest(cache, package, |entry| Some(image(entry)).filter(|image| image.exists()));
            return kept.ok_or(error);
        }
    };
    let waiting = || progress(Phase::Note("waiting for another xweave that is building this image"));
    let key = Recipe::default().with("layout", "1").with("version", &version).key();
    let entry = cache.entry(package, &key, waiting, |work| {
        step(progress, &format!("{package} {version}"), || {
            apt.unpack(package, &version, work)?;
            let boot = work.join("boot");
            let compressed = std::fs::read_dir(&boot)
                .at("read", &boot)?
                .flatten()
                .map(|entry| entry.path())
                .find(|path| path.extension().is_some_and(|end| end == "gz"))
                .ok_or_else(|| Error::Package { package: package.into(), missing: "boot/*.gz".into() })?;
            let data = run(Command::new("gzip").arg("-dc").arg(compressed), "decompressing the hypervisor")?;
            let path = image(work);
            std::fs::write(&path, data).at("write", path)
        })
    })?;
    Ok(image(&entry))
}

fn build_root(
    sources: &Sources,
    list: &Path,
    packages: &str,
    work: &Path,
    progress: Progress<'_>,
) -> Result<()> {
    let tar = work.join("root.tar");
    // SAFETY: geteuid takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;

    let mut command = if root {
        // In namespaces of its own, which end with it: killed at any moment, it leaves no process and no mount.
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child=SIGKILL",
            "mmdebstrap",
            "--mode=root",
        ]);
        command
    } else {
        let mut command = Command::new("mmdebstrap");
        command.arg("--mode=unshare");
        command
    };
    command.args(["--variant=minbase", &format!("--include={packages}"), "--format=tar"]);
    command.arg("--aptopt=APT::Install-Recommends \"false\";");
    command.args(sources.options.iter().map(|option| format!("--aptopt={option}")));
    command.args(ROOT_LEFT_OUT.iter().map(|path| format!("--dpkgopt=path-exclude={path}")));
    command.arg(&sources.suite).arg(&tar).arg(list).env("TMPDIR", work).env("LC_ALL", "C");
    run_noting(&mut command, "building the host's root file system", progress)?;

    progress(Phase::Note("writing the image"));
    let script = "mkdir tree && tar -xf root.tar -C tree --exclude='./dev/*' && : >root.ext4 && \
        mke2fs -q -t ext4 -O ^has_journal -m 0 -E lazy_itable_init=1,root_owner=0:0 -d tree root.ext4 \"$1\" && \
        rm -rf tree root.tar sources.list";
    let mut command = Command::new(if root { "sh" } else { "fakeroot" });
    if !root {
        command.arg("sh");
    }
    run(command.args(["-c", script, "sh", ROOT_SIZE]).current_dir(work), "writing the root image").map(|_| ())
}

/// Runs a long tool, passing on the lines by which it tells what it is doing.
fn run_noting(command: &mut Command, doing: &str, progress: Progress<'_>) -> Result<()> {
    add_sbin(command);
    // SAFETY: prctl with a constant is a plain system call, allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| start_error(command, e))?;
    let mut printed = String::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n').map_while(std::io::Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            // mmdebstrap redraws its progress with carriage returns when it sees a terminal; this is none.
            if let Some(news) = line.strip_prefix("I: ") {
                progress(Phase::Note(news));
            }
            printed.push_str(&line);
            printed.push('\n');
            if xweave_interrupt::pending() {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::Interrupted);
            }
        }
    }
    let status = child.wait().at("wait for", command.get_program())?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        program: "mmdebstrap".into(),
        status: status.to_string(),
        doing: doing.into(),
        stderr: tail(&printed, 20),
    })
}
