//! Back ends of a virtual machine's devices, found by the files that its process has open and by its command line.
//!
//! Devices: Documentation/admin-guide/devices.txt and drivers/vhost/{net,vdpa}.c, Documentation/driver-api/vfio.rst,
//! drivers/net/tun.c, Linux 6.12. A back end of vhost-user is a socket like any other: it is found by the words of the
//! command line (QEMU's `-netdev vhost-user`, `-device vhost-user-…`; Cloud Hypervisor's `vhost_user=true`).

use std::{fs, path::Path};

use xweave_wire::message::BackEnd;

use crate::command_line::CommandLine;

/// Back ends of a process, each kind once, in a fixed order. `dir` is its `/proc/PID`.
pub(crate) fn find_back_ends(dir: &Path) -> Vec<BackEnd> {
    let files: Vec<String> = fs::read_dir(dir.join("fd"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(fs::read_link(entry.ok()?.path()).ok()?.to_str()?.to_owned()))
        .collect();
    classify(&files, &CommandLine::read_from(dir).text())
}

fn classify(files: &[String], command_line: &str) -> Vec<BackEnd> {
    let has = |is: &dyn Fn(&str) -> bool| files.iter().any(|file| is(file));
    let vhost_net = has(&|file| file == "/dev/vhost-net");
    // Devices of macvtap are /dev/tapN.
    let tap = has(&|file| file == "/dev/net/tun" || file.starts_with("/dev/tap"));
    // /dev/vfio/vfio exists even without a device.
    let vfio = has(&|file| file.strip_prefix("/dev/vfio/").is_some_and(|rest| rest != "vfio"));
    let words = ["vhost-user", "vhost_user=true", "vhost_user=on"];
    [
        (vhost_net, BackEnd::VhostNet),
        (tap && !vhost_net, BackEnd::EmulatedNet),
        (words.iter().any(|word| command_line.contains(word)), BackEnd::VhostUser),
        (has(&|file| file.starts_with("/dev/vhost-vdpa-")), BackEnd::Vdpa),
        (vfio, BackEnd::Vfio),
    ]
    .into_iter()
    .filter_map(|(is, what)| is.then_some(what))
    .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn back_ends_are_found_by_open_files() {
        let of = |files: &[&str], command_line: &str| {
            let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
            classify(&files, command_line)
        };
        let usual = ["/dev/kvm", "/dev/net/tun", "/dev/vhost-net", "/dev/vfio/vfio", "socket:[7]"];
        assert_eq!(of(&usual, "qemu\0-netdev\0tap,vhost=on"), [BackEnd::VhostNet]);
        assert_eq!(of(&["/dev/net/tun"], "qemu"), [BackEnd::EmulatedNet]);
        assert_eq!(of(&["/dev/tap5", "/dev/vhost-net"], "qemu"), [BackEnd::VhostNet]);
        assert_eq!(of(&["/dev/tap5"], "qemu"), [BackEnd::EmulatedNet]);
        assert_eq!(of(&["/dev/vfio/vfio", "/dev/vfio/12"], "qemu"), [BackEnd::Vfio]);
        assert_eq!(of(&["/dev/vfio/devices/vfio0"], "qemu"), [BackEnd::Vfio]);
        assert_eq!(of(&["/dev/vhost-vdpa-0"], "qemu"), [BackEnd::Vdpa]);
        let json = r#"qemu -netdev {"type":"vhost-user","chardev":"c","id":"n"}"#;
        assert_eq!(of(&[], json), [BackEnd::VhostUser]);
        assert_eq!(of(&[], "cloud-hypervisor\0--net\0vhost_user=true,socket=/s"), [BackEnd::VhostUser]);
        assert_eq!(of(&["/dev/kvm"], "qemu\0-net\0none"), []);
    }

    #[test]
    fn process_is_read_from_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("fd")).unwrap();
        for (nth, file) in ["/dev/kvm", "/dev/net/tun", "/dev/vfio/3"].iter().enumerate() {
            symlink(file, dir.path().join("fd").join(nth.to_string())).unwrap();
        }
        fs::write(dir.path().join("cmdline"), b"qemu\0-device\0vhost-user-blk-pci\0").unwrap();
        assert_eq!(find_back_ends(dir.path()), [BackEnd::EmulatedNet, BackEnd::VhostUser, BackEnd::Vfio]);
        assert_eq!(find_back_ends(&dir.path().join("gone")), []);
    }
}
