use std::{
    env,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    sync::mpsc,
    thread::JoinHandle,
};

use super::*;
use crate::settings_journal::kill_at_step;

/// Environment variable with the folder in which a process changes settings.
const VICTIM: &str = "XWEAVE_TEST_VICTIM";
/// Environment variable with the ID of the thread whose affinity the process changes.
const THREAD: &str = "XWEAVE_TEST_THREAD";

/// A machine whose kernel is files, with one virtual machine that has one vCPU, a thread of this process.
struct Fake {
    dir: tempfile::TempDir,
    vcpu: Target,
    thread: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Fake {
    fn new() -> Self {
        let (told, tid) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let vcpu = std::thread::spawn(move || {
            // SAFETY: returns an integer.
            told.send(u32::try_from(unsafe { libc::gettid() }).unwrap()).unwrap();
            let _ = ended.recv();
        });
        let vcpu_thread = find_thread(tid.recv().unwrap()).unwrap();
        let fake = Self { dir: tempfile::tempdir().unwrap(), vcpu: vcpu_thread, thread: Some((end, vcpu)) };
        for (target, value) in
            [(HALT_POLL, "200000\n"), (BUSY_POLL, "0\n"), (GOVERNOR, "menu\n"), (GUEST_HALT_POLL, "200000\n")]
        {
            fake.write(&target.name(), value.as_bytes());
        }
        fake.write(GOVERNORS, b"ladder menu haltpoll \n");
        fake.write(DRIVER, b"haltpoll\n");
        fake.write(LATENCY, &2_000_000_000_i32.to_ne_bytes());
        fake
    }

    fn machine(&self) -> Machine {
        machine(self.dir.path(), self.vcpu)
    }

    fn write(&self, path: &str, value: &[u8]) {
        let path = self.dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }

    /// Current values of the settings of [`all`].
    fn values(&self) -> Vec<String> {
        let journal = self.machine().journal;
        [HALT_POLL, GOVERNOR, self.vcpu].map(|target| target.read(&journal).unwrap()).to_vec()
    }

    fn entry_exists(&self) -> bool {
        self.dir.path().join("run").join(ENTRY).exists()
    }

    fn refused(&self, settings: &[Setting]) -> String {
        ChangedKnobs::apply_in(&self.machine(), settings).err().unwrap().message
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            thread.join().unwrap();
        }
    }
}

fn machine(root: &Path, vcpu: Target) -> Machine {
    let journal = Journal { folder: root.join("run"), boot: "b".to_owned(), root: root.into(), ..journal() };
    Machine { journal, vms: vec![Vm { name: "web".to_owned(), vcpus: vec![vcpu], vhost: Vec::new() }] }
}

fn setting(knob: Knob, value: &str) -> Setting {
    Setting { knob, vm: knob.is_of_vm().then(|| "web".to_owned()), value: value.to_owned() }
}

/// A file, a word and an affinity.
fn all() -> Vec<Setting> {
    let first = affinity::parse(&affinity::get(std::process::id()).unwrap()).unwrap()[0].to_string();
    vec![
        setting(Knob::HaltPollNs, "0"),
        setting(Knob::IdleGovernor, "haltpoll"),
        setting(Knob::PinVcpus, &first),
    ]
}

#[test]
fn settings_are_changed_together_and_restored() {
    let fake = Fake::new();
    let before = fake.values();
    let mut changed = ChangedKnobs::apply_in(&fake.machine(), &all()).unwrap();
    let first = &all()[2].value;
    assert_eq!(fake.values(), ["0", "haltpoll", first]);
    assert!(fake.entry_exists());
    assert_eq!(fake.machine().journal.restore().unwrap(), [], "the holder is alive");
    let states = fake.machine().states();
    let vcpus = states.iter().find(|state| state.knob == Knob::PinVcpus).unwrap();
    assert_eq!((vcpus.vm.as_deref(), &*vcpus.value), (Some("web"), &**first));
    changed.restore().unwrap();
    assert_eq!(fake.values(), before);
    assert!(!fake.entry_exists());
    drop(ChangedKnobs::apply_in(&fake.machine(), &all()).unwrap());
    assert_eq!(fake.values(), before);
}

/// The process that [`settings_are_restored_after_sigkill_at_any_step`] kills; no test of its own.
#[test]
fn victim() {
    let Ok(root) = env::var(VICTIM) else { return };
    let vcpu = find_thread(env::var(THREAD).unwrap().parse().unwrap()).unwrap();
    let mut changed = ChangedKnobs::apply_in(&machine(Path::new(&root), vcpu), &all()).unwrap();
    changed.restore().unwrap();
}

