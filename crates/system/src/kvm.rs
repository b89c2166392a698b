//! Virtual machines of this kernel's KVM, read from debugfs; where that is not mounted, or locked down, from the files that
//! processes have open.
//!
//! `/sys/kernel/debug/kvm/PID-FD/vcpuN/{tsc-offset,tsc-scaling-ratio,tsc-scaling-ratio-frac-bits}`:
//! arch/x86/kvm/debugfs.c, Linux 6.1. `PID-FD/exits` is of all its vCPUs together.

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use xweave_wire::message::Vm;

use crate::{back_ends::find_back_ends, command_line::CommandLine};

const KVM_DIR: &str = "/sys/kernel/debug/kvm";
const KVM_DEVICE: &str = "/dev/kvm";

/// How the kernel calls the file of a vCPU before its number (`kvm_vm_ioctl_create_vcpu`, virt/kvm/kvm_main.c, since 4.17).
const VCPU_FILE: &str = "anon_inode:kvm-vcpu:";

/// Lists the virtual machines that have entered guest mode, by process ID. Where debugfs cannot be read, these are the
/// processes that have a vCPU, and their clocks are not known.
pub fn list_vms() -> Vec<Vm> {
    let mut vms: Vec<Vm> = match fs::read_dir(KVM_DIR) {
        Ok(entries) => entries.filter_map(|entry| read_vm(&entry.ok()?.path())).collect(),
        Err(_) if Path::new(KVM_DEVICE).exists() => {
            processes_with_vcpus(Path::new("/proc")).into_iter().map(describe_process).collect()
        }
        Err(_) => Vec::new(),
    };
    vms.sort_by_key(|vm| vm.pid);
    vms
}

/// Processes that have the file of a vCPU open. Only root sees those of others.
fn processes_with_vcpus(proc: &Path) -> Vec<u32> {
    let has_vcpu = |process: &Path| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target.to_str().is_some_and(|target| target.starts_with(VCPU_FILE)))
    };
    let processes = fs::read_dir(proc).into_iter().flatten().flatten().filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        has_vcpu(&process.path()).then_some(pid)
    });
    processes.collect()
}

/// What is known of a virtual machine by its process alone.
fn describe_process(pid: u32) -> Vm {
    let command_line = CommandLine::read(pid);
    Vm {
        pid,
        name: command_line.name(),
        comm: fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned(),
        tsc_offsets: Vec::new(),
        tsc_scaling: (1, 0),
        back_ends: find_back_ends(&Path::new("/proc").join(pid.to_string())),
        cid: command_line.cid(),
    }
}

fn read_vm(dir: &Path) -> Option<Vm> {
    let (pid, _fd) = dir.file_name()?.to_str()?.split_once('-')?;
    let pid: u32 = pid.parse().ok()?;
    // Processes that only probe KVM, or keep it from unloading, create one without a guest.
    if number(dir, "exits") == Some(0u64) {
        return None;
    }
    let mut vcpus: Vec<_> = fs::read_dir(dir)
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number: u32 = path.file_name()?.to_str()?.strip_prefix("vcpu")?.parse().ok()?;
            Some((number, path))
        })
        .collect();
    vcpus.sort();
    let first = &vcpus.first()?.1;
    // Missing where the processor cannot scale: then the guest's TSC has the host's frequency.
    let scaling = number::<u64>(first, "tsc-scaling-ratio")
        .zip(number::<u32>(first, "tsc-scaling-ratio-frac-bits"))
        .unwrap_or((1, 0));
    Some(Vm {
        tsc_offsets: vcpus.iter().filter_map(|(_, dir)| number(dir, "tsc-offset")).collect(),
        tsc_scaling: scaling,
        ..describe_process(pid)
    })
}

/// Thread IDs of the vCPUs of a process's virtual machine, by vCPU number (`vcpuN/pid`:
/// virt/kvm/kvm_main.c, since 6.0).
pub(crate) fn vcpu_threads(pid: u32) -> Vec<u32> {
    let folder = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let after =
        |path: &Path, prefix: &str| Some(path.file_name()?.to_str()?.strip_prefix(prefix)?.to_owned());
    let is_its = |path: &Path| after(path, &format!("{pid}-")).is_some();
    let Some(dir) = folder(Path::new(KVM_DIR)).into_iter().find(|path| is_its(path)) else {
        return Vec::new();
    };
    let vcpu = |path: PathBuf| Some((after(&path, "vcpu")?.parse().ok()?, number(&path, "pid")?));
    let mut vcpus: Vec<(u32, u32)> = folder(&dir).into_iter().filter_map(vcpu).collect();
    vcpus.sort_unstable();
    vcpus.into_iter().map(|(_, tid)| tid).collect()
}

fn number<T: FromStr>(dir: &Path, name: &str) -> Option<T> {
    fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_process_with_a_vcpu_is_a_vm_and_one_that_only_asked_kvm_is_none() {
        let proc = tempfile::tempdir().unwrap();
        let files = [
            (
                "41",
                &["socket:[7]", "anon_inode:kvm-vm", "anon_inode:kvm-vcpu:0", "anon_inode:kvm-vcpu:1"][..],
            ),
            ("42", &["/dev/kvm", "anon_inode:kvm-vm"]),
            ("43", &[]),
            ("self", &["anon_inode:kvm-vcpu:0"]),
        ];
        for (process, targets) in files {
            let folder = proc.path().join(process).join("fd");
            fs::create_dir_all(&folder).unwrap();
            for (number, target) in targets.iter().enumerate() {
                symlink(target, folder.join(number.to_string())).unwrap();
            }
        }
        assert_eq!(processes_with_vcpus(proc.path()), [41]);
    }

    #[test]
    fn vm_is_read_from_its_folder() {
        let root = std::env::temp_dir().join(format!("xweave-kvm-{}", std::process::id()));
        let dir = root.join("4000000-12");
        for (vcpu, offset) in [("vcpu1", "-7"), ("vcpu0", "-5")] {
            fs::create_dir_all(dir.join(vcpu)).unwrap();
            fs::write(dir.join(vcpu).join("tsc-offset"), format!("{offset}\n")).unwrap();
        }
        // Older kernels may have no file for exits.
        let found = read_vm(&dir).unwrap();
        assert_eq!((found.pid, found.tsc_offsets, found.tsc_scaling), (4_000_000, vec![-5, -7], (1, 0)));
        let after = |exits: &str| {
            fs::write(dir.join("exits"), exits).unwrap();
            read_vm(&dir).map(|vm| vm.pid)
        };
        let of_exits = [after("1\n"), after("0\n")];
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(of_exits, [Some(4_000_000), None], "a VM that has never run has no guest");
    }
}
