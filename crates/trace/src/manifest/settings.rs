//! Settings of a kernel that may cost requests time.

use serde::{Deserialize, Serialize};
use xweave_wire::{bounded::list, message};

use super::bounds::ITEMS;

/// How they stood; none where the kernel lacks what they are of, or that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// `/sys/module/kvm/parameters/halt_poll_ns`, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt_poll_ns: Option<u64>,
    /// The cpufreq governors of its CPUs, each once.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<ITEMS, _, _>")]
    pub governors: Vec<String>,
    /// `/sys/kernel/mm/ksm/run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ksm_run: Option<u64>,
    /// `vm.swappiness`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swappiness: Option<u64>,
    /// Its network devices that are not made up by the kernel.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list::<ITEMS, _, _>")]
    pub nics: Vec<Nic>,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nic {
    /// What the kernel calls it: `eth0`.
    pub name: String,
    /// How many queues it receives with.
    pub queues: u32,
}

impl Settings {
    /// Whether none is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Their texts.
    pub(super) fn names(&mut self) -> impl Iterator<Item = &mut String> {
        self.governors.iter_mut().chain(self.nics.iter_mut().map(|nic| &mut nic.name))
    }
}

impl From<&message::Settings> for Settings {
    fn from(told: &message::Settings) -> Self {
        let nic = |nic: &message::Nic| Nic { name: nic.name.clone(), queues: nic.queues };
        Self {
            halt_poll_ns: told.halt_poll_ns,
            governors: told.governors.clone(),
            ksm_run: told.ksm_run,
            swappiness: told.swappiness,
            nics: told.nics.iter().map(nic).collect(),
        }
    }
}