#[test]
fn settings_are_restored_after_sigkill_at_any_step() {
    let fake = Fake::new();
    let before = fake.values();
    let Target::Affinity { tid, .. } = fake.vcpu else { unreachable!() };
    let (mut steps, mut changed) = (0, 0);
    loop {
        let mut victim = Command::new(env::current_exe().unwrap());
        victim.args(["--exact", "knobs::tests::victim"]).stdout(Stdio::null());
        victim.env(VICTIM, fake.dir.path()).env(THREAD, tid.to_string());
        let status = victim.env(kill_at_step::STEP_VARIABLE, (steps + 1).to_string()).status().unwrap();
        if status.success() {
            break;
        }
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
        steps += 1;
        changed += usize::from(fake.values() != before);
        // As the next agent does, or the doctor.
        let restored = fake.machine().journal.restore().unwrap();
        assert!(restored.iter().all(|setting| setting.failed.is_none()), "{restored:?}");
        assert_eq!(fake.values(), before, "killed at step {steps}");
        assert!(!fake.entry_exists());
    }
    // Before and after each of: writing the entry, two or three changes and as many back, removing the entry.
    assert!(steps >= 11 && changed >= 6, "{steps} steps, {changed} of them with something changed");
    // The next experiment restores them, too, and does not mistake the changed values for the previous ones.
    let mut victim = Command::new(env::current_exe().unwrap());
    victim.args(["--exact", "knobs::tests::victim"]).stdout(Stdio::null());
    victim.env(VICTIM, fake.dir.path()).env(THREAD, tid.to_string()).env(kill_at_step::STEP_VARIABLE, "5");
    assert_eq!(victim.status().unwrap().signal(), Some(libc::SIGKILL));
    assert_ne!(fake.values(), before);
    drop(ChangedKnobs::apply_in(&fake.machine(), &[setting(Knob::BusyPoll, "50")]).unwrap());
    assert_eq!(fake.values(), before);
}

#[test]
fn refused_values_restore_all_settings() {
    let fake = Fake::new();
    let before = fake.values();
    // A CPU that does not exist.
    let settings = [all()[0].clone(), setting(Knob::PinVcpus, "8191")];
    assert!(fake.refused(&settings).contains("cannot be set to 8191"), "{}", fake.refused(&settings));
    assert_eq!(fake.values(), before);
    assert!(!fake.entry_exists());
    fake.write(&HALT_POLL.name(), b"[never] always\n");
    let said = fake.refused(&[setting(Knob::HaltPollNs, "0")]);
    assert!(said.contains("is `[never] always`, which it could not be set back to"), "{said}");
}

#[test]
fn only_available_knobs_are_set_and_only_to_valid_values() {
    let fake = Fake::new();
    let other_vm = Setting { vm: Some("../1".into()), ..setting(Knob::PinVcpus, "0") };
    for (setting, told) in [
        (setting(Knob::HaltPollNs, "1; reboot"), "halt_poll_ns takes a number from 0 to 10000000"),
        (setting(Knob::IdleGovernor, "teo"), "idle_governor is one of ladder, menu, haltpoll, not teo"),
        (other_vm, "pin_vcpus of ../1 is not there"),
        (setting(Knob::PinVhost, "0"), "pin_vhost of web cannot be set: it has no vhost threads"),
        (setting(Knob::BusyRead, "50"), "busy_read cannot be set: this kernel was built without"),
        (
            setting(Knob::GuestHaltPollNs, "0"),
            "only the governor haltpoll uses it, and the present one is menu",
        ),
    ] {
        let said = fake.refused(&[setting]);
        assert!(said.contains(told), "{said}");
    }
    let twice = [setting(Knob::HaltPollNs, "0"), setting(Knob::HaltPollNs, "1")];
    assert_eq!(fake.refused(&twice), "halt_poll_ns is to be set twice");
    assert!(!fake.entry_exists());
}

#[test]
fn one_experiment_changes_settings_at_a_time() {
    let fake = Fake::new();
    let first = ChangedKnobs::apply_in(&fake.machine(), &all()).unwrap();
    let said = fake.refused(&[setting(Knob::BusyPoll, "50")]);
    assert!(said.contains(&format!("process {} has an experiment under way", std::process::id())), "{said}");
    drop(first);
    drop(ChangedKnobs::apply_in(&fake.machine(), &[setting(Knob::BusyPoll, "50")]).unwrap());
}

#[test]
fn cpus_poll_while_the_file_is_open_if_there_is_a_cpuidle_driver() {
    let fake = Fake::new();
    let changed = ChangedKnobs::apply_in(&fake.machine(), &[setting(Knob::IdlePoll, "on")]).unwrap();
    assert!(fake.machine().polls().unwrap());
    drop(changed);
    fake.write(DRIVER, b"none\n");
    for knob in [Knob::IdlePoll, Knob::IdleGovernor, Knob::GuestHaltPollNs] {
        let state = fake.machine().states().into_iter().find(|state| state.knob == knob).unwrap();
        assert!(state.unavailable.unwrap().ends_with("this kernel has no cpuidle driver"), "{knob}");
    }
    let said = fake.refused(&[setting(Knob::IdlePoll, "on")]);
    assert!(said.contains("idle=poll is an option of the kernel's command line"), "{said}");
}
