//! Settings of a domain that an experiment may change for a while: a fixed list, so that no path and no name of a file
//! ever comes from the other end.
//!
//! Sources: virt/kvm/kvm_main.c and Documentation/virt/kvm/halt-polling.rst; drivers/cpuidle/governors/haltpoll.c,
//! drivers/cpuidle/cpuidle-haltpoll.c and Documentation/admin-guide/pm/cpuidle.rst; Documentation/admin-guide/sysctl/net.rst;
//! Linux 6.12.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The highest number of a CPU (`NR_CPUS` is 8192 at most).
const LAST_CPU: u32 = 8191;

/// Bytes of a value.
pub const VALUE: usize = 64;

/// A setting that can be changed while the kernel runs, and changes how long requests take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Knob {
    /// `/sys/module/kvm/parameters/halt_poll_ns`.
    HaltPollNs,
    /// The affinity of a virtual machine's vCPU threads.
    PinVcpus,
    /// The affinity of a virtual machine's vhost threads.
    PinVhost,
    /// `net.core.busy_poll`.
    BusyPoll,
    /// `net.core.busy_read`.
    BusyRead,
    /// `/sys/devices/system/cpu/cpuidle/current_governor`.
    IdleGovernor,
    /// `/sys/module/haltpoll/parameters/guest_halt_poll_ns`.
    GuestHaltPollNs,
    /// `/dev/cpu_dma_latency`, held open with 0.
    IdlePoll,
}

/// What values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number, up to this one.
    Number(u64),
    /// One of some words, which the domain knows.
    Word,
    /// `off` or `on`.
    Switch,
    /// CPUs.
    Cpus,
}

/// A value that a knob does not take, in words that go on from its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(String);

impl Knob {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Names of all knobs, in the same order.
    pub const NAMES: &[&str] = <Self as strum::VariantNames>::VARIANTS;

