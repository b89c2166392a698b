//! The kinds of world, and what each is made of.

mod kvm;
mod xen;

use crate::accelerator::Accelerator;
use crate::packages::Flavour;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// What kind of world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A KVM host with guests.
    Kvm,
    /// Xen: the PV domain dom0, which drives the devices, and PV guests.
    Xen,
}

/// How many guests a world has unless it is said.
pub(crate) const GUESTS: u32 = 2;

/// What the images of a kind are made of.
pub(crate) struct Spec {
    /// The flavour of all domains' kernel.
    pub flavour: Flavour,
    /// What the root image has installed besides Debian's smallest base.
    pub packages: &'static str,
    /// The Debian package of the hypervisor, where it is not the host's kernel.
    pub hypervisor: Option<&'static str>,
    /// What a guest inserts.
    pub guest_modules: &'static [&'static str],
    /// What a guest's init keeps running.
    pub guest_inittab: &'static str,
    /// Run by the host when it has its file systems and the bridge: what guests need besides.
    pub host_script: &'static str,
    /// Run by the host with a guest's number: starts it.
    pub guest_script: &'static str,
}

/// What the emulated machine is to be. It boots [`HYPERVISOR`], [`KERNEL`] and [`INITRD`].
pub(crate) struct Boot<'a> {
    /// What executes its instructions.
    pub accelerator: Accelerator,
    /// How many guests it will have.
    pub guests: u32,
    /// Arguments of the host's kernel.
    pub append: &'a str,
}

// Names in QEMU's working folder: paths could have commas and spaces, which QEMU cannot take everywhere.

/// The hypervisor, where it is not the host's kernel.
pub(crate) const HYPERVISOR: &str = "hypervisor";
/// The host's kernel.
pub(crate) const KERNEL: &str = "vmlinuz";
/// The host's initial file system.
pub(crate) const INITRD: &str = "initrd";

impl Kind {
    /// Its name, which is also the usual name of a world of this kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Xen => "xen",
        }
    }

    /// The name of the domain that has the devices and starts the guests.
    pub fn host(self) -> &'static str {
        match self {
            Self::Kvm => "host",
            Self::Xen => "dom0",
        }
    }

    /// The domains of a world with so many guests: its host first.
    pub fn domains(self, guests: u32) -> Vec<String> {
        std::iter::once(self.host().to_owned()).chain((1..=guests).map(|i| format!("vm{i}"))).collect()
    }

    pub(crate) fn spec(self) -> &'static Spec {
        match self {
            Self::Kvm => &kvm::SPEC,
            Self::Xen => &xen::SPEC,
        }
    }

    /// QEMU's arguments: processor, memory, and what is booted.
    pub(crate) fn machine(self, qemu: &mut Command, boot: &Boot<'_>) {
        match self {
            Self::Kvm => kvm::machine(qemu, boot),
            Self::Xen => xen::machine(qemu, boot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_the_host_and_its_guests() {
        assert_eq!(Kind::Kvm.domains(0), ["host"]);
        assert_eq!(Kind::Kvm.domains(2), ["host", "vm1", "vm2"]);
        assert_eq!(Kind::Xen.domains(1), ["dom0", "vm1"]);
    }
}
