//! Snapshot of the settings that affect response time.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use xweave_wire::{
    knob::is_word,
    limits::{GOVERNORS, NICS},
    message::{Nic, Settings},
};

/// Reads the settings of this kernel.
pub(crate) fn read_settings() -> Settings {
    read_settings_from(Path::new("/"))
}

/// Reads the settings whose files are below `root`.
fn read_settings_from(root: &Path) -> Settings {
    let number = |path: &str| read_line(&root.join(path))?.parse().ok();
    let cpus = entries(&root.join("sys/devices/system/cpu"));
    let governor =
        |cpu: PathBuf| read_line(&cpu.join("cpufreq/scaling_governor")).filter(|name| is_word(name));
    let governors: BTreeSet<String> = cpus.into_iter().filter_map(governor).collect();
    let mut nics: Vec<Nic> =
        entries(&root.join("sys/class/net")).iter().filter_map(|nic| read_nic(nic)).collect();
    nics.sort_by(|one, other| one.name.cmp(&other.name));
    nics.truncate(NICS);
    Settings {
        halt_poll_ns: number("sys/module/kvm/parameters/halt_poll_ns"),
        governors: governors.into_iter().take(GOVERNORS).collect(),
        ksm_run: number("sys/kernel/mm/ksm/run"),
        swappiness: number("proc/sys/vm/swappiness"),
        nics,
    }
}

/// Reads a network device; `None` if it is neither hardware nor emulated by a hypervisor (Documentation/ABI/testing/sysfs-class-net-queues).
fn read_nic(path: &Path) -> Option<Nic> {
    let name = path.file_name()?.to_str()?.to_owned();
    let is_queue = |path: &&PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("rx-"))
    };
    let queues = entries(&path.join("queues")).iter().filter(is_queue).count();
    path.join("device").exists().then_some(Nic { name, queues: u32::try_from(queues).unwrap_or(u32::MAX) })
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Reads a file's text, without surrounding white space; `None` if it cannot be read.
pub(crate) fn read_line(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_the_kernels_files() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_settings_from(folder.path()), Settings::default());
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/module/kvm/parameters/halt_poll_ns", "200000\n");
        for (cpu, governor) in [("cpu0", "powersave"), ("cpu1", "schedutil"), ("cpu2", "powersave")] {
            write(
                &format!("sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor"),
                &format!("{governor}\n"),
            );
        }
        write("sys/kernel/mm/ksm/run", "1\n");
        write("proc/sys/vm/swappiness", "60\n");
        for file in [
            "eth0/device/x",
            "eth0/queues/rx-0/x",
            "eth0/queues/rx-1/x",
            "eth0/queues/tx-0/x",
            "lo/queues/rx-0/x",
        ] {
            write(&format!("sys/class/net/{file}"), "");
        }
        let expected = Settings {
            halt_poll_ns: Some(200_000),
            governors: vec!["powersave".to_owned(), "schedutil".to_owned()],
            ksm_run: Some(1),
            swappiness: Some(60),
            nics: vec![Nic { name: "eth0".to_owned(), queues: 2 }],
        };
        assert_eq!(read_settings_from(folder.path()), expected);
    }
}