    /// What it is called.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The one of that name.
    pub fn of(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Whether it is a virtual machine's, set in its host.
    pub fn is_of_vm(self) -> bool {
        matches!(self, Self::PinVcpus | Self::PinVhost)
    }

    /// What its values look like.
    pub fn form(self) -> Form {
        match self {
            // A vCPU that polls for longer than that keeps its CPU from everybody else.
            Self::HaltPollNs | Self::GuestHaltPollNs => Form::Number(10_000_000),
            Self::BusyPoll | Self::BusyRead => Form::Number(100_000),
            Self::IdleGovernor => Form::Word,
            Self::IdlePoll => Form::Switch,
            Self::PinVcpus | Self::PinVhost => Form::Cpus,
        }
    }

    /// A value in the one form that it has, if the knob takes it.
    ///
    /// # Errors
    /// What it takes instead.
    pub fn value(self, text: &str) -> Result<String, BadValue> {
        let bad =
            |instead: String| BadValue(format!("takes {instead}, not `{}`", xweave_text::printable(text)));
        match self.form() {
            Form::Number(most) => {
                let digits =
                    !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse::<u64>().ok().filter(|number| digits && *number <= most);
                number
                    .map(|number| number.to_string())
                    .ok_or_else(|| bad(format!("a number from 0 to {most}")))
            }
            Form::Word if is_word(text) => Ok(text.to_owned()),
            Form::Word => Err(bad("a name".to_owned())),
            Form::Switch if matches!(text, "off" | "on") => Ok(text.to_owned()),
            Form::Switch => Err(bad("off or on".to_owned())),
            Form::Cpus => (text.len() <= VALUE)
                .then(|| Pinning::parse(text))
                .flatten()
                .filter(|pinning| pinning.to_string().len() <= VALUE)
                .map(|pinning| pinning.to_string())
                .ok_or_else(|| {
                    bad("CPUs as 2-3 or 2+5-7 (any thread on any of them), or each:2-3 (one after the other)"
                        .to_owned())
                }),
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// As governors are named (CPUIDLE_NAME_LEN is 16).
pub fn is_word(text: &str) -> bool {
    let well = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    (1..16).contains(&text.len()) && text.bytes().all(well)
}

/// Which CPUs a virtual machine's threads may run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// The first thread on the first CPU, the second on the second, and so on, beginning again behind the last.
    pub each: bool,
    /// Not empty, in ascending order.
    pub cpus: Vec<u32>,
}

impl Pinning {
    /// Reads `2-3+6` or `each:2-3`.
    pub fn parse(text: &str) -> Option<Self> {
        let (each, list) = text.strip_prefix("each:").map_or((false, text), |list| (true, list));
        let mut cpus = Vec::new();
        for range in list.split('+') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (digits(first)?, digits(last)?);
            if first > last || last > LAST_CPU {
                return None;
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Some(Self { each, cpus })
    }

    /// Those of the thread at that place.
    pub fn of(&self, place: usize) -> &[u32] {
        if self.each { std::slice::from_ref(&self.cpus[place % self.cpus.len()]) } else { &self.cpus }
    }
}

/// Without a sign.
fn digits(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.each { "each:" } else { "" })?;
        f.write_str(&ranges(&self.cpus))
    }
}

/// CPUs in ascending order as a list without commas: `0-3+6`.
pub fn ranges(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let one = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(one).collect::<Vec<_>>().join("+")
}

/// To set a knob. The agent checks it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Which.
    pub knob: Knob,
    /// Whose, if it is a virtual machine's: as [`State::vm`] says it.
    pub vm: Option<String>,
    /// To what.
    pub value: String,
}

/// How a knob stands in a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Which.
    pub knob: Knob,
    /// Whose, if it is a virtual machine's: its name, or its process's number.
    pub vm: Option<String>,
    /// To what it is set; empty if that is not known.
    pub value: String,
    /// What it can be set to, where that is a choice: governors.
    pub choices: Vec<String>,
    /// Why it cannot be set, or would do nothing, and what to do about that; for people.
    pub unavailable: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_is_found_by_its_name_and_takes_values_of_its_form_only() {
        for knob in Knob::ALL {
            assert_eq!(Knob::of(knob.name()), Some(*knob));
        }
        assert_eq!(Knob::of("/sys/module/kvm/parameters/halt_poll_ns"), None);
        for (knob, text, value) in [
            (Knob::HaltPollNs, "0200000", Some("200000")),
            (Knob::HaltPollNs, "0", Some("0")),
            (Knob::HaltPollNs, "10000001", None),
            (Knob::HaltPollNs, "+5", None),
            (Knob::HaltPollNs, "-1", None),
            (Knob::HaltPollNs, "", None),
            (Knob::IdlePoll, "on", Some("on")),
            (Knob::IdlePoll, "1", None),
            (Knob::IdleGovernor, "haltpoll", Some("haltpoll")),
            (Knob::IdleGovernor, "../menu", None),
            (Knob::IdleGovernor, "a\nb", None),
            (Knob::PinVcpus, "3+2+0-1", Some("0-3")),
            (Knob::PinVcpus, "each:2-3", Some("each:2-3")),
            (Knob::PinVhost, "8192", None),
            (Knob::PinVhost, "3-2", None),
            (Knob::PinVhost, "each:", None),
            (Knob::PinVhost, "+1", None),
        ] {
            assert_eq!(knob.value(text).ok().as_deref(), value, "{knob}={text}");
        }
        let said = Knob::HaltPollNs.value("much\u{1b}[2J").unwrap_err().to_string();
        assert!(said.starts_with("takes a number from 0 to 10000000, not `much\\u{1b}"), "{said}");
    }

    #[test]
    fn threads_are_pinned_together_or_one_after_the_other() {
        let pinned = |text: &str| {
            let pinning = Pinning::parse(text).unwrap();
            [0, 1, 2].map(|place| pinning.of(place).to_vec())
        };
        assert_eq!(pinned("2-3"), [vec![2, 3], vec![2, 3], vec![2, 3]]);
        assert_eq!(pinned("each:2+5"), [vec![2], vec![5], vec![2]]);
    }
}
