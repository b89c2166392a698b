//! The initramfs images of the emulated host, of its guests and of the acceleration probe.

use crate::error::{At, Error, Result};
use crate::kind::{Kind, Spec};
use crate::modules::{Module, Tree};
use crate::newc::Archive;
use crate::process::start_error;
use object::Endianness;
use object::elf::PT_INTERP;
use object::read::elf::{ElfFile64, ProgramHeader};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const HOST_INIT: &str = include_str!("../init/host-initramfs.sh");
const HOST_INITTAB: &str = include_str!("../init/host-inittab");
const HOST_RC: &str = include_str!("../init/host-rc.sh");
const HOST_GUESTS: &str = include_str!("../init/host-guests.sh");
const GUEST_INIT: &str = include_str!("../init/guest-init.sh");
const GUEST_AGENT: &str = include_str!("../init/guest-agent.sh");
const PROBE_INIT: &str = include_str!("../init/probe-init.sh");

/// Modules that the host inserts before it can mount its root image, from which it loads the rest.
/// (`ext4` asks for `crc32c` by name, which no dependency says; from 6.14 on it is part of the kernel's library.)
const HOST_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic?", "ext4"];
const PROBE_MODULES: &[&str] = &["kvm_amd", "kvm_intel"];

/// Everything of the initramfs images that is the lab's own, for the cache key.
pub fn ingredients(spec: &Spec) -> String {
    [
        HOST_INIT,
        HOST_INITTAB,
        HOST_RC,
        HOST_GUESTS,
        spec.host_script,
        spec.guest_script,
        GUEST_INIT,
        spec.guest_inittab,
        GUEST_AGENT,
        PROBE_INIT,
        &HOST_MODULES.join(" "),
        &spec.guest_modules.join(" "),
        &PROBE_MODULES.join(" "),
    ]
    .join("\0")
}

/// Everything of the probe that is the lab's own.
pub fn probe_ingredients() -> String {
    [PROBE_INIT, &PROBE_MODULES.join(" ")].join("\0")
}

/// The archives of a world.
pub struct Initrds {
    /// Archive of the emulated host, with the guests' kernel and archive.
    pub host: Vec<u8>,
    /// Archive of the probe.
    pub probe: Vec<u8>,
}

/// Builds the archives for the host's kernel and the guests'.
pub fn build(tree: &Tree, guest_tree: &Tree, spec: &Spec) -> Result<Initrds> {
    let busybox_path = static_busybox()?;
    let busybox = std::fs::read(&busybox_path).at("read", &busybox_path)?;
    let kernel = std::fs::read(&guest_tree.vmlinuz).at("read", &guest_tree.vmlinuz)?;
    let modules = guest_tree.closure(spec.guest_modules)?;
    let guest = guest(&busybox, &modules, spec).at("write", "the guest's initramfs")?;
    let modules = tree.closure(HOST_MODULES)?;
    let host = host(&busybox, &modules, spec, &kernel, &guest).at("write", "the host's initramfs")?;
    let probe = with_init(&busybox, PROBE_INIT, &tree.closure(PROBE_MODULES)?)
        .and_then(Archive::finish)
        .at("write", "the probe's initramfs")?;
    Ok(Initrds { host, probe })
}

/// A dynamically linked busybox would not start without its libraries.
fn static_busybox() -> Result<PathBuf> {
    let missing = || Error::MissingProgram { program: "busybox (static)".into(), package: "busybox-static" };
    for path in ["/bin/busybox", "/usr/bin/busybox"] {
        let Ok(data) = std::fs::read(path) else { continue };
        if is_static(&data) {
            return Ok(path.into());
        }
    }
    Err(missing())
}

/// Reports whether an executable needs no interpreter to load libraries.
fn is_static(data: &[u8]) -> bool {
    let program = ElfFile64::<Endianness>::parse(data);
    program.is_ok_and(|program| {
        let endian = program.endian();
        program.elf_program_headers().iter().all(|header| header.p_type(endian) != PT_INTERP)
    })
}

