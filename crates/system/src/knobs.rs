//! Knobs: settings that an experiment changes for a while.
//!
//! Each previous value is written to the journal (`settings_journal`) before the change, in a separate entry, as the settings
//! of fast attaching change during an experiment. One experiment changes knobs at a time.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use xweave_text::printable;
use xweave_wire::{
    knob::{Knob, Pinning, Setting, State},
    message::{Failure, FailureKind},
};

use crate::{
    affinity,
    exclusive::ExclusiveSettings,
    kvm,
    settings_journal::{Journal, Target, ValueKind, is_root, start_time},
    settings_snapshot,
};

/// Name of the journal's entry.
const ENTRY: &str = "knobs";

const HALT_POLL: Target = Target::File("/sys/module/kvm/parameters/halt_poll_ns", ValueKind::Number);
const BUSY_POLL: Target = Target::File("/proc/sys/net/core/busy_poll", ValueKind::Number);
const BUSY_READ: Target = Target::File("/proc/sys/net/core/busy_read", ValueKind::Number);
const GOVERNOR: Target = Target::File("/sys/devices/system/cpu/cpuidle/current_governor", ValueKind::Word);
const GUEST_HALT_POLL: Target =
    Target::File("/sys/module/haltpoll/parameters/guest_halt_poll_ns", ValueKind::Number);

const GOVERNORS: &str = "/sys/devices/system/cpu/cpuidle/available_governors";
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// Maximum wake-up latency of CPUs, while the file is open (Documentation/power/pm_qos_interface.rst): with 0, all governors
/// choose the state in which a CPU polls.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// The governor that polls in a guest.
const HALTPOLL: &str = "haltpoll";

/// The journal of knobs.
pub(crate) fn journal() -> Journal {
    let files = [HALT_POLL, BUSY_POLL, BUSY_READ, GOVERNOR, GUEST_HALT_POLL];
    Journal::new(ENTRY, files.into_iter().filter_map(Target::file).collect(), true)
}

/// Reads all knobs of this machine: their values, or why they cannot be set.
pub fn read_states() -> Vec<State> {
    Machine::read().states()
}

/// The kernel and its virtual machines, which have the knobs.
struct Machine {
    journal: Journal,
    vms: Vec<Vm>,
}

/// Threads of a virtual machine, as targets of affinity.
struct Vm {
    name: String,
    vcpus: Vec<Target>,
    vhost: Vec<Target>,
}

impl Machine {
    fn read() -> Self {
        let mut names = HashSet::new();
        let vms = kvm::list_vms().into_iter().filter_map(|vm| {
            let threads =
                |tids: Vec<u32>| -> Vec<Target> { tids.into_iter().filter_map(find_thread).collect() };
            let vcpus = threads(kvm::vcpu_threads(vm.pid));
            // Processes that only probe KVM have no vCPU thread.
            let is_named = !vm.name.is_empty() && names.insert(vm.name.clone());
            let name = if is_named { vm.name } else { vm.pid.to_string() };
            (!vcpus.is_empty()).then(|| Vm { name, vcpus, vhost: threads(vhost_threads(vm.pid)) })
        });
        Self { vms: vms.collect(), journal: journal() }
    }

