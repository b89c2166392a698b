//! The kinds of world, and what each is made of.

mod kvm;
mod xen;

use crate::accelerator::Accelerator;
use crate::kernel::Flavour;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// Kind of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A KVM host with guests.
    Kvm,
    /// Xen: the PV domain dom0, which drives the devices, and PV guests.
    Xen,
}

/// Default number of guests of a world.
pub(crate) const GUESTS: u32 = 2;

/// QEMU that runs the guests of a KVM host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qemu {
    /// QEMU of the Debian release: 7.2 in Debian 12.
    Release,
    /// QEMU of the release's backports: 10.0 for Debian 12.
    Backports,
}

/// The package with it, and those that it takes of its own version, or newer than the release has them.
const QEMU: &str = "qemu-system-x86";
const OF_QEMU: [&str; 3] = ["qemu-system-common", "qemu-system-data", "seabios"];

/// Contents of the images of a kind.
pub(crate) struct Spec {
    /// The flavour of all domains' kernel.
    pub flavour: Flavour,
    /// Packages of the root image, besides Debian's smallest base.
    pub packages: &'static str,
    /// The Debian package of the hypervisor, where it is not the host's kernel.
    pub hypervisor: Option<&'static str>,
    /// Modules that a guest inserts.
    pub guest_modules: &'static [&'static str],
    /// Programs that a guest's init restarts.
    pub guest_inittab: &'static str,
    /// Script of the host, run when it has its file systems and the bridge: prepares for guests.
    pub host_script: &'static str,
    /// Script of the host, run with a guest's number: starts that guest.
    pub guest_script: &'static str,
}

impl Spec {
    /// Returns the packages of the root image of a Debian release, besides its smallest base, with a given QEMU.
    pub fn packages(&self, qemu: Qemu, suite: &str) -> String {
        match qemu {
            Qemu::Release => self.packages.to_owned(),
            // apt prefers the release's version of all that is not said to be of the backports.
            Qemu::Backports => {
                let others = self.packages.split(',').filter(|name| *name != QEMU).map(str::to_owned);
                let of_it = [QEMU].into_iter().chain(OF_QEMU);
                let all: Vec<String> =
                    others.chain(of_it.map(|name| format!("{name}/{suite}-backports"))).collect();
                all.join(",")
            }
        }
    }
}

/// What the emulated machine is to be. It boots [`HYPERVISOR`], [`KERNEL`] and [`INITRD`].
pub(crate) struct Boot<'a> {
    /// What executes its instructions.
    pub accelerator: Accelerator,
    /// Number of its processors.
    pub processors: u32,
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

    /// Returns the number of processors of a guest for which none is given. Of Xen it is one: a paravirtual guest with two
    /// takes ten times as long for what all of them have to do, where they take turns on one that is emulated.
    pub(crate) fn guest_processors(self) -> u32 {
        match self {
            Self::Kvm => 2,
            Self::Xen => 1,
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

    #[test]
    fn only_qemu_is_of_the_backports() {
        let spec = Kind::Kvm.spec();
        assert_eq!(spec.packages(Qemu::Release, "bookworm"), spec.packages);
        let packages = spec.packages(Qemu::Backports, "bookworm");
        let (of_backports, others): (Vec<&str>, Vec<&str>) =
            packages.split(',').partition(|name| name.ends_with("/bookworm-backports"));
        assert_eq!(of_backports.len(), 1 + OF_QEMU.len());
        let kept = spec.packages.split(',').filter(|name| *name != QEMU);
        assert_eq!(others, kept.collect::<Vec<_>>());
    }
}