fn with_init(busybox: &[u8], init: &str, modules: &[Module]) -> io::Result<Archive<Vec<u8>>> {
    let mut archive = Archive::new(Vec::new());
    for folder in ["bin", "lab", "lab/modules.d", "etc"] {
        archive.directory(folder)?;
    }
    archive.file("init", 0o755, init.as_bytes())?;
    archive.file("bin/busybox", 0o755, busybox)?;
    let mut order = String::new();
    for module in modules {
        archive.file(&format!("lab/modules.d/{}.ko", module.name), 0o644, &module.object)?;
        order.push_str(&module.name);
        order.push('\n');
    }
    archive.file("lab/modules", 0o644, order.as_bytes())?;
    Ok(archive)
}

fn guest(busybox: &[u8], modules: &[Module], spec: &Spec) -> io::Result<Vec<u8>> {
    let mut archive = with_init(busybox, GUEST_INIT, modules)?;
    archive.file("etc/inittab", 0o644, spec.guest_inittab.as_bytes())?;
    archive.file("lab/guest-agent.sh", 0o755, GUEST_AGENT.as_bytes())?;
    archive.finish()
}

fn host(busybox: &[u8], modules: &[Module], spec: &Spec, kernel: &[u8], guest: &[u8]) -> io::Result<Vec<u8>> {
    let mut archive = with_init(busybox, HOST_INIT, modules)?;
    let scripts = [
        ("lab/host-inittab", HOST_INITTAB),
        ("lab/host-rc.sh", HOST_RC),
        ("lab/host-guests.sh", HOST_GUESTS),
        ("lab/host-kind.sh", spec.host_script),
        ("lab/host-guest.sh", spec.guest_script),
    ];
    for (path, text) in scripts {
        archive.file(path, 0o755, text.as_bytes())?;
    }
    archive.file("lab/vmlinuz", 0o644, kernel)?;
    archive.file("lab/guest.cpio", 0o644, guest)?;
    archive.finish()
}

/// Guests of a world.
pub struct Guests {
    /// Number of guests.
    pub number: u32,
    /// Processors of each.
    pub processors: u32,
}

/// Builds the archive of one world, to follow the host's: program, settings and token.
pub fn world(xweave: &[u8], kind: Kind, guests: &Guests, token: &str) -> io::Result<Vec<u8>> {
    let Guests { number, processors } = guests;
    let config = format!(
        "KIND={}\nHOST={}\nGUESTS={number}\nGUEST_CPUS={processors}\nGUEST_APPEND=\"quiet panic=-1 mitigations=off\"\n",
        kind.name(),
        kind.host()
    );
    let mut archive = Archive::new(Vec::new());
    archive.directory("lab")?;
    archive.file("lab/xweave", 0o755, xweave)?;
    archive.file("lab/config", 0o644, config.as_bytes())?;
    archive.file("lab/token", 0o600, token.as_bytes())?;
    archive.finish()
}

/// Reads the program that runs in the domains, without its debug information where `strip` is installed:
/// it is copied into the memory of every domain.
pub fn program(path: &Path) -> Result<Vec<u8>> {
    let data = std::fs::read(path).at("read", path)?;
    if !is_static(&data) {
        return Err(Error::Name {
            what: "program for the domains",
            name: path.display().to_string(),
            rule: "it must be a static executable (build xweave with `make build`)",
        });
    }
    let dir = std::env::temp_dir().join(format!("xweave-strip-{}", crate::process::random_hex(8)?));
    let mut command = Command::new("strip");
    command.arg("--strip-debug").arg("-o").arg(&dir).arg(path);
    let stripped = match command.output() {
        Ok(output) if output.status.success() => Some(std::fs::read(&dir).at("read", &dir)),
        Ok(_) => None,
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(start_error(&command, e)),
    };
    let _ = std::fs::remove_file(&dir);
    stripped.unwrap_or(Ok(data))
}

/// Writes archives into a file, in their order.
pub fn write(path: &Path, archives: &[&[u8]]) -> Result<()> {
    let mut file = std::fs::File::create(path).at("create", path)?;
    archives.iter().try_for_each(|a| file.write_all(a)).at("write", path)
}