    fn states(&self) -> Vec<State> {
        let state = |knob, value: Result<String, String>| State {
            knob,
            vm: None,
            choices: Vec::new(),
            value: value.clone().unwrap_or_default(),
            unavailable: value.err(),
        };
        let file = |target: Target, missing: &str| {
            target.read(&self.journal).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => missing.to_owned(),
                _ => format!("{} cannot be read: {error}", target.name()),
            })
        };
        let mut states = vec![state(
            Knob::HaltPollNs,
            file(
                HALT_POLL,
                "KVM is not loaded here: it is a setting of the host that runs the virtual machine",
            ),
        )];
        for knob in [Knob::PinVcpus, Knob::PinVhost] {
            states.extend(self.vms.iter().map(|vm| vm.state(knob)));
            if self.vms.is_empty() {
                let none = "no virtual machine runs under this kernel's KVM (as root, with debugfs mounted, they \
                            are seen in /sys/kernel/debug/kvm)";
                states.push(state(knob, Err(none.to_owned())));
            }
        }
        let no_busy_poll = "this kernel was built without CONFIG_NET_RX_BUSY_POLL";
        states.push(state(Knob::BusyPoll, file(BUSY_POLL, no_busy_poll)));
        states.push(state(Knob::BusyRead, file(BUSY_READ, no_busy_poll)));
        let driver = self.read_line(DRIVER).filter(|driver| driver != "none");
        let governor = file(GOVERNOR, "this kernel was built without CONFIG_CPU_IDLE");
        let with_driver = |value: Result<String, String>, what: &str| match (value, &driver) {
            (Ok(value), None) => (value, Some(format!("{what}, and this kernel has no cpuidle driver"))),
            (Ok(value), Some(_)) => (value, None),
            (Err(why), _) => (String::new(), Some(why)),
        };
        let governors = self.read_line(GOVERNORS).unwrap_or_default();
        let (value, unavailable) = with_driver(governor.clone(), "only a cpuidle driver asks the governor");
        let choices: Vec<String> = governors.split_ascii_whitespace().map(str::to_owned).collect();
        states.push(State { knob: Knob::IdleGovernor, vm: None, value, choices, unavailable });
        let guest = file(GUEST_HALT_POLL, "this kernel has no governor haltpoll, which guests of KVM have");
        let (value, unavailable) =
            with_driver(guest, "only the governor haltpoll uses it, of a cpuidle driver");
        let other = governor.ok().filter(|governor| governor != HALTPOLL);
        let unavailable = unavailable.or_else(|| {
            Some(format!("only the governor haltpoll uses it, and the present one is {}", printable(&other?)))
        });
        states.push(State { knob: Knob::GuestHaltPollNs, vm: None, value, choices: Vec::new(), unavailable });
        let polls = self.polls().map(|polls| if polls { "on" } else { "off" }.to_owned());
        let polls = polls.map_err(|error| format!("{LATENCY} cannot be read: {error}"));
        let (value, unavailable) = with_driver(
            polls,
            "idle=poll is an option of the kernel's command line: while it runs, only a cpuidle driver can be told to \
             poll",
        );
        let choices = ["off", "on"].map(str::to_owned).to_vec();
        states.push(State { knob: Knob::IdlePoll, vm: None, value, choices, unavailable });
        states
    }

    fn read_line(&self, path: &str) -> Option<String> {
        settings_snapshot::read_line(&self.journal.path(path))
    }

    /// Checks whether CPUs poll for any process: the file shows the minimum over all processes that have it open.
    fn polls(&self) -> io::Result<bool> {
        let mut latency = [0; 4];
        File::open(self.journal.path(LATENCY))?.read_exact(&mut latency)?;
        Ok(i32::from_ne_bytes(latency) == 0)
    }

    /// Makes CPUs poll while the returned file is open.
    fn poll(&self) -> io::Result<File> {
        let mut file = OpenOptions::new().read(true).write(true).open(self.journal.path(LATENCY))?;
        file.write_all(&0i32.to_ne_bytes())?;
        Ok(file)
    }

    /// Targets to change with their new values, and whether CPUs are to poll.
    fn changes(&self, settings: &[Setting]) -> Result<(Vec<(Target, String)>, bool), Failure> {
        let states = self.states();
        let (mut changes, mut polls) = (Vec::new(), false);
        let mut seen = HashSet::new();
        for setting in settings {
            let Setting { knob, vm, value } = setting;
            let of_vm = vm.iter().map(|vm| format!(" of {}", printable(vm))).collect::<String>();
            let no = |why: &str| misuse(format!("{knob}{of_vm} {why}"));
            let state = states.iter().find(|state| state.knob == *knob && state.vm == *vm);
            let state = state.ok_or_else(|| no("is not there"))?;
            if let Some(why) = &state.unavailable {
                return Err(unsupported(format!("{knob}{of_vm} cannot be set: {why}")));
            }
            let value = knob.value(value).map_err(|bad| no(&bad.to_string()))?;
            if !state.choices.is_empty() && !state.choices.contains(&value) {
                return Err(no(&format!("is one of {}, not {value}", state.choices.join(", "))));
            }
            if !seen.insert((*knob, vm)) {
                return Err(no("is to be set twice"));
            }
            match knob {
                Knob::HaltPollNs => changes.push((HALT_POLL, value)),
                Knob::BusyPoll => changes.push((BUSY_POLL, value)),
                Knob::BusyRead => changes.push((BUSY_READ, value)),
                Knob::IdleGovernor => changes.push((GOVERNOR, value)),
                Knob::GuestHaltPollNs => changes.push((GUEST_HALT_POLL, value)),
                Knob::IdlePoll if value == "off" && state.value == "on" => {
                    return Err(no("is on, because another process has it so"));
                }
                Knob::IdlePoll => polls = value == "on",
                Knob::PinVcpus | Knob::PinVhost => {
                    let Some(pinning) = Pinning::parse(&value) else { continue };
                    let owner = self.vms.iter().find(|owner| Some(&owner.name) == vm.as_ref());
                    let threads = owner.map_or(&[][..], |owner| owner.threads(*knob));
                    let cpus = |place| xweave_wire::knob::ranges(pinning.of(place));
                    changes.extend(threads.iter().enumerate().map(|(place, thread)| (*thread, cpus(place))));
                }
            }
        }
        Ok((changes, polls))
    }
}

