//! A KVM host: its own kernel is the hypervisor, QEMU runs the guests.

use super::{Boot, INITRD, KERNEL, Spec};
use crate::kernel::Flavour;
use std::process::Command;

pub const SPEC: Spec = Spec {
    // A third of the generic one's size, and it has all that a KVM host needs.
    flavour: Flavour::Cloud,
    packages: "qemu-system-x86,kmod,iproute2,procps,iputils-ping,tcpdump,bpftool,ethtool,clang-14,dmsetup,nftables",
    hypervisor: None,
    guest_modules: &[
        "virtio_pci",
        "virtio_net",
        "virtio_blk",
        "virtio_scsi",
        "sd_mod",
        "ext4",
        "vmw_vsock_virtio_transport",
    ],
    guest_inittab: include_str!("../../init/kvm-guest-inittab"),
    host_script: include_str!("../../init/kvm-host.sh"),
    guest_script: include_str!("../../init/kvm-guest.sh"),
};

pub fn machine(qemu: &mut Command, boot: &Boot<'_>) {
    qemu.args(boot.accelerator.nesting_processor());
    qemu.arg("-m").arg((1536 + 448 * boot.guests).max(3072).to_string());
    let steady = boot.accelerator.kernel_arguments();
    qemu.args(["-kernel", KERNEL, "-initrd", INITRD]);
    qemu.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 mitigations=off {steady} {}", boot.append));
}
