//! Description of this domain.

use std::{
    fs::{self, DirEntry},
    path::Path,
};

use sha2::{Digest, Sha256};
use xweave_bytes::read_le;
use xweave_wire::message::{Disk, DomainInfo, ModuleInfo, Processor, XenDomain};

use crate::{clock, kvm, settings_snapshot};

/// Folder with the BTF of the kernel and of its modules.
pub const BTF_DIR: &str = "/sys/kernel/btf";

/// Bits of `CapEff` in `/proc/self/status` (include/uapi/linux/capability.h).
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// Reads the description of this domain; a field whose file is missing stays empty. Takes 20 ms, for the TSC frequency.
pub fn read_facts() -> DomainInfo {
    let btf = fs::read(format!("{BTF_DIR}/vmlinux")).ok();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    DomainInfo {
        agent: env!("CARGO_PKG_VERSION").to_owned(),
        hostname: line("/proc/sys/kernel/hostname"),
        kernel: line("/proc/sys/kernel/osrelease"),
        build_id: build_id(&fs::read("/sys/kernel/notes").unwrap_or_default()).unwrap_or_default(),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)),
        processors: processors(&cpuinfo),
        vendor: field(&cpuinfo, "vendor_id").unwrap_or_default().to_owned(),
        privileged: privileged(&fs::read_to_string("/proc/self/status").unwrap_or_default()),
        btf: btf.is_some(),
        btf_sha256: btf.map(|btf| xweave_text::hex(&Sha256::digest(btf))).unwrap_or_default(),
        modules: modules(),
        tsc_hz: clock::tsc_hz(),
        vms: kvm::list_vms(),
        disks: disks(),
        xen: xen_domain(&line("/sys/hypervisor/type"), &line("/sys/hypervisor/guest_type")),
        settings: settings_snapshot::read_settings(),
        recorders: recorders(),
    }
}

/// Kind of this domain of Xen; `None` if it does not run on Xen.
fn xen_domain(hypervisor: &str, kind: &str) -> Option<XenDomain> {
    kind.parse().ok().filter(|_| hypervisor == "xen")
}

/// This process, and its parent if that is the same program: a recording on this machine, or the listening agent.
fn recorders() -> Vec<u32> {
    /// PROC_PID_INIT_INO of include/linux/proc_ns.h: in any other namespace, processes have other numbers.
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";
    let link = |path: &str| fs::read_link(path).ok();
    if link("/proc/self/ns/pid").is_none_or(|namespace| namespace.as_os_str() != FIRST_NAMESPACE) {
        return Vec::new();
    }
    let parent = std::os::unix::process::parent_id();
    let own = link("/proc/self/exe");
    let is_ours = own.is_some() && link(&format!("/proc/{parent}/exe")) == own;
    [std::process::id()].into_iter().chain(is_ours.then_some(parent)).collect()
}

fn line(path: &str) -> String {
    settings_snapshot::read_line(Path::new(path)).unwrap_or_default()
}

/// A field of one processor in /proc/cpuinfo (arch/x86/kernel/cpu/proc.c).
fn field<'t>(part: &'t str, name: &str) -> Option<&'t str> {
    let mut fields = part.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(called, _)| called.trim() == name).map(|(_, value)| value.trim())
}

/// Processors with their initial APIC IDs: those that the hypervisor gave them, even if the guest has changed them.
fn processors(cpuinfo: &str) -> Vec<Processor> {
    let processor = |part: &str| {
        let number = |name| field(part, name)?.parse().ok();
        let apic_id = number("initial apicid").or_else(|| number("apicid"))?;
        Some(Processor { cpu: number("processor")?, apic_id })
    };
    cpuinfo.split("\n\n").filter_map(processor).collect()
}

/// Whole disks only, as events name them (Documentation/ABI/stable/sysfs-block).
fn disks() -> Vec<Disk> {
    let disk = |entry: DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let numbers = line(&format!("/sys/block/{name}/dev"));
        let (major, minor) = numbers.split_once(':')?;
        Some(Disk { name, major: major.parse().ok()?, minor: minor.parse().ok()? })
    };
    let mut disks: Vec<_> =
        fs::read_dir("/sys/block").into_iter().flatten().flatten().filter_map(disk).collect();
    disks.sort_by(|a, b| a.name.cmp(&b.name));
    disks
}

fn modules() -> Vec<ModuleInfo> {
    let mut modules: Vec<_> = fs::read_dir(BTF_DIR)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            if name == "vmlinux" {
                return None;
            }
            let btf_sha256 = xweave_text::hex(&Sha256::digest(fs::read(entry.path()).ok()?));
            let notes = fs::read(format!("/sys/module/{name}/notes/.note.gnu.build-id")).unwrap_or_default();
            Some(ModuleInfo { name, btf_sha256, build_id: build_id(&notes).unwrap_or_default() })
        })
        .collect();
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    modules
}

fn privileged(status: &str) -> bool {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    effective & CAP_SYS_ADMIN != 0 || effective & (CAP_BPF | CAP_PERFMON) == CAP_BPF | CAP_PERFMON
}

/// The description of the note of type 3 (`NT_GNU_BUILD_ID`) and name "GNU", in hex.
fn build_id(mut notes: &[u8]) -> Option<String> {
    let word = |bytes: &[u8], at: usize| usize::try_from(read_le::<u32>(bytes, at)?).ok();
    loop {
        let (name_size, size, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let name_end = 12 + name_size.next_multiple_of(4);
        let name = notes.get(12..12 + name_size)?;
        let description = notes.get(name_end..name_end + size)?;
        if kind == 3 && name == b"GNU\0" {
            return Some(xweave_text::hex(description));
        }
        notes = notes.get(name_end + size.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let note = |name: &[u8], kind: u32, description: &[u8]| {
            let mut bytes = Vec::new();
            bytes.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
            bytes.extend(u32::try_from(description.len()).unwrap().to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            for part in [name, description] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let mut notes = note(b"Linux\0", 0x101, b"x");
        notes.extend(note(b"GNU\0", 3, &[0xab, 0x01]));
        assert_eq!(build_id(&notes).as_deref(), Some("ab01"));
        assert_eq!(build_id(&notes[..notes.len() - 4]), None);
    }

    #[test]
    fn processors_are_told_with_their_apic_ids() {
        // Two sockets of three cores: the number of the socket begins at a bit of its own.
        let part = |cpu: u32, apic: u32| {
            format!(
                "processor\t: {cpu}\nvendor_id\t: AuthenticAMD\ncpu cores\t: 3\napicid\t\t: 99\n\
                 initial apicid\t: {apic}\nflags\t\t: fpu\n"
            )
        };
        let ids = [(0, 0), (1, 1), (2, 2), (3, 4), (4, 5), (5, 6)];
        let text = ids.map(|(cpu, apic)| part(cpu, apic)).join("\n");
        let told = processors(&text).into_iter().map(|processor| (processor.cpu, processor.apic_id));
        assert_eq!(told.collect::<Vec<_>>(), ids);
        assert_eq!(field(&text, "vendor_id"), Some("AuthenticAMD"));
        assert_eq!(processors("processor : 0\nBogoMIPS : 48.00\n"), [], "none has an APIC");
    }

    #[test]
    fn rights_are_read_from_the_effective_set() {
        assert!(privileged("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(privileged("CapEff:\t000000c000000000\n"));
        assert!(!privileged("CapEff:\t0000008000000000\n"));
        assert!(!privileged(""));
    }
}
