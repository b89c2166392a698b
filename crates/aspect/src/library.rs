//! The library of ready flows, `aspects/` of the source tree, inside the program.

use crate::Source;

const LIBRARY: &[(&str, &str)] = &[
    ("block", include_str!("../../../aspects/block.aspect")),
    ("interrupt", include_str!("../../../aspects/interrupt.aspect")),
    ("page-cache", include_str!("../../../aspects/page-cache.aspect")),
    ("sched", include_str!("../../../aspects/sched.aspect")),
    ("tcp", include_str!("../../../aspects/tcp.aspect")),
    ("udp", include_str!("../../../aspects/udp.aspect")),
    ("virtio-blk", include_str!("../../../aspects/virtio-blk.aspect")),
    ("virtio-net", include_str!("../../../aspects/virtio-net.aspect")),
    ("xen-blk", include_str!("../../../aspects/xen-blk.aspect")),
    ("xen-net", include_str!("../../../aspects/xen-net.aspect")),
];

/// What aspects of the library have in common, and include.
const PARTS: &[(&str, &str)] = &[
    ("disks", include_str!("../../../aspects/include/disks.aspect")),
    ("frames", include_str!("../../../aspects/include/frames.aspect")),
];

/// An aspect of the library by its name.
pub fn library(name: &str) -> Option<Source> {
    let (name, text) = LIBRARY.iter().find(|(known, _)| *known == name)?;
    Some(Source { name: format!("{name}.aspect"), text: (*text).to_owned() })
}

/// What an aspect can include by its name.
pub(crate) fn part(name: &str) -> Option<Source> {
    let (name, text) = PARTS.iter().find(|(known, _)| *known == name)?;
    Some(Source { name: format!("include/{name}.aspect"), text: (*text).to_owned() })
}

/// All that can be included.
pub(crate) fn part_names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(name, _)| *name)
}

/// Functions that the library names, by patterns, the module that they are in, and what to load for it.
const MODULES: &[(&str, &str, &str)] = &[
    ("vhost_%", "vhost", "vhost_net"),
    ("handle_tx%", "vhost_net", "vhost_net"),
    ("handle_rx%", "vhost_net", "vhost_net"),
    ("tun_%", "tun", "tun"),
    ("tap_%", "tap", "macvtap"),
    ("br_%", "bridge", "bridge"),
    ("kvm_%", "kvm", "kvm_intel or kvm_amd"),
    ("__apic_accept_irq", "kvm", "kvm_intel or kvm_amd"),
    ("virtqueue_%", "virtio_ring", "virtio_pci"),
    ("receive_buf", "virtio_net", "virtio_net"),
    ("start_xmit", "virtio_net", "virtio_net"),
    ("blkif_queue_rq", "xen_blkfront", "xen_blkfront"),
    ("xen_blkbk_%", "xen_blkback", "xen_blkback"),
    ("xenvif_%", "xen_netback", "xen_netback"),
    ("xennet_%", "xen_netfront", "xen_netfront"),
];

/// A module of the kernel that a function may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// What `modprobe` has to load for it.
    pub load: &'static str,
}

/// The module that a function of the library's aspects is in, where that may be one that is not loaded.
pub fn module_of(function: &str) -> Option<Module> {
    let of = MODULES.iter().find(|(pattern, ..)| xweave_text::matches(pattern, function));
    of.map(|&(_, name, load)| Module { name, load })
}

/// The names in the library.
pub fn library_names() -> impl Iterator<Item = &'static str> {
    LIBRARY.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn functions_that_modules_have_are_known_by_their_names() {
        let load = |function| module_of(function).map(|module| module.load);
        assert_eq!(load("vhost_get_vq_desc"), Some("vhost_net"));
        assert_eq!(load("kvm_get_apic_interrupt"), Some("kvm_intel or kvm_amd"));
        assert_eq!(load("vfs_read"), None);
        // What no aspect of the library names needs no place here.
        let texts = LIBRARY.iter().chain(PARTS).map(|(_, text)| *text).collect::<String>();
        for (pattern, ..) in MODULES.iter().filter(|(pattern, ..)| !pattern.starts_with("handle_")) {
            assert!(texts.contains(pattern.trim_end_matches('%')), "{pattern}");
        }
    }

    #[test]
    fn the_library_is_complete_and_without_mistakes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../aspects");
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if file == "include" {
                continue;
            }
            let source = library(file.trim_end_matches(".aspect")).expect("every aspect is in LIBRARY");
            assert_eq!(source.name, file);
            assert!(parse(vec![source]).is_ok_and(|aspects| !aspects.xflows.is_empty()));
        }
        for entry in std::fs::read_dir(format!("{folder}/include")).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let source = part(file.trim_end_matches(".aspect")).expect("every part is in PARTS");
            assert_eq!(source.name, format!("include/{file}"));
        }
        assert_eq!(library("nothing"), None);
        // Any of them can be woven with any other: what several include is one flow.
        let all = library_names().filter_map(library).collect();
        let aspects = parse(all).unwrap();
        let names: std::collections::HashSet<&str> =
            aspects.xflows.iter().map(|xflow| xflow.name.text.as_str()).collect();
        assert!(names.len() == aspects.xflows.len() && names.contains("packet"), "{names:?}");
    }
}
