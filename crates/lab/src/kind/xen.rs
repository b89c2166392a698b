//! Xen: the hypervisor boots first, then dom0, a paravirtual Linux that drives the devices; `xl` starts
//! the guests, paravirtual too (one with hardware assistance does not start under software emulation).

use super::{Boot, HYPERVISOR, INITRD, KERNEL, Spec};
use crate::accelerator::Accelerator;
use crate::kernel::Flavour;
use std::process::Command;

pub const SPEC: Spec = Spec {
    // The cloud kernel has no dom0.
    flavour: Flavour::Generic,
    packages: "xen-utils-4.17,kmod,iproute2,procps,iputils-ping,tcpdump,bpftool,ethtool,clang-14",
    hypervisor: Some("xen-hypervisor-4.17-amd64"),
    guest_modules: &["xen_netfront", "xen_blkfront"],
    guest_inittab: include_str!("../../init/xen-guest-inittab"),
    host_script: include_str!("../../init/xen-host.sh"),
    guest_script: include_str!("../../init/xen-guest.sh"),
};

/// Of dom0, in MiB. It compiles advice.
const DOM0_MEMORY: u32 = 1536;

pub fn machine(qemu: &mut Command, boot: &Boot<'_>) {
    let processor = match boot.accelerator {
        Accelerator::Kvm => "host",
        // `monitor`: Xen's idle loop would use it, and panic. `smap`: QEMU 7.2 reads the stack of an `iretq`
        // with the kernel's rights even in ring 3, where paravirtual kernels run and where SMAP forbids it.
        Accelerator::Tcg => "EPYC,-monitor,-smap",
    };
    qemu.args(["-machine", "q35", "-cpu", processor]);
    qemu.arg("-m").arg((DOM0_MEMORY + 256 + 320 * boot.guests).to_string());
    qemu.args(["-kernel", HYPERVISOR, "-append"]);
    // `eager-fpu`: registers that are switched when they are first used are not, as QEMU 7.2's AVX
    // instructions do not ask whether that has been done.
    qemu.arg(format!(
        "com1=115200,8n1 console=com1 dom0_mem={DOM0_MEMORY}M,max:{DOM0_MEMORY}M dom0_max_vcpus={} \
         cpuidle=0 spec-ctrl=no,eager-fpu xpti=no",
        boot.processors
    ));
    // Multiboot modules: a file name and its arguments up to a comma; a doubled comma is one of the text.
    let arguments = format!("console=hvc0 quiet panic=-1 mitigations=off {}", boot.append).replace(',', ",,");
    qemu.arg("-initrd").arg(format!("{KERNEL} {arguments},{INITRD}"));
}
