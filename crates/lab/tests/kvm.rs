//! One real world, from up to down.
//!
//! Needs QEMU, the packages of scripts/setup and a static xweave, whose path is in `XWEAVE_BIN`; without
//! it, says so and does nothing. The worlds here have folders of their own (`XDG_RUNTIME_DIR`), and share
//! the user's image cache. They are driven by the program, as people drive them.

// Clippy takes only the functions marked as tests for tests.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Lab {
    program: PathBuf,
    runtime: tempfile::TempDir,
}

impl Lab {
    fn new() -> Option<Self> {
        let Some(program) = std::env::var_os("XWEAVE_BIN").map(PathBuf::from) else {
            eprintln!("SKIPPED: XWEAVE_BIN does not name a static xweave; the lab was not tested");
            return None;
        };
        assert!(program.is_file(), "XWEAVE_BIN={} is no file", program.display());
        Some(Self { program, runtime: tempfile::tempdir().unwrap() })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("lab").args(arguments).env("XDG_RUNTIME_DIR", self.runtime.path());
        command
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.start(arguments).wait_with_output().unwrap()
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn list(&self) -> serde_json::Value {
        serde_json::from_str(&self.succeed(&["list", "--json"])).unwrap()
    }

    /// The folder of a world.
    fn folder(&self, name: &str) -> PathBuf {
        self.runtime.path().join("xweave-lab").join(name)
    }

    /// The processes whose arguments name this lab's folder: its QEMUs.
    fn machines(&self) -> Vec<String> {
        let wanted = self.runtime.path().to_str().unwrap().to_owned();
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .map(|data| text(&data))
            .filter(|line| line.contains("qemu-system") && line.contains(&wanted))
            .collect()
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.machines(), Vec::<String>::new());
        assert_eq!(self.list()["worlds"], serde_json::json!([]));
        let left: Vec<_> =
            std::fs::read_dir(self.runtime.path().join("xweave-lab")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Also after a failed assertion no machine may be left.
        let _ = self.command(&["down", "--all"]).output();
    }
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_world_from_up_to_down() {
    let Some(lab) = Lab::new() else { return };
    lab.succeed(&["up", "kvm", "--guests", "2", "--guest-smp", "3"]);
    assert_eq!(lab.list()["worlds"][0]["guest_processors"], 3);
    assert_eq!(lab.succeed(&["exec", "kvm", "vm1", "--", "nproc"]), "3\n");

    for (domain, name) in [("host", "host\n"), ("vm1", "vm1\n"), ("vm2", "vm2\n")] {
        assert_eq!(lab.succeed(&["exec", "kvm", domain, "--", "hostname"]), name);
    }
    let queues = lab.succeed(&["exec", "kvm", "vm1", "--", "ls", "/sys/class/net/eth0/queues"]);
    assert_eq!(
        queues.split_whitespace().collect::<Vec<_>>(),
        ["rx-0", "rx-1", "rx-2", "tx-0", "tx-1", "tx-2"]
    );
    for domain in ["host", "vm1"] {
        let mounts = lab.succeed(&["exec", "kvm", domain, "--", "cat", "/proc/mounts"]);
        for folder in ["/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf"] {
            assert!(mounts.contains(&format!(" {folder} ")), "{domain} lacks {folder}");
        }
    }

    status_passes_through(&lab);
    streams_are_binary(&lab);
    killed_exec_ends_its_command(&lab);
    files_go_both_ways(&lab, lab.runtime.path());
    loads_arrive(&lab);
    a_guest_is_reset(&lab);

    let again = lab.run(&["up", "kvm"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("xweave lab down kvm"), "{}", text(&again.stderr));

    lab.succeed(&["down", "kvm"]);
    lab.assert_nothing_left();
    assert_eq!(lab.run(&["down", "kvm"]).status.code(), Some(1));
}

fn status_passes_through(lab: &Lab) {
    for domain in ["host", "vm1"] {
        let code = |script| lab.run(&["exec", "kvm", domain, "--", "sh", "-c", script]).status.code();
        assert_eq!(code("exit 0"), Some(0));
        assert_eq!(code("exit 77"), Some(77));
        assert_eq!(code("kill -9 $$"), Some(137));
        let started = Instant::now();
        assert_eq!(code("sleep 1000 & exit 3"), Some(3));
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "a child in the background must not hold the channel"
        );
        assert_eq!(lab.run(&["exec", "kvm", domain, "--", "no-such-program"]).status.code(), Some(127));
    }
    let output = lab.run(&["exec", "kvm", "vm9", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("did you mean vm1, vm2?"));
}

fn streams_are_binary(lab: &Lab) {
    let data: Vec<u8> = (0..2_000_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    for domain in ["host", "vm1"] {
        let mut child = lab.start(&["exec", "kvm", domain, "--", "sh", "-c", "cat; echo end >&2"]);
        let mut stdin = child.stdin.take().unwrap();
        let sent = data.clone();
        let feeder = std::thread::spawn(move || stdin.write_all(&sent));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap().unwrap();
        assert!(output.stdout == data, "{domain}: {} bytes came back", output.stdout.len());
        assert_eq!(text(&output.stderr), "end\n");
    }
}

fn killed_exec_ends_its_command(lab: &Lab) {
    for domain in ["host", "vm1"] {
        let mut child = lab.start(&["exec", "kvm", domain, "--", "sleep", "4711"]);
        // Guests have no pgrep. A whole line, so that this script's own is none.
        let script = r"for file in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$file; echo; done 2>/dev/null |
            grep -qx 'sleep 4711 '";
        let running = || lab.run(&["exec", "kvm", domain, "--", "sh", "-c", script]).status.success();
        until("the command starts", running);
        child.kill().unwrap();
        child.wait().unwrap();
        until("the command ends with its client", || !running());
    }
}

fn files_go_both_ways(lab: &Lab, scratch: &Path) {
    let folder = scratch.join("folder");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::write(folder.join("sub/data"), [0, 255, 10]).unwrap();
    lab.succeed(&["push", "kvm", "vm1", folder.to_str().unwrap(), "/tmp/there"]);
    let back = scratch.join("back");
    lab.succeed(&["pull", "kvm", "vm1", "/tmp/there", back.to_str().unwrap()]);
    assert_eq!(std::fs::read(back.join("sub/data")).unwrap(), [0, 255, 10]);
    assert_eq!(
        lab.run(&["pull", "kvm", "vm1", "/tmp/nothing", back.to_str().unwrap()]).status.code(),
        Some(1)
    );
}

fn loads_arrive(lab: &Lab) {
    let receiver =
        ["exec", "kvm", "vm2", "--", "xweave", "lab", "load", "udp-recv", "--port", "9000", "--count", "200"];
    let receiver = lab.start(&receiver);
    until("the receiver's port is open", || {
        lab.succeed(&["exec", "kvm", "vm2", "--", "cat", "/proc/net/udp"]).contains(":2328 ")
    });
    let to = "10.77.0.2:9000";
    lab.succeed(&[
        "exec",
        "kvm",
        "vm1",
        "--",
        "xweave",
        "lab",
        "load",
        "udp-send",
        "--to",
        to,
        "--count",
        "200",
        "--rate",
        "100",
        "--senders",
        "2",
    ]);
    let output = receiver.wait_with_output().unwrap();
    let received: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // A kernel may drop a datagram, and does on a busy machine; none comes twice, and none of another number.
    let arrived = received["received"].as_u64().unwrap();
    assert!((190..=200).contains(&arrived), "{received}");
    assert_eq!(received["distinct"], arrived, "{received}");
    assert!(received["first"].as_u64() < Some(10) && received["last"].as_u64() > Some(189), "{received}");
    assert!(received["last"].as_u64() < Some(200), "{received}");
}

fn a_guest_is_reset(lab: &Lab) {
    let boot = || lab.succeed(&["exec", "kvm", "vm1", "--", "cat", "/proc/sys/kernel/random/boot_id"]);
    let before = boot();
    let waiting = lab.start(&["exec", "kvm", "vm1", "--", "sleep", "4712"]);
    lab.succeed(&["reset", "kvm", "vm1"]);
    assert_ne!(boot(), before);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125), "a command in a guest that was reset has no status");
    lab.succeed(&["exec", "kvm", "vm2", "--", "true"]);
    assert_eq!(lab.run(&["reset", "kvm", "host"]).status.code(), Some(2));
}

#[test]
fn a_boot_that_hangs_shows_its_console() {
    let Some(lab) = Lab::new() else { return };
    lab.succeed(&["build"]);
    // The kernel starts a program that waits instead of init; what follows `--` are its arguments.
    let output = lab.run(&[
        "up",
        "kvm",
        "--timeout",
        "45",
        "--append",
        "loglevel=7 rdinit=/bin/busybox -- sleep 9999",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("no answer after") && said.contains("Run /bin/busybox as init process"), "{said}");
    lab.assert_nothing_left();

    let output = lab.run(&["up", "kvm", "--append", "rdinit=/nothing"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("QEMU exited") && said.contains("Kernel panic"), "{said}");
    lab.assert_nothing_left();
}

#[test]
fn a_killed_up_is_shown_as_broken_and_cleaned() {
    let Some(lab) = Lab::new() else { return };
    lab.succeed(&["build"]);
    let mut up = lab.start(&["up", "kvm", "--guests", "1", "--name", "killed"]);
    until("the machine starts", || {
        lab.folder("killed").join("console-host.log").exists() && !lab.machines().is_empty()
    });
    assert_eq!(lab.list()["worlds"][0]["state"], "starting");
    up.kill().unwrap();
    up.wait().unwrap();
    let listed = lab.list();
    assert_eq!(listed["worlds"][0]["state"], "broken", "{listed}");
    assert_eq!(lab.machines().len(), 1);
    assert_eq!(lab.run(&["exec", "killed", "host", "--", "true"]).status.code(), Some(125));
    lab.succeed(&["down", "killed"]);
    lab.assert_nothing_left();
}