impl Vm {
    fn threads(&self, knob: Knob) -> &[Target] {
        if knob == Knob::PinVcpus { &self.vcpus } else { &self.vhost }
    }

    /// State of the affinity of all its threads.
    fn state(&self, knob: Knob) -> State {
        let threads = self.threads(knob);
        let affinity = |target: &Target| match target {
            Target::Affinity { tid, .. } => affinity::get(*tid).ok(),
            Target::File(..) => None,
        };
        let mut values: Vec<String> = threads.iter().filter_map(affinity).collect();
        values.dedup();
        let unavailable = match (threads.len(), values.len()) {
            (0, _) => Some("it has no vhost threads: its devices are served by its own process".to_owned()),
            (_, 0) => Some("the affinity of its threads cannot be read".to_owned()),
            _ => None,
        };
        let value = match &*values {
            [one] => one.clone(),
            // Empty if it is too long; else as a user would write it.
            several => format!("each:{}", several.join("+")),
        };
        let value = knob.value(&value).unwrap_or_default();
        State { knob, vm: Some(self.name.clone()), value, choices: Vec::new(), unavailable }
    }
}

/// A thread as a target; `None` if it has ended.
fn find_thread(tid: u32) -> Option<Target> {
    Some(Target::Affinity { tid, start: start_time(tid)? })
}

/// The vhost threads of a process: its own, or before 6.4 kernel threads with the same name (drivers/vhost/vhost.c).
fn vhost_threads(pid: u32) -> Vec<u32> {
    let name = format!("vhost-{pid}");
    let called = |dir: &Path| fs::read_to_string(dir.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let ids = |dir: &str| -> Vec<PathBuf> {
        fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let own = ids(&format!("/proc/{pid}/task")).into_iter().filter(|dir| called(dir));
    // Any process may have that name, but only kernel threads have no program.
    let of_kernel =
        |dir: &PathBuf| called(dir) && fs::read_link(dir.join("exe")).is_err() && is_kernel_thread(dir);
    let all = own.chain(ids("/proc").into_iter().filter(of_kernel));
    let mut threads: Vec<u32> = all.filter_map(|dir| dir.file_name()?.to_str()?.parse().ok()).collect();
    threads.sort_unstable();
    threads
}

/// Checks whether a process is a kernel thread: PF_KTHREAD of include/linux/sched.h, in field 9 of its `stat`.
fn is_kernel_thread(dir: &Path) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = fs::read_to_string(dir.join("stat")).unwrap_or_default();
    let flags =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & PF_KTHREAD != 0)
}

/// Knobs that are changed. They are restored on drop.
pub struct ChangedKnobs {
    changed: ExclusiveSettings,
    polling: Option<File>,
}

impl ChangedKnobs {
    /// Changes all of the settings, or none. Returns their new states, too.
    ///
    /// # Errors
    /// This process is not root, a knob does not exist or refused its value, or another experiment is under way.
    pub fn apply(settings: &[Setting]) -> Result<(Self, Vec<State>), Failure> {
        if !is_root() {
            let message = "only root changes settings of a kernel: run the agent as root".to_owned();
            return Err(Failure { kind: FailureKind::NotPermitted, message });
        }
        let changed = Self::apply_in(&Machine::read(), settings)?;
        let is_set = |state: &State| settings.iter().any(|s| s.knob == state.knob && s.vm == state.vm);
        Ok((changed, read_states().into_iter().filter(is_set).collect()))
    }

    fn apply_in(machine: &Machine, settings: &[Setting]) -> Result<Self, Failure> {
        let (changes, polls) = machine.changes(settings)?;
        let targets: Vec<Target> = changes.iter().map(|(target, _)| *target).collect();
        let busy = |process: &str| {
            format!("process {process} has an experiment under way in this domain: wait until it is over")
        };
        // From here on, dropping restores the settings.
        let changed = ExclusiveSettings::begin(&machine.journal, &targets, busy).map_err(unsupported)?;
        changes.iter().try_for_each(|(target, value)| changed.set(target, value)).map_err(unsupported)?;
        let polling = polls.then(|| machine.poll()).transpose();
        let polling = polling.map_err(|error| unsupported(format!("{LATENCY}: {error}")))?;
        Ok(Self { changed, polling })
    }

    /// Restores the settings.
    ///
    /// # Errors
    /// A setting could not be restored. The journal entry is kept and retried when the session ends.
    pub fn restore(&mut self) -> Result<(), Failure> {
        self.polling = None;
        self.changed.restore().map_err(unsupported)
    }
}

fn unsupported(message: String) -> Failure {
    Failure { kind: FailureKind::Unsupported, message }
}

fn misuse(message: String) -> Failure {
    Failure { kind: FailureKind::Misuse, message }
}

#[cfg(test)]
mod tests;
