//! How settings stand that may cost requests time.

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

/// Those of this kernel.
pub(crate) fn settings() -> Settings {
    under(Path::new("/"))
}

/// Those whose files are in a folder.
fn under(root: &Path) -> Settings {
    let number = |path: &str| line(&root.join(path))?.parse().ok();
    let cpus = entries(&root.join("sys/devices/system/cpu"));
    let governor = |cpu: PathBuf| line(&cpu.join("cpufreq/scaling_governor")).filter(|name| is_word(name));
    let governors: BTreeSet<String> = cpus.into_iter().filter_map(governor).collect();
    let mut nics: Vec<Nic> =
        entries(&root.join("sys/class/net")).iter().filter_map(|nic| of_nic(nic)).collect();
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

/// A network device, if it is a real one, or a hypervisor's (Documentation/ABI/testing/sysfs-class-net-queues).
fn of_nic(path: &Path) -> Option<Nic> {
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

/// A file's only line, without its end.
pub(crate) fn line(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_where_the_kernel_has_them() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(under(folder.path()), Settings::default());
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
        assert_eq!(under(folder.path()), expected);
    }
}
