//! Where is measured, and how.

use std::fmt;
use std::time::Duration;

/// An environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Environment {
    /// A process on this machine, unprivileged, pinned to one processor.
    Native,
    /// QEMU's software emulation, on this machine.
    Tcg,
    /// The image on the bare machine, read from what its console said.
    Bare,
    /// A KVM guest: on this machine's own KVM, or in the lab's emulated host.
    Kvm,
    /// A paravirtual guest of Xen in the lab's emulated machine, or of the dom0 that this is.
    XenPv,
}

impl Environment {
    /// Its name, as it is given and printed.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The processor that the process is pinned to.
    pub cpu: usize,
    /// Rounds of each form; `None`: as many as suit the environment.
    pub rounds: Option<u32>,
    /// Whether a small body in a loop is measured besides.
    pub looped: bool,
    /// The world of the lab to measure in; `None`: one that is brought up for it, and ended.
    pub world: Option<String>,
    /// Not in the lab: this machine has KVM, or is a dom0, itself.
    pub this_host: bool,
    /// Whether exits (KVM) and emulations (Xen) are counted as well, by one more start.
    pub count: bool,
    /// How long one boot may take to report everything.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpu: 0,
            rounds: None,
            looped: false,
            world: None,
            this_host: false,
            count: false,
            timeout: Duration::from_secs(120),
        }
    }
}
